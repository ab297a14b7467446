//! Scores of runs of io500, with what keeps them from being comparable.
//!
//! [`scores`] finds the runs; [`lines`] describes them in notes, and [`headlines`] in the answer.

use model::units::three_digits;
use model::{CaveatCode, Workload};
use stats::{Io500Score, Summary};

use crate::table::{Row, Sheet};

/// Heading of the lines of [`lines`].
pub(crate) const TITLE: &str = "Scores of io500 (not IO500 results)";

/// Said next to each score.
pub(crate) const NOT_A_RESULT: &str = "not an IO500 result";

/// Maximum number of runs to describe in the answer.
const RUNS_MAX: usize = 4;

/// Caveats of phases that did not read from the target, or may not have.
const FROM_CACHES: [CaveatCode; 5] = [
    CaveatCode::Cached,
    CaveatCode::FitsMemory,
    CaveatCode::ServerCached,
    CaveatCode::MayBeServerCached,
    CaveatCode::Localio,
];

/// A run of io500.
pub(crate) struct ScoredRun<'s, 'a> {
    /// Its phases.
    rows: Vec<&'s Row<'a>>,
    /// Its score; `None` if no trial has all phases.
    pub score: Option<Io500Score>,
}

/// Returns the runs of io500 with their scores.
pub(crate) fn scores<'s, 'a>(sheet: &'s Sheet<'a>) -> Vec<ScoredRun<'s, 'a>> {
    let mut runs: Vec<ScoredRun<'s, 'a>> = Vec::new();
    for row in &sheet.rows {
        if row.run.spec.workload != Workload::Io500 {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.index() == row.run.index => run.rows.push(row),
            _ => runs.push(ScoredRun { rows: vec![row], score: None }),
        }
    }
    for run in &mut runs {
        let judged: Vec<_> = run.rows.iter().map(|row| &row.judged).collect();
        run.score = Io500Score::from_phases(&judged);
    }
    runs
}

impl ScoredRun<'_, '_> {
    /// Returns the index of the run.
    pub(crate) fn index(&self) -> u32 {
        self.rows[0].run.index
    }

    /// Returns the names of phases that have one of some caveats.
    pub(crate) fn phases_with(&self, codes: &[CaveatCode]) -> Vec<&'static str> {
        let has_one =
            |row: &&&Row<'_>| row.judged.caveats.iter().any(|caveat| codes.contains(&caveat.code));
        self.rows.iter().filter(has_one).map(|row| row.judged.pass.name()).collect()
    }

    /// Returns the names of phases that ended before the time that IO500 requires.
    pub(crate) fn early_phases(&self) -> Vec<&'static str> {
        self.phases_with(&[CaveatCode::StonewallMissed])
    }

    /// Returns the names of phases that did not read from the target, or may not have.
    pub(crate) fn cached_phases(&self) -> Vec<&'static str> {
        self.phases_with(&FROM_CACHES)
    }

    /// Returns the target and the factors of the run.
    fn name(&self, sheet: &Sheet<'_>) -> String {
        let row = self.rows[0];
        let factors = sheet.factors(row);
        let comma = if factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{factors}", row.run.spec.target_name)
    }

    /// Describes what keeps the score from being comparable; empty if nothing does.
    fn objections(&self) -> String {
        let mut objections = Vec::new();
        for (phases, what) in [
            (self.early_phases(), "wrote for less than 5 minutes"),
            (self.cached_phases(), "may have been answered from caches"),
        ] {
            match &*phases {
                [] => {}
                [one] => objections.push(format!("{one} {what}")),
                [first, others @ ..] => {
                    objections.push(format!("{first} and {} more phases {what}", others.len()));
                }
            }
        }
        let objections = objections.join("; ");
        if objections.is_empty() { objections } else { format!("; {objections}") }
    }
}

/// Returns a line for each run.
pub(crate) fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for run in scores(sheet) {
        let name = run.name(sheet);
        lines.push(match &run.score {
            Some(score) => format!("{name}: {}{}", describe(score), run.objections()),
            None => format!("{name}: no score, because no trial has a result of every phase"),
        });
    }
    lines
}

/// Returns a sentence for each of the first few runs.
pub(crate) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for run in scores(sheet).iter().take(RUNS_MAX) {
        let Some(score) = &run.score else { continue };
        sentences.push(format!(
            "{}: {} ({NOT_A_RESULT}){}.",
            run.name(sheet),
            describe(score),
            run.objections()
        ));
    }
    sentences
}

/// Describes a score: `score 7.72, from 0.893 GiB/s and 66.7 kIOPS`.
fn describe(score: &Io500Score) -> String {
    let Io500Score { bandwidth_gib_per_s, metadata_kops_per_s, score } = score;
    let middle = |figure: &Summary| three_digits(figure.median);
    let interval = score
        .confidence_interval()
        .map(|(low, high)| format!(" (95 %: {} to {})", three_digits(low), three_digits(high)));
    format!(
        "score {}{}, from {} GiB/s and {} kIOPS",
        middle(score),
        interval.unwrap_or_default(),
        middle(bandwidth_gib_per_s),
        middle(metadata_kops_per_s),
    )
}
