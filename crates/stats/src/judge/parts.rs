//! What a pass was made of: its kinds of op, and how busy the client was.
//!
//! Each function sees the results of the trials behind a figure. Rates are medians of the trials,
//! as the figure itself is; shares are of all their ops together.

use model::{Histogram, Load, OpKind, PassResult, ProgramUse, WorkingSet};

use super::{Cpu, CpuUnit, op_rate};
use crate::summary::median;

/// What one kind of op did within a pass of several kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct KindShare {
    /// Which kind.
    pub kind: OpKind,
    /// Share of all ops, in percent, over the trials behind the figures.
    pub percent: f64,
    /// Ops per second: median of the trials.
    pub ops_per_s: f64,
    /// Bytes per second: median of the trials; 0 for kinds that move none.
    pub bytes_per_s: f64,
}

/// The kinds of op that were done, syncs left out; empty where there is but one.
pub(super) fn kinds(used: &[&PassResult]) -> Vec<KindShare> {
    let mut names: Vec<OpKind> = Vec::new();
    for kind in used.iter().flat_map(|result| &result.kinds) {
        if kind.kind != OpKind::Sync && kind.done > 0 && !names.contains(&kind.kind) {
            names.push(kind.kind);
        }
    }
    if names.len() < 2 {
        return Vec::new();
    }
    let all: u64 = used.iter().map(|result| result.ops()).sum();
    let share = |kind: OpKind| {
        let of = |result: &PassResult| {
            let known = result.kinds.iter().find(|known| known.kind == kind);
            known.map_or((0, 0), |known| (known.done, known.bytes))
        };
        let done: u64 = used.iter().map(|result| of(result).0).sum();
        // A kind's part of what the pass made per second, however that was counted.
        let per_s = |what: fn((u64, u64)) -> u64| {
            let rate = |r: &&PassResult| Some(op_rate(r)? * what(of(r)) as f64 / r.ops() as f64);
            let rates = used.iter().filter(|result| result.ops() > 0).filter_map(rate);
            median(&rates.collect::<Vec<_>>()).unwrap_or(0.0)
        };
        KindShare {
            kind,
            percent: done as f64 / all.max(1) as f64 * 100.0,
            ops_per_s: per_s(|(ops, _)| ops),
            bytes_per_s: per_s(|(_, bytes)| bytes),
        }
    };
    names.into_iter().map(share).collect()
}

/// Processor time of the client as a share of the window, in percent of one core: median of the
/// trials; `None` where no time passed.
pub(super) fn cpu_percent(used: &[&PassResult]) -> Option<f64> {
    let timed = used.iter().filter(|result| result.window_ns > 0);
    let shares = timed.map(|r| r.client_cpu_ns as f64 / r.window_ns as f64 * 100.0);
    median(&shares.collect::<Vec<_>>())
}

/// What fell due per second: median of the trials; `None` in a closed loop.
pub(super) fn offered_per_s(used: &[&PassResult]) -> Option<f64> {
    let offered = used.iter().filter_map(|result| result.scope.offered);
    median(&offered.map(|offered| offered.ops_per_s()).collect::<Vec<_>>())
}

/// What a command used: medians of its times, and the most memory of any trial.
pub(super) fn program(used: &[&PassResult]) -> Option<ProgramUse> {
    let uses: Vec<ProgramUse> = used.iter().filter_map(|result| result.scope.program).collect();
    let middle = |time: fn(&ProgramUse) -> u64| {
        median(&uses.iter().map(|used| time(used) as f64).collect::<Vec<_>>())
    };
    Some(ProgramUse {
        user_ns: middle(|used| used.user_ns)? as u64,
        system_ns: middle(|used| used.system_ns)? as u64,
        rss_max_bytes: uses.iter().map(|used| used.rss_max_bytes).max()?,
    })
}

/// The largest working set: trials that a clock ends don't touch the same.
pub(super) fn working_set(used: &[&PassResult]) -> Option<WorkingSet> {
    let sets = used.iter().filter_map(|result| result.scope.working_set);
    sets.max_by_key(|set| (set.bytes, set.files))
}

/// Processor time for the work, over all trials together; `None` where nothing was done.
pub(super) fn cpu(used: &[&PassResult], unit: CpuUnit) -> Option<Cpu> {
    const GIB: f64 = (1_u64 << 30) as f64;
    let client_ns: u64 = used.iter().map(|result| result.client_cpu_ns).sum();
    let server_ns: Option<u64> = used.iter().map(|result| result.server_cpu_ns).sum();
    let (amount, divisor_ns) = match unit {
        CpuUnit::SecondsPerGib => {
            let bytes: u64 = used.iter().map(|result| result.bytes()).sum();
            (bytes as f64 / GIB, 1e9)
        }
        CpuUnit::MicrosPerOp => {
            let ops: u64 = used.iter().map(|result| result.ops()).sum();
            (ops as f64, 1e3)
        }
    };
    let share = |ns: u64| ns as f64 / divisor_ns / amount;
    (amount > 0.0).then(|| Cpu { unit, client: share(client_ns), server: server_ns.map(share) })
}

/// Service times with those that a closed loop left out while it waited, each trial at its own
/// pace: as often as one of its slots ended an op, one would have been due.
///
/// **Source:** the pace is that of wrk 4 (`stats_correct`): the time that was measured, over the
/// ops of each connection.
pub(super) fn estimated_response_time(load: &Load, used: &[&PassResult]) -> Option<Histogram> {
    if load.rate_per_s > 0 || used.iter().any(|result| result.scope.slots == 0) {
        return None;
    }
    let mut all = Histogram::sparse();
    for result in used {
        let slots = u128::from(result.scope.slots);
        let pace_ns = u128::from(result.window_ns) * slots / u128::from(result.ops().max(1));
        let pace_ns = u64::try_from(pace_ns).unwrap_or(u64::MAX);
        all.merge(&result.service_time().with_omitted(pace_ns));
    }
    (all.count() > 0).then(|| all.packed())
}
