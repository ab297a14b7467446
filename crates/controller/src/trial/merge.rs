//! Merges the results of many agents for one pass, as if all workers had run on one host.
//!
//! [`merge`] takes the report of each agent and the mapping of its clock to the controller's.
//! Counts and histograms are added exactly. The work done at an instant defined by another host
//! (the first end or the last start) is interpolated linearly on each agent's timeline. This module
//! is pure: it sends no requests.

use fleet::clock::Mapping;
use fleet::{PassEnd, TrialAbort};
use model::soak::Recovery;
use model::{
    Caveat, ClientTimes, CrossCheck, DataCheck, Fact, FrameDelivery, Host, HostResult,
    IntervalSample, IntervalTimes, KindResult, ListingWork, OfferedLoad, PassResult, PathWork,
    ProcessorWait, RunSpec, Scope, Span, Stalls, TimelinePoint, TrainingWork, WarmedUp, WireBytes,
    Work, WorkerTime, WorkingSet,
};
use model::{CaveatCode, Pass};
use stats::host_balance;

use crate::hosts::applied_steps::on_host;

/// The result of one agent for a pass.
pub(crate) struct AgentPass {
    /// Host name.
    pub(crate) host: String,
    pub(crate) workers: u32,
    /// The end of the pass as reported by the agent.
    pub(crate) end: PassEnd,
    /// Maps the agent's clock to the controller's.
    pub(crate) clock: Mapping,
}

impl AgentPass {
    /// Returns the agent's span in the controller's time.
    fn span(&self) -> Span {
        let own = &self.end.span;
        Span {
            first_start_ns: self.clock.here_ns(own.first_start_ns),
            last_start_ns: self.clock.here_ns(own.last_start_ns),
            first_end_ns: self.clock.here_ns(own.first_end_ns),
            last_end_ns: self.clock.here_ns(own.last_end_ns),
        }
    }

    /// Returns the agent's work up to an instant of the controller's clock.
    fn done_at(&self, here_ns: u64) -> Work {
        let Span { first_start_ns, first_end_ns, last_end_ns, .. } = self.end.span;
        let result = &self.end.result;
        let first_done = Work { ops: result.first_done_ops, bytes: result.first_done_bytes };
        let all = Work { ops: result.ops(), bytes: result.bytes() };
        // The timeline is sampled only ten times a second. Three points are known exactly, so add
        // them: a short pass would otherwise have no points.
        let mut points = vec![
            TimelinePoint { at_ns: first_start_ns, done: Work::default() },
            TimelinePoint { at_ns: first_end_ns, done: first_done },
            TimelinePoint { at_ns: last_end_ns, done: all },
        ];
        for sampled in &self.end.timeline {
            if (first_start_ns..last_end_ns).contains(&sampled.at_ns) {
                points.push(*sampled);
            }
        }
        // If two points have the same time, the one with more ops is later.
        points.sort_by_key(|point| (point.at_ns, point.done.ops));
        interpolate(&points, self.clock.there_ns(here_ns))
    }
}

/// Interpolates the work done at an instant between the points before and after it.
fn interpolate(points: &[TimelinePoint], at_ns: u64) -> Work {
    let after = points.partition_point(|point| point.at_ns <= at_ns);
    let Some(before) = after.checked_sub(1) else { return Work::default() };
    let from = points[before];
    let Some(to) = points.get(after) else { return from.done };
    // The instant is between the points, so their times differ and the span is not 0.
    let passed_ns = at_ns - from.at_ns;
    let span_ns = to.at_ns - from.at_ns;
    Work {
        ops: from.done.ops + share_of(from.done.ops, to.done.ops, passed_ns, span_ns),
        bytes: from.done.bytes + share_of(from.done.bytes, to.done.bytes, passed_ns, span_ns),
    }
}

/// Interpolates the increase between two amounts. Never exceeds the increase, so adding it to the
/// first amount cannot overflow.
fn share_of(from: u64, to: u64, passed_ns: u64, span_ns: u64) -> u64 {
    let rise = u128::from(to.saturating_sub(from));
    (rise * u128::from(passed_ns) / u128::from(span_ns)) as u64
}

/// Merges the parts of a pass. `planned_ns` is when all agents were to start counting, and
/// `round_trip_ns` is the longest round trip to any agent.
pub(crate) fn merge(
    spec: &RunSpec,
    mut parts: Vec<AgentPass>,
    planned_ns: u64,
    round_trip_ns: u64,
) -> PassEnd {
    let spans: Vec<_> = parts.iter().map(AgentPass::span).collect();
    let span = enclosing_span(&spans);
    let pass = parts.first().map_or(Pass::Read, |first| first.end.result.pass);
    let mut result = PassResult {
        window_ns: span.last_end_ns.saturating_sub(span.first_start_ns),
        common_window_ns: span.first_end_ns.saturating_sub(span.last_start_ns),
        first_done_ns: span.first_end_ns.saturating_sub(span.first_start_ns),
        start_skew_ns: span.last_start_ns.saturating_sub(span.first_start_ns),
        ..PassResult::new(pass)
    };
    let mut common = Work::default();
    // The common window is between the last start and the first end. Only there, all workers of all
    // hosts were busy, so only this part shows the rate under full load.
    for (part, own) in parts.iter().zip(&spans) {
        let first_done = part.done_at(span.first_end_ns);
        let before = part.done_at(span.last_start_ns.min(span.first_end_ns));
        let both = Work {
            ops: first_done.ops.saturating_sub(before.ops),
            bytes: first_done.bytes.saturating_sub(before.bytes),
        };
        result.first_done_ops = result.first_done_ops.saturating_add(first_done.ops);
        result.first_done_bytes = result.first_done_bytes.saturating_add(first_done.bytes);
        common.add(both);
        result.hosts.push(host_result(part, *own, planned_ns, both));
    }
    result.scope = merge_scopes(&parts, pass, common);
    result.scope.rank_times_ns = merge_rank_times(&parts, &spans, span.first_start_ns);
    result.caveats = merge_caveats(&parts);
    let broken = merge_broken(&parts);
    let facts = take_facts(&mut parts);
    add_up(&mut result, parts);
    add_caveats(spec, &mut result, round_trip_ns);
    if result.errors() > 0 || matches!(broken, Some(TrialAbort::Failed(_))) {
        // A recovery on one host doesn't make the pass of all hosts whole.
        result.caveats.retain(|caveat| caveat.code != CaveatCode::Recovered);
    }
    PassEnd { result, facts, broken, span, timeline: Vec::new() }
}

/// Returns the smallest span that contains all others, with the last start and the first end.
fn enclosing_span(spans: &[Span]) -> Span {
    let mut all = spans.first().copied().unwrap_or_default();
    for span in spans {
        all.first_start_ns = all.first_start_ns.min(span.first_start_ns);
        all.last_start_ns = all.last_start_ns.max(span.last_start_ns);
        all.first_end_ns = all.first_end_ns.min(span.first_end_ns);
        all.last_end_ns = all.last_end_ns.max(span.last_end_ns);
    }
    all
}

fn host_result(part: &AgentPass, own: Span, planned_ns: u64, common: Work) -> HostResult {
    let result = &part.end.result;
    HostResult {
        host: part.host.clone(),
        workers: part.workers,
        ops: result.ops(),
        bytes: result.bytes(),
        failed: result.errors(),
        common,
        // Signed, because a host may start before the planned instant by its clock error.
        start_ns: own.first_start_ns.wrapping_sub(planned_ns).cast_signed(),
        end_ns: own.last_end_ns.wrapping_sub(planned_ns).cast_signed(),
        error_ns: part.clock.error_ns(),
        cpu_ns: result.client_cpu_ns,
        times: ClientTimes::from_histogram(&result.service_time()),
        response_times: ClientTimes::from_histogram(&result.response_time()),
    }
}

/// Adds the counts of all parts.
fn add_up(result: &mut PassResult, parts: Vec<AgentPass>) {
    // The number of bytes read from storage is only known if every host counts them. A partial sum
    // would suggest that the other hosts read from their caches.
    result.storage_read_bytes = Some(0);
    for AgentPass { host, end, .. } in parts {
        let part = end.result;
        result.storage_read_bytes = match (result.storage_read_bytes, part.storage_read_bytes) {
            (Some(all), Some(more)) => Some(all.saturating_add(more)),
            _ => None,
        };
        // If the server runs in this process, only one agent reports its CPU time.
        result.server_cpu_ns = result.server_cpu_ns.or(part.server_cpu_ns);
        result.client_cpu_ns = result.client_cpu_ns.saturating_add(part.client_cpu_ns);
        result.add_intervals(&part);
        KindResult::merge_all(&mut result.kinds, part.kinds);
        add_samples(&mut result.samples, &part.samples);
        IntervalTimes::merge_all(&mut result.interval_times, part.interval_times);
        add_cross_checks(&mut result.cross_checks, part.cross_checks);
        result.clients.extend(part.clients);
        for mut telemetry in part.telemetry {
            telemetry.host.clone_from(&host);
            result.telemetry.push(telemetry);
        }
    }
    result.clients.sort_by_key(|client| client.client);
    refine_quantiles(result);
}

/// Replaces the quantiles of a soak's intervals, which are those of the worst host, by those of all
/// ops together.
fn refine_quantiles(result: &mut PassResult) {
    for (interval, IntervalTimes { times, .. }) in
        result.intervals.iter_mut().zip(&result.interval_times)
    {
        // In a long segment, and if an interval ended late on one host, they cover other times.
        if interval.ops == times.count() {
            interval.p50_ns = times.quantile(0.5);
            interval.p95_ns = times.quantile(0.95);
            interval.p99_ns = times.quantile(0.99);
        }
    }
}

fn add_samples(all: &mut Vec<IntervalSample>, more: &[IntervalSample]) {
    for (index, sample) in more.iter().enumerate() {
        match all.get_mut(index) {
            None => all.push(*sample),
            Some(known) => {
                known.at_ns = known.at_ns.max(sample.at_ns);
                known.ops = known.ops.saturating_add(sample.ops);
                known.bytes = known.bytes.saturating_add(sample.bytes);
            }
        }
    }
}

/// Merges cross-checks with the same source. Differences on one host are also reported as that
/// host's caveats, so they are not lost if two of them cancel out here.
fn add_cross_checks(all: &mut Vec<CrossCheck>, more: Vec<CrossCheck>) {
    for cross_check in more {
        match all.iter_mut().find(|known| known.source == cross_check.source) {
            None => all.push(cross_check),
            Some(known) => {
                known.expected = known.expected.saturating_add(cross_check.expected);
                known.found = known.found.saturating_add(cross_check.found);
            }
        }
    }
}

/// Merges the scopes of all hosts, such as offered load and touched files.
fn merge_scopes(parts: &[AgentPass], pass: Pass, common: Work) -> Scope {
    let mut all = Scope { common: Some(common), ..Scope::default() };
    let Some((first, others)) = parts.split_first() else { return all };
    let first = &first.end.result.scope;
    // If workers choose from all files, the working sets of different hosts overlap.
    if !pass.is_timed() && !matches!(pass, Pass::Seeks | Pass::Train) {
        all.working_set = first.working_set;
    }
    all.offered = first.offered;
    all.stalls = first.stalls;
    all.recovery = first.recovery;
    all.kept.clone_from(&first.kept);
    all.listing.clone_from(&first.listing);
    all.frames = first.frames;
    all.worst_p95.clone_from(&first.worst_p95);
    all.processor_wait = first.processor_wait;
    all.training = first.training;
    all.slots = first.slots;
    all.wire = first.wire;
    all.interference.clone_from(&first.interference);
    all.paths.clone_from(&first.paths);
    all.pnfs.clone_from(&first.pnfs);
    WarmedUp::merge_all(&mut all.warmup, &first.warmup);
    for part in others {
        let more = &part.end.result.scope;
        // A sum is only valid if all parts contribute. It is dropped at the first part that lacks
        // the value and stays dropped.
        add_known(&mut all.working_set, more.working_set, add_working_set);
        add_known(&mut all.offered, more.offered, add_offered);
        add_known(&mut all.stalls, more.stalls, add_stalls);
        add_known(&mut all.recovery, more.recovery, Recovery::add);
        add_known(&mut all.kept, more.kept.as_ref(), DataCheck::add);
        add_known(&mut all.listing, more.listing.as_ref(), ListingWork::add);
        add_known(&mut all.frames, more.frames, FrameDelivery::add);
        add_known(&mut all.training, more.training.as_ref(), TrainingWork::add);
        add_known(&mut all.processor_wait, more.processor_wait, ProcessorWait::add);
        add_known(&mut all.wire, more.wire, WireBytes::add);
        WorkerTime::merge_slowest(&mut all.worst_p95, &more.worst_p95);
        all.slots = all.slots.saturating_add(more.slots);
        PathWork::merge_all(&mut all.paths, &more.paths);
        if let Some(work) = &more.pnfs {
            all.pnfs.get_or_insert_default().add(work);
        }
        all.interference.merge(&more.interference);
        WarmedUp::merge_all(&mut all.warmup, &more.warmup);
    }
    // Agents of one host would count the calls of its mount again.
    if parts.iter().any(|part| part.host.contains(Host::FURTHER)) {
        all.wire = None;
    }
    all
}

/// Returns the times of all ranks from the first start on any host, in the order of hosts; empty if
/// they are not known for all.
fn merge_rank_times(parts: &[AgentPass], spans: &[Span], first_start_ns: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for (part, own) in parts.iter().zip(spans) {
        let times = &part.end.result.scope.rank_times_ns;
        if times.is_empty() {
            return Vec::new();
        }
        let late_ns = own.first_start_ns.saturating_sub(first_start_ns);
        all.extend(times.iter().map(|ns| ns.saturating_add(late_ns)));
    }
    all
}

/// Adds to a sum, or drops it if there is no value to add.
fn add_known<T, M>(all: &mut Option<T>, more: Option<M>, add: fn(&mut T, M)) {
    match (all.as_mut(), more) {
        (Some(all), Some(more)) => add(all, more),
        _ => *all = None,
    }
}

fn add_working_set(all: &mut WorkingSet, more: WorkingSet) {
    let WorkingSet { files, bytes, unit_bytes } = more;
    all.files = all.files.saturating_add(files);
    all.bytes = all.bytes.saturating_add(bytes);
    all.unit_bytes = all.unit_bytes.max(unit_bytes);
}

fn add_offered(all: &mut OfferedLoad, more: OfferedLoad) {
    all.scheduled_ops = all.scheduled_ops.saturating_add(more.scheduled_ops);
    all.span_ns = all.span_ns.max(more.span_ns);
    all.late_ops = all.late_ops.saturating_add(more.late_ops);
    all.unanswered_ops = all.unanswered_ops.saturating_add(more.unanswered_ops);
    all.carried_over_ops = all.carried_over_ops.saturating_add(more.carried_over_ops);
}

fn add_stalls(all: &mut Stalls, more: Stalls) {
    all.count = all.count.saturating_add(more.count);
    if more.longest.lasts_ns > all.longest.lasts_ns {
        all.longest = more.longest;
    }
}

/// Takes the facts of all agents, scoped to their hosts.
fn take_facts(parts: &mut [AgentPass]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for part in parts {
        facts.extend(on_host(&part.host, std::mem::take(&mut part.end.facts)));
    }
    facts
}

/// Returns why the pass is broken. A failure takes precedence over having been stopped.
fn merge_broken(parts: &[AgentPass]) -> Option<TrialAbort> {
    let mut broken = None;
    for part in parts {
        match &part.end.broken {
            Some(TrialAbort::Failed(why)) => {
                return Some(TrialAbort::Failed(format!("host {}: {why}", part.host)));
            }
            Some(TrialAbort::Stopped) => broken = Some(TrialAbort::Stopped),
            None => {}
        }
    }
    broken
}

/// Returns the caveats of all agents. A caveat raised by all of them appears once without a host;
/// others get the name of their host.
fn merge_caveats(parts: &[AgentPass]) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = Vec::new();
    for part in parts {
        for caveat in &part.end.result.caveats {
            // Only the merged result can show whether all hosts were busy at the same time; see
            // `add_caveats`.
            if caveat.code == CaveatCode::Unsynchronised || caveats.contains(caveat) {
                continue;
            }
            let is_common = parts.iter().all(|other| other.end.result.caveats.contains(caveat));
            caveats.push(if is_common {
                caveat.clone()
            } else {
                let evidence = format!("host {}: {}", part.host, caveat.evidence);
                Caveat { evidence, ..caveat.clone() }
            });
        }
    }
    caveats
}

/// Adds the caveats that only the merged result can show.
fn add_caveats(spec: &RunSpec, result: &mut PassResult, round_trip_ns: u64) {
    if !spec.has_idle_workers(result.pass) {
        result.caveats.extend(result.unsynchronised(spec.all_workers()));
    }
    result.caveats.extend(host_balance::skewed(&result.hosts, round_trip_ns));
    result.caveats.extend(host_balance::straggling(result.pass, &result.hosts));
}

#[cfg(test)]
mod tests;
