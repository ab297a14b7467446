//! The knee of a curve: two straight lines that meet, fitted by least squares.
//!
//! The interval holds every place at which the lines could meet without fitting worse than chance
//! allows. A curve that one line fits as well has no knee, and few points tell of none.
//!
//! **Source:** Hinkley, "Inference in Two-Phase Regression", JASA 66 (1971); Seber and Wild,
//! "Nonlinear Regression" (1989), 9.3: lines that meet, and the interval by the ratio of residual
//! sums of squares.

/// Two lines that meet have four numbers; two points more, and there is something left to judge by.
const POINTS_MIN: usize = 6;

/// So many places are tried between the second load point and the last but one.
const PLACES: usize = 400;

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

/// The throughput at which response times begin to rise steeply; all in ops per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// They rise faster from here on.
    Bend {
        /// Throughput at which the lines meet best.
        at_per_s: f64,
        /// The 95 % interval of that throughput.
        interval_per_s: (f64, f64),
    },
    /// They don't, up to the peak, and more is not carried: it lies between the two.
    Cliff {
        /// The highest throughput that was carried.
        carried_per_s: f64,
        /// The lightest load that was too heavy.
        short_per_s: f64,
    },
    /// They rise evenly, or hardly, as far as loads were tried.
    Straight,
    /// Points that count are too few to tell.
    TooFew(usize),
}

/// Finds the knee of a curve of (throughput, response time), in ascending order of throughput.
pub(super) fn find(at: &[(f64, f64)], peak: f64, short: Option<f64>) -> Knee {
    let bend = if at.len() < POINTS_MIN { None } else { fit_bend(at) };
    match (bend, short) {
        (Some((at_per_s, interval_per_s)), _) => Knee::Bend { at_per_s, interval_per_s },
        (None, Some(short_per_s)) if peak > 0.0 => Knee::Cliff { carried_per_s: peak, short_per_s },
        (None, _) if at.len() < POINTS_MIN => Knee::TooFew(at.len()),
        _ => Knee::Straight,
    }
}

/// Finds the place at which two lines meet best, and its interval; `None` where one line does as
/// well, or the second one rises less.
///
/// The model is `a + b x + c max(0, x - m)`. For a given place `m` it is linear, and `c` follows
/// from what the line alone leaves of `y` and of `max(0, x - m)` (Frisch, Waugh and Lovell): so
/// every place on a grid is fitted, and the best one taken.
fn fit_bend(at: &[(f64, f64)]) -> Option<(f64, (f64, f64))> {
    let free = at.len() - 4;
    let row = free.min(F_ONE.len()) - 1;
    let (first, last) = (at[1].0, at[at.len() - 2].0);
    let rest = residuals(at, |(_, y)| y);
    let one = sum_squares(&rest);
    let mut fits = Vec::with_capacity(PLACES + 1);
    for number in 0..=PLACES {
        let place = first + (last - first) * number as f64 / PLACES as f64;
        let beyond = residuals(at, |(x, _)| (x - place).max(0.0));
        let norm = sum_squares(&beyond);
        let mut product = 0.0;
        for (a, b) in beyond.iter().zip(&rest) {
            product += a * b;
        }
        let rise = if norm > 0.0 { product / norm } else { 0.0 };
        fits.push(BendFit { place, left: (one - rise * product).max(0.0), rise });
    }
    let best = fits.iter().min_by(|a, b| a.left.total_cmp(&b.left))?;
    let mean = best.left / free as f64;
    // Below the precision of a double, two lines that differ from one are one.
    let scale = at.iter().map(|(_, y)| y * y).sum::<f64>() * 1e-18;
    let is_better = one - best.left > 2.0 * F_TWO[row] * mean && one > scale;
    if !is_better || best.rise <= 0.0 {
        return None;
    }
    // The interval: all places whose fit is not significantly worse than the best one.
    let most = best.left + F_ONE[row] * mean + scale;
    let (mut low, mut high) = (None, best.place);
    for fit in fits.iter().filter(|fit| fit.left <= most) {
        low = low.or(Some(fit.place));
        high = fit.place;
    }
    Some((best.place, (low.unwrap_or(best.place), high)))
}

/// Two lines that meet at a given place.
struct BendFit {
    /// The throughput at which they meet.
    place: f64,
    /// The sum of squares that they leave.
    left: f64,
    /// By how much the second one is steeper.
    rise: f64,
}

/// Returns what the best straight line over x leaves of a figure.
fn residuals(at: &[(f64, f64)], figure: impl Fn((f64, f64)) -> f64) -> Vec<f64> {
    let n = at.len() as f64;
    let (mut x_mean, mut y_mean) = (0.0, 0.0);
    for point in at {
        x_mean += point.0 / n;
        y_mean += figure(*point) / n;
    }
    // Centred sums lose fewer digits than sums of squares far from 0.
    let (mut products, mut spread) = (0.0, 0.0);
    for point in at {
        products += (point.0 - x_mean) * (figure(*point) - y_mean);
        spread += (point.0 - x_mean) * (point.0 - x_mean);
    }
    let slope = if spread > 0.0 { products / spread } else { 0.0 };
    at.iter().map(|point| figure(*point) - y_mean - slope * (point.0 - x_mean)).collect()
}

fn sum_squares(figures: &[f64]) -> f64 {
    figures.iter().map(|figure| figure * figure).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads of 100, 200 ... up to so many.
    fn curve(points: u32, time: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let at = (1..=points).map(|n| f64::from(n) * 100.0);
        at.map(|x| (x, time(x))).collect()
    }

    fn found(at: &[(f64, f64)]) -> (f64, (f64, f64)) {
        match find(at, at.last().unwrap().0, None) {
            Knee::Bend { at_per_s, interval_per_s } => (at_per_s, interval_per_s),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_lines_are_found_where_they_meet() {
        let lines = curve(10, |x| 1_000.0 + x + 50.0 * (x - 700.0).max(0.0));
        let (at, (low, high)) = found(&lines);
        assert!((at - 700.0).abs() < 2.0 && high - low < 5.0, "{at} {low} {high}");
    }

    #[test]
    fn noise_widens_the_interval_and_the_true_value_lies_in_it() {
        let noise = [3.0, -4.0, 2.0, 5.0, -6.0, 1.0, -2.0, 4.0, -3.0, 2.0];
        let mut lines = curve(10, |x| 100.0 + 0.3 * (x - 650.0).max(0.0));
        for (point, noise) in lines.iter_mut().zip(noise) {
            point.1 += noise;
        }
        let (_, (low, high)) = found(&lines);
        assert!(low < 650.0 && 650.0 < high && high - low > 20.0, "{low} {high}");
    }

    #[test]
    fn a_queue_bends_in_its_last_third() {
        let (at, (low, high)) = found(&curve(9, |x| 1.0 / (1.0 - x / 1_000.0)));
        assert!((600.0..=800.0).contains(&at), "{at} {low} {high}");
        assert!(low <= at && at <= high);
    }

    #[test]
    fn what_does_not_bend_has_no_knee() {
        let peak = 1_000.0;
        assert_eq!(find(&curve(10, |x| 5.0 + x), peak, None), Knee::Straight);
        assert_eq!(find(&curve(10, |_| 5.0), peak, None), Knee::Straight);
        // Noise without a rise, and a rise that eases off.
        let noise = curve(10, |x| 100.0 + (x * 7.0) % 13.0);
        assert_eq!(find(&noise, peak, None), Knee::Straight);
        let eased = curve(10, |x| x.min(500.0));
        assert_eq!(find(&eased, peak, None), Knee::Straight);
        assert_eq!(find(&curve(5, |x| x * x), 500.0, None), Knee::TooFew(5));
        assert_eq!(find(&[], 0.0, None), Knee::TooFew(0));
    }

    #[test]
    fn where_more_is_not_carried_the_knee_is_a_cliff() {
        let cliff = Knee::Cliff { carried_per_s: 900.0, short_per_s: 1_000.0 };
        assert_eq!(find(&curve(9, |_| 5.0), 900.0, Some(1_000.0)), cliff);
        assert_eq!(find(&[], 0.0, Some(1_000.0)), Knee::TooFew(0));
    }
}
