//! Arguments of `dfsbench bundle` and `dfsbench verify`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use report::Format;

use super::{RESULTS, one_of};

const BUNDLE_EXAMPLES: &str = "\
Examples:
  dfsbench bundle                                   the last campaign, as result.dfsb
  dfsbench bundle old.db:3 --output lab-a.dfsb      campaign 3 of another file

The bundle contains everything that the results file has about the campaign: results, plan, host
names, addresses, paths, mount options, user ids, the command line, tags and notes. The command
lists the names in it. It only writes the file; nothing is sent anywhere.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  dfsbench verify result.dfsb                       VALID or INVALID, with reasons
  dfsbench verify result.dfsb --rules strict        the rules for published results
  dfsbench verify result.dfsb --rules ours.toml     rules of a file (docs/bundles.md)
  dfsbench verify --list-rules --rules strict       ids, titles and reasons
  dfsbench verify *.dfsb --format html --output all.html
                                                    one page with the results of all of them

Exit codes: 0 all bundles are valid, 1 one is invalid, 2 wrong usage, or not a bundle.";

/// Packs a campaign with its plan, facts, verdicts and hashes into one file.
///
/// The same campaign always gives the same bytes, whatever results file it is in.
#[derive(Debug, Parser)]
#[command(after_help = BUNDLE_EXAMPLES)]
pub(crate) struct BundleArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// or FILE:N
    #[arg(default_value = "last", value_name = "CAMPAIGN")]
    pub campaign: String,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// The bundle to write
    #[arg(long, short, value_name = "FILE", default_value = "result.dfsb",
        value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Pack a campaign although it was stopped before its end
    #[arg(long)]
    pub unfinished: bool,
}

/// Checks whether bundles are as they were packed, complete, and keep the rules for results that
/// others may rely on.
///
/// Verdicts and rates are computed again from the stored samples. The outcome depends only on the
/// bundle, the rules and the version of dfsbench: everybody gets the same.
#[derive(Debug, Parser)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Bundles of `dfsbench bundle`
    #[arg(required_unless_present = "list_rules", value_name = "BUNDLE",
        value_hint = ValueHint::FilePath)]
    pub bundles: Vec<PathBuf>,
    /// `standard`, `strict`, or a file of rules
    #[arg(long, value_name = "RULES", default_value = "standard")]
    pub rules: String,
    /// List the rules instead of checking a bundle
    #[arg(long, conflicts_with_all = ["bundles", "format", "json", "output"])]
    pub list_rules: bool,
    /// Output format; html is one page with all results, to sort and filter
    #[arg(long, value_parser = one_of(&Format::VERIFY), default_value = "table")]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
