//! Arguments of `dfsbench ladder`.
//!
//! [`LadderArgs`] is the main type. Doc comments are the help texts; the examples are printed below
//! them.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench ladder                             the bottleneck of NFS on this machine: memory, TCP,
                                              RPC or the in-memory server, in less than a minute
  dfsbench ladder nfs://server/export         your server, compared with the in-memory one and
                                              the same client
  dfsbench ladder nfs://server/export --transfer-size 4KiB
                                              the same, and the cost of this transfer size
  dfsbench ladder nfs://server/export --own-server nfs://server:20490/export
                                              with a `dfsbench serve` on the server's host, which
                                              separates the network from the server
  dfsbench ladder plan.toml                   hosts that are set up: the server's disk, the mount on
                                              the server, the mount of the client";

/// Finds the bottleneck: runs the same work at each layer of the data path.
///
/// The layers are this program itself, memory, TCP without RPC, our server with our client, the
/// server under test and, if a plan sets up hosts, its disk and mounts. Their trials are
/// interleaved. The answer names the limiting layer, the gain from removing it, the certainty, and
/// open questions. docs/ladder.md describes the method.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct LadderArgs {
    /// A `dfsbench serve` on the server's host, without faults: nfs://host:port/export
    #[arg(long, value_name = "URL", help_heading = "Ladder")]
    pub own_server: Option<String>,
    /// Directory that the server exports, if it runs on this host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Ladder")]
    pub server_disk: Option<PathBuf>,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}
