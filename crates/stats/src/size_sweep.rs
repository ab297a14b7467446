//! The sizes at which a rate falls: caches as the data see them.
//!
//! [`size_sweep`] is the way in. What fits into a cache takes a certain time per byte, what doesn't
//! takes longer: from some size on all of it (a cache that drops the oldest first holds nothing
//! of a larger file that is read in order), or the part that doesn't fit. Both shapes are fitted by
//! least squares of relative errors; a further fall is accepted where an F test says that chance
//! does not explain it, with a level divided among the places that were tried. A rate that falls
//! evenly with the logarithm of the size has no knee: Schwarz's criterion chooses between the two.
//!
//! **Source:** Seber and Wild, "Nonlinear Regression" (1989), 9.3 (segmented models, intervals by
//! the ratio of sums of squares); Schwarz, "Estimating the Dimension of a Model", Ann. Statist. 6
//! (1978).

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use crate::criteria::CONFIDENCE;

/// Fewer sizes have no before and after.
pub const SIZES_MIN: usize = 3;

/// A fall by less than this factor is not worth a name.
const FALL_MIN: f64 = 1.2;

/// So many falls are searched for: caches of client, server and its storage.
const FALLS_MAX: usize = 3;

/// So many sizes of a cache are tried between two neighbouring sizes of files.
const PLACES: usize = 24;

/// A cache is moved in steps of no less than this factor.
const REFINED_STEP: f64 = 1.000_1;

/// The ends of an interval are searched in steps of this factor.
const INTERVAL_STEP: f64 = 1.002;

/// Relative error below which two rates are the same number.
const PRECISION: f64 = 1e-9;

/// The rates of all trials at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePoint {
    /// Bytes of the files that were worked on.
    pub bytes: f64,
    /// The rate of each trial; above 0.
    pub per_s: Vec<f64>,
}

/// A size from which on the rate is lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fall {
    /// The largest size before it, and the smallest one behind it, in bytes.
    pub between_bytes: (f64, f64),
    /// The rate before it and behind it; behind it up to the next fall.
    pub per_s: (f64, f64),
    /// The size of a cache that explains it, in bytes.
    pub cache_bytes: f64,
    /// The 95 % interval of that size; the two neighbouring sizes where the rate falls at once.
    pub interval_bytes: (f64, f64),
    /// Whether only the part that doesn't fit is slow, so that the rate falls gradually.
    pub is_gradual: bool,
}

/// How a rate goes with the size of the files.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeSweep {
    /// It falls at these sizes, the smallest first.
    Falls(Vec<Fall>),
    /// It changes evenly with the logarithm of the size: no size stands out.
    Even,
    /// It doesn't fall.
    Level,
    /// Sizes or trials are too few to tell.
    TooFew,
}

/// Finds the sizes at which a rate falls; points in any order, each size once.
pub fn size_sweep(points: &[SizePoint]) -> SizeSweep {
    let Some(sweep) = Sweep::of(points) else { return SizeSweep::TooFew };
    let mut falls: Vec<Placed> = Vec::new();
    let Some(mut best) = sweep.fit(&falls) else { return SizeSweep::TooFew };
    let constant = best.clone();
    if sweep.free(1).is_none() {
        return SizeSweep::TooFew;
    }
    while falls.len() < FALLS_MAX {
        let Some((place, fit)) = sweep.best_addition(&falls) else { break };
        if !sweep.is_better(&best, &fit, falls.len() + 1) {
            break;
        }
        falls.push(place);
        falls.sort_by(|a, b| a.cache_bytes.total_cmp(&b.cache_bytes));
        best = sweep.refine(&mut falls, fit);
    }
    if falls.is_empty() {
        return SizeSweep::Level;
    }
    if sweep.prefers_even(&constant, &best, falls.len()) {
        return SizeSweep::Even;
    }
    let mut described = Vec::with_capacity(falls.len());
    for number in 0..falls.len() {
        described.push(sweep.describe(&falls, number, &best));
    }
    described.retain(|fall| fall.per_s.0 >= FALL_MIN * fall.per_s.1);
    if described.is_empty() { SizeSweep::Level } else { SizeSweep::Falls(described) }
}

/// A fall as the model has it.
#[derive(Clone, Copy)]
struct Placed {
    cache_bytes: f64,
    is_gradual: bool,
}

impl Placed {
    /// The part of a file of this size that is beyond the cache; all of it, unless only what
    /// doesn't fit is slow.
    fn share_beyond(&self, bytes: f64) -> f64 {
        match self.is_gradual {
            _ if bytes <= self.cache_bytes => 0.0,
            true => 1.0 - self.cache_bytes / bytes,
            false => 1.0,
        }
    }
}

/// The times per byte at each size.
struct Sweep {
    sizes: Vec<Timed>,
    /// Trials of all sizes.
    trials: usize,
    /// The sum of squares within sizes, of relative errors: what no model explains.
    within: f64,
}

/// The times of one size.
struct Timed {
    bytes: f64,
    mean: f64,
    trials: f64,
}

/// A model with the falls that it was fitted for.
#[derive(Clone)]
struct Fitted {
    /// Time per byte before the first fall, then what each fall adds at most.
    times: Vec<f64>,
    /// The sum of squares of relative errors.
    left: f64,
}

impl Sweep {
    fn of(points: &[SizePoint]) -> Option<Self> {
        let mut sizes = Vec::with_capacity(points.len());
        let (mut trials, mut within) = (0, 0.0);
        for point in points {
            if point.per_s.is_empty() || point.per_s.iter().any(|rate| *rate <= 0.0) {
                continue;
            }
            let times: Vec<f64> = point.per_s.iter().map(|rate| 1.0 / rate).collect();
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            for time in &times {
                within += (time / mean - 1.0).powi(2);
            }
            trials += times.len();
            sizes.push(Timed { bytes: point.bytes, mean, trials: times.len() as f64 });
        }
        sizes.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        if sizes.len() < SIZES_MIN { None } else { Some(Self { sizes, trials, within }) }
    }

    /// Degrees of freedom that a model of so many falls leaves; `None` without any.
    fn free(&self, falls: usize) -> Option<usize> {
        // Each fall has a size and a height, and there is one time before all of them.
        self.trials.checked_sub(1 + 2 * falls).filter(|free| *free > 0)
    }

    /// Fits the times for falls at given places; `None` where a fall would be a rise.
    fn fit(&self, falls: &[Placed]) -> Option<Fitted> {
        let columns = falls.len() + 1;
        let mut normal = vec![vec![0.0; columns + 1]; columns];
        for size in &self.sizes {
            // Relative errors: an error of a hundredth counts alike at each level of the rate.
            let weight = size.trials / (size.mean * size.mean);
            let row = model_row(falls, size.bytes);
            for (left, line) in normal.iter_mut().enumerate() {
                for (right, value) in row.iter().enumerate() {
                    line[right] += weight * row[left] * value;
                }
                line[columns] += weight * row[left] * size.mean;
            }
        }
        let times = solve(normal)?;
        if times.iter().any(|time| *time <= 0.0) {
            return None;
        }
        let mut left = self.within;
        for size in &self.sizes {
            let error = fitted_time(&times, falls, size.bytes) / size.mean - 1.0;
            left += size.trials * error * error;
        }
        Some(Fitted { times, left })
    }

    /// Finds the fall that explains most beside those that are known.
    fn best_addition(&self, known: &[Placed]) -> Option<(Placed, Fitted)> {
        let mut at_once: Option<(Placed, Fitted)> = None;
        let mut gradual: Option<(Placed, Fitted)> = None;
        for number in 1..self.sizes.len() {
            let (below, above) = (self.sizes[number - 1].bytes, self.sizes[number].bytes);
            let taken = known.iter().any(|fall| (below..above).contains(&fall.cache_bytes));
            if taken {
                continue;
            }
            let middle = Placed { cache_bytes: (below * above).sqrt(), is_gradual: false };
            self.try_addition(known, middle, &mut at_once);
            // Of one size behind a fall, either shape explains all.
            if number + 1 == self.sizes.len() {
                continue;
            }
            for place in 0..PLACES {
                let share = place as f64 / PLACES as f64;
                let cache_bytes = below * (above / below).powf(share);
                self.try_addition(known, Placed { cache_bytes, is_gradual: true }, &mut gradual);
            }
        }
        match (at_once, gradual) {
            (Some(at_once), Some(gradual)) => {
                // The size of the cache is a number more that a gradual fall has.
                let is_gradual = self.badness(gradual.1.left, 1) < self.badness(at_once.1.left, 0);
                Some(if is_gradual { gradual } else { at_once })
            }
            (one, other) => one.or(other),
        }
    }

    fn try_addition(&self, known: &[Placed], place: Placed, best: &mut Option<(Placed, Fitted)>) {
        let mut falls = known.to_vec();
        falls.push(place);
        falls.sort_by(|a, b| a.cache_bytes.total_cmp(&b.cache_bytes));
        let Some(fit) = self.fit(&falls) else { return };
        if best.as_ref().is_none_or(|(_, known)| fit.left < known.left) {
            *best = Some((place, fit));
        }
    }

    /// Moves the cache of each gradual fall to where the times are explained best, in ever smaller
    /// steps.
    fn refine(&self, falls: &mut [Placed], mut best: Fitted) -> Fitted {
        for number in 0..falls.len() {
            let mut step = 1.0 + 1.0 / PLACES as f64;
            while falls[number].is_gradual && step > REFINED_STEP {
                let before = falls[number].cache_bytes;
                for moved in [before / step, before * step] {
                    falls[number].cache_bytes = moved;
                    match self.fit(falls) {
                        Some(fit) if fit.left < best.left => best = fit,
                        _ => falls[number].cache_bytes = before,
                    }
                    if falls[number].cache_bytes.total_cmp(&before).is_ne() {
                        break;
                    }
                }
                if falls[number].cache_bytes.total_cmp(&before).is_eq() {
                    step = step.sqrt();
                }
            }
        }
        best
    }

    /// Schwarz's criterion, up to a constant, of a model that leaves so much and has so many
    /// numbers.
    fn badness(&self, left: f64, numbers: usize) -> f64 {
        let n = self.trials as f64;
        n * ((left + self.floor()) / n).ln() + numbers as f64 * n.ln()
    }

    /// A sum of squares below the precision of a double.
    fn floor(&self) -> f64 {
        self.trials as f64 * PRECISION * PRECISION
    }

    /// Says whether a model with one fall more, `falls` in all, is better than chance explains.
    fn is_better(&self, fewer: &Fitted, more: &Fitted, falls: usize) -> bool {
        let Some(free) = self.free(falls) else { return false };
        let left = more.left + self.floor();
        let ratio = (fewer.left - more.left) / 2.0 / (left / free as f64);
        let Ok(distribution) = FisherSnedecor::new(2.0, free as f64) else { return false };
        // Every gap between two sizes was tried, with two shapes: one of them may fit by chance.
        let tried = 2 * (self.sizes.len() - 1);
        ratio > 0.0 && distribution.sf(ratio) <= (1.0 - CONFIDENCE) / tried as f64
    }

    /// Says whether an even change with the logarithm of the size explains the times better.
    fn prefers_even(&self, constant: &Fitted, best: &Fitted, falls: usize) -> bool {
        let (mut weight, mut x_mean, mut y_mean) = (0.0, 0.0, 0.0);
        for size in &self.sizes {
            weight += size.trials;
            x_mean += size.trials * size.bytes.ln();
            y_mean += size.trials * size.mean.ln();
        }
        (x_mean, y_mean) = (x_mean / weight, y_mean / weight);
        let (mut squares, mut products) = (0.0, 0.0);
        for size in &self.sizes {
            let x = size.bytes.ln() - x_mean;
            squares += size.trials * x * x;
            products += size.trials * x * (size.mean.ln() - y_mean);
        }
        let slope = products / squares;
        let mut left = self.within;
        for size in &self.sizes {
            // An error of a logarithm is a relative one.
            let error = size.mean.ln() - y_mean - slope * (size.bytes.ln() - x_mean);
            left += size.trials * error * error;
        }
        left < constant.left && self.badness(left, 2) <= self.badness(best.left, 1 + 2 * falls)
    }

    /// Describes a fall by the sizes beside it and the fitted rates.
    fn describe(&self, falls: &[Placed], number: usize, best: &Fitted) -> Fall {
        let fall = falls[number];
        let next_bytes = falls.get(number + 1).map_or(f64::INFINITY, |next| next.cache_bytes);
        let (mut before, mut after, mut last) = (self.sizes[0].bytes, f64::INFINITY, 0.0);
        for size in &self.sizes {
            if size.bytes <= fall.cache_bytes {
                before = size.bytes;
            } else if size.bytes <= next_bytes {
                after = after.min(size.bytes);
                last = size.bytes;
            }
        }
        let rate = |bytes: f64| 1.0 / fitted_time(&best.times, falls, bytes);
        let mut interval_bytes = (before, after);
        if fall.is_gradual {
            interval_bytes = self.cache_interval(falls, number, best);
        }
        Fall {
            between_bytes: (before, after),
            per_s: (rate(before), rate(last)),
            cache_bytes: fall.cache_bytes,
            interval_bytes,
            is_gradual: fall.is_gradual,
        }
    }

    /// Returns all sizes of a cache that explain the times not much worse than the best one.
    fn cache_interval(&self, falls: &[Placed], number: usize, best: &Fitted) -> (f64, f64) {
        let place = falls[number].cache_bytes;
        let Some(free) = self.free(falls.len()) else { return (place, place) };
        let Ok(distribution) = FisherSnedecor::new(1.0, free as f64) else { return (place, place) };
        let share = distribution.inverse_cdf(CONFIDENCE) / free as f64;
        let most = best.left * (1.0 + share) + self.floor();
        let is_within = |cache_bytes: f64| {
            let mut moved = falls.to_vec();
            moved[number].cache_bytes = cache_bytes;
            self.fit(&moved).is_some_and(|fit| fit.left <= most)
        };
        let (first, last) = (self.sizes[0].bytes, self.sizes[self.sizes.len() - 1].bytes);
        let (mut low, mut high) = (place, place);
        while low > first && is_within(low) {
            low /= INTERVAL_STEP;
        }
        while high < last && is_within(high) {
            high *= INTERVAL_STEP;
        }
        (low, high)
    }
}

/// The columns of the model at a size: 1, then the share beyond each cache.
fn model_row(falls: &[Placed], bytes: f64) -> Vec<f64> {
    let mut row = vec![1.0];
    for fall in falls {
        row.push(fall.share_beyond(bytes));
    }
    row
}

fn fitted_time(times: &[f64], falls: &[Placed], bytes: f64) -> f64 {
    let row = model_row(falls, bytes);
    times.iter().zip(row).map(|(time, share)| time * share).sum()
}

/// Solves linear equations by Gauss's elimination with pivots; the last column is the right side.
fn solve(mut lines: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = lines.len();
    for column in 0..count {
        let mut pivot = column;
        for line in column + 1..count {
            if lines[line][column].abs() > lines[pivot][column].abs() {
                pivot = line;
            }
        }
        lines.swap(column, pivot);
        let chosen = lines[column].clone();
        if chosen[column].abs() <= f64::EPSILON * chosen[count].abs() {
            return None;
        }
        for (number, line) in lines.iter_mut().enumerate() {
            if number != column {
                let factor = line[column] / chosen[column];
                for (value, of_pivot) in line.iter_mut().zip(&chosen) {
                    *value -= factor * of_pivot;
                }
            }
        }
    }
    let mut solution = Vec::with_capacity(count);
    for (number, line) in lines.iter().enumerate() {
        solution.push(line[count] / line[number]);
    }
    Some(solution)
}

#[cfg(test)]
mod tests;
