//! Arguments of `dfsbench durability`.
//!
//! Every event has to be named; times and commands stay text here.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueHint};
use durability::DurabilityOptions;
use model::Durability;
use report::Format;

use super::{RESULTS, one_of};

const EXAMPLES: &str = "\
Examples:
  dfsbench durability --kill-server --fault lose-unstable
                                              the in-memory server, which loses uncommitted
                                              data when it restarts
  dfsbench durability nfs://server/export --kill-server \\
      --stop-command 'ssh server pkill -9 ganesha.nfsd' \\
      --start-command 'ssh server systemctl restart nfs-ganesha'
                                              your server, and how to kill and start it
  dfsbench durability nfs://server/export --power-cut server --confirm-power-cut server
                                              the host's kernel resets it, without a sync
  dfsbench durability nfs://10.0.0.9/export --power-cut rack9 --confirm-power-cut rack9 \\
      --power-cut-command 'ipmitool -H rack9-bmc chassis power cycle'
                                              a command that cuts the power, such as a BMC's
  dfsbench durability /mnt/gluster --lose-server node3 --confirm-lose-server node3 \\
      --lose-command 'ipmitool -H node3-bmc chassis power off'
                                              one of several servers does not come back
  dfsbench durability /mnt/data --kill-client --promise none,sync
  dfsbench durability contenders.toml --kill-server --campaign last
                                              each system that the plan sets up; results are
                                              stored with the campaign

Exit codes: 0 all promises were kept, 2 usage or plan, 3 a server, host or command can't be
used, 4 promised data was lost, could not be verified, or the measurement was interrupted.";

/// Tests the durability of a server or file system: writes data under each promise, triggers an
/// event such as a server crash, and reads everything back.
///
/// A separate process writes small and large files, overwrites, creates and renames, while this
/// process records each acknowledgement. Only the events you specify are triggered, one at a time:
/// new load, event, and verification by a new client. --stop-command and --start-command define how
/// to kill and start a server; the in-memory server needs neither.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags of the command line")]
pub(crate) struct DurabilityArgs {
    /// A directory, nfs://host[:port]/export, `embedded`, or a plan; if it sets up systems, they
    /// are tested one after the other [default: embedded]
    pub target: Option<String>,
    /// Kill the server process and start it again
    #[arg(long, help_heading = "Events")]
    pub kill_server: bool,
    /// Shell command that kills the server process; a nonzero exit code is an error
    #[arg(long, value_name = "COMMAND", requires = "kill_server", help_heading = "Events")]
    pub stop_command: Option<String>,
    /// Shell command that starts the server again; also run if dfsbench is killed meanwhile
    #[arg(long, value_name = "COMMAND", requires = "kill_server", help_heading = "Events")]
    pub start_command: Option<String>,
    /// Reset this host, named as for ssh, at once and without a sync (sysrq b as root)
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub power_cut: Option<String>,
    /// The same host again, as confirmation; nothing is reset otherwise
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub confirm_power_cut: Option<String>,
    /// Command that power-cycles the host, instead of ssh
    #[arg(long, value_name = "COMMAND", requires = "power_cut", help_heading = "Events")]
    pub power_cut_command: Option<String>,
    /// Command that makes the target available after the host booted, such as a mount
    #[arg(long, value_name = "COMMAND", requires = "power_cut", help_heading = "Events")]
    pub power_on_command: Option<String>,
    /// One of several servers that store the target's data, to be lost permanently
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub lose_server: Option<String>,
    /// The same server again, as confirmation; nothing is lost otherwise
    #[arg(long, value_name = "HOST", help_heading = "Events")]
    pub confirm_lose_server: Option<String>,
    /// Command that takes that server down; restoring it afterwards is up to you
    #[arg(long, value_name = "COMMAND", requires = "lose_server", help_heading = "Events")]
    pub lose_command: Option<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Events")]
    pub ssh_config: Option<PathBuf>,
    /// Kill the writing process
    #[arg(long, help_heading = "Events")]
    pub kill_client: bool,
    /// Cut the network between client and server for a time
    #[arg(long, help_heading = "Events")]
    pub cut_network: bool,
    /// Command that cuts the network
    #[arg(long, value_name = "COMMAND", requires = "cut_network", help_heading = "Events")]
    pub cut_command: Option<String>,
    /// Command that restores the network; also run if dfsbench is killed meanwhile
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
    /// Number of server crashes (--kill-server, --power-cut) right after an acknowledged write of
    /// each promise, with nothing in flight; a crash with ops in flight comes first
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Load",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub crashes: u32,
    /// Time from the last op to the event [default: none, ops are in flight]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub idle: Option<String>,
    /// Time limit of a client call; ten times as long when reading back
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "Load")]
    pub timeout: String,
    /// NFS version: 2, 3, 4.0, 4.1 or 4.2 [default: 3, or as the target says]
    #[arg(long, value_name = "VERSION", help_heading = "Load")]
    pub nfsvers: Option<String>,
    /// Fault of the in-memory server, as for `dfsbench serve --fault`
    #[arg(long, value_name = "FAULT", help_heading = "Load")]
    pub fault: Vec<String>,
    /// Device whose contents may be destroyed, as written in the plan
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', help_heading = "Load")]
    pub allow_destroy: Vec<PathBuf>,
    /// Time limit for the target to come back after an event; otherwise nothing is verified
    #[arg(long, value_name = "TIME", default_value = "2m", help_heading = "Reading back")]
    pub back_within: String,
    /// Command to run before files are read back, such as one that remounts
    #[arg(long, value_name = "COMMAND", help_heading = "Reading back")]
    pub before_reading: Option<String>,
    /// Output format
    #[arg(long, value_parser = one_of(&Format::DURABILITY), default_value = "table",
        help_heading = "Output")]
    pub format: Format,
    /// Store the results with this campaign in the results file, a number or `last` [default: as a
    /// campaign of their own, with a page]
    #[arg(long, value_name = "CAMPAIGN", help_heading = "Output")]
    pub campaign: Option<String>,
    /// Contender of that campaign that is tested, as named by `dfsbench contenders`; with a plan,
    /// the only one to test
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub contender: Option<String>,
    /// Path of the results file; leftovers of a killed measurement are recorded next to it for
    /// `dfsbench clean`
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath,
        help_heading = "Output")]
    pub results: PathBuf,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

impl DurabilityArgs {
    /// Returns the options of the measurement, all but its target and its output.
    pub(crate) fn options(&self) -> DurabilityOptions {
        DurabilityOptions {
            kill_server: self.kill_server,
            stop_command: self.stop_command.clone(),
            start_command: self.start_command.clone(),
            power_cut: self.power_cut.clone(),
            confirm_power_cut: self.confirm_power_cut.clone(),
            power_cut_command: self.power_cut_command.clone(),
            power_on_command: self.power_on_command.clone(),
            lose_server: self.lose_server.clone(),
            confirm_lose_server: self.confirm_lose_server.clone(),
            lose_command: self.lose_command.clone(),
            ssh_config: self.ssh_config.clone(),
            kill_client: self.kill_client,
            cut_network: self.cut_network,
            cut_command: self.cut_command.clone(),
            restore_command: self.restore_command.clone(),
            cut_for: self.cut_for.clone(),
            promises: self.promise.clone(),
            rounds: self.rounds,
            crashes: self.crashes,
            idle: self.idle.clone(),
            timeout: self.timeout.clone(),
            faults: self.fault.clone(),
            back_within: self.back_within.clone(),
            before_reading: self.before_reading.clone(),
            campaign: self.campaign.clone(),
            contender: self.contender.clone(),
        }
    }
}
