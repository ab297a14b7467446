//! Arguments of `dfsbench soak`.
//!
//! Everything that a run takes, and what only a soak asks for. Times and disturbances stay text
//! here; [`crate::soak`] reads them.

use clap::Parser;

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench soak                               30 s against the in-memory server, which restarts
                                              once and stalls once
  dfsbench soak nfs://server/export --duration 8h --rate 2000 --file-size 256MiB --files 64
                                              a night at a steady load, every byte verified
  dfsbench soak plan.toml --duration 1h --disturb 'nfsd-stop on server at 10m for 30s'
                                              the kernel's server of a host that the plan sets up
                                              is stopped for half a minute
  dfsbench soak --duration 1min --disturb 'server-stall at 10s for 5s'
  dfsbench soak --disturb none                nothing is disturbed

Disturbances: server-restart, server-stall (the in-memory server); nfsd-stop, network-cut,
disk-full (a server that the plan sets up); client-kill (one of several client hosts); clock-step
(a host that ssh leads to). A plan has them as [[disturb]], with kind, host, at, for and by.

Exit codes: 0 it survived, 2 usage or plan, 3 a server or host can't be used, 4 data was lost, ops
failed, it never recovered, or the soak was interrupted.";

/// Says whether a server survives: a steady load for hours, every byte verified, and what happens
/// to hosts meanwhile.
///
/// Each block is stamped and booked. What a server acknowledged as safe before it was disturbed
/// has to be there afterwards; what it did not is listed. All else is as for `dfsbench run`.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct SoakArgs {
    /// The work that is measured.
    #[command(flatten)]
    pub run: RunArgs,
    /// How long one segment measures before all is read back and stored [default: a 120th of
    /// --duration, 15 s at least and 10 min at most]
    #[arg(long, value_name = "TIME", help_heading = "Soak")]
    pub segment: Option<String>,
    /// Disturbances of hosts meanwhile, each once: `WHAT [on HOST] at TIME [for TIME] [by TIME]`,
    /// or `none`; wins over [[disturb]] of the plan
    #[arg(long, value_name = "DISTURBANCE", help_heading = "Soak")]
    pub disturb: Vec<String>,
    /// Ops after which a worker has one of its files made safe with COMMIT or fsync; 0 leaves that
    /// to the end of each segment
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Soak")]
    pub commit_every: u32,
    /// Planned fault of the in-memory server, as `dfsbench serve --fault` has it
    #[arg(long, value_name = "FAULT", help_heading = "Soak")]
    pub fault: Vec<String>,
}
