//! Answers the question that a campaign was made for: what limits it, how much load is sustained.
//!
//! [`QuestionAnswer`] is the principal type: sentences, tables and pictures that every format shows
//! in its own way. All of it is computed from the stored trials each time; numbers come from
//! `stats`.

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

/// The answer to a campaign's question.
#[derive(Debug, Default)]
pub(crate) struct QuestionAnswer {
    /// The title of the answer, such as `What limits it`.
    pub title: &'static str,
    /// The answer in plain sentences without markup, the one that counts first.
    pub sentences: Vec<String>,
    /// The figures behind it.
    pub tables: Vec<Table>,
    /// Its pictures, for the page.
    pub pictures: Vec<Picture>,
    /// All of it for programs; units in the names.
    pub json: Value,
}

/// The answer, where the campaign has a question.
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

/// The result of a row's pass in one of its trials.
pub(crate) fn trial_result<'r>(row: &'r Row<'_>, trial_index: u32) -> Option<&'r PassResult> {
    let trial = row.run.trials.iter().find(|trial| trial.index == trial_index)?;
    trial.passes.iter().find(|result| result.pass == row.judged.pass)
}
