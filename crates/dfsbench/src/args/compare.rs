//! Arguments of `dfsbench compare` and `dfsbench factors`.
//!
//! Both name campaigns in the same way: `3`, `last`, `other.db`, `other.db:3`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};
use report::Format;

use super::{RESULTS, one_of};

const EXAMPLES: &str = "\
Examples:
  dfsbench compare 3 4                              campaigns 3 and 4 of dfsbench.db
  dfsbench compare old.db new.db                    the last campaigns of two files
  dfsbench compare old.db:2 last --max-loss 5% --max-slowdown p99=20%
                                                    exit code 1 where a rate fell by more than 5 %
                                                    or a 99th percentile rose by more than 20 %
  dfsbench compare old.db last --max-loss 5% --format junit --output compare.xml
                                                    the same for a build server
  dfsbench compare last --where nfsvers=3 --where nfsvers=4.1
                                                    two selections of one campaign

A figure counts as lower or higher where its ratio lies beyond the smallest effect, the 95 %
interval leaves out 1, and the rank test gives 5 % or less; less than 4 trials a side can't show
that. p50 and p99 are response times.

Exit codes: 0 all bounds are kept, 1 one is exceeded, 2 wrong usage, 4 inconclusive: an interval
reaches beyond its bound, a caveat of either side such as wide-interval or cached leaves it open,
there are too few trials, or a row is missing or invalid afterwards; the output says what would
decide. --inconclusive ok ends with 0 there.";

const FACTORS_EXAMPLES: &str = "\
Examples:
  dfsbench factors                                  the settings of the last campaign
  dfsbench factors 3 4 7                            and what differs between these: another kernel,
                                                    another disk, a label of the plan
  dfsbench factors old.db new.db:2 --by fact.kernel
                                                    the kernel alone
Where campaigns differ in more than one thing, the output names what can't be separated.";

/// Compares two campaigns, or two selections of one, row by row.
///
/// Rows are matched by what they do: all settings are the same, but for those named by --where.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct CompareArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// or FILE:N; or the FILE.json of `dfsbench replay --format json`
    pub before: String,
    /// The same for the other side [default: the same campaign, with two --where]
    pub after: Option<String>,
    /// Only rows with these settings; given twice, the first is for BEFORE and the second for AFTER
    #[arg(long = "where", value_name = "NAME=VALUE[,...]")]
    pub only: Vec<String>,
    /// Smallest difference that counts [default: 5%, or the smallest bound below it]
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE")]
    pub effect: Option<String>,
    /// End with exit code 1 where a rate fell by more than this
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE", help_heading = "Bounds")]
    pub max_loss: Option<String>,
    /// End with exit code 1 where response times rose by more than this: 20% (for p50 and p99), or
    /// p99=20%,p50=5%; in an open loop also service-p50 and service-p99
    #[arg(long, value_name = "SHARES", value_delimiter = ',', help_heading = "Bounds")]
    pub max_slowdown: Vec<String>,
    /// Outcome where it is not certain whether a bound is kept: fail ends with exit code 4, ok
    /// with 0
    #[arg(long, value_enum, default_value_t = Inconclusive::Fail, help_heading = "Bounds")]
    pub inconclusive: Inconclusive,
    /// Correction for many comparisons, of which some differ by chance: none or holm
    #[arg(long, value_enum, default_value_t = Adjust::None, help_heading = "Bounds")]
    pub adjust: Adjust,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Form of the output
    #[arg(long, value_parser = one_of(&Format::COMPARE), default_value = "table")]
    pub format: Format,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print nothing; only set the exit code
    #[arg(long, short, conflicts_with = "output")]
    pub quiet: bool,
}

/// The outcome where it is not certain whether a bound is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Inconclusive {
    /// Exit code 4: a bound that is not shown to be kept fails
    Fail,
    /// Exit code 0: only bounds that are shown to be exceeded fail
    Ok,
}

/// The correction for many comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Adjust {
    /// No correction is made
    None,
    /// All together err in 5 % of cases at most; needs more trials
    Holm,
}

/// The choice of properties that distinguish campaigns.
#[derive(Debug, Parser)]
pub struct ByArgs {
    /// Facts and labels that are factors, in place of all that differ between the campaigns:
    /// fact.kernel, label.dram, tags, campaign
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub by: Vec<String>,
}

/// Shows which factors change the figures of a campaign, by how much, and how certain that is.
///
/// A share is the part of the variance that a factor explains. A ratio compares a level with the
/// first one, all else equal, with its 95 % interval.
///
/// The runs of several campaigns are one set. What differs between them is a factor like any
/// setting: facts of hosts such as kernel, processor or disk, labels, tags, names.
#[derive(Debug, Parser)]
#[command(after_help = FACTORS_EXAMPLES)]
pub struct FactorsArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// or FILE:N; several are analyzed together
    #[arg(default_value = "last", value_name = "CAMPAIGN")]
    pub campaigns: Vec<String>,
    /// The properties that distinguish campaigns
    #[command(flatten)]
    pub by: ByArgs,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Form of the output
    #[arg(long, value_parser = one_of(&Format::FACTORS), default_value = "table")]
    pub format: Format,
}
