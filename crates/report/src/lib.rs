//! Renders the results of campaigns as tables, Markdown, CSV, JSON, HTML and formats of other
//! tools.
//!
//! Start with [`render`] and [`Format`]. The crate is pure: the same campaign and format always
//! give the same bytes, since no clock, time zone or locale is read. All formats show the results
//! computed by `stats::judge`, and none of them drops a caveat.

#![warn(unreachable_pub)]

mod campaign;
mod chart;
mod comparison;
mod contenders;
pub mod document;
mod export;
mod factor_effects;
mod humanize;
pub mod live;
mod page;
mod question;
mod table;
mod text_grid;
pub mod verification;
pub mod view_pages;

use model::{Campaign, Question};

use crate::campaign::{requirements, trials};
use crate::document::Form;
use crate::export::{csv, influx, json, junit, legacy_tables, openmetrics, sar};
use crate::question::durability;
use crate::table::Sheet;
use crate::table::joined_campaigns::declared_requirements;

pub use campaign::catalog::{
    CampaignNote, ListedCampaign, Verdicts, about_json, describe_campaign, list,
};
pub use campaign::host_activity::busy_percent;
pub use campaign::next_step::NextStep;
pub use campaign::requirements::RequirementOutcome;
pub use chart::{Picture, over_time};
pub use comparison::{
    BisectJudgment, BisectMetric, BisectRequest, CampaignComparison, ComparedFigure,
    ComparisonBound, ComparisonRules, ComparisonSide, CurvePair, Difference, LeftOut, Measure,
    RowPair, Selection, is_same, label_names, label_values, setting_names, setting_values,
};
pub use contenders::{ContenderComparison, UnknownContender, render_contenders};
pub use document::terminal::{ReportDetail, Screen, paint};
pub use export::json::schema as json_schema;
pub use factor_effects::{FactorEffects, NoEffects};
pub use humanize::{counted, utc, utc_minute};
pub use question::durability::render_durability;
pub use table::joined_campaigns::{CampaignSource, JoinedCampaigns, JoinedMember, UnknownProperty};
pub use text_grid::align_columns;

/// Output format. Each command supports some of these, and falls back to the terminal table for the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Plain text for a terminal, at most 100 columns wide.
    Table,
    /// Markdown as GitHub renders it.
    Markdown,
    /// One line per row, units in the column names.
    Csv,
    /// Everything, trials and histograms included.
    Json,
    /// One self-contained page with pictures.
    Html,
    /// Table laid out like the output of bonnie.
    Bonnie,
    /// Table laid out like the output of iozone: file and I/O sizes in rows, passes in columns.
    Iozone,
    /// Tables like those of handwritten reports: rates by size, and rates by NFS options.
    Seed,
    /// OpenMetrics text for Prometheus, including the textfile collector.
    OpenMetrics,
    /// InfluxDB line protocol, one point for each row and each trial.
    Influx,
    /// Activity of the hosts during each pass, in the format of sar.
    Sar,
    /// Distribution of the trials of each row: mean, standard deviation, extremes, and every trial.
    Trials,
    /// JUnit XML for CI servers, with one test case per result.
    Junit,
}

impl Format {
    /// Formats of a campaign's report.
    pub const REPORT: [Self; 13] = [
        Self::Table,
        Self::Markdown,
        Self::Csv,
        Self::Json,
        Self::Html,
        Self::Bonnie,
        Self::Iozone,
        Self::Seed,
        Self::OpenMetrics,
        Self::Influx,
        Self::Sar,
        Self::Trials,
        Self::Junit,
    ];

    /// Formats of a comparison.
    pub const COMPARE: [Self; 5] =
        [Self::Table, Self::Markdown, Self::Json, Self::Junit, Self::Html];

    /// Formats of the factor effects.
    pub const FACTORS: [Self; 3] = [Self::Table, Self::Markdown, Self::Json];

    /// Formats of a list of campaigns.
    pub const LIST: [Self; 3] = [Self::Table, Self::Csv, Self::Json];

    /// Name of the format on the command line.
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
            Self::Influx => "influx",
            Self::Sar => "sar",
            Self::Trials => "trials",
            Self::Junit => "junit",
        }
    }

    /// One-line description for the help of options.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Table => "A table for a terminal",
            Self::Markdown => "A table for a wiki or an issue",
            Self::Csv => "One line per row",
            Self::Json => "All data, for programs",
            Self::Html => "A page with pictures",
            Self::Bonnie => "The table of bonnie",
            Self::Iozone => "The table of iozone: sizes down, passes across",
            Self::Seed => {
                "Output and input by machine and size, rates by NFS options, as in hand-made \
                 reports"
            }
            Self::OpenMetrics => "Gauges and summaries for Prometheus, as OpenMetrics text",
            Self::Influx => "Points for InfluxDB, Telegraf and VictoriaMetrics, as line protocol",
            Self::Sar => "The activity of the hosts during each pass, in the format of sar",
            Self::Trials => "Means, deviation and extremes of the trials, and each trial",
            Self::Junit => "XML for build servers",
        }
    }

    /// Finds the format with the given name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::REPORT.into_iter().find(|format| format.name() == name)
    }

    const fn form(self) -> Form {
        match self {
            Self::Markdown => Form::Markdown,
            Self::Html => Form::Html,
            _ => Form::Text,
        }
    }
}

/// Draws the pictures of the page as separate files. Returns a name without extension and a
/// self-contained SVG for each.
pub fn pictures_joined(joined: &JoinedCampaigns) -> Vec<(String, String)> {
    page::picture_files::all(&Sheet::from_joined(joined))
}

/// Renders the report of a campaign. The text ends with a newline.
pub fn render(campaign: &Campaign, format: Format) -> String {
    render_sheet(&Sheet::from_campaign(campaign), format)
}

/// Renders the report of several campaigns, treated as one set of runs. The text ends with a
/// newline.
pub fn render_joined(joined: &JoinedCampaigns, format: Format) -> String {
    render_sheet(&Sheet::from_joined(joined), format)
}

fn render_sheet(sheet: &Sheet<'_>, format: Format) -> String {
    match format {
        Format::Csv if sheet.campaign.question == Question::Durability => {
            durability::stored_csv(sheet.campaign)
        }
        Format::Csv => csv::render(sheet),
        Format::Json => json::render(sheet),
        Format::Bonnie => legacy_tables::bonnie(sheet),
        Format::Iozone => legacy_tables::iozone(sheet),
        Format::Seed => legacy_tables::seed(sheet),
        Format::OpenMetrics => openmetrics::render(sheet),
        Format::Influx => influx::render(sheet),
        Format::Sar => sar::render(sheet),
        Format::Trials => trials::render(sheet),
        Format::Junit => junit::render(sheet),
        Format::Table => campaign::text(sheet, Screen::default()),
        Format::Markdown | Format::Html => {
            campaign::document(sheet, format.form(), Screen::default()).render(format.form())
        }
    }
}

/// Renders the report of a campaign for a terminal. The text ends with a newline.
pub fn render_screen(campaign: &Campaign, screen: Screen) -> String {
    campaign::text(&Sheet::from_campaign(campaign), screen)
}

/// Renders the report of several campaigns for a terminal. The text ends with a newline.
pub fn render_joined_screen(joined: &JoinedCampaigns, screen: Screen) -> String {
    campaign::text(&Sheet::from_joined(joined), screen)
}

/// Returns the worst outcome of a campaign's requirements; `None` if it has none.
pub fn requirement_outcome(campaign: &Campaign) -> Option<RequirementOutcome> {
    // Judging all results is expensive, and few campaigns have requirements.
    if declared_requirements(campaign).is_empty() {
        return None;
    }
    requirements::worst_outcome(&Sheet::from_campaign(campaign))
}

/// Returns the worst outcome of the requirements of several campaigns; `None` if they have none.
pub fn joined_requirement_outcome(joined: &JoinedCampaigns) -> Option<RequirementOutcome> {
    if joined.requirements().is_empty() {
        return None;
    }
    requirements::worst_outcome(&Sheet::from_joined(joined))
}
