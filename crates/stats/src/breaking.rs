//! Searches for the load at which a server slows down, falls behind, or breaks.
//!
//! [`Search`] evaluates the outcome of each load and chooses the next trial; it measures nothing
//! itself. A [`LoadSearch`] proposes the loads. A load must break the server twice. A load that
//! looks worse than a lighter one is alternated with it; see `turns`. After each bad load, the
//! lightest one is tried until it is served as before or time is up, because recovery is half of
//! the answer. [`ServerFailure`] lists the ways to fail. Results from a client at its own limit
//! don't describe the server and are ignored.

mod breaking_point;
mod replay;
mod trial_outcome;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use model::question::RampRequest;

use crate::load_search::{LoadRange, LoadSearch};
use crate::summary::median;

pub use breaking_point::{BreakingPoint, Recovery, ServerFailure};
pub use replay::{FinishedSearch, Purpose, SearchTrial, replay};
pub use trial_outcome::{AcceleratorUse, LoadFigure, TrialFailure, TrialOutcome};
pub use turns::TURNS_MAX;

use turns::{AlternatedLoads, Verdict, WorseMeasure};

/// Share of the best rate under less load below which throughput counts as dropped. A smaller loss
/// would go unnoticed by users.
pub const DEGRADED_SHARE: f64 = 0.8;

/// Share of the best rate from which more load gains practically nothing.
pub(crate) const SATURATED_SHARE: f64 = 0.9;

/// Share of an offered load below which a server has fallen behind.
pub const BEHIND_SHARE: f64 = crate::curve::SUSTAINED_SHARE_MIN;

/// Number of trials of one load that looked too heavy but had a client at its own limit, after
/// which the load is given up as undecided.
pub(crate) const LIMITED_MAX: usize = 3;

/// Minimum reference for exploding response times, in nanoseconds. Anything shorter depends on the
/// client as much as on the server.
pub(crate) const QUANTILE_NS_MIN: u64 = 1_000_000;

/// Settings of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The lightest load, at least 1.
    pub first: u32,
    /// The heaviest load to try.
    pub max: u32,
    /// How long the server may take to recover, in milliseconds.
    pub recovery_ms: u64,
    /// Factor by which the 99th percentile must grow to count as exploded.
    pub slow_factor: u32,
    /// The search ends when the lightest bad load is at most this far above the heaviest good one,
    /// in thousandths of the latter; 0 means that they are adjacent.
    pub accuracy_permille: u32,
}

/// Accuracy of the highest rate, in thousandths. Repeated trials vary by more than this.
pub const RATE_ACCURACY_PERMILLE: u32 = 20;

impl From<&RampRequest> for SearchLimits {
    fn from(limits: &RampRequest) -> Self {
        let RampRequest { first, max, recovery_ms, slow_factor, accuracy_permille, .. } = *limits;
        Self { first, max, recovery_ms, slow_factor, accuracy_permille }
    }
}

/// What the next trial is for.
#[derive(Clone, Debug, PartialEq)]
enum NextTrial {
    /// A new load.
    Try(u32),
    /// The same load again, because it fell behind or broke.
    Again(u32),
    /// A load that looks worse and a lighter one, alternating.
    InTurns(AlternatedLoads),
    /// The lightest load, after a failure.
    Recovery {
        /// Start of the first such trial, in milliseconds since 1970.
        since_ms: Option<u64>,
        /// When it was last not as before, in milliseconds after that.
        bad_ms: u64,
    },
    /// Nothing; the search is finished.
    Done,
}

/// A search for the load at which a server fails.
#[derive(Clone, Debug)]
pub struct Search {
    limits: SearchLimits,
    loads: LoadSearch,
    next: NextTrial,
    /// How the server failed at the lightest bad load.
    how: Option<ServerFailure>,
    recovery: Option<Recovery>,
    /// How often each load broke the server.
    breaks: BTreeMap<u32, u32>,
    /// Results of trials that did not break the server, by load, except for recovery trials.
    figures: BTreeMap<u32, Vec<Vec<Option<LoadFigure>>>>,
    /// Comparisons decided by alternating trials: load, pass, and in which way it looked worse.
    settled: Vec<(u32, usize, WorseMeasure)>,
    unclear: BTreeSet<u32>,
    /// Loads that once looked too heavy, and for which all other trials were limited by the client.
    limited: BTreeSet<u32>,
}

/// Why a load may be too heavy.
enum Deviation {
    /// Too little of the offered load was completed.
    Behind(ServerFailure),
    /// It looks worse than a lighter load.
    Worse { pass: usize, way: WorseMeasure, reference: u32 },
}

impl Search {
    /// Starts a search. The first and the maximum load are included.
    pub fn new(limits: SearchLimits) -> Self {
        let SearchLimits { max, accuracy_permille, .. } = limits;
        let first = limits.first.max(1);
        let range = LoadRange { accuracy_permille, ..LoadRange::whole(first, max) };
        Self {
            limits: SearchLimits { first, ..limits },
            loads: LoadSearch::new(range),
            next: NextTrial::Try(first),
            how: None,
            recovery: None,
            breaks: BTreeMap::new(),
            figures: BTreeMap::new(),
            settled: Vec::new(),
            unclear: BTreeSet::new(),
            limited: BTreeSet::new(),
        }
    }

    /// Returns the load to try next, or `None` if the search is finished.
    pub const fn next(&self) -> Option<u32> {
        match &self.next {
            NextTrial::Try(load) | NextTrial::Again(load) => Some(*load),
            NextTrial::InTurns(turns) => Some(turns.next()),
            NextTrial::Recovery { .. } => Some(self.limits.first),
            NextTrial::Done => None,
        }
    }

    /// Returns the purpose of the next trial.
    pub const fn purpose(&self) -> Purpose {
        match &self.next {
            NextTrial::Recovery { .. } => Purpose::Recovery,
            NextTrial::InTurns(turns) => {
                Purpose::Turn { load: turns.load, reference: turns.reference }
            }
            _ => Purpose::Load,
        }
    }

    /// Returns true if the server has not recovered so far, in which case the next trial may wait a
    /// little.
    pub const fn awaits_recovery(&self) -> bool {
        matches!(self.next, NextTrial::Recovery { since_ms: Some(_), .. })
    }

    /// Processes the outcome of the requested load, with the start of its trial in milliseconds
    /// since 1970.
    pub fn handle_outcome(&mut self, outcome: TrialOutcome, begun_unix_ms: u64) {
        match (self.next.clone(), outcome) {
            (NextTrial::Done, _) => {}
            (NextTrial::Recovery { since_ms, bad_ms }, outcome) => {
                let since_ms = since_ms.unwrap_or(begun_unix_ms);
                let at_ms = begun_unix_ms.saturating_sub(since_ms);
                self.check_recovery(&outcome, since_ms, bad_ms, at_ms);
            }
            (NextTrial::Try(load) | NextTrial::Again(load), TrialOutcome::Broken(_)) => {
                self.note_break(load);
            }
            // If a lighter load breaks right after it, that is still an effect of the heavier one.
            (NextTrial::InTurns(turns), TrialOutcome::Broken(_)) => self.note_break(turns.load),
            (NextTrial::Try(load) | NextTrial::Again(load), TrialOutcome::Figures(figures)) => {
                // A repeated trial that was spoiled by a busy client decides nothing, so try the
                // load again.
                let is_open =
                    matches!(self.next, NextTrial::Again(_)) && self.is_undecided(load, &figures);
                self.figures.entry(load).or_default().push(figures.clone());
                if !is_open {
                    self.judge_load(load, &figures);
                }
            }
            (NextTrial::InTurns(turns), TrialOutcome::Figures(figures)) => {
                self.handle_turn(turns, figures);
            }
        }
    }

    /// Returns the result so far.
    pub fn breaking_point(&self) -> BreakingPoint {
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
        let lightest_bad = self.lightest_bad();
        BreakingPoint {
            heaviest_good: self.heaviest_good(),
            lightest_bad,
            recovery: lightest_bad.and(self.recovery),
            saturated_from,
            unsure_from,
            once: self.good_loads(self.breaks.keys()),
            unclear: self.good_loads(self.unclear.iter()),
        }
    }

    /// Returns the heaviest good load.
    fn heaviest_good(&self) -> Option<u32> {
        self.loads.heaviest_good().map(|load| load as u32)
    }

    /// Returns the lightest bad load, and how the server failed.
    fn lightest_bad(&self) -> Option<(u32, ServerFailure)> {
        Some((self.loads.lightest_bad()? as u32, self.how?))
    }

    /// Returns the number of passes that every trial with results has.
    fn count_passes(&self) -> usize {
        let mut fewest = None;
        for trial in self.figures.values().flatten() {
            fewest = Some(trial.len().min(fewest.unwrap_or(usize::MAX)));
        }
        fewest.unwrap_or(0)
    }

    /// Returns true if some pass has no result for this load.
    fn lacks_figure(&self, load: u32) -> bool {
        (0..self.count_passes()).any(|pass| self.figure(load, pass).is_none())
    }

    /// Returns those of the loads that turned out to be good.
    fn good_loads<'a>(&self, loads: impl Iterator<Item = &'a u32>) -> Vec<u32> {
        let mut good = Vec::new();
        for load in loads {
            if Some(*load) <= self.heaviest_good() {
                good.push(*load);
            }
        }
        good
    }

    /// Returns the result of a pass at a load, with a separate median for each number.
    pub fn figure(&self, load: u32, pass: usize) -> Option<LoadFigure> {
        let mut rates = Vec::new();
        let mut p99s_ns = Vec::new();
        let mut shares = Vec::new();
        let mut accelerators: Option<AcceleratorUse> = None;
        for trial in self.figures.get(&load)? {
            let Some(Some(figure)) = trial.get(pass) else { continue };
            rates.push(figure.per_s);
            p99s_ns.push(figure.p99_ns as f64);
            shares.extend(figure.offered_share);
            // The best trial counts: a load is only bad if it was bad twice in a row.
            accelerators = match (accelerators, figure.accelerators) {
                (Some(best), Some(one)) if best.utilization >= one.utilization => Some(best),
                (best, one) => one.or(best),
            };
        }
        Some(LoadFigure {
            per_s: median(&rates)?,
            p99_ns: median(&p99s_ns)? as u64,
            offered_share: median(&shares),
            accelerators,
        })
    }

    /// Returns true if a repeated trial doesn't decide whether the server falls behind, because its
    /// client was at its own limit. After [`LIMITED_MAX`] such trials, this remains unknown.
    fn is_undecided(&mut self, load: u32, figures: &[Option<LoadFigure>]) -> bool {
        let Some(trials) = self.figures.get(&load) else { return false };
        let mut limited = 1;
        let mut was_behind = false;
        for trial in trials {
            limited += usize::from(trial.contains(&None));
            was_behind |= trial.iter().flatten().any(LoadFigure::is_behind);
        }
        if !figures.contains(&None) || !was_behind {
            return false;
        }
        if limited >= LIMITED_MAX {
            self.limited.insert(load);
        }
        limited < LIMITED_MAX
    }

    /// Counts a break and continues the search below this load.
    fn note_break(&mut self, load: u32) {
        *self.breaks.entry(load).or_default() += 1;
        self.record_bad(load, ServerFailure::Broken);
    }

    /// Judges a load by its results and chooses what to try next.
    fn judge_load(&mut self, load: u32, figures: &[Option<LoadFigure>]) {
        let is_again = matches!(self.next, NextTrial::Again(_));
        match self.find_deviation(load, figures) {
            None => {
                self.loads.note_good(load.into());
                self.choose_next();
            }
            Some(Deviation::Behind(how)) if is_again => self.record_bad(load, how),
            // Arrivals are random: falling behind once may be chance, twice in a row is not.
            Some(Deviation::Behind(_)) => self.next = NextTrial::Again(load),
            Some(Deviation::Worse { pass, way, reference }) => {
                self.next = NextTrial::InTurns(AlternatedLoads::new(load, reference, pass, way));
            }
        }
    }

    /// Processes the results of one of two alternating loads.
    fn handle_turn(&mut self, mut turns: AlternatedLoads, figures: Vec<Option<LoadFigure>>) {
        let load = turns.load;
        let pass = turns.pass;
        let is_light = turns.is_light();
        // Lower the result of the lighter load to the limit it allows, so that like is compared
        // with like. Times are negative, because more must be better.
        let figure = figures.get(pass).copied().flatten();
        let compared = figure.map(|figure| match (turns.way, is_light) {
            (WorseMeasure::Rate, true) => figure.per_s * DEGRADED_SHARE,
            (WorseMeasure::Rate, false) => figure.per_s,
            (WorseMeasure::Time, true) => {
                let more = more_load(load, turns.reference, &figure);
                -(self.exploded_ns(figure.p99_ns, more) as f64)
            }
            (WorseMeasure::Time, false) => -(figure.p99_ns as f64),
        });
        turns.record(compared);
        self.figures
            .entry(if is_light { turns.reference } else { load })
            .or_default()
            .push(figures);
        match turns.verdict() {
            Verdict::Open => self.next = NextTrial::InTurns(turns),
            Verdict::Worse => self.record_bad(load, self.describe_worse(&turns)),
            answer @ (Verdict::Held | Verdict::Unclear) => {
                if answer == Verdict::Unclear {
                    self.unclear.insert(load);
                }
                self.settled.push((load, pass, turns.way));
                let figures: Vec<_> =
                    (0..self.count_passes()).map(|pass| self.figure(load, pass)).collect();
                self.judge_load(load, &figures);
            }
        }
    }

    /// Describes in which way the heavier of two loads is worse.
    fn describe_worse(&self, turns: &AlternatedLoads) -> ServerFailure {
        let &AlternatedLoads { load, reference, pass, way, .. } = turns;
        let p99_ns = |load| self.figure(load, pass).map_or(0, |figure| figure.p99_ns);
        let turns = turns.finished_turns();
        match way {
            WorseMeasure::Rate => ServerFailure::Degraded { pass, best_at: reference, turns },
            WorseMeasure::Time => {
                ServerFailure::Slow { pass, from_ns: p99_ns(reference), to_ns: p99_ns(load), turns }
            }
        }
    }

    /// Records a bad load. The lightest load then shows whether the server recovers.
    fn record_bad(&mut self, load: u32, how: ServerFailure) {
        self.loads.note_bad(load.into());
        self.how = Some(how);
        self.recovery = None;
        // If no lighter load was good, there is no load to check recovery with.
        let lighter = self.heaviest_good().is_some();
        self.next = if lighter {
            NextTrial::Recovery { since_ms: None, bad_ms: 0 }
        } else {
            NextTrial::Done
        };
    }

    /// Judges the outcome of the lightest load after a failure.
    ///
    /// It was first tried at `since_ms`, last seen bad `bad_ms` after that, and this trial is
    /// `at_ms` after it.
    fn check_recovery(&mut self, outcome: &TrialOutcome, since_ms: u64, bad_ms: u64, at_ms: u64) {
        let is_late = at_ms >= self.limits.recovery_ms;
        let is_broken = matches!(outcome, TrialOutcome::Broken(_));
        if !is_broken && self.is_as_before(outcome) {
            self.recovery = Some(Recovery::Back { from_ms: bad_ms, to_ms: at_ms });
            return self.choose_next();
        }
        // The server may still recover in time, so try the lightest load again.
        if !is_late {
            self.next = NextTrial::Recovery { since_ms: Some(since_ms), bad_ms: at_ms };
            return;
        }
        if is_broken {
            self.recovery = Some(Recovery::Never { for_ms: at_ms });
            self.next = NextTrial::Done;
        } else {
            self.recovery = Some(Recovery::Impaired { for_ms: at_ms });
            self.choose_next();
        }
    }

    /// Returns true if the lightest load is served as well as at first.
    fn is_as_before(&self, outcome: &TrialOutcome) -> bool {
        let TrialOutcome::Figures(figures) = outcome else { return false };
        for (pass, now) in figures.iter().enumerate() {
            // Without a result on either side, there is nothing to compare.
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

    /// Chooses the next load, or ends the search.
    fn choose_next(&mut self) {
        self.next = match (self.loads.next(), self.lightest_bad()) {
            (Some(load), _) => NextTrial::Try(load as u32),
            // A single break may be an accident, so try the lightest load that broke the server
            // again.
            (None, Some((load, ServerFailure::Broken))) if self.breaks.get(&load) == Some(&1) => {
                NextTrial::Again(load)
            }
            (None, _) => NextTrial::Done,
        };
    }

    /// Returns why a load with these results may be too heavy, ignoring what has been decided by
    /// alternating trials.
    fn find_deviation(&self, load: u32, figures: &[Option<LoadFigure>]) -> Option<Deviation> {
        for (pass, figure) in figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            if let Some(deviation) = self.find_deviation_in(load, pass, figure) {
                return Some(deviation);
            }
        }
        None
    }

    /// Returns what in one pass suggests that the load is too heavy.
    ///
    /// The rate comes first, because a lower rate is reason enough; then what was left undone; then
    /// response times, which rise for the other two reasons as well.
    fn find_deviation_in(&self, load: u32, pass: usize, figure: &LoadFigure) -> Option<Deviation> {
        // Accelerators wait for slow reads only if these were not read ahead.
        if let Some(accelerators) = figure.accelerators {
            let starved = ServerFailure::Starved { pass, accelerators };
            return accelerators.is_starved().then_some(Deviation::Behind(starved));
        }
        let lighter = self.borne_below(load, pass);
        let best = lighter.iter().max_by(|one, other| one.1.per_s.total_cmp(&other.1.per_s));
        if let Some((reference, best)) = best
            && figure.per_s < best.per_s * DEGRADED_SHARE
            && !self.settled.contains(&(load, pass, WorseMeasure::Rate))
        {
            return Some(Deviation::Worse { pass, way: WorseMeasure::Rate, reference: *reference });
        }
        if let Some(share) = figure.offered_share
            && share < BEHIND_SHARE
        {
            return Some(Deviation::Behind(ServerFailure::Behind { pass, share }));
        }
        // Use the slower of the two lightest loads, since one of them is fast by chance.
        let (reference, from) = lighter.iter().take(2).max_by_key(|(_, known)| known.p99_ns)?;
        let more = more_load(load, *reference, figure);
        if figure.p99_ns > self.exploded_ns(from.p99_ns, more)
            && !self.settled.contains(&(load, pass, WorseMeasure::Time))
        {
            return Some(Deviation::Worse { pass, way: WorseMeasure::Time, reference: *reference });
        }
        None
    }

    /// Returns the results of a pass for lighter good loads, the lightest first.
    fn borne_below(&self, load: u32, pass: usize) -> Vec<(u32, LoadFigure)> {
        let mut found = Vec::new();
        for (lighter, _) in self.figures.range(..load) {
            if Some(*lighter) <= self.heaviest_good()
                && let Some(figure) = self.figure(*lighter, pass)
            {
                found.push((*lighter, figure));
            }
        }
        found
    }

    /// Returns the time in nanoseconds above which a 99th percentile counts as exploded, relative
    /// to `from_ns`, which was measured at a load lighter by the factor `more`.
    fn exploded_ns(&self, from_ns: u64, more: u32) -> u64 {
        let factor = u64::from(self.limits.slow_factor.max(1)) * u64::from(more);
        from_ns.max(QUANTILE_NS_MIN).saturating_mul(factor)
    }

    /// Finds the lightest load beyond which more load gains nothing: no heavier load has a much
    /// better rate, and one at least twice as heavy was tried.
    ///
    /// An offered load is either completed or not, so this doesn't apply to it.
    fn saturated_from(&self, pass: usize) -> Option<u32> {
        let mut rates = Vec::new();
        let mut best = 0.0_f64;
        for (load, _) in self.figures.range(..=self.heaviest_good()?) {
            if let Some(figure) = self.figure(*load, pass) {
                if figure.offered_share.is_some() || figure.accelerators.is_some() {
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

/// Returns by which factor response times may grow just because of the load. In a closed loop,
/// requests wait for each other (Little's law); in an open loop, they don't.
const fn more_load(load: u32, lighter: u32, figure: &LoadFigure) -> u32 {
    if figure.offered_share.is_some() { 1 } else { load.div_ceil(lighter) }
}

#[cfg(test)]
mod noise;
#[cfg(test)]
mod tests;
