//! The knee of a queue: the throughput at which its power is highest.
//!
//! Power is throughput divided by response time. For a single server with memoryless arrivals and
//! service times (M/M/1), response times are `1 / (c - x)` at a throughput of `x` and a capacity of
//! `c`. They have no bend, and the power `x (c - x)` is highest at half the capacity. The inverse
//! of the response time is a straight line, `a - b x`, which is fitted with weights, because noise
//! is proportional to the response time. The knee is `a / 2b`. Its interval is that of a ratio of
//! two estimates, which is valid even if the slope is uncertain.
//!
//! **Source:** Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic Problems in
//! Computer Communications", ICC 1979; Fieller, "Some Problems in Interval Estimation", JRSS B 16
//! (1954).

/// Number of fits, each with weights from the previous one, after which they no longer change.
const ROUNDS: usize = 4;

/// A queue fitted to a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueFit {
    /// The throughput with the highest power.
    pub at_per_s: f64,
    /// The interval of this throughput.
    pub interval_per_s: (f64, f64),
    /// Residual sum of squares, relative to the response time.
    pub left: f64,
}

/// Fits a queue to a curve of (throughput, response time). `f_one` is the quantile of F with one
/// and n - 2 degrees of freedom for n points. Returns `None` if response times don't rise or the
/// slope may be 0.
pub(super) fn fit_queue(at: &[(f64, f64)], f_one: f64) -> Option<QueueFit> {
    if at.iter().any(|(_, time)| *time <= 0.0) {
        return None;
    }
    let mut weights: Vec<f64> = at.iter().map(|(_, time)| time * time).collect();
    let mut line = InverseLine::fit(at, &weights);
    for _ in 1..ROUNDS {
        for ((x, _), weight) in at.iter().zip(&mut weights) {
            let inverse = line.at(*x);
            if inverse <= 0.0 {
                return None;
            }
            *weight = inverse.powi(-2);
        }
        line = InverseLine::fit(at, &weights);
    }
    let mut left = 0.0;
    for (x, time) in at {
        let share = (time.recip() - line.at(*x)) / line.at(*x);
        left += share * share;
    }
    // Fieller: all `x` for which `intercept + 2 x slope`, which is 0 at the knee, doesn't differ
    // significantly from 0. They are between the roots of a parabola.
    let variance = left / (at.len() - 2) as f64 * f_one;
    let slope_variance = variance / line.spread;
    let intercept_variance =
        variance * (line.weight.recip() + line.x_mean * line.x_mean / line.spread);
    let covariance = -slope_variance * line.x_mean;
    let square = 4.0 * (line.slope * line.slope - slope_variance);
    let linear = 4.0 * (line.intercept * line.slope - covariance);
    let constant = line.intercept * line.intercept - intercept_variance;
    // If the slope may be 0, the knee may be anywhere.
    if line.slope >= 0.0 || square <= 0.0 {
        return None;
    }
    let root = (linear * linear - 4.0 * square * constant).max(0.0).sqrt();
    let ends = ((-linear - root) / (2.0 * square), (-linear + root) / (2.0 * square));
    let at_per_s = -line.intercept / (2.0 * line.slope);
    Some(QueueFit { at_per_s, interval_per_s: ends, left })
}

/// A line through the inverse response times over throughput.
struct InverseLine {
    intercept: f64,
    slope: f64,
    /// Sum of the weights.
    weight: f64,
    x_mean: f64,
    /// Weighted sum of squared distances from the mean.
    spread: f64,
}

impl InverseLine {
    fn fit(at: &[(f64, f64)], weights: &[f64]) -> Self {
        let mut weight = 0.0;
        let mut x_sum = 0.0;
        let mut y_sum = 0.0;
        for ((x, time), w) in at.iter().zip(weights) {
            weight += w;
            x_sum += w * x;
            y_sum += w / time;
        }
        let x_mean = x_sum / weight;
        let y_mean = y_sum / weight;
        let mut spread = 0.0;
        let mut products = 0.0;
        for ((x, time), w) in at.iter().zip(weights) {
            spread += w * (x - x_mean) * (x - x_mean);
            products += w * (x - x_mean) * (time.recip() - y_mean);
        }
        let slope = if spread > 0.0 { products / spread } else { 0.0 };
        Self { intercept: y_mean - slope * x_mean, slope, weight, x_mean, spread }
    }

    fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}
