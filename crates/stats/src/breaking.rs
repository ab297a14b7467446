//! Where a server gives in: a load is raised until it slows down, breaks, or the limit is reached.
//!
//! [`Search`] names the next load to try and hears what came of it; it measures nothing itself. The
//! load is doubled as long as all goes well; what went wrong is narrowed down by halves between the
//! last load that was borne and the first that was not. What broke it must do so twice; what looks
//! worse than a lighter load is tried in turns with that, see `turns`. After each load that was
//! not borne, the lightest is tried until it is served as before, or time is up: whether a server
//! recovers is half the answer. The ways to give in are those of [`How`]. Where the client was at
//! its own limit, figures say nothing of the server, and are left out.

mod came;
mod replay;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use model::question::RampAsked;

use crate::summary::median;

pub use came::{Came, Figure, Trouble};
pub use replay::{Purpose, Searched, Tried, replay};
pub use turns::{TURNS_MAX, TURNS_MIN};

use turns::{Turns, Verdict, Way};

/// Below this share of the best rate under less load, throughput has fallen: no user would miss it.
pub const DEGRADED_SHARE: f64 = 0.8;

/// From this share of the best rate on, more load gained nothing to speak of.
pub const SATURATED_SHARE: f64 = 0.9;

/// Of an offered load, a server falls behind that does less than this.
pub const BEHIND_SHARE: f64 = crate::curve::CARRIED_SHARE_MIN;

/// So many trials of a load that looked too much for the server may say nothing of it, since the
/// client was at its own limit in each.
pub const LIMITED_MAX: usize = 3;

/// Response times below this, in nanoseconds, are those of the client as much as of the server:
/// they explode from here on.
pub const QUANTILE_NS_MIN: u64 = 1_000_000;

/// What a search is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The lightest load; at least 1.
    pub first: u32,
    /// The heaviest that may be tried.
    pub max: u32,
    /// How long a server is given to recover, in milliseconds.
    pub recovery_ms: u64,
    /// A 99th percentile that is so many times what it was has exploded.
    pub slow_factor: u32,
}

impl From<&RampAsked> for Asked {
    fn from(asked: &RampAsked) -> Self {
        let RampAsked { first, max, recovery_ms, slow_factor, .. } = *asked;
        Self { first, max, recovery_ms, slow_factor }
    }
}

/// How a server gave in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// Throughput fell, as turns have shown: see [`DEGRADED_SHARE`].
    Degraded {
        /// In which pass, by its place.
        pass: usize,
        /// The smaller load with the best rate.
        best_at: u32,
        /// How many trials of each were made in turns.
        turns: usize,
    },
    /// Less than [`BEHIND_SHARE`] of what was offered was done, twice in a row.
    Behind {
        /// In which pass.
        pass: usize,
        /// The share that was done.
        share: f64,
    },
    /// The 99th percentile of the response times exploded, as turns have shown. In a closed loop it
    /// may rise as much as the load without a word: waiting times do where what is there is shared.
    ///
    /// **Source:** Little's law.
    Slow {
        /// In which pass.
        pass: usize,
        /// What it was, in nanoseconds.
        from_ns: u64,
        /// What it is.
        to_ns: u64,
        /// How many trials of each were made in turns.
        turns: usize,
    },
    /// A trial failed, or ops did, twice in all.
    Broken,
}

/// What became of the server when the load went away; times count from the first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The lightest load is served as before.
    Back {
        /// So many milliseconds later it was not.
        from_ms: u64,
        /// So many milliseconds later it was.
        to_ms: u64,
    },
    /// It is served, but not as before.
    Impaired {
        /// For so many milliseconds, at least.
        for_ms: u64,
    },
    /// It is not served.
    Never {
        /// For so many milliseconds, at least.
        for_ms: u64,
    },
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The largest load that was borne below the one that was not.
    pub borne: Option<u32>,
    /// The smallest load under which the server gave in, and how.
    pub gave_in: Option<(u32, How)>,
    /// What became of it then; `None` where there was no lighter load, or nobody looked.
    pub recovery: Option<Recovery>,
    /// From which load on each pass gained nothing.
    pub saturated_from: Vec<Option<u32>>,
    /// The smallest load with figures that say nothing of the server.
    pub unsure_from: Option<u32>,
    /// Loads that broke it once, and were borne when tried again.
    pub once: Vec<u32>,
    /// Loads that count as borne, and of which nobody can tell whether they were served worse.
    pub unclear: Vec<u32>,
}

/// What is tried next.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// A load that was not tried.
    Try(u32),
    /// The same once more, since too little was done, or it broke.
    Again(u32),
    /// A load that looks worse and a lighter one, in turns.
    InTurns(Turns),
    /// The lightest load, after something went wrong.
    Recovery {
        /// When it was tried for the first time, in milliseconds since 1970.
        since_ms: Option<u64>,
        /// When it last was not as before, from then on.
        bad_ms: u64,
    },
    /// Nothing.
    Done,
}

/// A search for the load under which a server gives in.
#[derive(Clone, Debug)]
pub struct Search {
    asked: Asked,
    next: Next,
    borne: Option<u32>,
    gave_in: Option<(u32, How)>,
    recovery: Option<Recovery>,
    /// How often each load broke it.
    breaks: BTreeMap<u32, u32>,
    /// Figures of the trials that did not break it, by load, but for those of recovery.
    figures: BTreeMap<u32, Vec<Vec<Option<Figure>>>>,
    /// What turns have answered: load, pass, and in what it looked worse.
    settled: Vec<(u32, usize, Way)>,
    unclear: BTreeSet<u32>,
    /// Loads that once looked too much, and of which no other trial says anything.
    limited: BTreeSet<u32>,
}

/// Why a load may not be borne.
enum Suspicion {
    /// Too little of what was offered was done.
    Behind(How),
    /// It looks worse than a lighter load.
    Worse { pass: usize, way: Way, reference: u32 },
}

impl Search {
    /// From one load to another, both of which may be tried.
    pub fn new(asked: Asked) -> Self {
        let first = asked.first.max(1);
        Self {
            asked: Asked { first, max: asked.max.max(first), ..asked },
            next: Next::Try(first),
            borne: None,
            gave_in: None,
            recovery: None,
            breaks: BTreeMap::new(),
            figures: BTreeMap::new(),
            settled: Vec::new(),
            unclear: BTreeSet::new(),
            limited: BTreeSet::new(),
        }
    }

    /// The load to try next; `None` when all is known.
    pub const fn next(&self) -> Option<u32> {
        match &self.next {
            Next::Try(load) | Next::Again(load) => Some(*load),
            Next::InTurns(turns) => Some(turns.next()),
            Next::Recovery { .. } => Some(self.asked.first),
            Next::Done => None,
        }
    }

    /// What the next trial is for.
    pub const fn purpose(&self) -> Purpose {
        match &self.next {
            Next::Recovery { .. } => Purpose::Recovery,
            Next::InTurns(turns) => Purpose::Turn { load: turns.load, reference: turns.reference },
            _ => Purpose::Load,
        }
    }

    /// Says whether it has not recovered so far: the next trial may wait a little.
    pub const fn awaits_recovery(&self) -> bool {
        matches!(self.next, Next::Recovery { since_ms: Some(_), .. })
    }

    /// Hears what came of the load that was to be tried, and when it was begun, in milliseconds
    /// since 1970.
    pub fn hear(&mut self, came: Came, begun_unix_ms: u64) {
        match (self.next.clone(), came) {
            (Next::Done, _) => {}
            (Next::Recovery { since_ms, bad_ms }, came) => {
                let since_ms = since_ms.unwrap_or(begun_unix_ms);
                let at_ms = begun_unix_ms.saturating_sub(since_ms);
                self.check_recovery(&came, since_ms, bad_ms, at_ms);
            }
            (Next::Try(load) | Next::Again(load), Came::Broken(_)) => self.breaks_with(load),
            // A lighter load that breaks right after it, too, is its doing.
            (Next::InTurns(turns), Came::Broken(_)) => self.breaks_with(turns.load),
            (Next::Try(load) | Next::Again(load), Came::Figures(figures)) => {
                let is_open =
                    matches!(self.next, Next::Again(_)) && self.says_nothing(load, &figures);
                self.figures.entry(load).or_default().push(figures.clone());
                if !is_open {
                    self.look_at(load, &figures);
                }
            }
            (Next::InTurns(turns), Came::Figures(figures)) => self.hear_turn(turns, figures),
        }
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let trials = self.figures.values().flatten();
        let passes = trials.map(Vec::len).min().unwrap_or(0);
        let saturated_from = (0..passes).map(|pass| self.saturated_from(pass)).collect();
        let unsure = |load: &u32| (0..passes).any(|pass| self.figure(*load, pass).is_none());
        let without = self.figures.keys().copied().find(unsure);
        let limited = self.limited.first().copied();
        let unsure_from = without.into_iter().chain(limited).min();
        let borne_again = |load: &&u32| Some(**load) <= self.borne;
        Found {
            borne: self.borne,
            gave_in: self.gave_in,
            recovery: self.recovery.filter(|_| self.gave_in.is_some()),
            saturated_from,
            unsure_from,
            once: self.breaks.keys().filter(borne_again).copied().collect(),
            unclear: self.unclear.iter().filter(borne_again).copied().collect(),
        }
    }

    /// The figure of a pass under a load that was tried: medians, each of its own.
    pub fn figure(&self, load: u32, pass: usize) -> Option<Figure> {
        let trials = self.figures.get(&load)?.iter();
        let known: Vec<Figure> = trials.filter_map(|of| of.get(pass).copied().flatten()).collect();
        let of = |part: fn(&Figure) -> Option<f64>| {
            median(&known.iter().filter_map(part).collect::<Vec<f64>>())
        };
        Some(Figure {
            per_s: of(|figure| Some(figure.per_s))?,
            p99_ns: of(|figure| Some(figure.p99_ns as f64))? as u64,
            offered_share: of(|figure| figure.offered_share),
        })
    }

    /// Says whether a trial leaves open what another one of the same load was made for: whether the
    /// server falls behind. After [`LIMITED_MAX`] such trials nobody can tell.
    fn says_nothing(&mut self, load: u32, figures: &[Option<Figure>]) -> bool {
        let trials = self.figures.get(&load).map_or(&[][..], Vec::as_slice);
        let is_behind = |figure: &Figure| figure.offered_share.is_some_and(|it| it < BEHIND_SHARE);
        let is_limited = |trial: &[Option<Figure>]| trial.contains(&None);
        if !is_limited(figures) || !trials.iter().flatten().flatten().any(is_behind) {
            return false;
        }
        let limited = 1 + trials.iter().filter(|trial| is_limited(trial)).count();
        if limited >= LIMITED_MAX {
            self.limited.insert(load);
        }
        limited < LIMITED_MAX
    }

    fn breaks_with(&mut self, load: u32) {
        *self.breaks.entry(load).or_default() += 1;
        self.give_in(load, How::Broken);
    }

    /// Goes on from a load with these figures.
    fn look_at(&mut self, load: u32, figures: &[Option<Figure>]) {
        let is_again = matches!(self.next, Next::Again(_));
        match self.suspicion(load, figures) {
            None => {
                self.borne = Some(load);
                // What broke it was borne when tried again.
                self.gave_in = self.gave_in.filter(|(broken, _)| *broken > load);
                self.go_on();
            }
            Some(Suspicion::Behind(how)) if is_again => self.give_in(load, how),
            Some(Suspicion::Behind(_)) => self.next = Next::Again(load),
            Some(Suspicion::Worse { pass, way, reference }) => {
                self.next = Next::InTurns(Turns::new(load, reference, pass, way));
            }
        }
    }

    /// Hears what came of one of two loads that are tried in turns.
    fn hear_turn(&mut self, mut turns: Turns, figures: Vec<Option<Figure>>) {
        let (load, pass) = (turns.load, turns.pass);
        let is_light = turns.is_light();
        let figure = figures.get(pass).copied().flatten();
        turns.hear(figure.map(|figure| match (turns.way, is_light) {
            (Way::Rate, true) => figure.per_s * DEGRADED_SHARE,
            (Way::Rate, false) => figure.per_s,
            (Way::Time, true) => {
                let more = more_load(load, turns.reference, &figure);
                -(self.exploded_ns(figure.p99_ns, more) as f64)
            }
            (Way::Time, false) => -(figure.p99_ns as f64),
        }));
        self.figures
            .entry(if is_light { turns.reference } else { load })
            .or_default()
            .push(figures);
        match turns.verdict() {
            Verdict::Open => self.next = Next::InTurns(turns),
            Verdict::Worse => self.give_in(load, self.worse(&turns)),
            answer @ (Verdict::Held | Verdict::Unclear) => {
                if answer == Verdict::Unclear {
                    self.unclear.insert(load);
                }
                self.settled.push((load, pass, turns.way));
                let passes = self.figures.values().flatten().map(Vec::len).min().unwrap_or(0);
                let figures: Vec<_> = (0..passes).map(|pass| self.figure(load, pass)).collect();
                self.look_at(load, &figures);
            }
        }
    }

    /// How the heavier of two loads is worse.
    fn worse(&self, turns: &Turns) -> How {
        let &Turns { load, reference, pass, way, .. } = turns;
        let p99_ns = |load| self.figure(load, pass).map_or(0, |figure| figure.p99_ns);
        let turns = turns.made();
        match way {
            Way::Rate => How::Degraded { pass, best_at: reference, turns },
            Way::Time => How::Slow { pass, from_ns: p99_ns(reference), to_ns: p99_ns(load), turns },
        }
    }

    fn give_in(&mut self, load: u32, how: How) {
        self.gave_in = Some((load, how));
        self.recovery = None;
        let lighter = self.borne.is_some();
        self.next = if lighter { Next::Recovery { since_ms: None, bad_ms: 0 } } else { Next::Done };
    }

    /// Judges what came of the lightest load after something went wrong.
    ///
    /// It was first tried at `since_ms`, was last seen bad `bad_ms` after that, and this is
    /// `at_ms` after it.
    fn check_recovery(&mut self, came: &Came, since_ms: u64, bad_ms: u64, at_ms: u64) {
        let is_late = at_ms >= self.asked.recovery_ms;
        let is_broken = matches!(came, Came::Broken(_));
        if !is_broken && self.is_as_before(came) {
            self.recovery = Some(Recovery::Back { from_ms: bad_ms, to_ms: at_ms });
            return self.go_on();
        }
        if !is_late {
            self.next = Next::Recovery { since_ms: Some(since_ms), bad_ms: at_ms };
            return;
        }
        if is_broken {
            self.recovery = Some(Recovery::Never { for_ms: at_ms });
            self.next = Next::Done;
        } else {
            self.recovery = Some(Recovery::Impaired { for_ms: at_ms });
            self.go_on();
        }
    }

    /// Says whether the lightest load is served as it was at first.
    fn is_as_before(&self, came: &Came) -> bool {
        let Came::Figures(figures) = came else { return false };
        figures.iter().enumerate().all(|(pass, now)| {
            let (Some(now), Some(then)) = (now, self.figure(self.asked.first, pass)) else {
                return true;
            };
            now.per_s >= then.per_s * DEGRADED_SHARE
                && now.p99_ns <= self.exploded_ns(then.p99_ns, 1)
        })
    }

    fn go_on(&mut self) {
        let borne = self.borne.unwrap_or(0);
        let Asked { first, max, .. } = self.asked;
        self.next = match self.gave_in {
            None if borne >= max => Next::Done,
            None => Next::Try(borne.saturating_mul(2).clamp(first, max)),
            Some(_) if borne == 0 => Next::Done,
            Some((load, How::Broken))
                if load - borne <= 1 && self.breaks.get(&load) == Some(&1) =>
            {
                Next::Again(load)
            }
            Some((load, _)) if load - borne <= 1 => Next::Done,
            Some((load, _)) => Next::Try(borne + (load - borne) / 2),
        };
    }

    /// Why a load with these figures may not be borne; nothing that turns have answered.
    fn suspicion(&self, load: u32, figures: &[Option<Figure>]) -> Option<Suspicion> {
        figures.iter().enumerate().find_map(|(pass, figure)| {
            let figure = figure.as_ref()?;
            let smaller = self.figures.range(..load).filter(|(at, _)| Some(**at) <= self.borne);
            let smaller = smaller.filter_map(|(at, _)| Some((*at, self.figure(*at, pass)?)));
            let known: Vec<(u32, Figure)> = smaller.collect();
            let worse = |way, reference| {
                let is_open = !self.settled.contains(&(load, pass, way));
                is_open.then_some(Suspicion::Worse { pass, way, reference })
            };
            let best = known.iter().max_by(|one, other| one.1.per_s.total_cmp(&other.1.per_s));
            if let Some((best_at, best)) = best
                && figure.per_s < best.per_s * DEGRADED_SHARE
                && let Some(suspicion) = worse(Way::Rate, *best_at)
            {
                return Some(suspicion);
            }
            if let Some(share) = figure.offered_share.filter(|share| *share < BEHIND_SHARE) {
                return Some(Suspicion::Behind(How::Behind { pass, share }));
            }
            // The slower of the two lightest, since chance makes one of them quick.
            let (at, from) = known.iter().take(2).max_by_key(|(_, known)| known.p99_ns)?;
            let more = more_load(load, *at, figure);
            let slow = figure.p99_ns > self.exploded_ns(from.p99_ns, more);
            slow.then(|| worse(Way::Time, *at)).flatten()
        })
    }

    /// Beyond this a 99th percentile is far above one that was found under a load so many times
    /// lighter.
    fn exploded_ns(&self, from_ns: u64, more: u32) -> u64 {
        let factor = u64::from(self.asked.slow_factor.max(1)) * u64::from(more);
        from_ns.max(QUANTILE_NS_MIN).saturating_mul(factor)
    }

    fn saturated_from(&self, pass: usize) -> Option<u32> {
        let borne = self.borne?;
        let tried = self.figures.range(..=borne);
        let rates =
            || tried.clone().filter_map(|(at, _)| Some((*at, self.figure(*at, pass)?.per_s)));
        let best = rates().map(|(_, rate)| rate).max_by(f64::total_cmp)?;
        let (from, _) = rates().find(|(_, rate)| *rate >= best * SATURATED_SHARE)?;
        rates().any(|(at, _)| at >= from.saturating_mul(2)).then_some(from)
    }
}

/// How many times as long answers may take for the load alone: in a closed loop they wait for each
/// other.
const fn more_load(load: u32, lighter: u32, figure: &Figure) -> u32 {
    if figure.offered_share.is_some() { 1 } else { load.div_ceil(lighter) }
}

#[cfg(test)]
mod noise;
#[cfg(test)]
mod tests;
