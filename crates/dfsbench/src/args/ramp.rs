//! Arguments of `dfsbench ramp`.
//!
//! Targets and settings are those of `dfsbench run`.

use clap::{Parser, ValueEnum};

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench ramp                                     the in-memory server of this program
  dfsbench ramp 'nfs://server/export' --workload mixed --duration 2s --max 5000
                                                    emulated clients: 1, 2, 4 ... 5000
  dfsbench ramp 'nfs://server/export' --workload mixed --raise rate --from 1000 --max 1000000
                                                    raise the offered load instead
  dfsbench ramp DIR --workload training --trained-model retinanet
                                                    accelerators that are fed fast enough
  dfsbench ramp fleet.toml --recovery 2m            client hosts; two minutes to recover
  dfsbench ramp /mnt/nfs --workload media --max 64  streams of frames: as many as are never late
  dfsbench ramp nfs.dfst nfs://server/export        find the highest multiple of a captured load;
                                                    options as for `dfsbench replay`
  dfsbench report                                   print the answer again

Exit codes: 0 the limit is known, 2 usage or plan, 3 a server or host can't be used,
4 interrupted, or the server never recovered.";

/// Raises the load until a server breaks, and reports how it broke and how fast it recovers, if at
/// all.
///
/// The load is doubled until throughput falls, response times explode, ops fail or replies stop;
/// then the limit is found by bisection. After each overload, the lightest load is repeated until
/// it performs as before.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct RampArgs {
    /// What to raise [default: streams of media; accelerators of a training; client hosts if the
    /// target has any; else clients]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Ramp")]
    pub raise: Option<Raise>,
    /// Lightest load [default: 1 client or client host, 100 op/s]
    #[arg(long, value_name = "N", help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub from: Option<u32>,
    /// Heaviest load [default: 1000 clients or client hosts, 1000000 op/s; 64 clients without a
    /// target]
    #[arg(long, value_name = "N", help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub max: Option<u32>,
    /// Time limit for the server to recover after the load is removed
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Ramp")]
    pub recovery: String,
    /// Factor by which the 99th percentile must grow to count as exploded
    #[arg(long, value_name = "FACTOR", default_value_t = 10, help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub slower: u32,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}

/// The quantity that a ramp raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Raise {
    /// Emulated clients
    Clients,
    /// Client hosts that work concurrently
    #[value(name = "client_hosts")]
    ClientHosts,
    /// Workers of each client host: streams of media
    Workers,
    /// The offered load, in ops per second
    Rate,
    /// Accelerators of each host that a training feeds, up to the last with the required AU
    Accelerators,
}
