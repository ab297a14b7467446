//! Arguments of `dfsbench capture`, which makes traces, and `dfsbench describe`, which reads them.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueEnum, ValueHint};

const CAPTURE_EXAMPLES: &str = "\
Examples:
  tcpdump -i eth0 -s 0 -w nfs.pcap port 2049       on the client or the server, for a while
  dfsbench capture nfs.pcap -o nfs.dfst            its NFS traffic, without names and data
  dfsbench capture ring_*.pcapng -o nfs.dfst       several files as one trace, in this order
  dfsbench capture --interface eth0 --for 10m -o nfs.dfst
                                                   without tcpdump, as root
  ssh server tcpdump -w - port 2049 | dfsbench capture - -o nfs.dfst
  strace -f -ttt -T -y -o app.strace PROGRAM       what a program does to local files
  dfsbench capture --from strace app.strace --root /data -o app.dfst

Capture whole packets (-s 0, or --interface, which drops data): a packet can hold several calls,
and a snap length such as -s 256 loses all but the first.
A trace has neither data nor names nor addresses; docs/trace.md says what it reveals.";

/// Converts packet captures to a trace of NFS traffic: NFSv2 to v4.2 and MOUNT, over TCP and UDP.
///
/// Reads pcap and pcapng files, with VLAN tags, IPv4 and IPv6. Connections are recognized by their
/// contents on any port, even if the capture starts in the middle of them. Dropped packets, calls
/// without replies and missing bytes are counted and recorded in the trace.
#[derive(Debug, Parser)]
#[command(after_help = CAPTURE_EXAMPLES)]
pub(crate) struct CaptureArgs {
    /// Packet captures in chronological order; `-` is stdin
    #[arg(required_unless_present = "interface", value_hint = ValueHint::FilePath)]
    pub captures: Vec<PathBuf>,
    /// Capture the packets of a network interface, as root or with CAP_NET_RAW
    #[arg(long, short, value_name = "NAME", conflicts_with = "captures")]
    pub interface: Option<String>,
    /// How long to capture an interface, such as 10m [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", requires = "interface")]
    pub r#for: Option<String>,
    /// Import the I/O of a program instead: the output of strace -f -ttt -T -y, or a log of fio
    /// (--write_iolog)
    #[arg(long, value_name = "KIND", conflicts_with = "interface")]
    pub from: Option<ImportKind>,
    /// With --from: the directory whose files are imported; required for strace [default: the
    /// directory that contains all files of the log]
    #[arg(long, value_name = "DIR", requires = "from", value_hint = ValueHint::DirPath)]
    pub root: Option<String>,
    /// With --from strace: the directory in which the program started, for output without -y
    /// [default: that of --root]
    #[arg(long, value_name = "DIR", requires = "from", value_hint = ValueHint::DirPath)]
    pub cwd: Option<String>,
    /// File to write the trace to; `-` is stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Keep file names and host addresses instead of keyed hashes of them
    #[arg(long)]
    pub keep_names: bool,
    /// Don't print a summary
    #[arg(long, short)]
    pub quiet: bool,
}

/// Texts that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportKind {
    /// Output of strace
    Strace,
    /// Log of fio, version 2 or 3
    Iolog,
}

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  dfsbench describe nfs.dfst                       calls, data, files, clients, arrivals, over time
  dfsbench describe nfs.dfst --format json | jq .reads
  dfsbench describe nfs.dfst --as-plan -o load.toml && dfsbench run load.toml --dry-run
  dfsbench describe DIR                            files, sizes, levels and entries of a tree
  dfsbench describe DIR --as-plan -o tree.toml && dfsbench run DIR --plan tree.toml --dry-run";

/// Describes the load in a trace, or the shape of a directory tree.
///
/// Of a trace: calls by kind, client and time, response times, sizes, sequential and random
/// accesses, files, working set, bursts, and how complete the trace is. Of a directory: files,
/// bytes, sizes, levels, and entries per directory. Names and attributes are read, symbolic links
/// are not followed, and other file systems not entered.
///
/// Response times are as seen where the traffic was captured. An NFSv4 compound counts as its main
/// operation.
#[derive(Debug, Parser)]
#[command(after_help = DESCRIBE_EXAMPLES)]
pub(crate) struct DescribeArgs {
    /// Trace from `dfsbench capture`, `-` for stdin, or a directory
    #[arg(value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// Output format
    #[arg(long, default_value = "text")]
    pub format: DescribeFormat,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print a plan that models this load with an op_mix, or this tree with metadata, and how far
    /// the model is off
    #[arg(long, conflicts_with = "format")]
    pub as_plan: bool,
}

/// Output formats of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DescribeFormat {
    /// Tables with aligned columns
    Text,
    /// Tables in Markdown
    Markdown,
    /// A page with pictures
    Html,
    /// One JSON object with all figures
    Json,
}
