//! Answers the question a campaign was run for, such as what limits it or how much load it
//! sustains.
//!
//! [`QuestionAnswer`] is the main type: sentences, tables and pictures that every format shows
//! in its own way. Everything is computed from the stored trials, with numbers from `stats`.

pub(crate) mod curve;
pub(crate) mod durability;
mod ladder;
mod ramp;
mod soak;

use model::{PassResult, Question};
use serde_json::Value;

use crate::chart::Picture;
use crate::document::Table;
use crate::table::{Row, Sheet};

/// Answer to a campaign's question.
#[derive(Debug, Default)]
pub(crate) struct QuestionAnswer {
    /// Title of the answer, such as `Bottleneck`.
    pub title: &'static str,
    /// Plain sentences without markup, most important one first.
    pub sentences: Vec<String>,
    /// Tables behind the answer.
    pub tables: Vec<Table>,
    /// Pictures for the page.
    pub pictures: Vec<Picture>,
    /// The same content as JSON, with units in the names.
    pub json: Value,
}

/// Answers the campaign's question; `None` if it has none.
pub(crate) fn answer(sheet: &Sheet<'_>) -> Option<QuestionAnswer> {
    match &sheet.campaign.question {
        Question::Curve(request) => Some(curve::answer(sheet, request)),
        Question::Ramp(request) => Some(ramp::answer(sheet, request)),
        Question::Figures => None,
        Question::Soak(request) => Some(soak::answer(sheet.campaign, request)),
        Question::Ladder(request) => Some(ladder::answer(sheet, request)),
        Question::Durability => Some(durability::answer(sheet.campaign)),
    }
}

/// Result of a row's pass in one of its trials.
pub(crate) fn trial_result<'r>(row: &'r Row<'_>, trial_index: u32) -> Option<&'r PassResult> {
    let trial = row.run.trials.iter().find(|trial| trial.index == trial_index)?;
    trial.passes.iter().find(|result| result.pass == row.judged.pass)
}
