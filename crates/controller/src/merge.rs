//! One pass out of what many agents made of it: as if all workers had been on one host.
//!
//! [`merge`] takes what each agent reported and how its clock maps to the controller's. Counts and
//! histograms add up exactly. What had been done at an instant of another host (the first end, the
//! last start) is read off each agent's timeline, along a straight line between two of its points.
//! Pure: nothing is requested here.

use fleet::{Broken, PassEnd};
use model::soak::Recovery;
use model::{
    Caveat, ClientTimes, CrossCheck, Fact, HostResult, IntervalSample, Kept, KindResult, Offered,
    PassResult, ProcessorWait, RunSpec, Scope, Span, Stalls, TimelinePoint, WarmedUp, Work,
    WorkingSet,
};
use model::{CaveatCode, Pass};
use stats::host_balance;

use crate::applied_steps::on_host;
use crate::clock::Mapping;

/// Results of one agent for a pass.
pub(crate) struct Part {
    /// The name of its host.
    pub(crate) host: String,
    /// Number of its workers.
    pub(crate) workers: u32,
    /// The end of the pass as it reported it.
    pub(crate) end: PassEnd,
    /// How its clock maps to the controller's.
    pub(crate) clock: Mapping,
}

impl Part {
    /// Returns its span by the controller's clock.
    fn span(&self) -> Span {
        let own = &self.end.span;
        Span {
            first_start_ns: self.clock.here_ns(own.first_start_ns),
            last_start_ns: self.clock.here_ns(own.last_start_ns),
            first_end_ns: self.clock.here_ns(own.first_end_ns),
            last_end_ns: self.clock.here_ns(own.last_end_ns),
        }
    }

    /// Returns its work until an instant of the controller's clock.
    fn done_at(&self, here_ns: u64) -> Work {
        let Span { first_start_ns, first_end_ns, last_end_ns, .. } = self.end.span;
        let result = &self.end.result;
        let first_done = Work { ops: result.first_done_ops, bytes: result.first_done_bytes };
        let all = Work { ops: result.ops(), bytes: result.bytes() };
        // The timeline is sampled ten times a second. Three points are known exactly and stand
        // among them: without them a short pass would have no point at all.
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
        // Of two points at one instant the larger one is the later.
        points.sort_by_key(|point| (point.at_ns, point.done.ops));
        interpolate(&points, self.clock.there_ns(here_ns))
    }
}

/// Returns the work until an instant, on the line between the last point before it and the first
/// one after.
fn interpolate(points: &[TimelinePoint], at_ns: u64) -> Work {
    let after = points.partition_point(|point| point.at_ns <= at_ns);
    let Some(before) = after.checked_sub(1) else { return Work::default() };
    let from = points[before];
    let Some(to) = points.get(after) else { return from.done };
    // The points differ in time, since the instant lies between them: the span is not 0.
    let (passed_ns, span_ns) = (at_ns - from.at_ns, to.at_ns - from.at_ns);
    Work {
        ops: from.done.ops + share_of(from.done.ops, to.done.ops, passed_ns, span_ns),
        bytes: from.done.bytes + share_of(from.done.bytes, to.done.bytes, passed_ns, span_ns),
    }
}

/// Returns how much of the rise between two amounts has been done after a part of the span; never
/// more than the rise, so that adding it to the first amount can't overflow.
fn share_of(from: u64, to: u64, passed_ns: u64, span_ns: u64) -> u64 {
    let rise = u128::from(to.saturating_sub(from));
    (rise * u128::from(passed_ns) / u128::from(span_ns)) as u64
}

/// Puts the parts of a pass together; `planned_ns` is when all were to begin to count, and
/// `round_trip_ns` the largest of any agent's exchanges.
pub(crate) fn merge(
    spec: &RunSpec,
    mut parts: Vec<Part>,
    planned_ns: u64,
    round_trip_ns: u64,
) -> PassEnd {
    let mut spans = Vec::with_capacity(parts.len());
    for part in &parts {
        spans.push(part.span());
    }
    let span = enclose(&spans);
    let pass = parts.first().map_or(Pass::Read, |first| first.end.result.pass);
    let mut result = PassResult {
        window_ns: span.last_end_ns.saturating_sub(span.first_start_ns),
        common_window_ns: span.first_end_ns.saturating_sub(span.last_start_ns),
        first_done_ns: span.first_end_ns.saturating_sub(span.first_start_ns),
        start_skew_ns: span.last_start_ns.saturating_sub(span.first_start_ns),
        ..PassResult::new(pass)
    };
    let mut common = Work::default();
    // The common window lies between the last start and the first end: only there all workers of
    // all hosts were busy, so only that part of the work shows the rate under the whole load.
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
    result.caveats = merge_caveats(&parts);
    let broken = merge_broken(&parts);
    let facts = take_facts(&mut parts);
    add_up(&mut result, parts);
    add_caveats(spec, &mut result, round_trip_ns);
    if result.errors() > 0 || matches!(broken, Some(Broken::Failed(_))) {
        // What one host made good doesn't make the pass of all whole.
        result.caveats.retain(|caveat| caveat.code != CaveatCode::Recovered);
    }
    PassEnd { result, facts, broken, span, timeline: Vec::new() }
}

/// Returns the smallest span that holds all others, with the last start and the first end of all.
fn enclose(spans: &[Span]) -> Span {
    let mut all = spans.first().copied().unwrap_or_default();
    for span in spans {
        all.first_start_ns = all.first_start_ns.min(span.first_start_ns);
        all.last_start_ns = all.last_start_ns.max(span.last_start_ns);
        all.first_end_ns = all.first_end_ns.min(span.first_end_ns);
        all.last_end_ns = all.last_end_ns.max(span.last_end_ns);
    }
    all
}

fn host_result(part: &Part, own: Span, planned_ns: u64, common: Work) -> HostResult {
    let result = &part.end.result;
    HostResult {
        host: part.host.clone(),
        workers: part.workers,
        ops: result.ops(),
        bytes: result.bytes(),
        failed: result.errors(),
        common,
        // Signed: a host may start before the planned instant, by as much as its clock is wrong.
        start_ns: own.first_start_ns.wrapping_sub(planned_ns).cast_signed(),
        end_ns: own.last_end_ns.wrapping_sub(planned_ns).cast_signed(),
        error_ns: part.clock.error_ns(),
        cpu_ns: result.client_cpu_ns,
        times: ClientTimes::of(&result.service_time()),
        response_times: ClientTimes::of(&result.response_time()),
    }
}

/// Adds up the counts of all parts.
fn add_up(result: &mut PassResult, parts: Vec<Part>) {
    // Bytes from storage are known only where every host counts them: a sum of some would seem to
    // say that the others read from their caches.
    result.storage_read_bytes = Some(0);
    for Part { host, end, .. } in parts {
        let part = end.result;
        result.storage_read_bytes = match (result.storage_read_bytes, part.storage_read_bytes) {
            (Some(all), Some(more)) => Some(all.saturating_add(more)),
            _ => None,
        };
        // The server in a process is that of one agent.
        result.server_cpu_ns = result.server_cpu_ns.or(part.server_cpu_ns);
        result.client_cpu_ns = result.client_cpu_ns.saturating_add(part.client_cpu_ns);
        result.add_intervals(&part);
        KindResult::merge_all(&mut result.kinds, part.kinds);
        add_samples(&mut result.samples, &part.samples);
        add_cross_checks(&mut result.cross_checks, part.cross_checks);
        result.clients.extend(part.clients);
        for mut telemetry in part.telemetry {
            telemetry.host.clone_from(&host);
            result.telemetry.push(telemetry);
        }
    }
    result.clients.sort_by_key(|client| client.client);
}

/// Adds interval by interval.
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

/// Adds what was counted in the same way. A difference on one host is a caveat of that host, so
/// that it does not get lost where two of them cancel out here.
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

/// Adds up the offered load and the files touched of all hosts.
fn merge_scopes(parts: &[Part], pass: Pass, common: Work) -> Scope {
    let mut all = Scope { common: Some(common), ..Scope::default() };
    let Some((first, others)) = parts.split_first() else { return all };
    let first = &first.end.result.scope;
    // Where workers choose from all files, those of one host are not those of another.
    if !pass.is_timed() && pass != Pass::Seeks {
        all.working_set = first.working_set;
    }
    all.offered = first.offered;
    all.stalls = first.stalls;
    all.recovery = first.recovery;
    all.kept.clone_from(&first.kept);
    all.processor_wait = first.processor_wait;
    all.slots = first.slots;
    all.interference.clone_from(&first.interference);
    WarmedUp::merge_all(&mut all.warmup, &first.warmup);
    for part in others {
        let more = &part.end.result.scope;
        // A sum stands only where all have something to add: it is dropped at the first that lacks
        // it, and never begins again.
        add_known(&mut all.working_set, more.working_set, add_working_set);
        add_known(&mut all.offered, more.offered, add_offered);
        add_known(&mut all.stalls, more.stalls, add_stalls);
        add_known(&mut all.recovery, more.recovery, Recovery::add);
        add_known(&mut all.kept, more.kept.as_ref(), Kept::add);
        add_known(&mut all.processor_wait, more.processor_wait, ProcessorWait::add);
        all.slots = all.slots.saturating_add(more.slots);
        all.interference.merge(&more.interference);
        WarmedUp::merge_all(&mut all.warmup, &more.warmup);
    }
    all
}

/// Adds to a sum, or drops it where there is nothing to add.
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

fn add_offered(all: &mut Offered, more: Offered) {
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

/// Takes the facts of all agents, under the names of their hosts.
fn take_facts(parts: &mut [Part]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for part in parts {
        facts.extend(on_host(&part.host, std::mem::take(&mut part.end.facts)));
    }
    facts
}

/// Returns why the pass is broken: a failure says more than that others were stopped for it.
fn merge_broken(parts: &[Part]) -> Option<Broken> {
    let mut broken = None;
    for part in parts {
        match &part.end.broken {
            Some(Broken::Failed(why)) => {
                return Some(Broken::Failed(format!("host {}: {why}", part.host)));
            }
            Some(Broken::Stopped) => broken = Some(Broken::Stopped),
            None => {}
        }
    }
    broken
}

/// Returns the caveats of all agents: one that all of them raise once and without a host, others
/// with the name of theirs.
fn merge_caveats(parts: &[Part]) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = Vec::new();
    for part in parts {
        for caveat in &part.end.result.caveats {
            // Whether all were busy at the same time only the whole can show, see `add_caveats`.
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

/// Adds the caveats that only the whole can raise.
fn add_caveats(spec: &RunSpec, result: &mut PassResult, round_trip_ns: u64) {
    if !spec.stands_idle(result.pass) {
        result.caveats.extend(result.unsynchronised(spec.all_workers()));
    }
    result.caveats.extend(host_balance::skewed(&result.hosts, round_trip_ns));
    result.caveats.extend(host_balance::straggling(result.pass, &result.hosts));
}

#[cfg(test)]
mod tests;
