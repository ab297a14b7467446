//! Arguments of the commands that manage a results file: list, show, note, tag, rm, import,
//! export.
//!
//! One type for each command. Doc comments are the help texts.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};
use report::Format;

use super::{RESULTS, one_of};

/// Lists the campaigns of the results file: their state, their contents and their verdicts.
///
/// Verdicts count rows of the report: a row is a pass of a run. They are computed from the stored
/// trials each time.
#[derive(Debug, Parser)]
pub struct ListArgs {
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Only campaigns with this tag; given several times, with all of them
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Only campaigns in this state
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Only campaigns whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Form of the list
    #[arg(long, value_parser = one_of(&Format::LIST), default_value = "table")]
    pub format: Format,
}

/// Shows a campaign: its conditions, tags, notes and plan.
#[derive(Debug, Parser)]
pub struct ShowArgs {
    /// Number of the campaign [default: the last]
    pub campaign: Option<i64>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Print the plan alone, as a file that `dfsbench run` takes
    #[arg(long, conflicts_with = "json")]
    pub plan: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes a note beside a campaign; notes are added, never replaced.
#[derive(Debug, Parser)]
pub struct NoteArgs {
    /// Number of the campaign
    pub campaign: i64,
    /// Text of the note
    pub text: String,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Adds tags to a campaign, or removes some.
#[derive(Debug, Parser)]
pub struct TagArgs {
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

/// Removes a campaign from the results file, for good.
///
/// Without --really it only prints what would be removed. The number is not used again.
#[derive(Debug, Parser)]
pub struct RmArgs {
    /// Number of the campaign
    pub campaign: i64,
    /// The number again: remove it
    #[arg(long, value_name = "N")]
    pub really: Option<i64>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Copies the campaigns of another results file into this one. Campaigns that are here already gain
/// the trials, notes and tags that they lack. A second import changes nothing.
#[derive(Debug, Parser)]
pub struct ImportArgs {
    /// The other results file, which is not changed
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: PathBuf,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
}

/// Writes campaigns as files for other programs: a directory with a file for each table.
///
/// The tables are described in docs/results.md. Histograms become the table `buckets`; the table
/// `figures` has a rate for each trial and pass. A trace has the tables `ops`, `calls`, `entries`,
/// `connections` and `names` (docs/trace.md).
#[derive(Debug, Parser)]
#[command(after_help = EXPORTS)]
pub struct ExportArgs {
    /// The directory, which must not exist
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Form of the files
    #[arg(long, value_enum, default_value_t = ExportForm::Csv)]
    pub format: ExportForm,
    /// Export this trace (`dfsbench capture` made it) instead of campaigns
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
    /// Arrays of objects, an object a line
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
    /// Every planned trial was made
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
