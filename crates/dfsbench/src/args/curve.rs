//! Arguments of `dfsbench curve`.
//!
//! What is measured, and with which settings, is given as for `dfsbench run`; the load points alone
//! are a curve's own.

use clap::Parser;

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench curve                                    the in-memory server of this program, 50 s
  dfsbench curve 'nfs://server/export' --clients 32
                                                    a server, as SFS 3.0 measures: 10 load points
                                                    of 300 s each after 300 s of warm-up
  dfsbench curve 'nfs://server/export' --max-load 5000 --warmup 10s --duration 60s
                                                    500, 1000 ... 5000 op/s, and quicker
  dfsbench curve 'nfs://server/export' --mix laddis-like --nfsvers 3,4.1
                                                    two curves in one figure
  dfsbench curve 'nfs://server/export' --bound 20ms
                                                    the heaviest load whose mean response time is
                                                    20 ms, in at most 7 load points
  dfsbench compare 3 4                              two curves of the same loads, point by point

The mix is LADDIS-like. These are not SPEC SFS results, and not comparable with those that SPEC
publishes.

Exit codes: 0 ok, 2 usage or plan, 3 a server or host can't be used, 4 measured, but a load point
has no figure, or no load keeps the bound.";

/// Draws a load curve: response time over throughput, from light loads to overload.
///
/// Load points are evenly spaced. At each, the calls of a mix (sfs3-like-v3, unless --mix or a
/// plan names another) are scheduled at random instants, whether or not the server keeps up:
/// response times count from then on. The report has peak, overall response time and knee, and the
/// load points that were not carried or break a rule.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct CurveArgs {
    /// Number of load points, 10 to 100, evenly spaced up to the heaviest
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Curve",
        value_parser = clap::value_parser!(u32).range(10..=100))]
    pub points: u32,
    /// The heaviest load, in ops per second [default: the rate of a short closed loop]
    #[arg(long, value_name = "RATE", help_heading = "Curve",
        value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    pub max_load: Option<u64>,
    /// Search the heaviest load with at most this response time, such as 20ms
    #[arg(long, value_name = "TIME", help_heading = "Curve", conflicts_with = "points")]
    pub bound: Option<String>,
    /// Apply the bound to this percentile, such as 99 or 99.9, instead of the mean
    #[arg(long, value_name = "PERCENT", help_heading = "Curve", requires = "bound")]
    pub bound_quantile: Option<String>,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}
