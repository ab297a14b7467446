//! Arguments of `dfsbench serve`.
//!
//! Faults use the words of plans (`[server.faults]`) and their parser.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Parser, ValueHint};
use plan::fault::KINDS;

const EXAMPLES: &str = "
Examples:
  dfsbench serve --fault 'service-time exponential 200us' --fault 'drop 0.1%'
  dfsbench serve --fault 'endless-readdir cookies' --fault 'trickle 1B/s'
  dfsbench serve --data-servers 4 --stripe-unit 64KiB
  dfsbench serve --listen 0.0.0.0 --allow 192.168.1.0/24 --port 2049 --memory 4GiB";

/// Lists every fault with its value and effect, from the parser's own table.
fn faults_help() -> String {
    let mut text = String::from(
        "Faults (CALL is all, READ, v3.READ ...; SHARE is a percentage such as 0.1%; also keys of \
         [server.faults]):\n",
    );
    for kind in &KINDS {
        let fault = format!("{} {}", kind.name.replace('_', "-"), kind.form);
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {}\n      {}", fault.trim_end(), kind.meaning);
    }
    text + EXAMPLES
}

/// Runs the in-memory NFS server until it is stopped, for kernel clients, libnfs, macOS or
/// `dfsbench run`.
///
/// The first line of stdout is the address for `dfsbench run`; mount commands go to stderr.
#[derive(Debug, Parser)]
#[command(after_help = faults_help())]
#[allow(clippy::struct_excessive_bools, reason = "they are flags of the command line")]
pub(crate) struct ServeArgs {
    /// Address to listen on; other than loopback only with --allow
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: String,
    /// Clients to allow besides loopback: addresses or ranges such as 192.168.1.0/24
    #[arg(long, value_name = "CIDR", value_delimiter = ',', num_args = 1..)]
    pub allow: Vec<String>,
    /// Port for NFS and MOUNT over TCP and UDP; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Also serve as portmapper and rpcbind on this port, such as 111
    #[arg(long, value_name = "PORT")]
    pub portmapper: Option<u16>,
    /// Versions to offer: 2, 3, 4.0, 4.1, 4.2 [default: all]
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub nfsvers: Vec<String>,
    /// Also serve versions 2 and 3 over UDP [the default]
    #[arg(long, overrides_with = "no_udp")]
    pub udp: bool,
    /// Serve over TCP only
    #[arg(long)]
    pub no_udp: bool,
    /// Offer RPC-over-TLS (RFC 9289), with a generated certificate unless one is given
    #[arg(long)]
    pub tls: bool,
    /// Certificate chain of the server (PEM), its own first
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Require client certificates signed by one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "tls", value_hint = ValueHint::FilePath)]
    pub tls_client_ca: Option<PathBuf>,
    /// Write the certificate that clients must trust (PEM) to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tls_ca_out: Option<PathBuf>,
    /// Memory for files, connections and clients, such as 1GiB; files get three quarters
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: String,
    /// Threads; 0 is one per core
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Discard written data and read zeros, to find the limits of client and network
    #[arg(long)]
    pub discard: bool,
    /// Whether to enforce mode bits and owners; user 0 may do everything
    #[arg(long, value_name = "SWITCH", value_parser = ["on", "off"], default_value = "on")]
    pub permissions: String,
    /// Whether to grant read delegations to clients of v4.1 and later, like kernel servers
    #[arg(long, value_name = "SWITCH", value_parser = ["on", "off"], default_value = "on")]
    pub delegations: String,
    /// Data servers of a pNFS cluster: a number to start here, or HOST:PORT/EXPORT of others
    #[arg(long, value_name = "N|ADDRESSES")]
    pub data_servers: Option<String>,
    /// Layouts that clients of v4.1 and later get: flexfiles, flexfiles-v4.1, flexfiles-tight or
    /// files [default: flexfiles]
    #[arg(long, value_name = "TYPE")]
    pub layouts: Option<String>,
    /// Consecutive bytes on one data server, or 0 to keep each file on one [default: 0; 1MiB for
    /// files]
    #[arg(long, value_name = "SIZE")]
    pub stripe_unit: Option<String>,
    /// Copies of the data, for flexible files [default: 1]
    #[arg(long, value_name = "N")]
    pub mirrors: Option<String>,
    /// Be a data server for the layouts `files` or `flexfiles-tight` of another server
    #[arg(long, conflicts_with = "data_servers")]
    pub data_server: bool,
    /// Fault to inject, see below; may be repeated
    #[arg(long, value_name = "'KIND VALUE'")]
    pub fault: Vec<String>,
    /// Seed for the random choices of faults
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub fault_seed: u64,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_names_every_fault() {
        let help = super::faults_help();
        for kind in &plan::fault::KINDS {
            let name = kind.name.replace('_', "-");
            assert!(help.contains(&format!("\n  {name}")), "{name}");
        }
    }
}
