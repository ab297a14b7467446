//! Parts of a pass: its kinds of op, and the client's CPU usage.
//!
//! Each function uses the results of the trials that count. Rates are medians over the trials, like
//! the main result; shares are relative to all of their ops.

use model::units::{Nanos, three_digits};
use model::{
    FrameDelivery, Histogram, ListingWork, Load, OpKind, Pass, PassResult, ProgramUse, WorkerTime,
    WorkingSet,
};

use super::rates::op_rate;
use crate::summary::median;

/// The amount of work by which CPU time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuUnit {
    /// Seconds per GiB transferred.
    SecondsPerGib,
    /// Microseconds per op.
    MicrosPerOp,
    /// Milliseconds per command, for passes whose result is the time of one.
    MillisPerCommand,
}

impl CpuUnit {
    /// Returns the unit for a pass: data for passes that transfer much of it.
    pub(super) fn for_pass(pass: Pass) -> Self {
        if pass == Pass::App {
            Self::MillisPerCommand
        } else if pass.is_byte_rate() || matches!(pass, Pass::Mix | Pass::Boot) {
            Self::SecondsPerGib
        } else {
            Self::MicrosPerOp
        }
    }

    /// Returns the unit as printed in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SecondsPerGib => "s/GiB",
            Self::MicrosPerOp => "µs/op",
            Self::MillisPerCommand => "ms/command",
        }
    }

    /// Formats an amount in this unit: `0.52 s/GiB`, `30.3 ms/command`, `2.10 s/command`.
    pub fn shown(self, amount: f64) -> String {
        match self {
            Self::MillisPerCommand => format!("{}/command", Nanos((amount * 1e6) as u64)),
            _ => format!("{} {}", three_digits(amount), self.name()),
        }
    }

    /// Divides CPU time by the work done; `None` if there was none.
    pub fn per_work(self, cpu_ns: u64, ops: u64, bytes: u64) -> Option<f64> {
        const GIB: f64 = (1_u64 << 30) as f64;
        let (amount, divisor_ns) = match self {
            Self::SecondsPerGib => (bytes as f64 / GIB, 1e9),
            Self::MicrosPerOp => (ops as f64, 1e3),
            Self::MillisPerCommand => (ops as f64, 1e6),
        };
        (amount > 0.0).then(|| cpu_ns as f64 / divisor_ns / amount)
    }
}

/// CPU time for the work of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    pub unit: CpuUnit,
    /// CPU time of the client.
    pub client: f64,
    /// CPU time of the server, if known for every trial.
    pub server: Option<f64>,
}

/// The share of one kind of op in a pass with several kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct KindShare {
    pub kind: OpKind,
    /// Share of all ops in percent, over the trials that count.
    pub percent: f64,
    /// Ops per second, as the median over the trials.
    pub ops_per_s: f64,
    /// Bytes per second, as the median over the trials; 0 for kinds that transfer no data.
    pub bytes_per_s: f64,
}

/// Summarizes the kinds of op except for syncs; empty if there is only one.
pub(super) fn kind_shares(used: &[&PassResult]) -> Vec<KindShare> {
    let mut kinds: Vec<OpKind> = Vec::new();
    let mut all = 0;
    for result in used {
        all += result.ops();
        for kind in &result.kinds {
            if kind.kind != OpKind::Sync && kind.done > 0 && !kinds.contains(&kind.kind) {
                kinds.push(kind.kind);
            }
        }
    }
    let mut shares = Vec::new();
    if kinds.len() > 1 {
        shares.extend(kinds.into_iter().map(|kind| kind_share(used, kind, all)));
    }
    shares
}

/// Summarizes one kind of op, out of `all` completed ops.
fn kind_share(used: &[&PassResult], kind: OpKind, all: u64) -> KindShare {
    let mut done = 0;
    let mut op_rates = Vec::new();
    let mut byte_rates = Vec::new();
    for result in used {
        let mut ops = 0;
        let mut bytes = 0;
        if let Some(known) = result.kinds.iter().find(|known| known.kind == kind) {
            ops = known.done;
            bytes = known.bytes;
        }
        done += ops;
        // The kind's part of the pass's rate, however that was determined.
        if result.ops() > 0
            && let Some(rate) = op_rate(result)
        {
            op_rates.push(rate * ops as f64 / result.ops() as f64);
            byte_rates.push(rate * bytes as f64 / result.ops() as f64);
        }
    }
    KindShare {
        kind,
        percent: done as f64 / all.max(1) as f64 * 100.0,
        ops_per_s: median(&op_rates).unwrap_or(0.0),
        bytes_per_s: median(&byte_rates).unwrap_or(0.0),
    }
}

/// Minimum window for CPU time. In a shorter one, starting the workers takes as much.
const CPU_WINDOW_NS_MIN: u64 = 10_000_000;

/// Returns the CPU time of the client relative to the window in percent of one core, as the median
/// over the trials, or `None` if all windows are too short.
pub(super) fn cpu_percent(used: &[&PassResult]) -> Option<f64> {
    let shares: Vec<_> = used
        .iter()
        .filter(|result| result.window_ns >= CPU_WINDOW_NS_MIN)
        .map(|result| result.client_cpu_ns as f64 / result.window_ns as f64 * 100.0)
        .collect();
    median(&shares)
}

/// Returns the ops scheduled per second as the median over the trials, or `None` in a closed loop.
pub(super) fn offered_per_s(used: &[&PassResult]) -> Option<f64> {
    let rates: Vec<_> = used
        .iter()
        .filter_map(|result| result.scope.offered)
        .map(|offered| offered.ops_per_s())
        .collect();
    median(&rates)
}

/// Bytes on the wire and bytes moved in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireUse {
    /// Bytes of all calls and replies in both directions.
    pub wire_bytes: u64,
    /// Bytes of file data that ops transferred or changed.
    pub moved_bytes: u64,
}

/// Returns the medians over the trials, or `None` if nobody counted the calls of some trial.
pub(super) fn wire_use(used: &[&PassResult]) -> Option<WireUse> {
    let mut wire = Vec::with_capacity(used.len());
    let mut moved = Vec::with_capacity(used.len());
    for result in used {
        wire.push(result.scope.wire?.total() as f64);
        moved.push(result.bytes() as f64);
    }
    Some(WireUse { wire_bytes: median(&wire)? as u64, moved_bytes: median(&moved)? as u64 })
}

/// Returns the median of the times that data took to drain, or `None` if some trial has none.
pub(super) fn drain_ns(used: &[&PassResult]) -> Option<u64> {
    let times = used.iter().map(|result| Some(result.drain_ns()? as f64));
    Some(median(&times.collect::<Option<Vec<_>>>()?)? as u64)
}

/// Summarizes the resources of a command: medians of its times, and the maximum memory of any
/// trial.
pub(super) fn program_use(used: &[&PassResult]) -> Option<ProgramUse> {
    let mut user_ns = Vec::new();
    let mut system_ns = Vec::new();
    let mut rss_max_bytes = 0;
    for result in used {
        let Some(usage) = result.scope.program else { continue };
        user_ns.push(usage.user_ns as f64);
        system_ns.push(usage.system_ns as f64);
        rss_max_bytes = rss_max_bytes.max(usage.rss_max_bytes);
    }
    Some(ProgramUse {
        user_ns: median(&user_ns)? as u64,
        system_ns: median(&system_ns)? as u64,
        rss_max_bytes,
    })
}

/// Returns the largest working set, because trials that end by time touch different amounts.
pub(super) fn working_set(used: &[&PassResult]) -> Option<WorkingSet> {
    let sets = used.iter().filter_map(|result| result.scope.working_set);
    sets.max_by_key(|set| (set.bytes, set.files))
}

/// Returns the listing with the median number of round trips, so that all numbers are of one trial.
pub(super) fn listing(used: &[&PassResult]) -> Option<ListingWork> {
    let mut listings: Vec<_> =
        used.iter().filter_map(|result| result.scope.listing.as_ref()).collect();
    listings.sort_by_key(|listing| (listing.round_trips(), listing.reply_bytes));
    listings.get(listings.len() / 2).map(|listing| (*listing).clone())
}

/// Returns the frames of the trial with the most late ones.
pub(super) fn frames(used: &[&PassResult]) -> Option<FrameDelivery> {
    let frames = used.iter().filter_map(|result| result.scope.frames);
    frames.max_by_key(|frames| (frames.late_frames, frames.worst_lateness_ns))
}

/// Returns the median over the trials of the slowest worker's time for each kind of op.
pub(super) fn worst_p95(used: &[&PassResult]) -> Vec<WorkerTime> {
    let mut times: Vec<WorkerTime> = Vec::new();
    for kind in OpKind::ALL {
        let of_kind = |result: &&PassResult| {
            let worst = result.scope.worst_p95.iter().find(|known| known.kind == *kind)?;
            Some(worst.time_ns as f64)
        };
        let of_trials: Vec<f64> = used.iter().filter_map(of_kind).collect();
        let time = median(&of_trials);
        times.extend(time.map(|ns| WorkerTime { kind: *kind, time_ns: ns as u64 }));
    }
    times
}

/// Returns the CPU time per work over all trials, or `None` if nothing was done.
pub(super) fn cpu_per_work(used: &[&PassResult], unit: CpuUnit) -> Option<Cpu> {
    let mut ops = 0;
    let mut bytes = 0;
    let mut client_ns = 0;
    // If the server's time is unknown for one trial, the total is unknown.
    let mut server_ns = Some(0);
    for result in used {
        ops += result.ops();
        bytes += result.bytes();
        client_ns += result.client_cpu_ns;
        server_ns = match (server_ns, result.server_cpu_ns) {
            (Some(sum), Some(own)) => Some(sum + own),
            _ => None,
        };
    }
    let client = unit.per_work(client_ns, ops, bytes)?;
    let server = server_ns.and_then(|ns| unit.per_work(ns, ops, bytes));
    Some(Cpu { unit, client, server })
}

/// Returns the service times, including those that a closed loop omitted while waiting, at the pace
/// of each trial: an op would have been scheduled as often as one of its slots completed one.
///
/// **Source:** the pace is that of wrk 4 (`stats_correct`): the measured time divided by the ops of
/// each connection.
pub(super) fn estimated_response_time(load: &Load, used: &[&PassResult]) -> Option<Histogram> {
    if load.rate_per_s > 0 {
        return None;
    }
    let mut all = Histogram::sparse();
    for result in used {
        let slots = u128::from(result.scope.slots);
        if slots == 0 {
            return None;
        }
        let pace_ns = u128::from(result.window_ns) * slots / u128::from(result.timed_ops().max(1));
        let pace_ns = u64::try_from(pace_ns).unwrap_or(u64::MAX);
        all.merge(&result.service_time().with_omitted(pace_ns));
    }
    if all.count() > 0 { Some(all.packed()) } else { None }
}

/// Merges histograms and packs the result, since a report contains three per row.
pub(super) fn merge_histograms(
    used: &[&PassResult],
    read: fn(&PassResult) -> Histogram,
) -> Histogram {
    let mut all = Histogram::sparse();
    for result in used {
        all.merge(&read(result));
    }
    all.packed()
}
