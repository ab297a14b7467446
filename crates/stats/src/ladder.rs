//! Which rung of a ladder limits, and how much the way would gain without it.
//!
//! [`climb`] walks the *critical path*: from the whole way down, always to the slowest part. What a
//! rung takes beyond its slowest part is its own, and the largest own time limits; what is not on
//! the path is hidden behind it. Waiting for a processor is taken out first: it follows the work,
//! and limits where its share is larger than that of any rung. Trials of each rung are drawn anew
//! to tell how sure that is. `docs/ladder.md` derives it.
//!
//! **Source:** Kelley and Walker, "Critical-Path Planning and Scheduling" (1959), for the path;
//! Efron and Tibshirani (1993), chapter 13, for the resampling; the bound is that of the range of
//! `n` figures as an interval of the median, `1 - 2/2^n`.

use model::question::ladder::Rung;
use model::random::SplitMix64;

use crate::criteria::{BOOTSTRAP_SEED, CONFIDENCE};
use crate::summary::{draw_median, median, sorted};

/// Draws of trials.
const DRAWS: usize = 1_000;

/// A part that takes so many times as long as the whole was not done there: no part can take
/// longer, and chance alone makes less of a difference between medians.
const CROSSED: f64 = 1.25;

/// More than this share of a time is most of it.
const MOST: f64 = 0.5;

/// One rung, measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Which.
    pub rung: Rung,
    /// Time per unit of work in each trial, in nanoseconds; above 0.
    pub times_ns: Vec<f64>,
    /// Share of its time in each of these trials in which the workers were ready and waited for a
    /// processor, 0 to 1.
    pub waits: Vec<f64>,
    /// The part of that in which the kernel says that a quota held them back; it misses some.
    pub held: Vec<f64>,
}

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// What this rung adds to those that it contains.
    Rung(Rung),
    /// The client's processors: it is ready and waits for one.
    Processor,
}

/// What a ladder says.
#[derive(Clone, Debug, PartialEq)]
pub struct Climbed {
    /// What each rung takes of the working time of the whole way, in the order of the ladder, as
    /// shares that add up to 1; `None` for a rung that is no part of the way.
    pub shares: Vec<(Rung, Option<f64>)>,
    /// Share of all its time in which it was ready and waited for a processor, 0 to 1.
    pub waited: f64,
    /// A quota holds the client back for most of its time.
    pub is_held: bool,
    /// What would win most if it were not there.
    pub limit: Limit,
    /// Which answers the draws gave, the most frequent first, as shares of the draws.
    pub votes: Vec<(Limit, f64)>,
    /// How sure the answer is, 0 to 1; 0 for a single trial.
    pub confidence: f64,
    /// By which factor the way would be faster without its limit.
    pub gain: f64,
    /// The 95 % interval of that factor.
    pub gain_interval: (f64, f64),
    /// What would limit then; `None` where it would still be the same.
    pub next: Option<Limit>,
    /// Rungs that were faster than a part of theirs in every trial, with that part: what the one
    /// did was not what the other did, such as where a cache served it.
    pub crossed: Vec<(Rung, Rung)>,
}

impl Climbed {
    /// Says whether the answer is more than a guess: nearly all draws give it.
    pub fn is_sure(&self) -> bool {
        self.confidence > 0.0 && self.votes.first().is_some_and(|(_, share)| *share >= CONFIDENCE)
    }
}

/// Climbs a ladder whose last rung is the whole way; `None` for fewer than two rungs, or where one
/// has no trial.
pub fn climb(rungs: &[Measured]) -> Option<Climbed> {
    let samples: Vec<Sample> = rungs.iter().map(Sample::of).collect::<Option<_>>()?;
    if samples.len() < 2 {
        return None;
    }
    let kinds: Vec<Rung> = rungs.iter().map(|rung| rung.rung).collect();
    // Single pauses are not always counted, but no quota is so small and seen on no rung.
    let is_held = rungs.iter().flat_map(|rung| &rung.held).any(|share| *share > MOST);
    let ladder = Built { parts: contained(&kinds), kinds, is_held };
    let times: Vec<_> = samples.iter().map(Sample::usual).collect();
    let usual = ladder.walk(&times);
    let fewest = rungs.iter().map(|rung| rung.times_ns.len()).min()?;
    let mut random = SplitMix64::new(BOOTSTRAP_SEED);
    let mut counts = vec![0_u32; rungs.iter().map(|rung| rung.times_ns.len()).max()?];
    let mut votes: Vec<(Limit, usize)> = Vec::new();
    let mut gains = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut draw = |sample: &Sample| sample.draw(&mut random, &mut counts);
        let drawn: Vec<_> = samples.iter().map(&mut draw).collect();
        let walked = ladder.walk(&drawn);
        // What the answer would gain, whatever this draw says limits.
        gains.push(ladder.gain(usual.limit, &drawn));
        match votes.iter_mut().find(|(limit, _)| *limit == walked.limit) {
            Some((_, count)) => *count += 1,
            None => votes.push((walked.limit, 1)),
        }
    }
    votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let votes: Vec<_> =
        votes.into_iter().map(|(limit, count)| (limit, count as f64 / DRAWS as f64)).collect();
    let agreed = votes.iter().find(|(limit, _)| *limit == usual.limit).map_or(0.0, |vote| vote.1);
    gains.sort_unstable_by(f64::total_cmp);
    let cut = ((1.0 - CONFIDENCE) / 2.0 * DRAWS as f64) as usize;
    Some(Climbed {
        shares: ladder.shares(&usual),
        waited: usual.waited,
        is_held: ladder.is_held && usual.waited > MOST,
        limit: usual.limit,
        votes,
        confidence: agreed.min(surest(fewest)),
        gain: ladder.gain(usual.limit, &times),
        gain_interval: (gains[cut], gains[DRAWS - 1 - cut]),
        next: Some(ladder.walk(&ladder.without(usual.limit, &times)).limit)
            .filter(|next| *next != usual.limit),
        crossed: ladder.crossed(&samples),
    })
}

/// How sure a median of `n` figures can be told from others at all: `1 - 2/2^n`.
fn surest(n: usize) -> f64 {
    1.0 - 2.0 * 0.5_f64.powf(n as f64)
}

/// The parts of each rung by their places: where a rung is missing, its parts stand in.
fn contained(kinds: &[Rung]) -> Vec<Vec<usize>> {
    let Some((&top, below)) = kinds.split_last() else { return Vec::new() };
    let place = |rung: Rung| kinds.iter().position(|kind| *kind == rung);
    let whole = below.iter().position(|kind| *kind == Rung::Whole);
    let parts = |(at, &kind): (usize, &Rung)| {
        // What has the server's transfer size stands between the way and its parts.
        if let Some(whole) = whole.filter(|_| at + 1 == kinds.len()) {
            return vec![whole];
        }
        let mut found = Vec::new();
        let mut open: Vec<Rung> = if kind == Rung::Whole { top } else { kind }.parts().to_vec();
        while let Some(part) = open.pop() {
            match place(part) {
                Some(place) if !found.contains(&place) => found.push(place),
                Some(_) => {}
                None => open.extend(part.parts()),
            }
        }
        found
    };
    kinds.iter().enumerate().map(parts).collect()
}

/// The trials of a rung, sorted: times without waiting, and what was waited.
struct Sample {
    working_ns: Vec<f64>,
    waiting_ns: Vec<f64>,
}

impl Sample {
    fn of(measured: &Measured) -> Option<Self> {
        let Measured { times_ns, waits, .. } = measured;
        if times_ns.len() != waits.len() || times_ns.iter().any(|time| *time <= 0.0) {
            return None;
        }
        let pairs = || times_ns.iter().zip(waits).map(|(t, w)| (*t, w.clamp(0.0, 1.0)));
        let working: Vec<f64> = pairs().map(|(time, wait)| time * (1.0 - wait)).collect();
        let waiting: Vec<f64> = pairs().map(|(time, wait)| time * wait).collect();
        Some(Self { working_ns: sorted(&working)?, waiting_ns: sorted(&waiting)? })
    }

    fn usual(&self) -> (f64, f64) {
        let middle = |figures: &[f64]| median(figures).unwrap_or(0.0);
        (middle(&self.working_ns), middle(&self.waiting_ns))
    }

    fn draw(&self, random: &mut SplitMix64, counts: &mut [u32]) -> (f64, f64) {
        let working = draw_median(&self.working_ns, random, counts);
        (working, draw_median(&self.waiting_ns, random, counts))
    }
}

/// A ladder's rungs and what each contains.
struct Built {
    kinds: Vec<Rung>,
    parts: Vec<Vec<usize>>,
    /// Some rung was held back by a quota for most of its time.
    is_held: bool,
}

/// A walk down the critical path.
struct Walked {
    /// What each rung takes of its own, in nanoseconds; 0 where it is not on the path.
    own_ns: Vec<f64>,
    /// The working time of the whole way.
    working_ns: f64,
    /// Share of all its time that was waited for a processor.
    waited: f64,
    limit: Limit,
}

impl Built {
    /// Walks down with a time without waiting, and one of waiting, for each rung.
    fn walk(&self, times: &[(f64, f64)]) -> Walked {
        let mut at = times.len() - 1;
        let (working_ns, waited_ns) = times[at];
        let mut own_ns = vec![0.0; times.len()];
        let mut left = working_ns;
        while let Some(part) = self.slowest(at, times, left) {
            // No part takes longer than the whole but by chance.
            let takes = times[part].0.min(left);
            own_ns[at] = left - takes;
            (at, left) = (part, takes);
        }
        own_ns[at] = left;
        let waited = waited_ns / (working_ns + waited_ns).max(f64::MIN_POSITIVE);
        let (mut limit, mut most) = (Limit::Processor, waited);
        // No rung can take as much of the time then. Other waiting follows from the work, and is
        // weighed against the rungs; a quota is a setting of the client's.
        if self.is_held && waited > MOST {
            most = 1.0;
        }
        for (rung, own) in self.kinds.iter().zip(&own_ns) {
            let share = own / working_ns.max(f64::MIN_POSITIVE);
            if share > most {
                (limit, most) = (Limit::Rung(*rung), share);
            }
        }
        Walked { own_ns, working_ns, waited, limit }
    }

    /// The times without what something takes of its own: each rung that contains it takes so much
    /// less, but no less than its slowest part; who works less waits less.
    fn without(&self, limit: Limit, times: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut left = times.to_vec();
        let place = match limit {
            Limit::Processor => {
                left = left.into_iter().map(|(time, _)| (time, 0.0)).collect();
                return left;
            }
            Limit::Rung(rung) => self.kinds.iter().position(|kind| *kind == rung),
        };
        let Some(place) = place else { return left };
        let own_ns = self.walk(times).own_ns[place];
        for at in 0..times.len() {
            if self.closure(at).contains(&place) {
                let (working, waiting) = times[at];
                let rest = (working - own_ns).max(0.0);
                let part = self.slowest(at, &left, working).map(|part| left[part]);
                left[at] = match part {
                    // Rounding must not hide that nothing but the part is left.
                    Some(part) if part.0 >= rest * (1.0 - 1e-9) && part.0 <= working => part,
                    Some(part) if part.0 > working => (working, waiting),
                    _ => (rest, waiting * rest / working),
                };
            }
        }
        left
    }

    /// By which factor the way is faster without something.
    fn gain(&self, limit: Limit, times: &[(f64, f64)]) -> f64 {
        let all = |times: &[(f64, f64)]| times.last().map_or(0.0, |(work, wait)| work + wait);
        all(times) / all(&self.without(limit, times)).max(f64::MIN_POSITIVE)
    }

    /// The slowest part of a rung that takes `whole_ns`; of a part that was not done there, its own
    /// parts stand in.
    fn slowest(&self, at: usize, times: &[(f64, f64)], whole_ns: f64) -> Option<usize> {
        let (mut found, mut open) = (None, self.parts[at].clone());
        while let Some(part) = open.pop() {
            if times[part].0 > whole_ns * CROSSED {
                open.extend(&self.parts[part]);
            } else if found.is_none_or(|known: usize| times[part].0 > times[known].0) {
                found = Some(part);
            }
        }
        found
    }

    /// A rung and all that it contains.
    fn closure(&self, rung: usize) -> Vec<usize> {
        let (mut found, mut open) = (vec![rung], vec![rung]);
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

    /// Each rung on the way with a part that was slower in every trial.
    fn crossed(&self, samples: &[Sample]) -> Vec<(Rung, Rung)> {
        let of_way = self.closure(self.kinds.len() - 1);
        let slower = |(whole, part): &(usize, usize)| {
            let (whole, part) = (&samples[*whole].working_ns, &samples[*part].working_ns);
            whole.last().zip(part.first()).is_some_and(|(most, least)| *least > most * CROSSED)
        };
        let pairs = of_way.iter().flat_map(|at| self.parts[*at].iter().map(|part| (*at, *part)));
        pairs.filter(slower).map(|(at, part)| (self.kinds[at], self.kinds[part])).collect()
    }

    fn shares(&self, walked: &Walked) -> Vec<(Rung, Option<f64>)> {
        let of_way = self.closure(self.kinds.len() - 1);
        let working_ns = walked.working_ns.max(f64::MIN_POSITIVE);
        let share = |(at, kind): (usize, &Rung)| {
            (*kind, of_way.contains(&at).then(|| walked.own_ns[at] / working_ns))
        };
        self.kinds.iter().enumerate().map(share).collect()
    }
}

#[cfg(test)]
mod tests;
