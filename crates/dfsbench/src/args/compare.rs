//! Arguments of `dfsbench compare` and `dfsbench factors`.
//!
//! Both name campaigns in the same way: `3`, `last`, `other.db`, `other.db:3`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};

use super::RESULTS;

const EXAMPLES: &str = "\
Examples:
  dfsbench compare 3 4                              campaigns 3 and 4 of dfsbench.db
  dfsbench compare old.db new.db                    the last campaigns of two files
  dfsbench compare old.db:2 last --max-loss 5%      exit code 1 where a rate fell by more than 5 %
  dfsbench compare last --where nfsvers=3 --where nfsvers=4.1
                                                    two selections of one campaign

A row counts as lower or higher where its ratio lies beyond the smallest effect, the 95 % interval
leaves out 1, and the rank test gives 5 % or less; less than 4 trials a side can't show that.";

/// Compares two campaigns, or two selections of one, row by row.
///
/// Rows are matched by what they do: all settings are the same, but for those named by --where.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct CompareArgs {
    /// The number of a campaign in the results file, `last`, another results file (its last
    /// campaign), or FILE:N
    pub before: String,
    /// The same for the other side [default: the same campaign, with two --where]
    pub after: Option<String>,
    /// Only rows with these settings; given twice, the first is for the one side and the second
    /// for the other
    #[arg(long = "where", value_name = "NAME=VALUE[,...]")]
    pub only: Vec<String>,
    /// The smallest difference worth noting
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    pub effect: String,
    /// End with exit code 1 where a rate fell by more than this, and with 4 where nothing could be
    /// compared
    #[arg(long, value_name = "SHARE")]
    pub max_loss: Option<String>,
    /// Where results are kept
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = PlainFormat::Table)]
    pub format: PlainFormat,
}

/// Tells which factors govern the figures of a campaign, by how much, and how sure that is.
///
/// A share is how much of the variance a factor governs. A ratio compares a level with the first
/// one, all else alike, with its 95 % interval.
#[derive(Debug, Parser)]
pub struct FactorsArgs {
    /// The number of a campaign in the results file, `last`, another results file (its last
    /// campaign), or FILE:N
    #[arg(default_value = "last")]
    pub campaign: String,
    /// Where results are kept
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = PlainFormat::Table)]
    pub format: PlainFormat,
}

/// Forms of what has no page of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlainFormat {
    /// A table for a terminal
    Table,
    /// A table for a wiki or an issue
    Markdown,
    /// For programs
    Json,
}
