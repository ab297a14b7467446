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
                                                    exit code 1 if a rate fell by more than 5 %
                                                    or a 99th percentile rose by more than 20 %
  dfsbench compare old.db last --max-loss 5% --format junit --output compare.xml
                                                    the same for a CI server
  dfsbench compare last --where nfsvers=3 --where nfsvers=4.1
                                                    two selections of one campaign
  git bisect run sh -c 'make -s && ./start-now && dfsbench compare --bisect \
      nfs://localhost:2049/good nfs://localhost:2050/now --difference 10% -- --workload stream'
                                                    find the commit that made a server slower:
                                                    trials of a good build and of this one alternate

A result counts as lower or higher if its ratio is beyond the smallest effect, the 95 %
interval excludes 1, and the rank test gives 5 % or less; fewer than 4 trials a side can't show
that. p50 and p99 are response times.

Exit codes: 0 all bounds are met, 1 one is exceeded, 2 wrong usage, 4 inconclusive: an interval
extends beyond its bound, a caveat such as wide-interval or cached on either side casts doubt,
there are too few trials, or a row is missing or invalid afterwards; the output says what to do
next. With --inconclusive ok, the exit code is then 0.

With --bisect: 0 good, 1 bad, 125 can't be judged (git skips the commit), 128 and more for errors
(git stops): 130 usage, 131 GOOD, a host or output can't be used, 132 interrupted.";

const FACTORS_EXAMPLES: &str = "\
Examples:
  dfsbench factors                                  the settings of the last campaign
  dfsbench factors 3 4 7                            and their differences, such as another kernel,
                                                    another disk or a label in the plan
  dfsbench factors old.db new.db:2 --by fact.kernel
                                                    only the kernel
If campaigns differ in more than one property, the output lists those that can't be separated.";

/// Compares two campaigns, or two selections of one, row by row.
///
/// Rows are matched if all settings are the same, except for those in --where.
///
/// With --bisect, this is a step of `git bisect run`: it measures a build until it is certain
/// whether it is slower than a good one.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct CompareArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// FILE:N, or a bundle; or the FILE.json of `dfsbench replay --format json`. With --bisect,
    /// the good build: a directory, nfs://server/export, a target of the plan, or such a campaign
    pub before: String,
    /// The other side, in the same form [default: the same campaign, with two --where]. With
    /// --bisect, the build to judge
    pub after: Option<String>,
    /// Judge AFTER for `git bisect run`: alternate trials of both until it is certain whether it is
    /// slower by the difference, and exit with 0 (good), 1 (bad) or 125 (can't be judged)
    #[arg(long, requires = "after", conflicts_with_all = NOT_FOR_BISECT, help_heading = "Bisect")]
    pub bisect: bool,
    /// Difference to search for: less of a rate, more of a time. A build is bad if it is slower by
    /// more than half of this [default: 10%]
    #[arg(long, value_name = "SHARE", requires = "bisect", help_heading = "Bisect")]
    pub difference: Option<String>,
    /// Measure to judge by: rate, p50, p99, service-p50 or service-p99, after a pass or workload:
    /// write.rate, mixed.p99 [default: the rates of all passes]
    #[arg(
        long,
        value_name = "[PASS.]MEASURE",
        requires = "bisect",
        value_delimiter = ',',
        help_heading = "Bisect"
    )]
    pub metric: Vec<String>,
    /// Plan with the workloads and settings
    #[arg(long, value_name = "FILE", requires = "bisect", value_hint = ValueHint::FilePath,
        help_heading = "Bisect")]
    pub plan: Option<PathBuf>,
    /// Maximum number of trials of each build; if they don't decide, the exit code is 125
    #[arg(long, value_name = "N", requires = "bisect", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Bisect")]
    pub max_trials: u32,
    /// Time limit for the trials; if they don't decide by then, the exit code is 125
    #[arg(long, value_name = "TIME", requires = "bisect", help_heading = "Bisect")]
    pub within: Option<String>,
    /// Only rows with these settings; given twice, the first is for BEFORE and the second for AFTER
    #[arg(long = "where", value_name = "NAME=VALUE[,...]")]
    pub only: Vec<String>,
    /// Smallest difference that counts [default: 5%, or the smallest bound below it]
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE")]
    pub effect: Option<String>,
    /// Exit with code 1 if a rate fell by more than this
    #[arg(long, allow_hyphen_values = true, value_name = "SHARE", help_heading = "Bounds")]
    pub max_loss: Option<String>,
    /// Exit with code 1 if response times rose by more than this: 20% (for p50 and p99), or
    /// p99=20%,p50=5%; in an open loop also service-p50 and service-p99
    #[arg(long, value_name = "SHARES", value_delimiter = ',', help_heading = "Bounds")]
    pub max_slowdown: Vec<String>,
    /// Outcome if it is uncertain whether a bound is met: fail (exit code 4) or ok (0)
    #[arg(long, value_enum, default_value_t = Inconclusive::Fail, help_heading = "Bounds")]
    pub inconclusive: Inconclusive,
    /// Correction for multiple comparisons: none or holm
    #[arg(long, value_enum, default_value_t = Adjustment::None, help_heading = "Bounds")]
    pub adjust: Adjustment,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Output format
    #[arg(long, value_parser = one_of(&Format::COMPARE), default_value = "table")]
    pub format: Format,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print nothing; only set the exit code
    #[arg(long, short, conflicts_with = "output")]
    pub quiet: bool,
    /// With --bisect: flags of `dfsbench run` after `--`, such as -- --workload mixed
    #[arg(
        last = true,
        value_name = "FLAG OF RUN",
        requires = "bisect",
        allow_hyphen_values = true
    )]
    pub run: Vec<String>,
}

/// Options that a bisect does not have: its verdict is one line, and it has one bound.
const NOT_FOR_BISECT: [&str; 8] =
    ["only", "effect", "max_loss", "max_slowdown", "inconclusive", "adjust", "format", "output"];

/// Outcome if it is uncertain whether a bound is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inconclusive {
    /// Exit code 4: a bound fails unless it is shown to be met
    Fail,
    /// Exit code 0: a bound fails only if it is shown to be exceeded
    Ok,
}

/// Correction for multiple comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Adjustment {
    /// No correction
    None,
    /// At most a 5 % chance of any false alarm; needs more trials
    Holm,
}

/// Selects the properties that distinguish campaigns.
#[derive(Debug, Parser)]
pub(crate) struct ByArgs {
    /// Facts and labels to use as factors, instead of all that differ between the campaigns:
    /// fact.kernel, label.dram, tags, campaign
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub by: Vec<String>,
}

/// Shows which factors affect the results of a campaign, by how much, and how certain that is.
///
/// Shares are the part of the variance that a factor explains. Ratios compare a level with the
/// first one, other settings equal, and have 95 % intervals.
///
/// Several campaigns are analyzed as one set of runs. Properties that differ between them are
/// factors like any setting: host facts such as kernel, CPU or disk, labels, tags and names.
#[derive(Debug, Parser)]
#[command(after_help = FACTORS_EXAMPLES)]
pub(crate) struct FactorsArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// FILE:N, or a bundle; several are analyzed together
    #[arg(default_value = "last", value_name = "CAMPAIGN")]
    pub campaigns: Vec<String>,
    /// The properties that distinguish campaigns
    #[command(flatten)]
    pub by: ByArgs,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Output format
    #[arg(long, value_parser = one_of(&Format::FACTORS), default_value = "table")]
    pub format: Format,
}
