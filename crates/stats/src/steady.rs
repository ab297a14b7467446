//! The criterion for steady state of a pass.
//!
//! [`cut_rounds`] divides the part of a pass in which all workers were busy into five rounds of
//! equal length, and [`Steadiness::from_rates`] checks their rates against the two limits of the
//! criterion. A result covers the whole pass, so the rounds do, too, and not only its end.
//!
//! **Source:** SNIA, Solid State Storage Performance Test Specification 2.0.2 (2020), 2.1.24: over
//! a measurement window of five rounds the values range over no more than 20 % of their average,
//! and the line of best fit rises or falls by no more than 10 % of it.

use model::{IntervalSample, OpKind, PassResult, RunSpec};

use crate::criteria::{
    ROUND_NS_MIN, ROUND_OPS_MIN, ROUND_OPS_OPEN_MIN, ROUND_SYNC_SHARE_MAX, ROUNDS,
    STEADY_RANGE_MAX, STEADY_SLOPE_MAX,
};

/// How even the rates of the rounds are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steadiness {
    /// Difference between the smallest and the largest, as a share of their average.
    pub range: f64,
    /// Rise (or fall, if negative) of their line of best fit from the first to the last, as a share
    /// of their average.
    pub(crate) slope: f64,
}

impl Steadiness {
    /// Evaluates rates in order of time. Returns `None` for fewer than two, or if nothing was done.
    pub(crate) fn from_rates(rates: &[f64]) -> Option<Self> {
        let n = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / n;
        if rates.len() < 2 || mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let mut smallest = f64::INFINITY;
        let mut largest = 0.0_f64;
        // Least squares over the numbers of the rounds, counted from the middle so that the mean of
        // x is 0.
        let middle = (n - 1.0) / 2.0;
        let mut products = 0.0;
        let mut squares = 0.0;
        for (number, rate) in rates.iter().enumerate() {
            smallest = smallest.min(*rate);
            largest = largest.max(*rate);
            let x = number as f64 - middle;
            products += x * (rate - mean);
            squares += x * x;
        }
        let slope = products / squares * (n - 1.0) / mean;
        Some(Self { range: (largest - smallest) / mean, slope })
    }

    /// Returns true if both limits are satisfied.
    pub(crate) fn is_steady(self) -> bool {
        self.range <= STEADY_RANGE_MAX && self.slope.abs() <= STEADY_SLOPE_MAX
    }
}

/// The rounds of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounds {
    /// The rate of each, in bytes or ops per second.
    pub rates: [f64; ROUNDS],
    /// Length of the shortest round in nanoseconds.
    pub shortest_ns: u64,
}

/// Divides a pass into rounds.
///
/// Returns `None` if it cannot be judged: passes on names; buffered writes to a directory that are
/// synced at the end of each file; passes that are too short or have too few ops per round; and
/// passes with syncs that are too long for a round.
pub(crate) fn cut_rounds(spec: &RunSpec, result: &PassResult) -> Option<Rounds> {
    let is_timed = result.pass.is_timed();
    let syncs = if is_timed { FileSyncs::default() } else { FileSyncs::from_result(result) };
    let can_be_even = is_timed || result.pass.moves_blocks() && !syncs.hide_the_target(spec);
    if !can_be_even {
        return None;
    }
    let samples = busy_samples(spec, result);
    let is_open = spec.load.rate_per_s > 0;
    // Random arrivals need more ops to even out.
    let ops_min = if is_open { ROUND_OPS_OPEN_MIN } else { ROUND_OPS_MIN };
    let mut all_ops = 0;
    let mut rounds = Rounds { rates: [0.0; ROUNDS], shortest_ns: u64::MAX };
    for (round, rate) in rounds.rates.iter_mut().enumerate() {
        let from = round * samples.len() / ROUNDS;
        let to = (round + 1) * samples.len() / ROUNDS;
        let mut lasts_ns = 0;
        let mut ops = 0;
        let mut bytes = 0;
        for (sample_ns, sample) in &samples[from..to] {
            lasts_ns += sample_ns;
            ops += sample.ops;
            bytes += sample.bytes;
        }
        if lasts_ns < ROUND_NS_MIN {
            return None;
        }
        all_ops += ops;
        let amount = if result.pass.is_byte_rate() { bytes } else { ops };
        *rate = amount as f64 * 1e9 / lasts_ns as f64;
        rounds.shortest_ns = rounds.shortest_ns.min(lasts_ns);
    }
    let fits = syncs.fit_rounds_of(rounds.shortest_ns, spec.all_workers());
    if fits && all_ops >= ops_min * ROUNDS as u64 { Some(rounds) } else { None }
}

/// Returns the samples of full length in which all workers were busy with ops other than their last
/// sync, with their lengths.
pub(crate) fn busy_samples<'a>(
    spec: &RunSpec,
    result: &'a PassResult,
) -> Vec<(u64, &'a IntervalSample)> {
    let is_timed = result.pass.is_timed();
    let syncs = if is_timed { FileSyncs::default() } else { FileSyncs::from_result(result) };
    // No worker was in its last sync before this time. The first one to finish spent at most this
    // long in it, and the others finished later.
    let until_ns = result.first_done_ns.saturating_sub(syncs.longest_ns);
    whole_samples(spec.sampling.interval_ns(), result, until_ns)
}

/// Syncs of a pass that ends each file with one.
#[derive(Clone, Copy, Debug, Default)]
struct FileSyncs {
    count: u64,
    longest_ns: u64,
}

impl FileSyncs {
    fn from_result(result: &PassResult) -> Self {
        let mut syncs = Self::default();
        for kind in &result.kinds {
            if kind.kind == OpKind::Sync {
                syncs.count = syncs.count.saturating_add(kind.done);
                syncs.longest_ns = syncs.longest_ns.max(kind.service_time.max());
            }
        }
        syncs
    }

    /// Returns true if data goes to the page cache of this host first, so that only the sync shows
    /// how fast the target is. Our own clients and `O_DIRECT` send each write to the target.
    fn hide_the_target(self, spec: &RunSpec) -> bool {
        self.count > 0 && spec.target.is_local() && !spec.direct
    }

    /// Returns true if syncs between files cannot make rounds of this length uneven.
    fn fit_rounds_of(self, round_ns: u64, workers: u32) -> bool {
        self.count <= u64::from(workers)
            || self.longest_ns as f64 <= round_ns as f64 * ROUND_SYNC_SHARE_MAX
    }
}

/// Returns the samples of full length in which all workers were busy, up to `until_ns`, with their
/// lengths.
fn whole_samples(
    interval_ns: u64,
    result: &PassResult,
    until_ns: u64,
) -> Vec<(u64, &IntervalSample)> {
    // The sampler is slightly late at the end of an interval, and so at the end of the pass.
    let slack_ns = interval_ns / 20;
    let mut begins_ns = 0;
    let mut whole = Vec::new();
    for sample in &result.samples {
        let lasts_ns = sample.at_ns.saturating_sub(begins_ns);
        // Before the last start and after the first end, some workers do nothing.
        let all_busy = begins_ns + slack_ns >= result.start_skew_ns
            && sample.at_ns <= until_ns.saturating_add(slack_ns);
        if all_busy && lasts_ns + slack_ns >= interval_ns {
            whole.push((lasts_ns, sample));
        }
        begins_ns = sample.at_ns;
    }
    whole
}

#[cfg(test)]
mod tests;
