//! The search for the load under which a server gives in: slows down, falls behind, or breaks.
//!
//! [`Search`] names the next load to try and gets its outcome; it measures nothing itself.
//! The load is doubled as long as all goes well; what went wrong is narrowed down by bisection
//! between the last load that was borne and the first that was not. A load must break the server
//! twice; one that looks worse than a lighter load is tried in turns with that, see `turns`. After
//! each load that was not borne, the lightest is tried until it is served as before, or time is
//! up: whether a server recovers is half the answer. The ways to give in are those of [`How`].
//! Figures of a client at its own limit say nothing of the server, and are left out.

mod found;
mod replay;
mod trial_outcome;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use model::question::RampRequest;

use crate::summary::median;

pub use found::{Found, How, Recovery};
pub use replay::{Purpose, Searched, Tried, replay};
pub use trial_outcome::{Figure, TrialOutcome, Trouble};
pub use turns::{TURNS_MAX, TURNS_MIN};

use turns::{Turns, Verdict, Way};

/// Below this share of the best rate under less load, throughput has dropped: no user would miss
/// it.
pub const DEGRADED_SHARE: f64 = 0.8;

/// From this share of the best rate on, more load gained nothing to speak of.
pub const SATURATED_SHARE: f64 = 0.9;

/// A server falls behind that does less than this share of an offered load.
pub const BEHIND_SHARE: f64 = crate::curve::SUSTAINED_SHARE_MIN;

/// Trials of one load that looked too heavy and yet say nothing of the server, since the client
/// was at its own limit in each: after so many the load is given up as undecided.
pub const LIMITED_MAX: usize = 3;

/// Response times below this, in nanoseconds, are those of the client as much as of the server:
/// they explode from here on.
pub const QUANTILE_NS_MIN: u64 = 1_000_000;

/// The settings of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The lightest load; at least 1.
    pub first: u32,
    /// The heaviest that may be tried.
    pub max: u32,
    /// How long a server is given to recover, in milliseconds.
    pub recovery_ms: u64,
    /// A 99th percentile that is so many times what it was has exploded.
    pub slow_factor: u32,
    /// The load that is not borne is known when it is at most so much heavier than one that is, in
    /// thousandths of it; 0 is to the very next load.
    pub accuracy_permille: u32,
}

/// How exactly the highest rate is searched for: trials of equal rates scatter by more.
pub const RATE_ACCURACY_PERMILLE: u32 = 20;

impl From<&RampRequest> for SearchLimits {
    fn from(limits: &RampRequest) -> Self {
        let RampRequest { first, max, recovery_ms, slow_factor, accuracy_permille, .. } = *limits;
        Self { first, max, recovery_ms, slow_factor, accuracy_permille }
    }
}

/// The trial that comes next.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// A load that was not tried.
    Try(u32),
    /// The same load again, since too little was done, or it broke.
    Again(u32),
    /// A load that looks worse and a lighter one, in turns.
    InTurns(Turns),
    /// The lightest load, after something went wrong.
    Recovery {
        /// The start of the first such trial, in milliseconds since 1970.
        since_ms: Option<u64>,
        /// The last time that it was not as before, in milliseconds after that.
        bad_ms: u64,
    },
    /// No further trial: all is known.
    Done,
}

/// A search for the load under which a server gives in.
#[derive(Clone, Debug)]
pub struct Search {
    limits: SearchLimits,
    next: Next,
    borne: Option<u32>,
    gave_in: Option<(u32, How)>,
    recovery: Option<Recovery>,
    /// How often each load broke it.
    breaks: BTreeMap<u32, u32>,
    /// Figures of the trials that did not break it, by load, but for those of recovery.
    figures: BTreeMap<u32, Vec<Vec<Option<Figure>>>>,
    /// Comparisons that turns have decided: load, pass, and in what it looked worse.
    settled: Vec<(u32, usize, Way)>,
    unclear: BTreeSet<u32>,
    /// Loads that once looked too heavy, and for which every other trial was limited by the client.
    limited: BTreeSet<u32>,
}

/// The reason why a load may not be borne.
enum Deviation {
    /// Too little of what was offered was done.
    Behind(How),
    /// It looks worse than a lighter load.
    Worse { pass: usize, way: Way, reference: u32 },
}

impl Search {
    /// Starts a search from one load to another, both of which may be tried.
    pub fn new(limits: SearchLimits) -> Self {
        let first = limits.first.max(1);
        Self {
            limits: SearchLimits { first, max: limits.max.max(first), ..limits },
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

    /// Returns the load to try next; `None` when all is known.
    pub const fn next(&self) -> Option<u32> {
        match &self.next {
            Next::Try(load) | Next::Again(load) => Some(*load),
            Next::InTurns(turns) => Some(turns.next()),
            Next::Recovery { .. } => Some(self.limits.first),
            Next::Done => None,
        }
    }

    /// Tells what the next trial is for.
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

    /// Handles the outcome of the load that was to be tried, and when that trial was begun, in
    /// milliseconds since 1970.
    pub fn handle_outcome(&mut self, outcome: TrialOutcome, begun_unix_ms: u64) {
        match (self.next.clone(), outcome) {
            (Next::Done, _) => {}
            (Next::Recovery { since_ms, bad_ms }, outcome) => {
                let since_ms = since_ms.unwrap_or(begun_unix_ms);
                let at_ms = begun_unix_ms.saturating_sub(since_ms);
                self.check_recovery(&outcome, since_ms, bad_ms, at_ms);
            }
            (Next::Try(load) | Next::Again(load), TrialOutcome::Broken(_)) => self.note_break(load),
            // A lighter load that breaks right after it, too, is its doing.
            (Next::InTurns(turns), TrialOutcome::Broken(_)) => self.note_break(turns.load),
            (Next::Try(load) | Next::Again(load), TrialOutcome::Figures(figures)) => {
                // A repeated trial that a busy client spoilt decides nothing: the load is tried
                // again.
                let is_open =
                    matches!(self.next, Next::Again(_)) && self.is_undecided(load, &figures);
                self.figures.entry(load).or_default().push(figures.clone());
                if !is_open {
                    self.judge_load(load, &figures);
                }
            }
            (Next::InTurns(turns), TrialOutcome::Figures(figures)) => {
                self.handle_turn(turns, figures);
            }
        }
    }

    /// Returns what is known so far.
    pub fn found(&self) -> Found {
        let passes = self.count_passes();
        let mut saturated_from = Vec::with_capacity(passes);
        for pass in 0..passes {
            saturated_from.push(self.saturated_from(pass));
        }
        let mut unsure_from = self.limited.first().copied();
        for load in self.figures.keys() {
            if self.lacks_figure(*load) && unsure_from.is_none_or(|known| *load < known) {
                unsure_from = Some(*load);
            }
        }
        Found {
            borne: self.borne,
            gave_in: self.gave_in,
            recovery: if self.gave_in.is_some() { self.recovery } else { None },
            saturated_from,
            unsure_from,
            once: self.borne_of(self.breaks.keys()),
            unclear: self.borne_of(self.unclear.iter()),
        }
    }

    /// Counts the passes that every trial with figures has.
    fn count_passes(&self) -> usize {
        let mut fewest = None;
        for trial in self.figures.values().flatten() {
            fewest = Some(trial.len().min(fewest.unwrap_or(usize::MAX)));
        }
        fewest.unwrap_or(0)
    }

    /// Says whether some pass has no figure under a load that was tried.
    fn lacks_figure(&self, load: u32) -> bool {
        for pass in 0..self.count_passes() {
            if self.figure(load, pass).is_none() {
                return true;
            }
        }
        false
    }

    /// Keeps those of some loads that were borne in the end.
    fn borne_of<'a>(&self, loads: impl Iterator<Item = &'a u32>) -> Vec<u32> {
        let mut borne = Vec::new();
        for load in loads {
            if Some(*load) <= self.borne {
                borne.push(*load);
            }
        }
        borne
    }

    /// Returns the figure of a pass under a load that was tried: medians, each of its own.
    pub fn figure(&self, load: u32, pass: usize) -> Option<Figure> {
        let (mut rates, mut p99s_ns, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for trial in self.figures.get(&load)? {
            let Some(Some(figure)) = trial.get(pass) else { continue };
            rates.push(figure.per_s);
            p99s_ns.push(figure.p99_ns as f64);
            shares.extend(figure.offered_share);
        }
        Some(Figure {
            per_s: median(&rates)?,
            p99_ns: median(&p99s_ns)? as u64,
            offered_share: median(&shares),
        })
    }

    /// Says whether a trial leaves open what the load was tried again for, whether the server falls
    /// behind: its client was at its own limit. After [`LIMITED_MAX`] such trials it remains
    /// unknown.
    fn is_undecided(&mut self, load: u32, figures: &[Option<Figure>]) -> bool {
        let Some(trials) = self.figures.get(&load) else { return false };
        let (mut limited, mut was_behind) = (1, false);
        for trial in trials {
            limited += usize::from(trial.contains(&None));
            was_behind |= trial.iter().flatten().any(Figure::is_behind);
        }
        if !figures.contains(&None) || !was_behind {
            return false;
        }
        if limited >= LIMITED_MAX {
            self.limited.insert(load);
        }
        limited < LIMITED_MAX
    }

    /// Counts a break, and narrows the search down below this load.
    fn note_break(&mut self, load: u32) {
        *self.breaks.entry(load).or_default() += 1;
        self.give_in(load, How::Broken);
    }

    /// Judges a load by its figures and chooses what is tried next.
    fn judge_load(&mut self, load: u32, figures: &[Option<Figure>]) {
        let is_again = matches!(self.next, Next::Again(_));
        match self.find_deviation(load, figures) {
            None => {
                self.borne = Some(load);
                // A load that broke it once was borne when tried again, so it was not the load.
                if let Some((broken, _)) = self.gave_in
                    && broken <= load
                {
                    self.gave_in = None;
                }
                self.choose_next();
            }
            Some(Deviation::Behind(how)) if is_again => self.give_in(load, how),
            // Arrivals are random: once behind may be chance, twice in a row is not.
            Some(Deviation::Behind(_)) => self.next = Next::Again(load),
            Some(Deviation::Worse { pass, way, reference }) => {
                self.next = Next::InTurns(Turns::new(load, reference, pass, way));
            }
        }
    }

    /// Takes in the figures of one of two loads that are tried in turns.
    fn handle_turn(&mut self, mut turns: Turns, figures: Vec<Option<Figure>>) {
        let (load, pass) = (turns.load, turns.pass);
        let is_light = turns.is_light();
        // The lighter load's figure is lowered to what it allows, so that the turns compare like
        // with like; times are negative, since more is better there.
        let figure = figures.get(pass).copied().flatten();
        let compared = figure.map(|figure| match (turns.way, is_light) {
            (Way::Rate, true) => figure.per_s * DEGRADED_SHARE,
            (Way::Rate, false) => figure.per_s,
            (Way::Time, true) => {
                let more = more_load(load, turns.reference, &figure);
                -(self.exploded_ns(figure.p99_ns, more) as f64)
            }
            (Way::Time, false) => -(figure.p99_ns as f64),
        });
        turns.record(compared);
        self.figures
            .entry(if is_light { turns.reference } else { load })
            .or_default()
            .push(figures);
        match turns.verdict() {
            Verdict::Open => self.next = Next::InTurns(turns),
            Verdict::Worse => self.give_in(load, self.describe_worse(&turns)),
            answer @ (Verdict::Held | Verdict::Unclear) => {
                if answer == Verdict::Unclear {
                    self.unclear.insert(load);
                }
                self.settled.push((load, pass, turns.way));
                let mut figures = Vec::new();
                for pass in 0..self.count_passes() {
                    figures.push(self.figure(load, pass));
                }
                self.judge_load(load, &figures);
            }
        }
    }

    /// Describes in what the heavier of two loads is worse.
    fn describe_worse(&self, turns: &Turns) -> How {
        let &Turns { load, reference, pass, way, .. } = turns;
        let p99_ns = |load| self.figure(load, pass).map_or(0, |figure| figure.p99_ns);
        let turns = turns.made();
        match way {
            Way::Rate => How::Degraded { pass, best_at: reference, turns },
            Way::Time => How::Slow { pass, from_ns: p99_ns(reference), to_ns: p99_ns(load), turns },
        }
    }

    /// Notes that a load was not borne; the lightest load then shows whether the server recovers.
    fn give_in(&mut self, load: u32, how: How) {
        self.gave_in = Some((load, how));
        self.recovery = None;
        // Nothing lighter was borne: there is no load to see the server recover with.
        let lighter = self.borne.is_some();
        self.next = if lighter { Next::Recovery { since_ms: None, bad_ms: 0 } } else { Next::Done };
    }

    /// Judges the outcome of the lightest load after something went wrong.
    ///
    /// It was first tried at `since_ms`, was last seen bad `bad_ms` after that, and this is
    /// `at_ms` after it.
    fn check_recovery(&mut self, outcome: &TrialOutcome, since_ms: u64, bad_ms: u64, at_ms: u64) {
        let is_late = at_ms >= self.limits.recovery_ms;
        let is_broken = matches!(outcome, TrialOutcome::Broken(_));
        if !is_broken && self.is_as_before(outcome) {
            self.recovery = Some(Recovery::Back { from_ms: bad_ms, to_ms: at_ms });
            return self.choose_next();
        }
        // Before the time is up it may still recover: the lightest load is tried again.
        if !is_late {
            self.next = Next::Recovery { since_ms: Some(since_ms), bad_ms: at_ms };
            return;
        }
        if is_broken {
            self.recovery = Some(Recovery::Never { for_ms: at_ms });
            self.next = Next::Done;
        } else {
            self.recovery = Some(Recovery::Impaired { for_ms: at_ms });
            self.choose_next();
        }
    }

    /// Says whether the lightest load is served as it was at first.
    fn is_as_before(&self, outcome: &TrialOutcome) -> bool {
        let TrialOutcome::Figures(figures) = outcome else { return false };
        for (pass, now) in figures.iter().enumerate() {
            // Without a figure on either side there is nothing to hold against the server.
            let (Some(now), Some(then)) = (now, self.figure(self.limits.first, pass)) else {
                continue;
            };
            if now.per_s < then.per_s * DEGRADED_SHARE
                || now.p99_ns > self.exploded_ns(then.p99_ns, 1)
            {
                return false;
            }
        }
        true
    }

    /// Chooses the next load: doubled until one is not borne, then halfway between the two.
    fn choose_next(&mut self) {
        let borne = self.borne.unwrap_or(0);
        let SearchLimits { first, max, .. } = self.limits;
        self.next = match self.gave_in {
            None if borne >= max => Next::Done,
            None => Next::Try(borne.saturating_mul(2).clamp(first, max)),
            Some(_) if borne == 0 => Next::Done,
            // One break may be an accident: the smallest load that broke it is tried again.
            Some((load, How::Broken))
                if self.is_close(borne, load) && self.breaks.get(&load) == Some(&1) =>
            {
                Next::Again(load)
            }
            Some((load, _)) if self.is_close(borne, load) => Next::Done,
            Some((load, _)) => Next::Try(borne + (load - borne) / 2),
        };
    }

    /// Says whether a load that is not borne is as near to one that is as requested.
    fn is_close(&self, borne: u32, load: u32) -> bool {
        let gap = u64::from(load.saturating_sub(borne));
        gap <= 1 || gap * 1_000 <= u64::from(borne) * u64::from(self.limits.accuracy_permille)
    }

    /// Finds why a load with these figures may not be borne; nothing that turns have decided.
    fn find_deviation(&self, load: u32, figures: &[Option<Figure>]) -> Option<Deviation> {
        for (pass, figure) in figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            if let Some(deviation) = self.find_deviation_in(load, pass, figure) {
                return Some(deviation);
            }
        }
        None
    }

    /// Finds why one pass speaks against a load.
    ///
    /// The rate comes first, since a server that does less is answer enough; then what was left
    /// undone; response times last, which rise for the other two reasons, too.
    fn find_deviation_in(&self, load: u32, pass: usize, figure: &Figure) -> Option<Deviation> {
        let lighter = self.borne_below(load, pass);
        let best = lighter.iter().max_by(|one, other| one.1.per_s.total_cmp(&other.1.per_s));
        if let Some((reference, best)) = best
            && figure.per_s < best.per_s * DEGRADED_SHARE
            && !self.settled.contains(&(load, pass, Way::Rate))
        {
            return Some(Deviation::Worse { pass, way: Way::Rate, reference: *reference });
        }
        if let Some(share) = figure.offered_share
            && share < BEHIND_SHARE
        {
            return Some(Deviation::Behind(How::Behind { pass, share }));
        }
        // The slower of the two lightest, since chance makes one of them quick.
        let (reference, from) = lighter.iter().take(2).max_by_key(|(_, known)| known.p99_ns)?;
        let more = more_load(load, *reference, figure);
        if figure.p99_ns > self.exploded_ns(from.p99_ns, more)
            && !self.settled.contains(&(load, pass, Way::Time))
        {
            return Some(Deviation::Worse { pass, way: Way::Time, reference: *reference });
        }
        None
    }

    /// Returns the figures of a pass under the lighter loads that were borne, the lightest first.
    fn borne_below(&self, load: u32, pass: usize) -> Vec<(u32, Figure)> {
        let mut found = Vec::new();
        for (lighter, _) in self.figures.range(..load) {
            if Some(*lighter) <= self.borne
                && let Some(figure) = self.figure(*lighter, pass)
            {
                found.push((*lighter, figure));
            }
        }
        found
    }

    /// Returns the time in nanoseconds beyond which a 99th percentile is far above `from_ns`, which
    /// was found under a load so many times lighter.
    fn exploded_ns(&self, from_ns: u64, more: u32) -> u64 {
        let factor = u64::from(self.limits.slow_factor.max(1)) * u64::from(more);
        from_ns.max(QUANTILE_NS_MIN).saturating_mul(factor)
    }

    /// Finds the lightest load from which on more load gained nothing: no rate up to the heaviest
    /// load is much better, and one at least twice as heavy was tried.
    ///
    /// An offered load is either done or not: what is done of more of it says nothing more.
    fn saturated_from(&self, pass: usize) -> Option<u32> {
        let mut rates = Vec::new();
        let mut best = 0.0_f64;
        for (load, _) in self.figures.range(..=self.borne?) {
            if let Some(figure) = self.figure(*load, pass) {
                if figure.offered_share.is_some() {
                    return None;
                }
                rates.push((*load, figure.per_s));
                best = best.max(figure.per_s);
            }
        }
        let (heaviest, _) = *rates.last()?;
        for (from, rate) in rates {
            if rate >= best * SATURATED_SHARE {
                // Only a load twice as heavy shows that more gains nothing.
                return if heaviest >= from.saturating_mul(2) { Some(from) } else { None };
            }
        }
        None
    }
}

/// Returns how many times as long answers may take for the load alone: in a closed loop they wait
/// for each other (Little's law), in an open loop they don't.
const fn more_load(load: u32, lighter: u32, figure: &Figure) -> u32 {
    if figure.offered_share.is_some() { 1 } else { load.div_ceil(lighter) }
}

#[cfg(test)]
mod noise;
#[cfg(test)]
mod tests;
