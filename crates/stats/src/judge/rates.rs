//! Rates of one trial's pass, each `None` if not available.
//!
//! They cover the whole window, the time until the first worker finished, or the window in which
//! all workers were busy, in bytes or ops per second.

use model::{OpKind, Pass, PassResult};

/// A function that reads a rate from a result.
pub(super) type RateOf = fn(&PassResult) -> Option<f64>;

/// Returns the function that reads the main rate of a pass.
pub(super) fn pass_rate(pass: Pass) -> RateOf {
    match pass {
        _ if pass.is_of_developer() => whole_rate,
        _ if pass.is_byte_rate() => byte_rate,
        _ => op_rate,
    }
}

/// Returns the number of whole passes per second.
pub(super) fn whole_rate(result: &PassResult) -> Option<f64> {
    per_second(1, result.window_ns)
}

/// Returns a rate per second, or `None` if no time has passed.
fn per_second(amount: u64, time_ns: u64) -> Option<f64> {
    if time_ns == 0 { None } else { Some(amount as f64 * 1e9 / time_ns as f64) }
}

/// Returns the function that reads the rate for comparing the trials of a pass.
///
/// In an open loop, this is the achieved rate corrected for the arrivals: chance schedules a few
/// more ops in one trial than in the next, which has nothing to do with the target.
pub(super) fn comparable_rate(pass: Pass) -> RateOf {
    match pass {
        _ if pass.is_of_developer() => whole_rate,
        _ if pass.is_byte_rate() => comparable_byte_rate,
        _ => comparable_op_rate,
    }
}

fn comparable_byte_rate(result: &PassResult) -> Option<f64> {
    Some(byte_rate(result)? * arrival_correction(result))
}

fn comparable_op_rate(result: &PassResult) -> Option<f64> {
    Some(op_rate(result)? * arrival_correction(result))
}

/// Returns the requested rate of an open loop divided by the rate actually scheduled, or 1 for a
/// closed loop.
fn arrival_correction(result: &PassResult) -> f64 {
    match result.scope.offered {
        Some(offered) if offered.scheduled_ops > 0 => {
            offered.rate_per_s as f64 / offered.ops_per_s()
        }
        _ => 1.0,
    }
}

pub(super) fn byte_rate(result: &PassResult) -> Option<f64> {
    match achieved_rate(result) {
        Some(achieved) => Some(achieved * bytes_per_op(result)),
        None => per_second(result.bytes(), result.window_ns),
    }
}

pub(super) fn op_rate(result: &PassResult) -> Option<f64> {
    match achieved_rate(result) {
        Some(achieved) => Some(achieved),
        None => per_second(result.ops(), result.window_ns),
    }
}

/// Returns the appends to a log per second: their part of the rate of all ops, however that was
/// determined.
pub(super) fn append_rate(result: &PassResult) -> Option<f64> {
    let appends = result.kinds.iter().find(|kind| kind.kind == OpKind::LogAppend)?.done;
    Some(op_rate(result)? * appends as f64 / result.ops().max(1) as f64)
}

/// Returns the ops per second that an open loop completed out of those scheduled, except for ops
/// that could only start after the end of the window.
fn achieved_rate(result: &PassResult) -> Option<f64> {
    per_second(result.carried_ops()?, result.carried_in_ns()?)
}

/// Returns the mean payload of an op. If none of the ops scheduled in the window was completed, the
/// ops of the warm-up are used instead.
fn bytes_per_op(result: &PassResult) -> f64 {
    let mut ops = result.ops();
    let mut bytes = result.bytes();
    if ops == 0 {
        for warm in &result.scope.warmup {
            if warm.kind != OpKind::Sync {
                ops += warm.done;
                bytes += warm.bytes;
            }
        }
    }
    bytes as f64 / ops.max(1) as f64
}

pub(super) fn first_byte_rate(result: &PassResult) -> Option<f64> {
    per_second(result.first_done_bytes, result.first_done_ns)
}

pub(super) fn first_op_rate(result: &PassResult) -> Option<f64> {
    per_second(result.first_done_ops, result.first_done_ns)
}

pub(super) fn common_byte_rate(result: &PassResult) -> Option<f64> {
    per_second(result.scope.common?.bytes, result.common_window_ns)
}

pub(super) fn common_op_rate(result: &PassResult) -> Option<f64> {
    per_second(result.scope.common?.ops, result.common_window_ns)
}

/// Returns the function that reads the work of a pass per second of CPU time of client and server.
/// Unlike a rate, it hardly depends on other programs that use the CPUs.
pub(super) fn rate_per_cpu(pass: Pass) -> RateOf {
    if pass.is_byte_rate() { bytes_per_cpu } else { ops_per_cpu }
}

fn bytes_per_cpu(result: &PassResult) -> Option<f64> {
    per_second(result.bytes(), cpu_ns(result))
}

fn ops_per_cpu(result: &PassResult) -> Option<f64> {
    per_second(result.ops(), cpu_ns(result))
}

/// Returns the CPU time of the client plus, if known, that of the server.
fn cpu_ns(result: &PassResult) -> u64 {
    result.client_cpu_ns.saturating_add(result.server_cpu_ns.unwrap_or(0))
}

/// Returns the share of the window in which all workers were busy.
pub(super) fn common_share(result: &PassResult) -> Option<f64> {
    if result.window_ns == 0 {
        return None;
    }
    Some(result.common_window_ns as f64 / result.window_ns as f64)
}

/// Returns the time until the slowest rank was done, in seconds, if that is what a pass is about.
pub(super) fn slowest_rank_seconds(result: &PassResult) -> Option<f64> {
    let slowest_ns = result.scope.rank_times_ns.iter().max()?;
    Some(*slowest_ns as f64 / 1e9)
}
