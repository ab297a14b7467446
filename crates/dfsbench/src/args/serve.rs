//! Arguments of `dfsbench serve`.

use clap::Parser;

/// Runs the in-memory NFS server until it is stopped, on loopback.
#[derive(Debug, Parser)]
pub struct ServeArgs {
    /// Port of NFS and MOUNT; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Memory for files, such as 1GiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: String,
    /// Threads; 0 is one per core
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Throw written data away and read zeros: limits of client and wire
    #[arg(long)]
    pub discard: bool,
    /// Answer each call this much later: a planned fault
    #[arg(long, value_name = "TIME")]
    pub service_time: Option<String>,
    /// Answer no call after this many: a planned fault
    #[arg(long, value_name = "N")]
    pub hang_after: Option<u64>,
    /// Close the connection after this many calls: a planned fault
    #[arg(long, value_name = "N")]
    pub close_after: Option<u64>,
    /// Refuse every mount: a planned fault
    #[arg(long)]
    pub refuse_mount: bool,
}
