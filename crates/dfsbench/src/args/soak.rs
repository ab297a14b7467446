//! Arguments of `dfsbench soak`.
//!
//! The options of a run, and those of a soak alone. Times and disturbances stay text
//! here; [`crate::commands::soak`] reads them.

use clap::Parser;

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench soak                               30 s against the in-memory server, which restarts
                                              once and stalls once
  dfsbench soak nfs://server/export --duration 8h --rate 2000 --file-size 256MiB --files 64
                                              a night of steady load, with every byte verified
  dfsbench soak plan.toml --duration 1h --disturb 'nfsd-stop on server at 10m for 20s'
                                              the kernel's server of a host that the plan sets up
                                              is stopped for 20 s
  dfsbench soak --duration 1min --disturb 'server-stall at 10s for 3s'
  dfsbench soak --disturb none                without disturbances

Disturbances: server-restart, server-stall (the in-memory server); nfsd-stop, network-cut,
disk-full (a server that the plan sets up); client-kill (one of several client hosts); clock-step
(a host that ssh leads to). A plan has them as [[disturb]], with kind, host, at, for and by.

Exit codes: 0 it survived, 2 usage or plan, 3 a server or host can't be used, 4 data was lost, ops
failed, the server never recovered, or the soak was interrupted.";

/// Tests whether a server survives hours of steady load while hosts are disturbed, and verifies
/// every byte.
///
/// Every block is stamped and journaled. Data that the server acknowledged as stable before a
/// disturbance must still be there afterwards; losses of other data are listed. All options of
/// `dfsbench run` apply.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct SoakArgs {
    /// Length of a segment, after which all data is read back and results are stored [default: a
    /// 120th of --duration, from 15 s to 10 min]
    #[arg(long, value_name = "TIME", help_heading = "Soak")]
    pub segment: Option<String>,
    /// A disturbance: `WHAT [on HOST] at TIME [for TIME] [by TIME]`, or `none`; may be repeated;
    /// replaces [[disturb]] in the plan
    #[arg(long, value_name = "DISTURBANCE", help_heading = "Soak")]
    pub disturb: Vec<String>,
    /// Number of ops after which a worker sends COMMIT or fsync for one of its files; 0: only at
    /// the end of each segment
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Soak")]
    pub commit_every: u32,
    /// Fault of the in-memory server, as for `dfsbench serve --fault`; a timed one, such as
    /// `restart at 3s` or `stall 2s at 9s`, counts as a disturbance like those of --disturb
    #[arg(long, value_name = "FAULT", help_heading = "Soak")]
    pub fault: Vec<String>,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}
