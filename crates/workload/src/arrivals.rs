//! When the ops of an offered load are scheduled.
//!
//! The time of the n-th arrival depends only on the seed and the load. Gaps are drawn for a rate of
//! one and added up; rate and ramp only stretch the sum, so the same seed gives the same pattern at
//! every rate. Each worker adds up all gaps and uses the times of its own arrivals, which makes the
//! result independent of the number of workers. Only integers are used.
//!
//! **Source:** von Neumann, "Various techniques used in connection with random digits", NBS Applied
//! Mathematics Series 12, 1951: exact exponential variates from comparisons alone.

use model::Load;
use model::random::draw;
use model::work::Arrivals as Pattern;

/// Number of fractional bits of a time at a rate of one.
const POINT: u32 = 24;

const SECOND_NS: u128 = 1_000_000_000;

/// Arrivals of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    seed: u64,
    pattern: Pattern,
    /// Number of arrivals whose gaps are included in `sum`.
    next: u64,
    /// Time of arrival `next - 1` at a rate of one per unit.
    sum: u64,
    /// Duration of `SECOND_NS` arrivals, in nanoseconds.
    second_ns: u128,
    ramp_ns: u128,
}

/// Average ratio of ops to arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub ops: u64,
    pub arrivals: u64,
}

impl Batch {
    /// Each op is a separate arrival.
    pub(crate) const SINGLE: Self = Self { ops: 1, arrivals: 1 };
}

impl Arrivals {
    /// Returns the arrivals of an offered load, or `None` for a closed loop.
    ///
    /// `batch` is the number of ops per arrival.
    pub(crate) fn new(load: &Load, seed: u64, batch: Batch) -> Option<Self> {
        let rate = u128::from(load.rate_per_s);
        if rate == 0 {
            return None;
        }
        Some(Self {
            seed,
            pattern: load.arrivals,
            next: 0,
            sum: 0,
            second_ns: SECOND_NS * SECOND_NS * u128::from(batch.ops.max(1))
                / (rate * u128::from(batch.arrivals.max(1))),
            ramp_ns: u128::from(load.ramp_ms) * 1_000_000,
        })
    }

    /// Draws all gaps from a different seed. Must be called before any gap has been drawn.
    pub(crate) const fn set_seed(&mut self, seed: u64) {
        debug_assert!(self.next == 0, "gaps were drawn from another seed");
        self.seed = seed;
    }

    /// Returns when arrival `number` is scheduled, in nanoseconds from the start of the pass. This
    /// is never 0. Numbers must not decrease from call to call.
    #[inline]
    pub(crate) fn scheduled_ns(&mut self, number: u64) -> u64 {
        while self.next <= number {
            // Gaps are drawn by number, so all workers draw the same ones regardless of which
            // arrivals are theirs.
            self.sum += match self.pattern {
                Pattern::Constant => 1 << POINT,
                Pattern::Poisson => exponential(draw(self.seed, self.next)),
            };
            self.next += 1;
        }
        self.stretch_time(self.sum).max(1)
    }

    /// Converts from time at a rate of one to the time of the load.
    ///
    /// During the ramp, the rate increases linearly, so the number of arrivals is quadratic in
    /// time: n = rate t^2 / (2 ramp), until half of `rate * ramp` have arrived.
    ///
    /// A ramp of length R produces as many arrivals as R / 2 at the full rate. So let s be the time
    /// that all arrivals so far take at the full rate. While 2 s < R, the time is t = sqrt(2 s R);
    /// from then on, it is t = s + R / 2. Both give R at their border, s = R / 2.
    fn stretch_time(&self, sum: u64) -> u64 {
        let steady_ns = (u128::from(sum) * self.second_ns / SECOND_NS) >> POINT;
        let scheduled_ns = if 2 * steady_ns >= self.ramp_ns {
            steady_ns + self.ramp_ns / 2
        } else {
            (2 * steady_ns * self.ramp_ns).isqrt()
        };
        u64::try_from(scheduled_ns).unwrap_or(u64::MAX)
    }
}

/// Draws an exponential variate with a mean of one and [`POINT`] fractional bits.
///
/// A run of descending uniforms u1 > u2 > ... with an odd length is accepted, which has a density
/// proportional to exp(-u1). Each rejection adds one.
#[inline]
fn exponential(seed: u64) -> u64 {
    let mut index = 0;
    let mut whole = 0;
    loop {
        index += 1;
        let first = draw(seed, index);
        let mut last = first;
        let mut run = 1;
        loop {
            index += 1;
            let next = draw(seed, index);
            if next >= last {
                break;
            }
            last = next;
            run += 1;
        }
        // A run of descending numbers below u1 has a length of at least n with probability u1^(n-1)
        // / (n-1)!, so its length is odd with probability 1 - u1 + u1^2/2! - ..., which is
        // exp(-u1): the fractional part of an exponential variate. The probability of a rejection
        // is 1/e, the same as for each further integer unit.
        if run % 2 == 1 {
            return (whole << POINT) + (first >> (u64::BITS - POINT));
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(pattern: Pattern, rate_per_s: u64, ramp_ms: u64) -> Arrivals {
        let load = Load { rate_per_s, ramp_ms, arrivals: pattern, ..Load::default() };
        Arrivals::new(&load, 42, Batch::SINGLE).unwrap()
    }

    #[test]
    fn a_closed_loop_has_none() {
        assert!(Arrivals::new(&Load::default(), 1, Batch::SINGLE).is_none());
    }

    #[test]
    fn constant_arrivals_are_evenly_apart() {
        let mut constant = arrivals(Pattern::Constant, 1000, 0);
        let scheduled: Vec<u64> = (0..4).map(|n| constant.scheduled_ns(n)).collect();
        assert_eq!(scheduled, [1_000_000, 2_000_000, 3_000_000, 4_000_000]);
    }

    #[test]
    fn schedules_independently_of_caller() {
        let mut all = arrivals(Pattern::Poisson, 777, 300);
        let all: Vec<u64> = (0..700).map(|n| all.scheduled_ns(n)).collect();
        for workers in [2, 3, 7] {
            for worker in 0..workers {
                let mut own = arrivals(Pattern::Poisson, 777, 300);
                for n in (worker..700).step_by(workers) {
                    assert_eq!(own.scheduled_ns(n as u64), all[n]);
                }
            }
        }
        assert!(all.is_sorted());
    }

    /// Gaps of a Poisson process are exponential, so each twentieth of the distribution has equally
    /// many.
    #[test]
    fn gaps_are_exponential() {
        let mut poisson = arrivals(Pattern::Poisson, 1_000_000, 0);
        let mut counts = [0_u32; 20];
        let mut before = 0;
        let mut total = 0.0;
        for n in 0..100_000 {
            let scheduled = poisson.scheduled_ns(n);
            // The mean gap is one microsecond here.
            let gap = (scheduled - before) as f64 / 1e3;
            counts[((1.0 - (-gap).exp()) * 20.0) as usize] += 1;
            total += gap;
            before = scheduled;
        }
        // Chi-squared with 19 degrees of freedom: one in 1000 seeds exceeds 43.8.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 5e3).powi(2) / 5e3).sum();
        assert!(chi < 43.8, "{chi}");
        // Four standard errors of the mean of 100,000 exponential gaps.
        assert!((total / 1e5 - 1.0).abs() < 4.0 / 1e5_f64.sqrt(), "{}", total / 1e5);
    }

    /// In a Poisson process, the counts in equal intervals have a variance equal to their mean and
    /// are independent.
    #[test]
    fn counts_are_poisson() {
        let mut poisson = arrivals(Pattern::Poisson, 10_000, 0);
        let mut counts = vec![0.0_f64; 10_000];
        for n in 0.. {
            let Some(count) = counts.get_mut((poisson.scheduled_ns(n) / 1_000_000) as usize) else {
                break;
            };
            *count += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1e4;
        let of = |apart: usize| {
            let pairs = counts.iter().zip(&counts[apart..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / 1e4 / mean
        };
        // Standard errors: sqrt(mean / n), about sqrt(2 / n) and sqrt(1 / n).
        assert!((mean - 10.0).abs() < 0.127, "{mean}");
        assert!((of(0) - 1.0).abs() < 0.06, "{}", of(0));
        assert!(of(1).abs() < 0.04, "{}", of(1));
    }

    #[test]
    fn ramps_evenly_up_to_rate() {
        let mut ramp = arrivals(Pattern::Constant, 1000, 2000);
        let scheduled: Vec<u64> = (0..3000).map(|n| ramp.scheduled_ns(n)).collect();
        let until =
            |ms: u64| scheduled.iter().filter(|scheduled| **scheduled < ms * 1_000_000).count();
        // 1000/s are reached after 2 s, so a quarter of the 1000 arrivals are in the first half.
        assert!(until(1000).abs_diff(250) <= 1 && until(2000).abs_diff(1000) <= 1);
        assert!(until(3000).abs_diff(2000) <= 1, "{}", until(3000));
    }
}
