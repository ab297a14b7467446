//! Arguments of the commands that manage a results file: list, show, note, tag, rm, import, export.
//!
//! Each command has its own type. Doc comments are help texts.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};
use report::Format;

use super::{RESULTS, one_of};

/// Lists the campaigns in the results file with their states, contents and verdicts.
///
/// Verdicts count rows of the report, each of which is a pass of a run. They are always computed
/// from the stored trials.
#[derive(Debug, Parser)]
pub(crate) struct ListArgs {
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Only campaigns with this tag; if repeated, with all of them
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Only campaigns in this state
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Only campaigns whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Output format
    #[arg(long, value_parser = one_of(&Format::LIST), default_value = "table")]
    pub format: Format,
}

/// Shows a campaign: its conditions, tags, notes and plan.
#[derive(Debug, Parser)]
pub(crate) struct ShowArgs {
    /// Number of the campaign [default: the last]
    pub campaign: Option<i64>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Print only the plan, as a file for `dfsbench run`
    #[arg(long, conflicts_with = "json")]
    pub plan: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Adds a note to a campaign; existing notes are never replaced.
#[derive(Debug, Parser)]
pub(crate) struct NoteArgs {
    /// Number of the campaign
    pub campaign: i64,
    /// Text of the note
    pub text: String,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Adds tags to a campaign, or removes them.
#[derive(Debug, Parser)]
pub(crate) struct TagArgs {
    /// Number of the campaign
    pub campaign: i64,
    /// One word each: letters, digits and ._:+=@/-
    #[arg(value_name = "TAG", required_unless_present = "remove")]
    pub tags: Vec<String>,
    /// Remove this tag
    #[arg(long, value_name = "TAG")]
    pub remove: Vec<String>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Permanently removes a campaign from the results file.
///
/// Without --really it only prints what would be removed. The number is not used again.
#[derive(Debug, Parser)]
pub(crate) struct RmArgs {
    /// Number of the campaign
    pub campaign: i64,
    /// The number again, to confirm the removal
    #[arg(long, value_name = "N")]
    pub really: Option<i64>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Copies the campaigns of another results file into this one. Missing trials, notes and tags are
/// added to campaigns that already exist here. Importing twice changes nothing.
#[derive(Debug, Parser)]
pub(crate) struct ImportArgs {
    /// The other results file, which is not changed
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: PathBuf,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Exports campaigns to a directory for other programs, one file per table.
///
/// The tables are described in docs/results.md. Histograms become the table `buckets`; the table
/// `figures` has a rate for each trial and pass. A trace has the tables `ops`, `calls`, `entries`,
/// `connections` and `names` (docs/trace.md).
#[derive(Debug, Parser)]
#[command(after_help = EXPORTS)]
pub(crate) struct ExportArgs {
    /// Directory to create
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// File format
    #[arg(long, value_enum, default_value_t = ExportForm::Csv)]
    pub format: ExportForm,
    /// Export this trace from `dfsbench capture` instead of campaigns
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["campaign", "results"])]
    pub trace: Option<PathBuf>,
    /// Only this campaign; several are separated by commas [default: all]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub campaign: Vec<i64>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

const EXPORTS: &str = "\
Examples:
  dfsbench export all --format parquet
  duckdb -c \"SELECT target, pass, avg(rate_bytes_per_s) FROM 'all/figures.parquet' GROUP BY ALL\"
  dfsbench export third --campaign 3 --format json
  dfsbench export ops --trace nfs.dfst --format parquet";

/// Forms of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// Text with comma-separated values
    Csv,
    /// Arrays of objects, one object per line
    Json,
    /// File of Apache Parquet (needs a build with the feature `parquet`)
    Parquet,
}

impl From<ExportForm> for results::ExportFormat {
    fn from(form: ExportForm) -> Self {
        match form {
            ExportForm::Csv => Self::Csv,
            ExportForm::Json => Self::Json,
            ExportForm::Parquet => Self::Parquet,
        }
    }
}

/// The state of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Running now
    Running,
    /// All planned trials are done
    Complete,
    /// Stopped or killed before its end
    Interrupted,
}

impl From<State> for model::CampaignState {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Complete => Self::Complete,
            State::Interrupted => Self::Interrupted,
        }
    }
}
