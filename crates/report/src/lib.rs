//! What a campaign measured, for people and for programs: tables, Markdown, CSV, JSON, a page.
//!
//! [`render`] is the way in, [`Format`] the choice. Pure: a campaign and a format give the same
//! bytes every time and everywhere; no clock, no time zone, no locale. All formats show the
//! figures that `stats::judge` computes, and none of them drops a doubt.

mod answer;
mod asked;
mod catalog;
mod classic;
mod columns;
mod compared;
mod csv;
mod document;
mod figures;
mod found;
mod governs;
mod grid;
mod hosts;
mod html;
mod json;
mod marks;
mod notes;
mod openmetrics;
mod picture;
mod pivot;
mod quantity;
mod row;
mod sar;
pub mod served;
mod sheet;
mod show;
mod spread;
mod watched;
mod yardstick;

use model::Campaign;

use crate::document::Form;

pub use catalog::{ListFormat, Listed, Remark, Verdicts, about, about_json, list};
pub use compared::{
    Bound, CompareFormat, Compared, CurvePair, Figure, LeftOut, Measure, Pair, Rules, Selection,
    is_same, setting_names, setting_values,
};
pub use governs::{FactorsFormat, Governing, Unfound};
pub use watched::busy_percent;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Plain text for a terminal, at most 100 columns wide.
    Table,
    /// A GitHub table with notes.
    Markdown,
    /// One line per run and pass, units in the column names.
    Csv,
    /// Everything, trials and histograms included.
    Json,
    /// One self-contained page with pictures.
    Html,
    /// The table of bonnie.
    Bonnie,
    /// The table of iozone: file sizes and I/O sizes down, passes across.
    Iozone,
    /// The tables of the reports that people wrote by hand: by size, and by options of NFS.
    Seed,
    /// For Prometheus: OpenMetrics text, as its textfile collector takes it.
    OpenMetrics,
    /// What the hosts did during each pass, as sar prints it.
    Sar,
    /// How the trials of each row lie: means, deviation, extremes, and each trial.
    Trials,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::Table,
        Self::Markdown,
        Self::Csv,
        Self::Json,
        Self::Html,
        Self::Bonnie,
        Self::Iozone,
        Self::Seed,
        Self::OpenMetrics,
        Self::Sar,
        Self::Trials,
    ];

    /// Names the format as options do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Markdown => "markdown",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Html => "html",
            Self::Bonnie => "bonnie",
            Self::Iozone => "iozone",
            Self::Seed => "seed",
            Self::OpenMetrics => "openmetrics",
            Self::Sar => "sar",
            Self::Trials => "trials",
        }
    }

    /// Finds a format by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Draws the pictures of a campaign's page as files: a name for each, without an ending, and an SVG
/// that needs nothing else.
pub fn pictures(campaign: &Campaign) -> Vec<(String, String)> {
    html::files::all(&sheet::Sheet::of(campaign))
}

/// Writes the report of a campaign; the text ends with a newline.
pub fn render(campaign: &Campaign, format: Format) -> String {
    let sheet = sheet::Sheet::of(campaign);
    match format {
        Format::Table => figures::document(&sheet, Form::Text).render(Form::Text),
        Format::Markdown => figures::document(&sheet, Form::Markdown).render(Form::Markdown),
        Format::Csv => csv::render(&sheet),
        Format::Json => json::render(&sheet),
        Format::Html => figures::document(&sheet, Form::Html).render(Form::Html),
        Format::Bonnie => classic::bonnie(&sheet),
        Format::Iozone => classic::iozone(&sheet),
        Format::Seed => classic::seed(&sheet),
        Format::OpenMetrics => openmetrics::render(&sheet),
        Format::Sar => sar::render(&sheet),
        Format::Trials => spread::render(&sheet),
    }
}
