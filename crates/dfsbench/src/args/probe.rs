//! Arguments of `dfsbench probe`.
//!
//! The queries themselves are those of the crate `probe`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use clap::Parser;
use report::Format;

use super::one_of;

/// Forms of a probe.
const FORMATS: [Format; 2] = [Format::Table, Format::Json];

const EXAMPLES: &str = "\
Examples:
  dfsbench probe nfs://server                 programs, versions, exports, limits, round trips
  dfsbench probe nfs://server:2049/export     one export, with NFS on a known port
  dfsbench probe nfs://server --format json | jq .versions";

/// Shows what an NFS server offers: programs, versions, transports and ports, exports and who may
/// mount them, security flavors, limits, and the round-trip time of NULL over each transport.
///
/// This combines the output of rpcinfo, showmount and nfsstat. Nothing is mounted or changed.
/// Queries that fail are listed with their errors.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// nfs://host[:port][/export][?mountport=..&uid=..&gid=..], or a host
    pub server: String,
    /// Output format
    #[arg(long, value_parser = one_of(&FORMATS), default_value = "table")]
    pub format: Format,
    /// Time limit for each query
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub timeout: String,
    /// Port of the portmapper
    #[arg(long, value_name = "PORT", default_value_t = 111)]
    pub portmapper: u16,
}
