//! Finds the limiting layer of a ladder, and how much faster the data path would be without it.
//!
//! [`analyze_layers`] walks down the *critical path*: from the whole data path, always to the
//! slowest part. A layer's self time is the time not spent in its slowest part, and the layer with
//! the largest self time is the limit. Anything off the path is hidden behind it. Times are those
//! of the displayed rates and include waiting, because a layer waits for a CPU while other work of
//! the same layer, such as the server's, is using it. Waiting is the limit only if its share is
//! larger than that of any layer. Trials of each layer are resampled to determine the confidence.
//! See `docs/design/ladder.md` for the derivation.
//!
//! **Source:** Kelley and Walker, "Critical-Path Planning and Scheduling" (1959), for the path;
//! Efron and Tibshirani (1993), chapter 13, for the resampling; the bound is that of the range of
//! `n` values as an interval of the median, `1 - 2/2^n`.

use model::question::ladder::Layer;
use model::random::SplitMix64;

use crate::criteria::{BOOTSTRAP_SEED, CONFIDENCE};
use crate::summary::{draw_median, median, sort_finite};

/// Number of resamples of the trials.
const DRAWS: usize = 1_000;

/// Factor by which a part must be slower than the whole to conclude that its work was not done
/// there. No part can take longer than the whole, and chance alone causes smaller differences
/// between medians.
const CROSSED: f64 = 1.25;

/// A share above this counts as most of a time.
const MOST: f64 = 0.5;

/// A measured layer.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLayer {
    pub layer: Layer,
    /// Time per unit of work in each trial, in nanoseconds; must be positive.
    pub times_ns: Vec<f64>,
    /// Share of the time in each trial in which the workers were runnable but not running, 0 to 1.
    pub waits: Vec<f64>,
    /// Share of the time in which a quota throttled them according to the kernel, which misses
    /// some.
    pub held: Vec<f64>,
}

/// The limiting part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The time that this layer adds to the layers it contains.
    Layer(Layer),
    /// The client's CPUs: it is runnable but has to wait for one.
    Processor,
}

/// Analysis of a ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerAnalysis {
    /// Share of each layer in the time of the whole data path, in ladder order, adding up to 1;
    /// `None` for a layer that is not part of the data path.
    pub shares: Vec<(Layer, Option<f64>)>,
    /// Share of all time spent waiting for a CPU, 0 to 1.
    pub waited: f64,
    /// A quota throttles the client for most of its time.
    pub is_held: bool,
    /// The part whose removal would gain the most.
    pub limit: Limit,
    /// Answers of the resamples, most frequent first, as shares of the resamples.
    pub votes: Vec<(Limit, f64)>,
    /// Confidence in the answer, 0 to 1; 0 for a single trial.
    pub confidence: f64,
    /// The factor by which the data path would be faster without its limit.
    pub gain: f64,
    /// The 95 % interval of this factor.
    pub gain_interval: (f64, f64),
    /// The next limit after this one; `None` if it would still be the same.
    pub next: Option<Limit>,
    /// Layers that were faster than one of their parts in every trial, with this part. They did not
    /// do the part's work, for example because a cache served it.
    pub crossed: Vec<(Layer, Layer)>,
}

impl LayerAnalysis {
    /// Returns true if the answer is more than a guess, because nearly all resamples agree.
    pub fn is_sure(&self) -> bool {
        self.confidence > 0.0 && self.votes.first().is_some_and(|(_, share)| *share >= CONFIDENCE)
    }
}

/// Analyzes a ladder whose last layer is the whole data path. Returns `None` for fewer than two
/// layers, or if any has no trial.
pub fn analyze_layers(layers: &[MeasuredLayer]) -> Option<LayerAnalysis> {
    let mut samples = Vec::with_capacity(layers.len());
    let mut kinds = Vec::with_capacity(layers.len());
    let mut is_held = false;
    let mut fewest = usize::MAX;
    let mut most = 0;
    for layer in layers {
        samples.push(Sample::from_layer(layer)?);
        kinds.push(layer.layer);
        // The kernel misses some pauses, but a relevant quota shows up on at least one layer.
        is_held |= layer.held.iter().any(|share| *share > MOST);
        fewest = fewest.min(layer.times_ns.len());
        most = most.max(layer.times_ns.len());
    }
    if samples.len() < 2 {
        return None;
    }
    let ladder = LadderParts { parts: contained_parts(&kinds), kinds, is_held };
    let times: Vec<_> = samples.iter().map(Sample::medians).collect();
    let usual = ladder.walk(&times);
    let mut random = SplitMix64::new(BOOTSTRAP_SEED);
    let mut counts = vec![0_u32; most];
    let mut votes: Vec<(Limit, usize)> = Vec::new();
    let mut gains = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        // Each layer is resampled separately, because the trials ran at different times.
        let drawn: Vec<_> =
            samples.iter().map(|sample| sample.draw(&mut random, &mut counts)).collect();
        // The gain for the overall answer, whatever limits this resample.
        gains.push(ladder.gain_without(usual.limit, &drawn));
        count_vote(&mut votes, ladder.walk(&drawn).limit);
    }
    votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut shares = Vec::with_capacity(votes.len());
    let mut agreed = 0.0;
    for (limit, count) in votes {
        let share = count as f64 / DRAWS as f64;
        shares.push((limit, share));
        if limit == usual.limit {
            agreed = share;
        }
    }
    // A percentile interval: both tails of the sorted resamples are cut off.
    gains.sort_unstable_by(f64::total_cmp);
    let cut = ((1.0 - CONFIDENCE) / 2.0 * DRAWS as f64) as usize;
    let next = ladder.walk(&ladder.times_without(usual.limit, &times)).limit;
    Some(LayerAnalysis {
        shares: ladder.own_shares(&usual),
        waited: usual.waited,
        is_held: ladder.is_held && usual.waited > MOST,
        limit: usual.limit,
        votes: shares,
        confidence: agreed.min(confidence_max(fewest)),
        gain: ladder.gain_without(usual.limit, &times),
        gain_interval: (gains[cut], gains[DRAWS - 1 - cut]),
        next: if next == usual.limit { None } else { Some(next) },
        crossed: ladder.find_crossed(&samples),
    })
}

fn count_vote(votes: &mut Vec<(Limit, usize)>, limit: Limit) {
    for (known, count) in &mut *votes {
        if *known == limit {
            *count += 1;
            return;
        }
    }
    votes.push((limit, 1));
}

/// Returns the maximum confidence possible with `n` values: `1 - 2/2^n`.
fn confidence_max(n: usize) -> f64 {
    1.0 - 2.0 * 0.5_f64.powf(n as f64)
}

/// Returns the indices of each layer's parts. The parts of a missing layer take its place.
fn contained_parts(kinds: &[Layer]) -> Vec<Vec<usize>> {
    let Some((&top, below)) = kinds.split_last() else { return Vec::new() };
    let whole = below.iter().position(|kind| *kind == Layer::Whole);
    let mut parts = Vec::with_capacity(kinds.len());
    for (at, &kind) in kinds.iter().enumerate() {
        // The layer with the server's transfer size is between the data path and its parts.
        if let Some(whole) = whole
            && at + 1 == kinds.len()
        {
            parts.push(vec![whole]);
            continue;
        }
        let kind = if kind == Layer::Whole { top } else { kind };
        parts.push(measured_parts(kinds, kind));
    }
    parts
}

/// Returns the indices of a layer's parts among the measured ones.
fn measured_parts(kinds: &[Layer], kind: Layer) -> Vec<usize> {
    let mut found = Vec::new();
    let mut open: Vec<Layer> = kind.parts().to_vec();
    while let Some(part) = open.pop() {
        match kinds.iter().position(|known| *known == part) {
            Some(place) if !found.contains(&place) => found.push(place),
            Some(_) => {}
            None => open.extend(part.parts()),
        }
    }
    found
}

/// The trials of a layer, sorted: their times, and the part of them that was waiting.
struct Sample {
    times_ns: Vec<f64>,
    waiting_ns: Vec<f64>,
}

impl Sample {
    fn from_layer(measured: &MeasuredLayer) -> Option<Self> {
        let MeasuredLayer { times_ns, waits, .. } = measured;
        if times_ns.len() != waits.len() {
            return None;
        }
        let mut waiting = Vec::new();
        for (time, wait) in times_ns.iter().zip(waits) {
            if *time <= 0.0 {
                return None;
            }
            waiting.push(time * wait.clamp(0.0, 1.0));
        }
        Some(Self { times_ns: sort_finite(times_ns)?, waiting_ns: sort_finite(&waiting)? })
    }

    /// Returns the median time, and the median of its waiting part.
    fn medians(&self) -> (f64, f64) {
        (median(&self.times_ns).unwrap_or(0.0), median(&self.waiting_ns).unwrap_or(0.0))
    }

    /// Draws both medians from a resample.
    fn draw(&self, random: &mut SplitMix64, counts: &mut [u32]) -> (f64, f64) {
        let time = draw_median(&self.times_ns, random, counts);
        (time, draw_median(&self.waiting_ns, random, counts))
    }
}

/// The layers of a ladder and the parts of each.
struct LadderParts {
    kinds: Vec<Layer>,
    parts: Vec<Vec<usize>>,
    /// A quota throttled some layer for most of its time.
    is_held: bool,
}

/// A walk down the critical path.
struct CriticalPath {
    /// Self time of each layer in nanoseconds; 0 if it is not on the path.
    own_ns: Vec<f64>,
    /// The time of the whole data path.
    whole_ns: f64,
    /// Share of its time spent waiting for a CPU.
    waited: f64,
    limit: Limit,
}

impl LadderParts {
    /// Walks down with the time of each layer, and the part of it that was waiting.
    fn walk(&self, times: &[(f64, f64)]) -> CriticalPath {
        let mut at = times.len() - 1;
        let (whole_ns, waited_ns) = times[at];
        let mut own_ns = vec![0.0; times.len()];
        let mut left = whole_ns;
        while let Some(part) = self.slowest_part(at, times, left) {
            // A part can only take longer than the whole by chance.
            let takes = times[part].0.min(left);
            own_ns[at] = left - takes;
            at = part;
            left = takes;
        }
        own_ns[at] = left;
        let waited = waited_ns / whole_ns.max(f64::MIN_POSITIVE);
        let mut limit = Limit::Processor;
        let mut most = waited;
        // In this case, no layer can have a larger share. Other waiting depends on the work and is
        // compared with the layers, but a quota is a setting of the client.
        if self.is_held && waited > MOST {
            most = 1.0;
        }
        for (layer, own) in self.kinds.iter().zip(&own_ns) {
            let share = own / whole_ns.max(f64::MIN_POSITIVE);
            if share > most {
                limit = Limit::Layer(*layer);
                most = share;
            }
        }
        CriticalPath { own_ns, whole_ns, waited, limit }
    }

    /// Returns the times without the self time of something. Each layer that contains it becomes
    /// faster by this amount, but not faster than its slowest part. Less work also means less
    /// waiting.
    fn times_without(&self, limit: Limit, times: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut left = times.to_vec();
        let place = match limit {
            Limit::Processor => {
                for (time, waiting) in &mut left {
                    *time -= *waiting;
                    *waiting = 0.0;
                }
                return left;
            }
            Limit::Layer(layer) => self.kinds.iter().position(|kind| *kind == layer),
        };
        let Some(place) = place else { return left };
        let own_ns = self.walk(times).own_ns[place];
        for at in 0..times.len() {
            // Parts come before the layers that contain them, so their new times are known here.
            if self.with_parts(at).contains(&place) {
                let (time, waiting) = times[at];
                let rest = (time - own_ns).max(0.0);
                let part = self.slowest_part(at, &left, time).map(|part| left[part]);
                left[at] = match part {
                    // Rounding must not hide that only the part is left.
                    Some(part) if part.0 >= rest * (1.0 - 1e-9) && part.0 <= time => part,
                    Some(part) if part.0 > time => (time, waiting),
                    _ => (rest, waiting * rest / time),
                };
            }
        }
        left
    }

    /// Returns the factor by which the data path is faster without something.
    fn gain_without(&self, limit: Limit, times: &[(f64, f64)]) -> f64 {
        total_ns(times) / total_ns(&self.times_without(limit, times)).max(f64::MIN_POSITIVE)
    }

    /// Returns the slowest part of a layer that takes `whole_ns`. If a part was not done there, its
    /// own parts take its place.
    fn slowest_part(&self, at: usize, times: &[(f64, f64)], whole_ns: f64) -> Option<usize> {
        let mut found = None;
        let mut open = self.parts[at].clone();
        while let Some(part) = open.pop() {
            // Such a part did different work in its own measurement, for example without a cache.
            if times[part].0 > whole_ns * CROSSED {
                open.extend(&self.parts[part]);
            } else if found.is_none_or(|known: usize| times[part].0 > times[known].0) {
                found = Some(part);
            }
        }
        found
    }

    /// Returns a layer and everything it contains.
    fn with_parts(&self, layer: usize) -> Vec<usize> {
        let mut found = vec![layer];
        let mut open = vec![layer];
        while let Some(at) = open.pop() {
            for part in &self.parts[at] {
                if !found.contains(part) {
                    found.push(*part);
                    open.push(*part);
                }
            }
        }
        found
    }

    /// Returns each layer of the data path with a part that was slower in every trial.
    fn find_crossed(&self, samples: &[Sample]) -> Vec<(Layer, Layer)> {
        let mut crossed = Vec::new();
        for at in self.with_parts(self.kinds.len() - 1) {
            for part in &self.parts[at] {
                let slowest_whole = samples[at].times_ns.last();
                let quickest_part = samples[*part].times_ns.first();
                if let (Some(most), Some(least)) = (slowest_whole, quickest_part)
                    && *least > most * CROSSED
                {
                    crossed.push((self.kinds[at], self.kinds[*part]));
                }
            }
        }
        crossed
    }

    /// Returns the share of each layer's self time, or `None` for a layer that is not part of the
    /// data path.
    fn own_shares(&self, walked: &CriticalPath) -> Vec<(Layer, Option<f64>)> {
        let of_path = self.with_parts(self.kinds.len() - 1);
        let whole_ns = walked.whole_ns.max(f64::MIN_POSITIVE);
        let mut shares = Vec::with_capacity(self.kinds.len());
        for (at, kind) in self.kinds.iter().enumerate() {
            let is_on_path = of_path.contains(&at);
            let share = if is_on_path { Some(walked.own_ns[at] / whole_ns) } else { None };
            shares.push((*kind, share));
        }
        shares
    }
}

/// Returns the time of the whole data path in nanoseconds, including waiting.
fn total_ns(times: &[(f64, f64)]) -> f64 {
    times.last().map_or(0.0, |(time, _)| *time)
}

#[cfg(test)]
mod tests;
