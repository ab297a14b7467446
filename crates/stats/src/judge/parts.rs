//! The parts of a pass: its kinds of op, and how busy the client was.
//!
//! Each function sees the results of the trials behind a figure. Rates are medians of the trials,
//! as the figure itself is; shares are of all their ops together.

use model::units::{Nanos, three_digits};
use model::{Histogram, Load, OpKind, Pass, PassResult, ProgramUse, WorkingSet};

use super::rates::op_rate;
use crate::summary::median;

/// The amount of work that processor time is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuUnit {
    /// Seconds per GiB moved.
    SecondsPerGib,
    /// Microseconds per op.
    MicrosPerOp,
    /// Milliseconds per command, for passes whose figure is the time of one.
    MillisPerCommand,
}

impl CpuUnit {
    /// Chooses by the work of a pass: data for those that move much of it.
    pub(super) fn of_pass(pass: Pass) -> Self {
        if pass == Pass::App {
            Self::MillisPerCommand
        } else if pass.is_byte_rate() || pass == Pass::Mix {
            Self::SecondsPerGib
        } else {
            Self::MicrosPerOp
        }
    }

    /// Returns the unit as tables print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SecondsPerGib => "s/GiB",
            Self::MicrosPerOp => "µs/op",
            Self::MillisPerCommand => "ms/command",
        }
    }

    /// Shows an amount in this unit for people: `0.52 s/GiB`, `30.3 ms/command`, `2.10 s/command`.
    pub fn shown(self, amount: f64) -> String {
        match self {
            Self::MillisPerCommand => format!("{}/command", Nanos((amount * 1e6) as u64)),
            _ => format!("{} {}", three_digits(amount), self.name()),
        }
    }

    /// Divides processor time by the work that was done in it; `None` if there was none.
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

/// Processor time for the work of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Unit of the numbers.
    pub unit: CpuUnit,
    /// Processor time of the client.
    pub client: f64,
    /// Processor time of the server, where every trial knows it.
    pub server: Option<f64>,
}

/// The share of one kind of op within a pass of several kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct KindShare {
    /// The kind of op.
    pub kind: OpKind,
    /// Share of all ops, in percent, over the trials behind the figures.
    pub percent: f64,
    /// Ops per second: median of the trials.
    pub ops_per_s: f64,
    /// Bytes per second: median of the trials; 0 for kinds that move none.
    pub bytes_per_s: f64,
}

/// Sums up the kinds of op that were done, syncs left out; empty where there is but one.
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
        for kind in kinds {
            shares.push(kind_share(used, kind, all));
        }
    }
    shares
}

/// Sums up one kind of op, of `all` that were done.
fn kind_share(used: &[&PassResult], kind: OpKind, all: u64) -> KindShare {
    let mut done = 0;
    let (mut op_rates, mut byte_rates) = (Vec::new(), Vec::new());
    for result in used {
        let (mut ops, mut bytes) = (0, 0);
        if let Some(known) = result.kinds.iter().find(|known| known.kind == kind) {
            (ops, bytes) = (known.done, known.bytes);
        }
        done += ops;
        // The kind's part of what the pass made per second, however that was counted.
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

/// Windows that are shorter say nothing of processor time: starting the workers takes as much.
const CPU_WINDOW_NS_MIN: u64 = 10_000_000;

/// Returns the processor time of the client as a share of the window, in percent of one core:
/// median of the trials; `None` where all windows are too short for it.
pub(super) fn cpu_percent(used: &[&PassResult]) -> Option<f64> {
    let mut shares = Vec::new();
    for result in used {
        if result.window_ns >= CPU_WINDOW_NS_MIN {
            shares.push(result.client_cpu_ns as f64 / result.window_ns as f64 * 100.0);
        }
    }
    median(&shares)
}

/// Returns the ops that were scheduled per second: median of the trials; `None` in a closed loop.
pub(super) fn offered_per_s(used: &[&PassResult]) -> Option<f64> {
    let mut rates = Vec::new();
    for result in used {
        if let Some(offered) = result.scope.offered {
            rates.push(offered.ops_per_s());
        }
    }
    median(&rates)
}

/// Sums up the resources of a command: medians of its times, and the most memory of any trial.
pub(super) fn program_use(used: &[&PassResult]) -> Option<ProgramUse> {
    let (mut user_ns, mut system_ns) = (Vec::new(), Vec::new());
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

/// Returns the largest working set: trials that a clock ends don't touch the same.
pub(super) fn working_set(used: &[&PassResult]) -> Option<WorkingSet> {
    let sets = used.iter().filter_map(|result| result.scope.working_set);
    sets.max_by_key(|set| (set.bytes, set.files))
}

/// Returns the processor time for the work, over all trials together; `None` where nothing was
/// done.
pub(super) fn cpu_per_work(used: &[&PassResult], unit: CpuUnit) -> Option<Cpu> {
    let (mut ops, mut bytes, mut client_ns) = (0, 0, 0);
    // A server whose time is unknown in one trial is unknown.
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

/// Returns the service times with those that a closed loop left out while it waited, each trial at
/// its own pace: as often as one of its slots ended an op, one would have been scheduled.
///
/// **Source:** the pace is that of wrk 4 (`stats_correct`): the time that was measured, over the
/// ops of each connection.
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
        let pace_ns = u128::from(result.window_ns) * slots / u128::from(result.ops().max(1));
        let pace_ns = u64::try_from(pace_ns).unwrap_or(u64::MAX);
        all.merge(&result.service_time().with_omitted(pace_ns));
    }
    if all.count() > 0 { Some(all.packed()) } else { None }
}

/// Merges histograms; packed, since a report holds three of each row.
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
