//! Describes the experiment of a campaign in plain words: the work, where it is done, and the
//! factors.
//!
//! [`Experiment`] is the main type. It describes the plan's request, not the measurement, and uses
//! the plan's names of settings so that they can be looked up.

use std::collections::HashSet;

use model::{CampaignState, Pass, Workload};

use super::notes;
use crate::humanize::{counted, listed};
use crate::table::setting_number::quantity;
use crate::table::{NOT_APPLICABLE, Sheet};

/// Maximum number of levels of a factor to name one by one.
const LEVELS_MAX: usize = 12;

/// Design of a campaign: factors, workloads and targets.
pub(crate) struct Experiment {
    /// Name and location of each target.
    pub targets: Vec<(String, String)>,
    /// Name and description of each workload.
    pub work: Vec<(String, String)>,
    /// Name of each setting that varies, and its levels.
    pub factors: Vec<(String, String)>,
    /// Number of runs and trials, in words.
    pub extent: String,
}

impl Experiment {
    pub(crate) fn from_sheet(sheet: &Sheet<'_>) -> Self {
        Self {
            targets: notes::targets(sheet.campaign),
            work: list_work(sheet),
            factors: list_factors(sheet),
            extent: describe_extent(sheet),
        }
    }
}

fn list_work(sheet: &Sheet<'_>) -> Vec<(String, String)> {
    let mut works: Vec<(Workload, Vec<Pass>)> = Vec::new();
    for run in &sheet.campaign.runs {
        let spec = &run.spec;
        if !works.iter().any(|(workload, _)| *workload == spec.workload) {
            works.push((spec.workload, Vec::new()));
        }
        for (workload, passes) in &mut works {
            if *workload != spec.workload {
                continue;
            }
            // Some settings, such as the phases of a run, decide which passes a run has, so collect
            // the passes over all runs.
            for pass in spec.passes() {
                if !passes.contains(pass) {
                    passes.push(*pass);
                }
            }
        }
    }
    let mut described = Vec::new();
    for (workload, passes) in works {
        let mut sentence = workload.row().description.to_owned();
        if passes.len() > 1 {
            let names: Vec<String> = passes.iter().map(|pass| pass.name().to_owned()).collect();
            sentence = format!("{sentence}; passes: {}", listed(&names));
        }
        described.push((workload.name().to_owned(), sentence + "."));
    }
    described
}

/// Settings that vary, with their levels; numeric levels are sorted.
fn list_factors(sheet: &Sheet<'_>) -> Vec<(String, String)> {
    let mut factors = Vec::new();
    for (column, name) in sheet.columns.iter().enumerate() {
        let mut seen = HashSet::new();
        let mut levels: Vec<&str> = Vec::new();
        for row in &sheet.rows {
            let value = row.values[column].as_str();
            if value != NOT_APPLICABLE && seen.insert(value) {
                levels.push(value);
            }
        }
        if levels.iter().all(|level| quantity(name, level).is_some()) {
            levels.sort_by(|a, b| {
                let [a, b] = [a, b].map(|level| quantity(name, level).unwrap_or_default());
                a.total_cmp(&b)
            });
        }
        let shown = match levels.as_slice() {
            [first, .., last] if levels.len() > LEVELS_MAX => {
                format!("{} levels, from {first} to {last}", levels.len())
            }
            _ => levels.join(", "),
        };
        factors.push(((*name).to_owned(), shown));
    }
    factors
}

fn describe_extent(sheet: &Sheet<'_>) -> String {
    let runs = &sheet.campaign.runs;
    let mut trials = 0;
    let mut impossible = 0;
    for run in runs {
        trials += run.trials.len();
        impossible += usize::from(run.spec.impossible().is_some());
    }
    let noun = if sheet.columns.is_empty() { "run" } else { "combination" };
    let left_out = match impossible {
        0 => String::new(),
        some => format!(" ({some} not possible; their rows say why)"),
    };
    let state = match sheet.campaign.state {
        CampaignState::Complete => "",
        CampaignState::Running => " so far",
        CampaignState::Interrupted => " before the interruption",
    };
    format!("{}{left_out}, {}{state}", counted(runs.len(), noun), counted(trials, "trial"))
}
