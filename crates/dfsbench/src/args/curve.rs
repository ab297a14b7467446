//! Arguments of `dfsbench curve`.
//!
//! Targets and settings are those of `dfsbench run`; a curve adds only the load points.

use clap::Parser;

use super::RunArgs;

const EXAMPLES: &str = "\
Examples:
  dfsbench curve                                    the in-memory server of this program, 50 s
  dfsbench curve 'nfs://server/export' --clients 32
                                                    a server, measured like SFS 3.0: 10 load points
                                                    of 300 s each after 300 s of warm-up
  dfsbench curve 'nfs://server/export' --max-load 5000 --warmup 10s --duration 60s
                                                    500, 1000 ... 5000 op/s, and quicker
  dfsbench curve 'nfs://server/export' --mix laddis-like --nfsvers 3,4.1
                                                    two curves in one figure
  dfsbench curve 'nfs://server/export' --bound 20ms
                                                    the highest load with a mean response time of
                                                    at most 20 ms, in up to 7 load points
  dfsbench compare 3 4                              compare two curves of the same loads by point

The mix is LADDIS-like. These are not SPEC SFS results and can't be compared with those that SPEC
publishes.

Exit codes: 0 ok, 2 usage or plan, 3 a server or host can't be used, 4 measured, but a load point
has no result, or no load meets the bound.";

/// Draws a load curve: response time over throughput, from light loads to overload.
///
/// Load points are evenly spaced. At each, calls of a mix (sfs3-like-v3 by default) are scheduled
/// at random times, whether or not the server keeps up; response times count from the scheduled
/// time. The report shows the peak, overall response time and knee, and the load points that the
/// server did not sustain or that break a rule.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct CurveArgs {
    /// Number of load points, 10 to 100, evenly spaced up to the highest
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Curve",
        value_parser = clap::value_parser!(u32).range(10..=100))]
    pub points: u32,
    /// Highest load, in ops per second [default: the rate of a short closed loop]
    #[arg(long, value_name = "RATE", help_heading = "Curve",
        value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    pub max_load: Option<u64>,
    /// Find the highest load with at most this response time, such as 20ms
    #[arg(long, value_name = "TIME", help_heading = "Curve", conflicts_with = "points")]
    pub bound: Option<String>,
    /// Apply the bound to this percentile, such as 99 or 99.9, instead of the mean
    #[arg(long, value_name = "PERCENT", help_heading = "Curve", requires = "bound")]
    pub bound_quantile: Option<String>,
    /// All options of `dfsbench run`
    #[command(flatten)]
    pub run: RunArgs,
}
