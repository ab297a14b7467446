//! Arguments of `dfsbench replay`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::DescribeFormat;

const EXAMPLES: &str = "\
Examples:
  dfsbench replay nfs.dfst embedded                the in-memory server of this program
  dfsbench replay nfs.dfst nfs://server/export     as recorded: same timing, sizes and order
  dfsbench replay nfs.dfst /mnt/nfs                through system calls, on any file system
  dfsbench replay nfs.dfst 'nfs://server/export?version=4.1' --speed 1,2,4
                                                   find when the server falls behind
  dfsbench ramp nfs.dfst nfs://server/export       search for that speed, up to --max
  dfsbench curve nfs.dfst nfs://server/export      the same, with the loads below it
  dfsbench replay nfs.dfst nfs://server/export --closed --filled
  dfsbench replay nfs.dfst nfs://server/export --hosts h1,h2,h3
                                                   more load than one host can generate
  dfsbench replay nfs.dfst nfs://server/export --format html -o replay.html
  dfsbench replay nfs.dfst nfs://a/export --format json -o a.json
  dfsbench replay nfs.dfst nfs://b/export --format json -o b.json
  dfsbench compare a.json b.json                   compare two servers by kind and over time

Exit codes: 0 all operations ended as in the trace, 2 usage or trace, 3 the server
can't be used, 4 operations failed that did not fail in the trace, or it was interrupted.";

/// Replays a trace against an NFS server or directory, and compares response times with the trace.
///
/// First, the files that the trace expects are created in a temporary directory. Each client in the
/// trace has its own connection. Operations start on schedule whether or not the server keeps up,
/// unless they depend on the reply to another one. docs/replay.md describes what is preserved and
/// what is not replayed.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
pub(crate) struct ReplayArgs {
    /// Trace from `dfsbench capture`; `-` is stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// nfs://host[:port]/export, embedded, or a directory
    pub target: String,
    /// Speed relative to the trace; several are replayed one after the other
    #[arg(long, value_name = "FACTOR", value_delimiter = ',', default_value = "1")]
    pub speed: Vec<String>,
    /// Find the speed at which the target breaks, like `dfsbench ramp TRACE`
    #[arg(long, conflicts_with_all = ["speed", "closed", "tree", "curve"])]
    pub ramp: bool,
    /// The same, with replays at evenly spaced lower loads, like `dfsbench curve TRACE`
    #[arg(long, conflicts_with_all = ["speed", "closed", "tree"])]
    pub curve: bool,
    /// Maximum speed of --ramp and --curve, relative to the trace
    #[arg(long, value_name = "FACTOR", default_value_t = 1000.0, value_parser = parse_factor)]
    pub max: f64,
    /// Number of loads of --curve
    #[arg(long, value_name = "N", default_value_t = 8, requires = "curve",
        value_parser = clap::value_parser!(u32).range(2..=12))]
    pub points: u32,
    /// Replay as fast as possible in order, with as many calls in flight as in the trace
    #[arg(long, conflicts_with = "speed")]
    pub closed: bool,
    /// With --closed: keep each client's pauses between a reply and the next operation
    #[arg(long, requires = "closed")]
    pub think_times: bool,
    /// Repeat the replay this many times, or for a time such as 10m. Each round has a new tree;
    /// results cover all rounds
    #[arg(long, value_name = "ROUNDS|TIME")]
    pub r#loop: Option<String>,
    /// Part of the trace to replay, in time since its start or UTC time of day, such as 10s..40s,
    /// 5m.. or 10:00..10:05 [default: all]
    #[arg(long, value_name = "FROM..TO")]
    pub window: Option<String>,
    /// Maximum number of emulated clients, shared by those of the trace [default: as in the trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Option<u32>,
    /// Hosts, named as for ssh, that share the clients; this host then only coordinates
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", requires = "hosts", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
    /// NFS version: 2, 3, 4.0, 4.1 or 4.2 [default: that of the address, else 3]
    #[arg(long, value_name = "VERSION")]
    pub nfsvers: Option<String>,
    /// Write data to the tree's files instead of only setting their sizes
    #[arg(long)]
    pub filled: bool,
    /// Directory in the export for the tree, which is kept and reused if it exists [default: a
    /// temporary one]
    #[arg(long, value_name = "NAME")]
    pub tree: Option<String>,
    /// Build the tree and exit
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
