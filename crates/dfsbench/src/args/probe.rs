//! Arguments of `dfsbench probe`.
//!
//! The queries themselves are those of the crate `probe`.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use clap::Parser;
use report::Format;

use super::one_of;

/// Output formats of a probe.
const FORMATS: [Format; 2] = [Format::Table, Format::Json];

const EXAMPLES: &str = "\
Examples:
  dfsbench probe nfs://server                 programs, versions, exports, limits, round trips
  dfsbench probe nfs://server:2049/export     one export, with NFS on a known port
  dfsbench probe nfs://10.0.0.1 --also 10.0.1.1,10.0.2.1   which addresses can be trunked
  dfsbench probe nfs://server --format json | jq .versions";

/// Shows what an NFS server offers: programs, versions, transports and ports, exports and who may
/// mount them, security flavors, limits, and the round-trip time of NULL over each transport.
///
/// This combines the output of rpcinfo, showmount and nfsstat, and adds which addresses can be
/// trunked, and which pNFS layouts and data servers an export has. Nothing is mounted or changed.
/// Queries that fail are listed with their errors.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// nfs://host[:port][/export][?mountport=..&uid=..&gid=..], or a host
    pub server: String,
    /// Further addresses to compare with the server: IP addresses, with or without a port
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub also: Vec<String>,
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
