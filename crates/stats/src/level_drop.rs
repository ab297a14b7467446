//! A rate that falls to a lower level and stays there: burst credits, an SLC cache or the room for
//! dirty pages is used up.
//!
//! [`level_drop`] fits two levels to the rates of the intervals of a pass, with the change within
//! one of them, where the logarithms deviate least. It reports a drop only if the levels differ by
//! a factor that matters, almost every interval is on the side of its level, chance does not
//! explain the difference, and a steady decline does not fit as well.
//!
//! **Source:** the least-squares estimate of a single change point: Hinkley, "Inference about the
//! change-point in a sequence of random variables", Biometrika 57 (1970), including the interval
//! of its position from the likelihood ratio; the variance of the mean of dependent values: Bayley
//! and Hammersley, "The effective number of independent observations in an autocorrelated time
//! series", Journal of the Royal Statistical Society, Supplement 8 (1946).

use model::Pass;
use model::units::{Nanos, Size, three_digits};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::criteria::{
    LEVEL_ASTRAY_MAX, LEVEL_INTERVALS_MIN, LEVEL_NS_MIN, LEVEL_PROBABILITY_MAX, LEVEL_RAMP_MAX,
    LEVEL_RATIO_MIN,
};
use crate::rate::Rate;

/// Half the range of the logarithm of the likelihood, from its maximum, of a 95 % interval.
///
/// **Source:** the 95 % quantile of the chi-squared distribution with one degree of freedom.
const LIKELIHOOD_RANGE: f64 = 3.84;
/// Standard deviation of rates that are considered equal, as a share: the jitter of the sampler.
const JITTER: f64 = 0.005;
/// Maximum autocorrelation of neighbors that is taken into account.
const DEPENDENCE_MAX: f64 = 0.9;

/// Work done in a part of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateInterval {
    pub begins_ns: u64,
    pub ends_ns: u64,
    /// Bytes or ops.
    pub amount: u64,
}

impl RateInterval {
    fn lasts_ns(&self) -> u64 {
        self.ends_ns.saturating_sub(self.begins_ns)
    }
}

/// A rate that fell to a lower level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelDrop {
    /// Rates per second before and after the change.
    pub before_per_s: f64,
    pub after_per_s: f64,
    /// When it changed, in nanoseconds from the start of the pass.
    pub at_ns: u64,
    /// When it changed at the earliest and latest, with 95 % confidence.
    pub range_ns: (u64, u64),
    /// Amount in the given intervals before the change.
    pub amount: u64,
    /// 95 % interval of the ratio of both rates.
    pub ratio: (f64, f64),
}

impl LevelDrop {
    /// Describes the drop with its intervals, such as `1.92 GB/s for 12.4 s (22.2 GiB), then 400
    /// MB/s` and so on.
    pub fn describe(&self, pass: Pass) -> String {
        format!(
            "{} for {} ({}), then {}: a factor of {} (95 % interval {} to {}), changed between {} \
             and {}",
            Rate::for_pass(pass, self.before_per_s),
            Nanos(self.at_ns),
            describe_amount(self.amount, pass),
            Rate::for_pass(pass, self.after_per_s),
            three_digits(self.before_per_s / self.after_per_s),
            three_digits(self.ratio.0),
            three_digits(self.ratio.1),
            Nanos(self.range_ns.0),
            Nanos(self.range_ns.1),
        )
    }
}

/// Formats the amount of work of a pass.
pub(crate) fn describe_amount(amount: u64, pass: Pass) -> String {
    if pass.is_byte_rate() { Size(amount).to_string() } else { format!("{amount} ops") }
}

/// Looks for a rate that falls to a lower level and stays there. Intervals are in order of time.
pub fn level_drop(intervals: &[RateInterval]) -> Option<LevelDrop> {
    let rates: Vec<f64> = intervals
        .iter()
        .map(|one| one.amount as f64 * 1e9 / one.lasts_ns().max(1) as f64)
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    if rates.len() < 2 * LEVEL_INTERVALS_MIN + 1 || mean <= 0.0 {
        return None;
    }
    // Stalls have no logarithm, and a few of them must not decide. So limit each rate to one step
    // beyond the levels, once these are known.
    let mut logs = limited_logs(&rates, mean / 100.0, f64::INFINITY);
    let first = LevelFit::best(intervals, &logs)?;
    let step = first.step();
    logs = limited_logs(&rates, (first.after - step).exp(), (first.before + step).exp());
    let fit = LevelFit::best(intervals, &logs)?;
    let before_per_s = rate_of(&intervals[..fit.at]);
    let after_per_s = rate_of(&intervals[fit.at + 1..]);
    let is_level = after_per_s > 0.0 && before_per_s >= after_per_s * LEVEL_RATIO_MIN;
    if !is_level || !fit.separates(&rates, before_per_s, after_per_s) || fit.is_ramp(&logs) {
        return None;
    }
    let deviation = fit.deviation(&logs);
    if deviation.probability(fit.step()) * fit.candidates as f64 > LEVEL_PROBABILITY_MAX {
        return None;
    }
    // The change is within this interval, whose rate shows which share of it was fast.
    let change = &intervals[fit.at];
    let share = (rates[fit.at] - after_per_s) / (before_per_s - after_per_s);
    let fast_ns = share.clamp(0.0, 1.0) * change.lasts_ns() as f64;
    let amount: u64 = intervals[..fit.at].iter().map(|one| one.amount).sum();
    let reach = deviation.quantile();
    Some(LevelDrop {
        before_per_s,
        after_per_s,
        at_ns: change.begins_ns + fast_ns as u64,
        range_ns: fit.range_ns(intervals, &logs),
        amount: amount + (before_per_s * fast_ns / 1e9) as u64,
        ratio: ((fit.step() - reach).exp(), (fit.step() + reach).exp()),
    })
}

fn limited_logs(rates: &[f64], min: f64, max: f64) -> Vec<f64> {
    rates.iter().map(|rate| rate.clamp(min, max).ln()).collect()
}

/// Variance of values around the levels of their parts, from the differences of neighbors.
///
/// **Source:** von Neumann, "Distribution of the ratio of the mean square successive difference to
/// the variance", Annals of Mathematical Statistics 12 (1941).
fn neighbor_variance(parts: &[&[f64]]) -> f64 {
    let pairs = || parts.iter().flat_map(|part| part.windows(2));
    let squares: f64 = pairs().map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    squares / (2 * pairs().count().max(1)) as f64
}

/// Mean rate per second.
fn rate_of(intervals: &[RateInterval]) -> f64 {
    let amount: u64 = intervals.iter().map(|one| one.amount).sum();
    let lasts_ns: u64 = intervals.iter().map(RateInterval::lasts_ns).sum();
    amount as f64 * 1e9 / lasts_ns.max(1) as f64
}

/// Two levels, with the change within interval `at`. Levels are means of logarithms.
#[derive(Clone, Copy, Debug)]
struct LevelFit {
    at: usize,
    before: f64,
    after: f64,
    /// Sum of the squared deviations.
    squares: f64,
    /// Number of intervals that the change could be in.
    candidates: usize,
}

/// Means and squares of the first values of a series.
struct Prefixes {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Prefixes {
    fn new(logs: &[f64]) -> Self {
        let mut prefixes = Self { sums: vec![0.0], squares: vec![0.0] };
        // Relative to the first, so that squares of large numbers don't cancel out.
        for log in logs {
            let value = log - logs[0];
            prefixes.sums.push(prefixes.sums[prefixes.sums.len() - 1] + value);
            prefixes.squares.push(prefixes.squares[prefixes.squares.len() - 1] + value * value);
        }
        prefixes
    }

    /// Returns the mean of a part, relative to the first value, and its squared deviations.
    fn part(&self, from: usize, to: usize) -> (f64, f64) {
        let count = (to - from) as f64;
        let mean = (self.sums[to] - self.sums[from]) / count;
        let squares = self.squares[to] - self.squares[from] - count * mean * mean;
        (mean, squares.max(0.0))
    }
}

impl LevelFit {
    /// Returns the fits of all changes that leave both levels long enough.
    fn all(intervals: &[RateInterval], logs: &[f64]) -> Vec<Self> {
        let prefixes = Prefixes::new(logs);
        let begins_ns = intervals[0].begins_ns;
        let ends_ns = intervals[intervals.len() - 1].ends_ns;
        let mut fits = Vec::new();
        for at in LEVEL_INTERVALS_MIN..logs.len() - LEVEL_INTERVALS_MIN {
            let before_ns = intervals[at].begins_ns.saturating_sub(begins_ns);
            let after_ns = ends_ns.saturating_sub(intervals[at].ends_ns);
            if before_ns.min(after_ns) < LEVEL_NS_MIN {
                continue;
            }
            let (before, squares) = prefixes.part(0, at);
            let (after, more) = prefixes.part(at + 1, logs.len());
            let (before, after) = (before + logs[0], after + logs[0]);
            // The interval with the change may have any rate between both levels.
            let off = logs[at] - logs[at].clamp(before.min(after), before.max(after));
            let squares = squares + more + off * off;
            fits.push(Self { at, before, after, squares, candidates: 0 });
        }
        fits
    }

    /// Returns the best fit; `None` if the rate does not fall.
    fn best(intervals: &[RateInterval], logs: &[f64]) -> Option<Self> {
        let fits = Self::all(intervals, logs);
        let best = fits.iter().min_by(|one, other| one.squares.total_cmp(&other.squares))?;
        (best.before > best.after).then_some(Self { candidates: fits.len(), ..*best })
    }

    /// Returns the difference of the levels.
    fn step(&self) -> f64 {
        self.before - self.after
    }

    /// Returns true if almost every interval is on the side of its level.
    fn separates(&self, rates: &[f64], before_per_s: f64, after_per_s: f64) -> bool {
        let middle = (before_per_s * after_per_s).sqrt();
        let may_stray = |part: &[f64], is_astray: &dyn Fn(&f64) -> bool| {
            let astray = part.iter().filter(|rate| is_astray(rate)).count();
            astray as f64 <= part.len() as f64 * LEVEL_ASTRAY_MAX
        };
        may_stray(&rates[..self.at], &|rate| *rate <= middle)
            && may_stray(&rates[self.at + 1..], &|rate| *rate >= middle)
    }

    /// Returns true if a steady decline fits about as well as two levels.
    fn is_ramp(&self, logs: &[f64]) -> bool {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let [mut xx, mut xy, mut yy] = [0.0; 3];
        for (number, log) in logs.iter().enumerate() {
            let x = number as f64 - (n - 1.0) / 2.0;
            xx += x * x;
            xy += x * (log - mean);
            yy += (log - mean) * (log - mean);
        }
        // Neither can explain the noise, which neighbors on the same level show.
        let noise = n * neighbor_variance(&[&logs[..self.at], &logs[self.at + 1..]]);
        let unexplained_by_decline = (yy - xy * xy / xx - noise).max(0.0);
        let unexplained = (self.squares - noise).max(0.0);
        unexplained >= unexplained_by_decline * LEVEL_RAMP_MAX
    }

    /// Returns how far the difference of the levels may be off by chance.
    fn deviation(&self, logs: &[f64]) -> Deviation {
        let before = logs[..self.at].iter().map(|log| log - self.before);
        let after = logs[self.at + 1..].iter().map(|log| log - self.after);
        let off: Vec<f64> = before.chain(after).collect();
        let n = off.len() as f64;
        let squares = off.iter().map(|one| one * one).sum::<f64>();
        let products = off.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        let dependence = products / squares.max(f64::MIN_POSITIVE);
        // Few values look less dependent than they are (Kendall and Stuart).
        let dependence = (dependence + (1.0 + 3.0 * dependence) / n).clamp(0.0, DEPENDENCE_MAX);
        // Neighbors that are alike count as fewer.
        let alike = (1.0 + dependence) / (1.0 - dependence);
        let variance = (squares / (n - 2.0)).max(JITTER * JITTER);
        let shares = 1.0 / self.at as f64 + 1.0 / (logs.len() - self.at - 1) as f64;
        Deviation {
            error: (variance * alike * shares).sqrt(),
            freedom: ((n - 2.0) / alike).max(1.0),
        }
    }

    /// Returns the range of intervals that may contain the change.
    fn range_ns(&self, intervals: &[RateInterval], logs: &[f64]) -> (u64, u64) {
        let n = logs.len() as f64;
        let jitter = n * JITTER * JITTER;
        let is_likely = |fit: &&Self| {
            let ratio = (fit.squares + jitter) / (self.squares + jitter);
            n * ratio.ln() <= LIKELIHOOD_RANGE
        };
        let fits = Self::all(intervals, logs);
        let mut range = (self.at, self.at);
        for fit in fits.iter().filter(is_likely) {
            range = (range.0.min(fit.at), range.1.max(fit.at));
        }
        // At the shortest possible level, the change may also be in the neighbor.
        let ends = (fits.first().map(|fit| fit.at), fits.last().map(|fit| fit.at));
        let first = range.0 - usize::from(ends.0 == Some(range.0));
        let last = range.1 + usize::from(ends.1 == Some(range.1));
        (intervals[first].begins_ns, intervals[last].ends_ns)
    }
}

/// Standard error of the difference of two levels.
struct Deviation {
    error: f64,
    freedom: f64,
}

impl Deviation {
    fn distribution(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }

    /// Returns the probability of such a difference by chance.
    fn probability(&self, step: f64) -> f64 {
        self.distribution().map_or(1.0, |t| t.sf(step / self.error))
    }

    /// Returns half of the 95 % interval.
    fn quantile(&self) -> f64 {
        self.distribution().map_or(f64::INFINITY, |t| t.inverse_cdf(0.975) * self.error)
    }
}

#[cfg(test)]
mod tests;
