//! Arguments of `dfsbench ladder`.
//!
//! [`LadderArgs`] is the principal type. Doc comments are the help texts, and the examples stand
//! below them.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench ladder                             what limits NFS on this machine: memory, TCP, RPC or
                                              our own server, in less than a minute
  dfsbench ladder nfs://server/export         a server of yours, against our own under the same
                                              client
  dfsbench ladder nfs://server/export --transfer-size 4KiB
                                              and what its transfer size costs
  dfsbench ladder nfs://server/export --own-server nfs://server:20490/export
                                              with a `dfsbench serve` on the server's host: tells
                                              the network from the server
  dfsbench ladder plan.toml                   hosts that are set up: the server's disk, the mount on
                                              the server, the mount of the client";

/// Tells what limits: does the same work on each layer of the data path.
///
/// Layers are this program alone, memory, TCP without RPC, our server under our client, the server
/// in question, and where a plan has hosts that are set up, its disk and its mounts. Their trials
/// are interleaved. The answer says which layer limits, what the next would give, how sure that is,
/// and which questions stay open. docs/ladder.md says how it is found.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct LadderArgs {
    /// A `dfsbench serve` on the server's host, without faults: nfs://host:port/export
    #[arg(long, value_name = "URL")]
    pub own_server: Option<String>,
    /// The directory that the server serves, where the server is this host
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub server_disk: Option<PathBuf>,
    /// The work, and where it leads
    #[command(flatten)]
    pub run: RunArgs,
}
