//! What a campaign found out that was made to answer a question: what limits, how much is carried.
//!
//! [`Found`] is the principal type: sentences, tables and pictures that every format shows in its
//! own way. All of it is computed from the stored trials each time; numbers come from `stats`.

pub(crate) mod curve;
mod ladder;
mod ramp;
mod soak;

use model::Question;
use serde_json::Value;

use crate::grid::{Align, Grid};
use crate::picture::Picture;
use crate::sheet::Sheet;

/// The answer to a campaign's question.
#[derive(Debug, Default)]
pub struct Found {
    /// What it answers: `What limits it`.
    pub title: &'static str,
    /// The answer in plain sentences without markup, the one that counts first.
    pub sentences: Vec<String>,
    /// The figures behind it.
    pub tables: Vec<FoundTable>,
    /// Its pictures, for the page.
    pub pictures: Vec<Picture>,
    /// All of it for programs; units in the names.
    pub json: Value,
}

/// A table of an answer, at most 100 columns wide in a terminal.
#[derive(Debug, Default)]
pub struct FoundTable {
    /// What it shows, in a few words.
    pub caption: String,
    /// Names of its columns, units included; `true` where they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
    /// How to read it; plain sentences.
    pub reading: Vec<String>,
}

impl FoundTable {
    /// The table for a terminal.
    pub fn grid(&self) -> Grid {
        let align = |number: bool| if number { Align::Right } else { Align::Left };
        let columns: Vec<(&str, Align)> =
            self.columns.iter().map(|(name, number)| (name.as_str(), align(*number))).collect();
        let mut grid = Grid::new(&columns);
        self.rows.iter().for_each(|cells| grid.row(cells));
        grid
    }
}

/// The answer, where a question was asked.
pub fn of(sheet: &Sheet<'_>) -> Option<Found> {
    match &sheet.campaign.question {
        Question::Curve(asked) => Some(curve::of(sheet, asked)),
        Question::Ramp(asked) => Some(ramp::of(sheet, asked)),
        Question::Figures => None,
        Question::Soak(asked) => Some(soak::found(sheet.campaign, asked)),
        Question::Ladder(asked) => Some(ladder::found(sheet, asked)),
    }
}
