//! Arguments of `dfsbench probe`.
//!
//! Only what is asked and how the answer is shown; the questions are the client's.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use clap::Parser;
use report::Format;

use super::one_of;

/// Forms of a probe.
const FORMATS: [Format; 2] = [Format::Table, Format::Json];

const EXAMPLES: &str = "\
Examples:
  dfsbench probe nfs://server                 programs, versions, exports, limits, round trips
  dfsbench probe nfs://server:2049/export     one export, NFS on a port that is known
  dfsbench probe nfs://server --format json | jq .versions";

/// Tells what an NFS server offers: programs, versions, transports and ports, exports and who may
/// mount them, security flavours, limits, and the round trip of NULL over each transport.
///
/// What rpcinfo, showmount and nfsstat would tell together; nothing is mounted and nothing
/// changed. A question without an answer is told beside those with one.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// nfs://host[:port][/export][?mountport=..&uid=..&gid=..], or a host
    pub server: String,
    /// Form of what is printed
    #[arg(long, value_parser = one_of(&FORMATS), default_value = "table")]
    pub format: Format,
    /// How long one question may take
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub timeout: String,
    /// Port of the portmapper
    #[arg(long, value_name = "PORT", default_value_t = 111)]
    pub portmapper: u16,
}
