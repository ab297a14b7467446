//! Arguments of `dfsbench durability`.
//!
//! Every event has to be named; times and commands stay text here.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueHint};
use model::Durability;
use report::Format;

use super::{RESULTS, one_of};

const EXAMPLES: &str = "\
Examples:
  dfsbench durability --kill-server --fault lose-unstable
                                              the in-memory server, which loses what was not
                                              committed when it restarts
  dfsbench durability nfs://server/export --kill-server \\
      --stop-command 'ssh server pkill -9 ganesha.nfsd' \\
      --start-command 'ssh server systemctl restart nfs-ganesha'
                                              a server of yours: how to kill and to start it
  dfsbench durability nfs://server/export --power-cut server --confirm-power-cut server
                                              the host is reset by its own kernel, without a sync
  dfsbench durability nfs://10.0.0.9/export --power-cut rack9 --confirm-power-cut rack9 \\
      --power-cut-command 'ipmitool -H rack9-bmc chassis power cycle'
                                              any command that cuts the power, such as of a BMC
  dfsbench durability /mnt/gluster --lose-server node3 --confirm-lose-server node3 \\
      --lose-command 'ipmitool -H node3-bmc chassis power off'
                                              one of several servers does not come back
  dfsbench durability /mnt/data --kill-client --promise none,sync
  dfsbench durability contenders.toml --kill-server --campaign last
                                              each system that the plan sets up; their tiers are
                                              kept with the campaign

Exit codes: 0 all that was promised was kept, 2 usage or plan, 3 a server, host or command can't be
used, 4 promised data was lost, could not be verified, or the measurement was interrupted.";

/// Measures what a server or file system really keeps: it writes under each promise, makes an event
/// such as a crash of the server, and reads everything back.
///
/// Small and large files, overwrites, creates and renames are written by a process of its own, and
/// each acknowledgement is noted in this process. Only events that are named are made, each by
/// itself: a new load, the event, a new client that reads back. Say by --stop-command and
/// --start-command how a server is killed and started; the in-memory server needs neither.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags of the command line")]
pub struct DurabilityArgs {
    /// A directory, nfs://host[:port]/export, `embedded`, or a plan; one that sets up systems is
    /// measured contender after contender [default: embedded]
    pub target: Option<String>,
    /// Kill the server's process, and start it again
    #[arg(long, help_heading = "Events")]
    pub kill_server: bool,
    /// Command that kills the server's process, run by sh; an exit code but 0 is an error
    #[arg(long, value_name = "COMMAND", requires = "kill_server", help_heading = "Events")]
    pub stop_command: Option<String>,
    /// Command that starts the server again; also run where dfsbench itself is killed meanwhile
    #[arg(long, value_name = "COMMAND", requires = "kill_server", help_heading = "Events")]
    pub start_command: Option<String>,
    /// Reset a host at once, without a sync, as ssh finds it and as root (sysrq b)
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub power_cut: Option<String>,
    /// Name of the same host again: nothing is reset unless both agree
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub confirm_power_cut: Option<String>,
    /// Command that cuts the host's power and restores it, in place of ssh
    #[arg(long, value_name = "COMMAND", requires = "power_cut", help_heading = "Events")]
    pub power_cut_command: Option<String>,
    /// Command that makes the target available after the host has started, such as a mount
    #[arg(long, value_name = "COMMAND", requires = "power_cut", help_heading = "Events")]
    pub power_on_command: Option<String>,
    /// One of several servers that keep the target's data, lost for good: nothing brings it back
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub lose_server: Option<String>,
    /// Name of the same server again: nothing is lost unless both agree
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub confirm_lose_server: Option<String>,
    /// Command by which that server is lost; what its host needs afterwards is yours to do
    #[arg(long, value_name = "COMMAND", requires = "lose_server", help_heading = "Events")]
    pub lose_command: Option<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Events")]
    pub ssh_config: Option<PathBuf>,
    /// Kill the process that writes
    #[arg(long, help_heading = "Events")]
    pub kill_client: bool,
    /// Cut the network between client and server for a time
    #[arg(long, help_heading = "Events")]
    pub cut_network: bool,
    /// Command that cuts the network
    #[arg(long, value_name = "COMMAND", requires = "cut_network", help_heading = "Events")]
    pub cut_command: Option<String>,
    /// Command that restores the network; also run where dfsbench itself is killed meanwhile
    #[arg(long, value_name = "COMMAND", requires = "cut_network", help_heading = "Events")]
    pub restore_command: Option<String>,
    /// How long the network is cut
    #[arg(long, value_name = "TIME", default_value = "5s", help_heading = "Events")]
    pub cut_for: String,
    /// Promises to measure: none (write), close, sync (fsync, COMMIT), dsync (O_DSYNC, DATA_SYNC),
    /// osync (O_SYNC, FILE_SYNC)
    #[arg(long, value_name = "PROMISE", value_delimiter = ',', help_heading = "Load",
        value_parser = PossibleValuesParser::new(Durability::NAMES),
        default_value = "none,close,sync,dsync,osync")]
    pub promise: Vec<String>,
    /// Rounds of work before the event; each writes 344 KiB in 16 ops for each promise
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Load",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Crashes of a server (--kill-server, --power-cut) before which each promise that is kept has
    /// the last acknowledged write, with nothing in flight; one with ops in flight comes first
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Load",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub crashes: u32,
    /// Time from the last op to the event [default: the event is made while ops are in flight]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub idle: Option<String>,
    /// Time limit of a call of the client, and of one that reads back in tenfold
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Load")]
    pub timeout: String,
    /// Version of NFS: 2, 3, 4.0, 4.1 or 4.2 [default: 3, or as the target says]
    #[arg(long, value_name = "VERSION", help_heading = "Load")]
    pub nfsvers: Option<String>,
    /// Planned fault of the in-memory server, as for `dfsbench serve --fault`
    #[arg(long, value_name = "FAULT", help_heading = "Load")]
    pub fault: Vec<String>,
    /// Device whose contents may be destroyed, as written in the plan
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', help_heading = "Load")]
    pub allow_destroy: Vec<PathBuf>,
    /// Time limit for the target to be back after an event; later nothing can be verified
    #[arg(long, value_name = "TIME", default_value = "2m", help_heading = "Reading back")]
    pub back_within: String,
    /// Command that is run before files are read back, such as one that mounts again
    #[arg(long, value_name = "COMMAND", help_heading = "Reading back")]
    pub before_reading: Option<String>,
    /// Form of the findings
    #[arg(long, value_parser = one_of(&Format::DURABILITY), default_value = "table",
        help_heading = "Output")]
    pub format: Format,
    /// Keep the findings with a campaign of the results file, by its number or `last` [default: as
    /// a campaign of their own, with a page]
    #[arg(long, value_name = "CAMPAIGN", help_heading = "Output")]
    pub campaign: Option<String>,
    /// The contender of that campaign that is measured: a target, with what the plan sets of its
    /// system, as `dfsbench contenders` names it; of a plan the only one to measure
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub contender: Option<String>,
    /// Path of the results file; what a killed measurement leaves at its target is recorded beside
    /// it, for `dfsbench clean`
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath,
        help_heading = "Output")]
    pub results: PathBuf,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}
