//! The experiment that a campaign is, in plain words: what is done, where, and what is varied.
//!
//! [`Experiment`] is the principal type. It says what the plan wanted, not what came of it, and
//! names the settings as plans do, so that a reader can look them up.

use std::collections::HashSet;

use model::{Pass, Workload};

use crate::notes;
use crate::quantity::quantity;
use crate::sheet::{NOT_APPLICABLE, Sheet};
use crate::show::{counted, listed};

/// So many levels of a factor are named one by one.
const LEVELS_MAX: usize = 12;

/// The design of a campaign: factors, workloads and targets.
pub struct Experiment {
    /// The location of each target.
    pub targets: Vec<(String, String)>,
    /// The work, one entry for each workload: its name and a sentence.
    pub work: Vec<(String, String)>,
    /// The factors: a setting and its levels.
    pub factors: Vec<(&'static str, String)>,
    /// How many runs and trials that makes, in a sentence.
    pub extent: String,
}

impl Experiment {
    /// Describes the experiment of a campaign.
    pub fn of(sheet: &Sheet<'_>) -> Self {
        Self {
            targets: notes::targets(sheet.campaign),
            work: list_work(sheet),
            factors: list_factors(sheet),
            extent: describe_extent(sheet),
        }
    }
}

fn list_work(sheet: &Sheet<'_>) -> Vec<(String, String)> {
    let mut told: Vec<(Workload, Vec<Pass>)> = Vec::new();
    for run in &sheet.campaign.runs {
        let spec = &run.spec;
        let known = told.iter().position(|(workload, _)| *workload == spec.workload);
        let at = known.unwrap_or_else(|| {
            told.push((spec.workload, Vec::new()));
            told.len() - 1
        });
        for pass in spec.passes() {
            if !told[at].1.contains(pass) {
                told[at].1.push(*pass);
            }
        }
    }
    let sentence = |(workload, passes): (Workload, Vec<Pass>)| {
        let names: Vec<String> = passes.iter().map(|pass| pass.name().to_owned()).collect();
        let passes = match names.as_slice() {
            [] | [_] => String::new(),
            _ => format!("; passes: {}", listed(&names)),
        };
        (workload.name().to_owned(), format!("{}{passes}.", workload.row().description))
    };
    told.into_iter().map(sentence).collect()
}

/// The settings that vary, in the order of their levels where these are numbers.
fn list_factors(sheet: &Sheet<'_>) -> Vec<(&'static str, String)> {
    let levels = |(column, name): (usize, &&'static str)| {
        let values = sheet.rows.iter().map(|row| row.values[column].as_str());
        let mut seen = HashSet::new();
        let applies = values.filter(|value| *value != NOT_APPLICABLE);
        let mut levels: Vec<&str> = applies.filter(|value| seen.insert(*value)).collect();
        if levels.iter().all(|level| quantity(name, level).is_some()) {
            let number = |level: &str| quantity(name, level).unwrap_or_default();
            levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        let shown = match levels.as_slice() {
            [first, .., last] if levels.len() > LEVELS_MAX => {
                format!("{} levels, from {first} to {last}", levels.len())
            }
            _ => levels.join(", "),
        };
        (*name, shown)
    };
    sheet.columns.iter().enumerate().map(levels).collect()
}

fn describe_extent(sheet: &Sheet<'_>) -> String {
    let runs = &sheet.campaign.runs;
    let trials = runs.iter().map(|run| run.trials.len()).sum();
    let impossible = runs.iter().filter(|run| run.spec.impossible().is_some()).count();
    let all = match sheet.columns.len() {
        0 => counted(runs.len(), "run"),
        _ => format!("{}, one for each combination that was wanted", counted(runs.len(), "run")),
    };
    let left_out = match impossible {
        0 => String::new(),
        some => format!("; {some} of them can't be, and their rows say why"),
    };
    format!("{all}{left_out}; {} so far.", counted(trials, "trial"))
}
