//! Arguments of `dfsbench replay`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::DescribeFormat;

const EXAMPLES: &str = "\
Examples:
  dfsbench replay nfs.dfst embedded                the in-memory server of this program
  dfsbench replay nfs.dfst nfs://server/export     as it was: the same instants, sizes, order
  dfsbench replay nfs.dfst /mnt/nfs                by system calls: any file system
  dfsbench replay nfs.dfst 'nfs://server/export?version=4.1' --speed 1,2,4
                                                   at what multiple does the server fall behind?
  dfsbench ramp nfs.dfst nfs://server/export       the search for it: up to --max times as fast
  dfsbench curve nfs.dfst nfs://server/export      the same, with the loads below it
  dfsbench replay nfs.dfst nfs://server/export --closed --filled
  dfsbench replay nfs.dfst nfs://server/export --hosts h1,h2,h3
                                                   more load than one host makes
  dfsbench replay nfs.dfst nfs://server/export --format html -o replay.html
  dfsbench replay nfs.dfst nfs://a/export --format json -o a.json
  dfsbench replay nfs.dfst nfs://b/export --format json -o b.json
  dfsbench compare a.json b.json                   two servers, by kind and over time

Exit codes: 0 every operation was replayed and ended as in the trace, 2 usage or trace, 3 the server
can't be used, 4 operations failed that did not fail in the trace, or it was interrupted.";

/// Replays a trace on an NFS server or in a directory, and compares response times with the trace.
///
/// The tree that the trace takes for granted is built first, in a directory of its own that is
/// removed at the end. Each client of the trace has a connection. An operation starts at its
/// instant whether or not the server keeps up, unless it needs the reply to another one;
/// docs/replay.md says what is kept and what is not replayed.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct ReplayArgs {
    /// A trace that `dfsbench capture` has made; `-` is stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// nfs://host[:port]/export, embedded, or a directory
    pub target: String,
    /// Times as fast as the trace; several are replayed one after the other
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_value = "1")]
    pub speed: Vec<String>,
    /// Search the speed at which the target breaks, as `dfsbench ramp TRACE` does
    #[arg(long, conflicts_with_all = ["speed", "closed", "tree", "curve"])]
    pub ramp: bool,
    /// The same, with replays at evenly spaced loads below it, as `dfsbench curve TRACE` does
    #[arg(long, conflicts_with_all = ["speed", "closed", "tree"])]
    pub curve: bool,
    /// The fastest replay of --ramp and --curve, times as fast as the trace
    #[arg(long, value_name = "FACTOR", default_value_t = 1000.0, value_parser = parse_factor)]
    pub max: f64,
    /// Loads of --curve
    #[arg(long, value_name = "N", default_value_t = 8, requires = "curve",
        value_parser = clap::value_parser!(u32).range(2..=12))]
    pub points: u32,
    /// Replay as fast as the order allows, with as many calls in flight as in the trace
    #[arg(long, conflicts_with = "speed")]
    pub closed: bool,
    /// With --closed: keep the pauses of each client between a reply and its next operation
    #[arg(long, requires = "closed")]
    pub think_times: bool,
    /// Replay it again and again: so many times, or for a time such as 10m. Each round has a new
    /// tree; the figures are those of all rounds
    #[arg(long, value_name = "ROUNDS|TIME")]
    pub r#loop: Option<String>,
    /// Part of the trace, as times from its beginning or times of day in UTC, such as 10s..40s,
    /// 5m.. or 10:00..10:05 [default: all]
    #[arg(long, value_name = "FROM..TO")]
    pub window: Option<String>,
    /// Emulated clients at most; those of the trace take turns [default: those of the trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Option<u32>,
    /// Hosts, as ssh finds them, that share the clients; this one then only conducts
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", requires = "hosts", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
    /// Version of NFS: 2, 3, 4.0, 4.1 or 4.2 [default: that of the address, else 3]
    #[arg(long, value_name = "VERSION")]
    pub nfsvers: Option<String>,
    /// Write the data of the tree's files instead of setting their sizes
    #[arg(long)]
    pub filled: bool,
    /// Directory in the export for the tree, which is kept, and used again where it is there
    /// [default: a new one, which is removed]
    #[arg(long, value_name = "NAME")]
    pub tree: Option<String>,
    /// Build the tree and end
    #[arg(long, requires = "tree")]
    pub prepare_only: bool,
    /// Output format
    #[arg(long, default_value = "text")]
    pub format: DescribeFormat,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("not a factor from 0.001 to 1000".to_owned()),
    }
}
