//! The knee of a curve: where two straight lines meet, or where the power of a queue is highest.
//!
//! If a server is fast until something is saturated, its response times form two straight lines,
//! fitted by least squares. The interval contains all positions at which the lines could meet
//! without fitting significantly worse. A curve that a single line fits as well has no knee. A
//! queue has no bend: the lines would meet at about three quarters of the highest load tried,
//! whatever that is. If a queue ([`super::power`]) fits better, its knee is used instead. With few
//! points, or if the heaviest load was sustained, there is no knee.
//!
//! **Source:** Hinkley, "Inference in Two-Phase Regression", JASA 66 (1971); Seber and Wild,
//! "Nonlinear Regression" (1989), 9.3: lines that meet, and the interval by the ratio of residual
//! sums of squares; Schwarz, "Estimating the Dimension of a Model", Ann. Statist. 6 (1978): which
//! of two models fits better.

use super::power::{QueueFit, fit_queue};

/// Two lines that meet have four parameters; with two more points, the fit can be judged.
const POINTS_MIN: usize = 6;

/// Number of positions to try between the second load point and the last but one.
const PLACES: usize = 400;

/// Number of refinements of a step between two positions, by half or by a third.
const REFINEMENTS: usize = 40;

/// 95 % quantiles of F with 1 and with 2 degrees of freedom over 1, 2, 3 ... 20.
///
/// **Source:** NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.3.
const F_ONE: [f64; 20] = [
    161.448, 18.513, 10.128, 7.709, 6.608, 5.987, 5.591, 5.318, 5.117, 4.965, 4.844, 4.747, 4.667,
    4.600, 4.543, 4.494, 4.451, 4.414, 4.381, 4.351,
];
const F_TWO: [f64; 20] = [
    199.500, 19.000, 9.552, 6.944, 5.786, 5.143, 4.737, 4.459, 4.256, 4.103, 3.982, 3.885, 3.806,
    3.739, 3.682, 3.634, 3.592, 3.555, 3.522, 3.493,
];

/// The throughput at which response times begin to rise steeply, in ops per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// From here on, they rise faster, or cost more than the throughput gains.
    Bend {
        /// Throughput at which the lines meet best, or the power of a queue is highest.
        at_per_s: f64,
        /// The 95 % interval of this throughput.
        interval_per_s: (f64, f64),
    },
    /// They don't rise up to the peak, and more load is not sustained: the knee is between the two.
    Cliff {
        /// The highest sustained throughput.
        sustained_per_s: f64,
        /// The lightest load that was too heavy.
        short_per_s: f64,
    },
    /// They rise evenly, or hardly at all, over the tested loads; or the heaviest load was
    /// sustained, so the loads end before the server's limit.
    Straight,
    /// Too few valid points.
    TooFew(usize),
}

/// Finds the knee of a curve of (throughput, response time), ordered by throughput.
pub(super) fn find(at: &[(f64, f64)], peak: f64, short: Option<f64>) -> Knee {
    let has_enough = at.len() >= POINTS_MIN;
    let Some(short_per_s) = short else {
        return if has_enough { Knee::Straight } else { Knee::TooFew(at.len()) };
    };
    let knee = if has_enough { find_knee(at, peak) } else { None };
    if let Some((at_per_s, interval_per_s)) = knee {
        Knee::Bend { at_per_s, interval_per_s }
    } else if peak > 0.0 {
        Knee::Cliff { sustained_per_s: peak, short_per_s }
    } else {
        Knee::TooFew(at.len())
    }
}

/// Finds the knee using the model that fits better.
fn find_knee(at: &[(f64, f64)], peak: f64) -> Option<(f64, (f64, f64))> {
    let rest = residuals(at, |(_, y)| y);
    let lines = find_best_fit(at, &rest);
    if let Some(queue) = fit_queue(at, F_ONE[(at.len() - 2).min(F_ONE.len()) - 1])
        && fits_better(queue, &lines, at, &rest)
    {
        // Nothing was measured beyond the peak that could show it.
        return (queue.at_per_s <= peak).then_some((queue.at_per_s, queue.interval_per_s));
    }
    fit_bend(at, &rest, lines)
}

/// Returns true if a queue, which has two parameters, explains a curve better than lines, which
/// have four (Schwarz's criterion). Both are judged by relative errors of the response time.
fn fits_better(queue: QueueFit, lines: &BendFit, at: &[(f64, f64)], rest: &[f64]) -> bool {
    let beyond = residuals(at, |(x, _)| (x - lines.place).max(0.0));
    let mut left_by_lines = 0.0;
    for (((_, time), rest), beyond) in at.iter().zip(rest).zip(&beyond) {
        let error = rest - lines.rise * beyond;
        let share = error / (time - error);
        left_by_lines += share * share;
    }
    let n = at.len() as f64;
    // Below the precision of a double, both fit exactly.
    let floor = n * 1e-18;
    let badness = |left: f64, numbers: f64| n * (left.max(floor) / n).ln() + numbers * n.ln();
    badness(queue.left, 2.0) < badness(left_by_lines, 4.0)
}

/// Finds the position at which two lines meet best.
///
/// The sum of squares may have several minima, so a grid of positions is tried first. The best one
/// is then refined between its neighbors on the grid.
fn find_best_fit(at: &[(f64, f64)], rest: &[f64]) -> BendFit {
    let (first, last, step) = position_grid(at);
    let mut best = fit_at(first, at, rest);
    for number in 1..=PLACES {
        let fit = fit_at(first + step * number as f64, at, rest);
        if fit.left < best.left {
            best = fit;
        }
    }
    // Ternary search: there is only one minimum next to the best position on the grid.
    let mut from = (best.place - step).max(first);
    let mut to = (best.place + step).min(last);
    for _ in 0..REFINEMENTS {
        let third = (to - from) / 3.0;
        let left = fit_at(from + third, at, rest);
        let right = fit_at(to - third, at, rest);
        if left.left <= right.left {
            to = right.place;
        } else {
            from = left.place;
        }
        for fit in [left, right] {
            if fit.left < best.left {
                best = fit;
            }
        }
    }
    best
}

/// Returns the first and last position to try, and the step between positions.
fn position_grid(at: &[(f64, f64)]) -> (f64, f64, f64) {
    let first = at[1].0;
    let last = at[at.len() - 2].0;
    (first, last, (last - first) / PLACES as f64)
}

/// Returns the position of the best fit with its interval, or `None` if a single line fits as well
/// or the second line rises less. With little noise, the whole interval is narrower than a step of
/// the grid, so its ends are refined, too.
fn fit_bend(at: &[(f64, f64)], rest: &[f64], best: BendFit) -> Option<(f64, (f64, f64))> {
    let free = at.len() - 4;
    let row = free.min(F_ONE.len()) - 1;
    let (first, last, step) = position_grid(at);
    let one = sum_squares(rest);
    let mean = best.left / free as f64;
    // Below the precision of a double, two lines are the same as one.
    let mut scale = 0.0;
    for (_, y) in at {
        scale += y * y * 1e-18;
    }
    let is_better = one - best.left > 2.0 * F_TWO[row] * mean && one > scale;
    if !is_better || best.rise <= 0.0 {
        return None;
    }
    // The interval contains all positions whose fit is not significantly worse than the best one.
    let most = best.left + F_ONE[row] * mean + scale;
    let mut low = best.place;
    let mut high = best.place;
    for number in 0..=PLACES {
        let fit = fit_at(first + step * number as f64, at, rest);
        if fit.left <= most {
            low = low.min(fit.place);
            high = high.max(fit.place);
        }
    }
    // Each end is between the last position within the limit and the next one on the grid.
    let low =
        refine_end(low, (low - step).max(first), |place| fit_at(place, at, rest).left <= most);
    let high =
        refine_end(high, (high + step).min(last), |place| fit_at(place, at, rest).left <= most);
    Some((best.place, (low, high)))
}

/// Fits two lines that meet at a given position.
///
/// The model is `a + b x + c max(0, x - m)`. For a given position `m`, it is linear, and `c`
/// follows from the residuals of `y` (`rest`) and of `max(0, x - m)` after fitting the line alone
/// (Frisch, Waugh and Lovell).
fn fit_at(place: f64, at: &[(f64, f64)], rest: &[f64]) -> BendFit {
    let beyond = residuals(at, |(x, _)| (x - place).max(0.0));
    let mut norm = 0.0;
    let mut product = 0.0;
    for (a, b) in beyond.iter().zip(rest) {
        norm += a * a;
        product += a * b;
    }
    let rise = if norm > 0.0 { product / norm } else { 0.0 };
    BendFit { place, left: (sum_squares(rest) - rise * product).max(0.0), rise }
}

/// Bisects between a position within a limit and one that may be beyond it. Returns the last
/// position found within the limit.
fn refine_end(mut inside: f64, mut outside: f64, is_within: impl Fn(f64) -> bool) -> f64 {
    if is_within(outside) {
        return outside;
    }
    for _ in 0..REFINEMENTS {
        let middle = f64::midpoint(inside, outside);
        if is_within(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// Two lines that meet at a given position.
#[derive(Clone, Copy)]
struct BendFit {
    /// The throughput at which they meet.
    place: f64,
    /// Residual sum of squares.
    left: f64,
    /// How much steeper the second line is.
    rise: f64,
}

/// Returns the residuals of the best straight line over x.
fn residuals(at: &[(f64, f64)], figure: impl Fn((f64, f64)) -> f64) -> Vec<f64> {
    let n = at.len() as f64;
    let mut x_mean = 0.0;
    let mut y_mean = 0.0;
    for point in at {
        x_mean += point.0 / n;
        y_mean += figure(*point) / n;
    }
    // Centered sums lose fewer digits than sums of squares far from 0.
    let mut products = 0.0;
    let mut spread = 0.0;
    for point in at {
        products += (point.0 - x_mean) * (figure(*point) - y_mean);
        spread += (point.0 - x_mean) * (point.0 - x_mean);
    }
    let slope = if spread > 0.0 { products / spread } else { 0.0 };
    at.iter().map(|point| figure(*point) - y_mean - slope * (point.0 - x_mean)).collect()
}

fn sum_squares(figures: &[f64]) -> f64 {
    let mut sum = 0.0;
    for figure in figures {
        sum += figure * figure;
    }
    sum
}

#[cfg(test)]
mod tests {
    use model::random::SplitMix64;

    use super::*;

    /// Returns a curve with the given number of loads: 100, 200, ...
    fn curve(points: u32, time: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let at = (1..=points).map(|n| f64::from(n) * 100.0);
        at.map(|x| (x, time(x))).collect()
    }

    fn found(at: &[(f64, f64)]) -> (f64, (f64, f64)) {
        let peak = at.last().unwrap().0;
        match find(at, peak, Some(peak * 1.1)) {
            Knee::Bend { at_per_s, interval_per_s } => (at_per_s, interval_per_s),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn finds_intersection_of_two_lines() {
        let lines = curve(10, |x| 1_000.0 + x + 50.0 * (x - 700.0).max(0.0));
        let (at, (low, high)) = found(&lines);
        assert!((at - 700.0).abs() < 2.0 && high - low < 5.0, "{at} {low} {high}");
    }

    #[test]
    fn covers_true_knee_despite_noise() {
        let noise = [3.0, -4.0, 2.0, 5.0, -6.0, 1.0, -2.0, 4.0, -3.0, 2.0];
        let mut lines = curve(10, |x| 100.0 + 0.3 * (x - 650.0).max(0.0));
        for (point, noise) in lines.iter_mut().zip(noise) {
            point.1 += noise;
        }
        let (_, (low, high)) = found(&lines);
        assert!(low < 650.0 && 650.0 < high && high - low > 20.0, "{low} {high}");
    }

    #[test]
    fn finds_queue_knee_at_half_capacity() {
        for most in [700.0, 900.0, 980.0] {
            let loads = (1..=9).map(|n| f64::from(n) * most / 9.0);
            let queue: Vec<_> = loads.map(|x| (x, 1.0 / (1.0 - x / 1_000.0))).collect();
            let (at, (low, high)) = found(&queue);
            assert!((at - 500.0).abs() < 0.1 && high - low < 0.1, "{at} {low} {high}");
        }
    }

    /// A noisy curve with a known knee.
    struct Planted {
        knee: f64,
        points: Vec<(f64, f64)>,
    }

    /// Returns the percentage of curves for which the interval contains the known knee.
    fn coverage(random: &mut SplitMix64, plant: impl Fn(&mut SplitMix64) -> Planted) -> f64 {
        const CURVES: usize = 1_000;
        let mut covered = 0;
        for _ in 0..CURVES {
            let planted = plant(random);
            let (_, (low, high)) = found(&planted.points);
            covered += usize::from(low <= planted.knee && planted.knee <= high);
        }
        covered as f64 / CURVES as f64 * 100.0
    }

    #[test]
    fn covers_queue_knee_as_claimed() {
        let mut random = SplitMix64::new(2);
        // Numbers of points, noise as a share of the response time, and the highest load as a share
        // of the capacity.
        for (points, noise, top) in
            [(8, 0.01, 0.9), (10, 0.02, 0.95), (10, 0.05, 0.9), (12, 0.03, 0.8), (20, 0.05, 0.9)]
        {
            let per_hundred = coverage(&mut random, |random| {
                let capacity = 900.0 + 200.0 * unit(random);
                let mut queue = Vec::new();
                for point in 1..=points {
                    let x = capacity * top * f64::from(point) / f64::from(points);
                    queue.push((x, (1.0 + noise * normal(random)) / (capacity - x)));
                }
                Planted { knee: capacity / 2.0, points: queue }
            });
            assert!((93.0..=97.0).contains(&per_hundred), "{points} {noise} {top}: {per_hundred}");
        }
    }

    #[test]
    fn covers_planted_knee_as_claimed() {
        let mut random = SplitMix64::new(1);
        // Numbers of points, noise relative to the flat response time, and the rise of the response
        // time over the range as a multiple of it, for a limited bandwidth or a slow service.
        for (points, noise, rise) in
            [(10, 0.01, 2.0), (10, 0.03, 5.0), (12, 0.01, 20.0), (20, 0.03, 20.0), (20, 0.1, 5.0)]
        {
            let per_hundred = coverage(&mut random, |random| {
                let knee = f64::from(points) * (35.0 + 40.0 * unit(random));
                let slope = rise / (f64::from(points) * 100.0);
                let mut lines = curve(points, |x| 1.0 + slope * (x - knee).max(0.0));
                for point in &mut lines {
                    point.1 += noise * normal(random);
                }
                Planted { knee, points: lines }
            });
            assert!((93.0..=97.0).contains(&per_hundred), "{points} {noise} {rise}: {per_hundred}");
        }
    }

    /// Returns a number between 0 and 1.
    fn unit(random: &mut SplitMix64) -> f64 {
        ((random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a normal variate (Box and Muller).
    fn normal(random: &mut SplitMix64) -> f64 {
        let radius = (-2.0 * unit(random).ln()).sqrt();
        radius * (std::f64::consts::TAU * unit(random)).cos()
    }

    #[test]
    fn names_no_knee_if_all_sustained() {
        // A queue tested up to 60, 80 and 95 % of its capacity: the position of a bend would depend
        // on the heaviest load.
        for most in [600.0, 800.0, 950.0] {
            let loads = (1..=10).map(|n| f64::from(n) * most / 10.0);
            let queue: Vec<_> = loads.map(|x| (x, 1.0 / (1.0 - x / 1_000.0))).collect();
            assert_eq!(find(&queue, most, None), Knee::Straight);
        }
        let lines = curve(10, |x| 1_000.0 + x + 50.0 * (x - 700.0).max(0.0));
        assert_eq!(find(&lines, 1_000.0, None), Knee::Straight);
    }

    #[test]
    fn finds_no_knee_in_straight_line() {
        let noise = curve(10, |x| 100.0 + (x * 7.0) % 13.0);
        let straight = [
            curve(10, |x| 5.0 + x),
            curve(10, |_| 5.0),
            // Noise without a rise, and a rise that levels off.
            noise,
            curve(10, |x| x.min(500.0)),
        ];
        for at in straight {
            assert_eq!(find(&at, 1_000.0, None), Knee::Straight);
            let cliff = Knee::Cliff { sustained_per_s: 1_000.0, short_per_s: 1_100.0 };
            assert_eq!(find(&at, 1_000.0, Some(1_100.0)), cliff);
        }
        assert_eq!(find(&curve(5, |x| x * x), 500.0, None), Knee::TooFew(5));
        assert_eq!(find(&[], 0.0, None), Knee::TooFew(0));
    }

    #[test]
    fn reports_unsustained_load_as_cliff() {
        let cliff = Knee::Cliff { sustained_per_s: 900.0, short_per_s: 1_000.0 };
        assert_eq!(find(&curve(9, |_| 5.0), 900.0, Some(1_000.0)), cliff);
        assert_eq!(find(&[], 0.0, Some(1_000.0)), Knee::TooFew(0));
    }
}
