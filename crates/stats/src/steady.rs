//! The declared criterion of steady state: whether a pass had settled.
//!
//! [`cut_rounds`] cuts the part of a pass in which all workers were busy into five rounds of equal
//! length, and [`Steadiness::of`] holds their rates against the two limits of the criterion. A
//! figure is that of its whole pass, so the rounds cover the whole pass and not only its end.
//!
//! **Source:** SNIA, Solid State Storage Performance Test Specification 2.0.2 (2020), 2.1.24: over
//! a measurement window of five rounds the values range over no more than 20 % of their average,
//! and the line of best fit rises or falls by no more than 10 % of it.

use model::{IntervalSample, PassResult, RunSpec};

use crate::criteria::{
    ROUND_NS_MIN, ROUND_OPS_MIN, ROUND_OPS_OPEN_MIN, ROUNDS, STEADY_RANGE_MAX, STEADY_SLOPE_MAX,
};

/// The evenness of the rates of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// Distance from the smallest to the largest, as a share of their average.
    pub range: f64,
    /// How far their line of best fit rises (or falls, where negative) from the first to the last,
    /// as a share of their average.
    pub slope: f64,
}

impl Steadiness {
    /// Measures rates, in the order of time; `None` where there are fewer than two or nothing was
    /// done.
    pub fn of(rates: &[f64]) -> Option<Self> {
        let n = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / n;
        if rates.len() < 2 || mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
        // Least squares over the numbers of the rounds, counted from their middle: the mean of x is
        // 0.
        let middle = (n - 1.0) / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
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

    /// Says whether both limits are kept.
    pub fn is_steady(self) -> bool {
        self.range <= STEADY_RANGE_MAX && self.slope.abs() <= STEADY_SLOPE_MAX
    }
}

/// The rounds of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// The rate of each, in bytes or ops per second.
    pub rates: [f64; ROUNDS],
    /// The length of the shortest, in nanoseconds.
    pub shortest_ns: u64,
}

/// Cuts a pass into rounds.
///
/// `None` where it can't be judged: passes that end by their files and move none, or sync what they
/// wrote at the end of each; passes too short, or with too few ops in a round.
pub fn cut_rounds(spec: &RunSpec, result: &PassResult) -> Option<Rounds> {
    let syncs = result.kinds.iter().any(|kind| kind.kind == model::OpKind::Sync && kind.done > 0);
    let can_be_even = result.pass.is_timed() || result.pass.moves_blocks() && !syncs;
    if !can_be_even {
        return None;
    }
    let samples = whole_samples(spec.sampling.interval_ns(), result);
    let is_open = spec.load.rate_per_s > 0;
    // Arrivals at random need more ops to even out.
    let ops_min = if is_open { ROUND_OPS_OPEN_MIN } else { ROUND_OPS_MIN };
    let mut all_ops = 0;
    let mut rounds = Rounds { rates: [0.0; ROUNDS], shortest_ns: u64::MAX };
    for (round, rate) in rounds.rates.iter_mut().enumerate() {
        let (from, to) = (round * samples.len() / ROUNDS, (round + 1) * samples.len() / ROUNDS);
        let (mut lasts_ns, mut ops, mut bytes) = (0, 0, 0);
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
    if all_ops >= ops_min * ROUNDS as u64 { Some(rounds) } else { None }
}

/// Selects the samples of full length in which all workers were busy, each with its length.
fn whole_samples(interval_ns: u64, result: &PassResult) -> Vec<(u64, &IntervalSample)> {
    // The watcher comes a little late to the end of an interval, and so to that of the pass.
    let slack_ns = interval_ns / 20;
    let mut begins_ns = 0;
    let mut whole = Vec::new();
    for sample in &result.samples {
        let lasts_ns = sample.at_ns.saturating_sub(begins_ns);
        // Before the last start and after the first end some workers do nothing.
        let all_busy = begins_ns + slack_ns >= result.start_skew_ns
            && sample.at_ns <= result.first_done_ns + slack_ns;
        if all_busy && lasts_ns + slack_ns >= interval_ns {
            whole.push((lasts_ns, sample));
        }
        begins_ns = sample.at_ns;
    }
    whole
}

#[cfg(test)]
mod tests;
