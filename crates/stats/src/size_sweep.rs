//! The sizes at which a rate drops, which show the effective cache sizes.
//!
//! Data that fits into a cache takes less time per byte than data that doesn't. From some size on,
//! either all of it is slow (with LRU, none of a larger file that is read sequentially stays in the
//! cache), or only the part that doesn't fit. [`size_sweep`] fits both shapes by least squares of
//! relative errors. Another drop is accepted if an F test rules out chance, with a significance
//! level divided among the positions that were tried. A rate that falls evenly with the logarithm
//! of the size has no knee; Schwarz's criterion chooses between the two.
//!
//! **Source:** Seber and Wild, "Nonlinear Regression" (1989), 9.3 (segmented models, intervals by
//! the ratio of sums of squares); Schwarz, "Estimating the Dimension of a Model", Ann. Statist. 6
//! (1978).

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use crate::criteria::CONFIDENCE;

/// Minimum number of sizes to have a before and after.
pub const SIZES_MIN: usize = 3;

/// Minimum factor for a drop to be reported.
const FALL_MIN: f64 = 1.2;

/// Maximum number of drops: caches of client, server and storage.
const FALLS_MAX: usize = 3;

/// Number of cache sizes to try between two adjacent file sizes.
const PLACES: usize = 24;

/// Minimum factor between steps when refining a cache size.
const REFINED_STEP: f64 = 1.000_1;

/// Factor between steps when searching the ends of an interval.
const INTERVAL_STEP: f64 = 1.002;

/// Relative error below which two rates are equal.
const PRECISION: f64 = 1e-9;

/// The rates of all trials at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePoint {
    /// Size of the files in bytes.
    pub bytes: f64,
    /// Rate of each trial; must be positive.
    pub per_s: Vec<f64>,
}

/// Size above which the rate is lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateDrop {
    /// The largest size before it and the smallest size after it, in bytes.
    pub between_bytes: (f64, f64),
    /// The rates before and after it, the latter up to the next drop.
    pub per_s: (f64, f64),
    /// The cache size that explains it, in bytes.
    pub cache_bytes: f64,
    /// The 95 % interval of this size, or the two adjacent sizes if the rate drops abruptly.
    pub interval_bytes: (f64, f64),
    /// Only the part that doesn't fit is slow, so the rate falls gradually.
    pub is_gradual: bool,
}

/// How a rate depends on the file size.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeSweep {
    /// It drops at these sizes, smallest first.
    Falls(Vec<RateDrop>),
    /// It changes evenly with the logarithm of the size, and no size stands out.
    Even,
    /// It doesn't drop.
    Level,
    /// There are too few sizes or trials.
    TooFew,
}

/// Finds the sizes at which a rate drops. The points may be in any order, with each size once.
pub fn size_sweep(points: &[SizePoint]) -> SizeSweep {
    let Some(sweep) = Sweep::from_points(points) else { return SizeSweep::TooFew };
    let mut falls: Vec<ModelDrop> = Vec::new();
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
    let mut described: Vec<_> =
        (0..falls.len()).map(|number| sweep.describe(&falls, number, &best)).collect();
    described.retain(|fall| fall.per_s.0 >= FALL_MIN * fall.per_s.1);
    if described.is_empty() { SizeSweep::Level } else { SizeSweep::Falls(described) }
}

/// A drop in the model.
#[derive(Clone, Copy)]
struct ModelDrop {
    cache_bytes: f64,
    is_gradual: bool,
}

impl ModelDrop {
    /// Returns the slow share of a file of this size: the part beyond the cache, or all of it
    /// unless the drop is gradual.
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
    sizes: Vec<SizeTimes>,
    /// Number of trials over all sizes.
    trials: usize,
    /// Sum of squared relative errors within sizes, which no model explains.
    within: f64,
}

struct SizeTimes {
    bytes: f64,
    mean: f64,
    trials: f64,
}

/// A fitted model.
#[derive(Clone)]
struct FittedModel {
    /// Time per byte before the first drop, then the maximum that each drop adds.
    times: Vec<f64>,
    /// Residual sum of squares of relative errors.
    left: f64,
}

impl Sweep {
    fn from_points(points: &[SizePoint]) -> Option<Self> {
        let mut sizes = Vec::with_capacity(points.len());
        let mut trials = 0;
        let mut within = 0.0;
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
            sizes.push(SizeTimes { bytes: point.bytes, mean, trials: times.len() as f64 });
        }
        sizes.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        if sizes.len() < SIZES_MIN { None } else { Some(Self { sizes, trials, within }) }
    }

    /// Returns the degrees of freedom of a model with this many drops, or `None` if there are none.
    fn free(&self, falls: usize) -> Option<usize> {
        // Each drop has a size and a height, and there is one time before all of them.
        self.trials.checked_sub(1 + 2 * falls).filter(|free| *free > 0)
    }

    /// Fits the times for drops at given positions, or returns `None` if a drop would be a rise.
    fn fit(&self, falls: &[ModelDrop]) -> Option<FittedModel> {
        let columns = falls.len() + 1;
        let mut normal = vec![vec![0.0; columns + 1]; columns];
        for size in &self.sizes {
            // Relative errors: an error of 1 % has the same weight at each level of the rate.
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
        Some(FittedModel { times, left })
    }

    /// Finds the drop that explains the most in addition to the known ones.
    fn best_addition(&self, known: &[ModelDrop]) -> Option<(ModelDrop, FittedModel)> {
        let mut at_once: Option<(ModelDrop, FittedModel)> = None;
        let mut gradual: Option<(ModelDrop, FittedModel)> = None;
        for number in 1..self.sizes.len() {
            let below = self.sizes[number - 1].bytes;
            let above = self.sizes[number].bytes;
            let taken = known.iter().any(|fall| (below..above).contains(&fall.cache_bytes));
            if taken {
                continue;
            }
            let middle = ModelDrop { cache_bytes: (below * above).sqrt(), is_gradual: false };
            self.try_addition(known, middle, &mut at_once);
            // If there is only one size after a drop, either shape explains everything.
            if number + 1 == self.sizes.len() {
                continue;
            }
            for place in 0..PLACES {
                let share = place as f64 / PLACES as f64;
                let cache_bytes = below * (above / below).powf(share);
                self.try_addition(known, ModelDrop { cache_bytes, is_gradual: true }, &mut gradual);
            }
        }
        match (at_once, gradual) {
            (Some(at_once), Some(gradual)) => {
                // A gradual drop has an additional parameter, the cache size.
                let is_gradual = self.schwarz_criterion(gradual.1.left, 1)
                    < self.schwarz_criterion(at_once.1.left, 0);
                Some(if is_gradual { gradual } else { at_once })
            }
            (one, other) => one.or(other),
        }
    }

    fn try_addition(
        &self,
        known: &[ModelDrop],
        place: ModelDrop,
        best: &mut Option<(ModelDrop, FittedModel)>,
    ) {
        let mut falls = known.to_vec();
        falls.push(place);
        falls.sort_by(|a, b| a.cache_bytes.total_cmp(&b.cache_bytes));
        let Some(fit) = self.fit(&falls) else { return };
        if best.as_ref().is_none_or(|(_, known)| fit.left < known.left) {
            *best = Some((place, fit));
        }
    }

    /// Moves the cache size of each gradual drop to where it explains the times best, in smaller
    /// and smaller steps.
    fn refine(&self, falls: &mut [ModelDrop], mut best: FittedModel) -> FittedModel {
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

    /// Returns Schwarz's criterion, up to a constant, for a residual and a number of parameters.
    fn schwarz_criterion(&self, left: f64, numbers: usize) -> f64 {
        let n = self.trials as f64;
        n * ((left + self.floor()) / n).ln() + numbers as f64 * n.ln()
    }

    /// Returns a sum of squares below the precision of a double.
    fn floor(&self) -> f64 {
        self.trials as f64 * PRECISION * PRECISION
    }

    /// Returns true if a model with one more drop, `falls` in total, is better than by chance.
    fn is_better(&self, fewer: &FittedModel, more: &FittedModel, falls: usize) -> bool {
        let Some(free) = self.free(falls) else { return false };
        let left = more.left + self.floor();
        let ratio = (fewer.left - more.left) / 2.0 / (left / free as f64);
        let Ok(distribution) = FisherSnedecor::new(2.0, free as f64) else { return false };
        // Every gap between two sizes was tried with two shapes, and one of them may fit by chance.
        let tried = 2 * (self.sizes.len() - 1);
        ratio > 0.0 && distribution.sf(ratio) <= (1.0 - CONFIDENCE) / tried as f64
    }

    /// Returns true if an even change with the logarithm of the size explains the times better.
    fn prefers_even(&self, constant: &FittedModel, best: &FittedModel, falls: usize) -> bool {
        let mut weight = 0.0;
        let mut x_mean = 0.0;
        let mut y_mean = 0.0;
        for size in &self.sizes {
            weight += size.trials;
            x_mean += size.trials * size.bytes.ln();
            y_mean += size.trials * size.mean.ln();
        }
        x_mean /= weight;
        y_mean /= weight;
        let mut squares = 0.0;
        let mut products = 0.0;
        for size in &self.sizes {
            let x = size.bytes.ln() - x_mean;
            squares += size.trials * x * x;
            products += size.trials * x * (size.mean.ln() - y_mean);
        }
        let slope = products / squares;
        let mut left = self.within;
        for size in &self.sizes {
            // An error of a logarithm is a relative error.
            let error = size.mean.ln() - y_mean - slope * (size.bytes.ln() - x_mean);
            left += size.trials * error * error;
        }
        left < constant.left
            && self.schwarz_criterion(left, 2) <= self.schwarz_criterion(best.left, 1 + 2 * falls)
    }

    /// Describes a drop by the adjacent sizes and the fitted rates.
    fn describe(&self, falls: &[ModelDrop], number: usize, best: &FittedModel) -> RateDrop {
        let fall = falls[number];
        let next_bytes = falls.get(number + 1).map_or(f64::INFINITY, |next| next.cache_bytes);
        let mut before = self.sizes[0].bytes;
        let mut after = f64::INFINITY;
        let mut last = 0.0;
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
        RateDrop {
            between_bytes: (before, after),
            per_s: (rate(before), rate(last)),
            cache_bytes: fall.cache_bytes,
            interval_bytes,
            is_gradual: fall.is_gradual,
        }
    }

    /// Returns the range of cache sizes that don't explain the times significantly worse than the
    /// best one.
    fn cache_interval(&self, falls: &[ModelDrop], number: usize, best: &FittedModel) -> (f64, f64) {
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
        let first = self.sizes[0].bytes;
        let last = self.sizes[self.sizes.len() - 1].bytes;
        let mut low = place;
        let mut high = place;
        while low > first && is_within(low) {
            low /= INTERVAL_STEP;
        }
        while high < last && is_within(high) {
            high *= INTERVAL_STEP;
        }
        (low, high)
    }
}

/// Returns the columns of the model at a size: 1, then the share beyond each cache.
fn model_row(falls: &[ModelDrop], bytes: f64) -> Vec<f64> {
    let mut row = vec![1.0];
    row.extend(falls.iter().map(|fall| fall.share_beyond(bytes)));
    row
}

fn fitted_time(times: &[f64], falls: &[ModelDrop], bytes: f64) -> f64 {
    let row = model_row(falls, bytes);
    times.iter().zip(row).map(|(time, share)| time * share).sum()
}

/// Solves linear equations by Gaussian elimination with pivots; the last column is the right side.
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
    Some(lines.iter().enumerate().map(|(number, line)| line[count] / line[number]).collect())
}

#[cfg(test)]
mod tests;
