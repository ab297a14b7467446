//! Arguments of `dfsbench ramp`.
//!
//! What is measured, and with which settings, is given as for `dfsbench run`.

use clap::{Parser, ValueEnum};

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench ramp                                     the in-memory server of this program
  dfsbench ramp 'nfs://server/export' --workload mixed --duration 2s --max 5000
                                                    emulated clients: 1, 2, 4 ... 5000
  dfsbench ramp 'nfs://server/export' --workload mixed --raise rate --from 1000 --max 1000000
                                                    an offered load instead
  dfsbench ramp fleet.toml --recovery 2m            client hosts; two minutes to recover
  dfsbench ramp nfs.dfst nfs://server/export        at what multiple of a captured load? Options as
                                                    for `dfsbench replay`
  dfsbench report                                   the answer again, from the results file

Exit codes: 0 the limit is known, 2 usage or plan, 3 a server or host can't be used,
4 interrupted, or the server never recovered.";

/// Raises the load until a server breaks, says how it broke, and whether and how fast it recovers.
///
/// The load is doubled until throughput falls, response times explode, ops fail, or no reply
/// arrives; then the limit is bisected. After each overload the lightest load is repeated until it
/// is served as before.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct RampArgs {
    /// Number that is raised [default: client hosts where the target has some, else clients]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Ramp")]
    pub raise: Option<Raise>,
    /// The lightest load [default: 1 client or client host, 100 op/s]
    #[arg(long, value_name = "N", help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub from: Option<u32>,
    /// The heaviest [default: 1000 clients or client hosts, 1000000 op/s; 64 clients without
    /// a target]
    #[arg(long, value_name = "N", help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub max: Option<u32>,
    /// How long the server may take to recover after the load is removed
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Ramp")]
    pub recovery: String,
    /// Response times have exploded where the 99th percentile is this many times its first value
    #[arg(long, value_name = "FACTOR", default_value_t = 10, help_heading = "Ramp",
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub slower: u32,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}

/// The number that a ramp may raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Raise {
    /// Clients that are emulated
    Clients,
    /// Client hosts that work at one moment
    #[value(name = "client_hosts")]
    ClientHosts,
    /// The offered load, in ops per second
    Rate,
}
