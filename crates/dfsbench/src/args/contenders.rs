//! Arguments of `dfsbench contenders`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use report::Format;

use super::{RESULTS, one_of};

const EXAMPLES: &str = "\
Examples:
  dfsbench run contenders.toml                      measure systems set up by recipes
  dfsbench durability nfs://server/export --power-cut server --confirm-power-cut server \\
      --campaign last --contender 'knfsd export=async'
                                                    test the durability of one of them
  dfsbench contenders --baseline 'knfsd export=sync'
                                                    all of them relative to that one
  dfsbench contenders 3 --format markdown           the same for a page of documentation
  dfsbench contenders 3 --format html --output contenders.html
                                                    one page with pictures

Exit codes: 0 ok, 2 wrong usage, 4 a contender failed in some work and has no result there.";

/// Compares the file systems in a campaign: other differences between them, which crashes their
/// durability survives, and how fast each is relative to a baseline.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ContendersArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// FILE:N, or a bundle
    #[arg(default_value = "last", value_name = "CAMPAIGN")]
    pub campaign: String,
    /// Contender that others are compared with: a target and the plan's settings of its system
    /// [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Output format
    #[arg(long, value_parser = one_of(&Format::CONTENDERS), default_value = "table")]
    pub format: Format,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
