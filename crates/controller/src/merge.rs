//! One pass out of what many agents made of it: as if all workers had been on one host.
//!
//! [`merge`] takes what each agent told and how its clock maps to the controller's. Counts and
//! histograms add up exactly. What had been done at an instant of another host (the first end, the
//! last start) is read off each agent's timeline, along a straight line between two of its points.
//! Pure: nothing is requested here.

use fleet::{Broken, PassEnd};
use model::soak::Recovery;
use model::{
    Caveat, ClientTimes, CrossCheck, Fact, HostResult, IntervalSample, IntervalStats, Kept,
    KindResult, Offered, PassResult, ProcessorWait, RunSpec, Scope, Span, Stalls, TimelinePoint,
    WarmedUp, Work, WorkingSet,
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
    /// Its span, by the controller's clock.
    fn span(&self) -> Span {
        let Span { first_start_ns, last_start_ns, first_end_ns, last_end_ns } = self.end.span;
        let here = |ns| self.clock.here_ns(ns);
        Span {
            first_start_ns: here(first_start_ns),
            last_start_ns: here(last_start_ns),
            first_end_ns: here(first_end_ns),
            last_end_ns: here(last_end_ns),
        }
    }

    /// Returns its work until an instant of the controller's clock.
    fn done_at(&self, here_ns: u64) -> Work {
        let Span { first_start_ns, first_end_ns, last_end_ns, .. } = self.end.span;
        let result = &self.end.result;
        let point = |at_ns, done| TimelinePoint { at_ns, done };
        let first_done = Work { ops: result.first_done_ops, bytes: result.first_done_bytes };
        let all = Work { ops: result.ops(), bytes: result.bytes() };
        // What is known exactly stands among what was seen from time to time.
        let known = [
            point(first_start_ns, Work::default()),
            point(first_end_ns, first_done),
            point(last_end_ns, all),
        ];
        let within = |seen: &&TimelinePoint| (first_start_ns..last_end_ns).contains(&seen.at_ns);
        let seen = self.end.timeline.iter().filter(within).copied();
        let mut points: Vec<TimelinePoint> = known.into_iter().chain(seen).collect();
        points.sort_by_key(|point| (point.at_ns, point.done.ops));
        along(&points, self.clock.there_ns(here_ns))
    }
}

/// Returns the work until an instant, between the last point before it and the first one after.
fn along(points: &[TimelinePoint], at_ns: u64) -> Work {
    let after = points.partition_point(|point| point.at_ns <= at_ns);
    let (Some(from), to) = (after.checked_sub(1).map(|at| points[at]), points.get(after)) else {
        return Work::default();
    };
    let Some(to) = to else { return from.done };
    let between = |from_amount: u64, to_amount: u64| {
        let rise = u128::from(to_amount.saturating_sub(from_amount));
        let part = rise * u128::from(at_ns - from.at_ns) / u128::from(to.at_ns - from.at_ns);
        from_amount + part as u64
    };
    Work {
        ops: between(from.done.ops, to.done.ops),
        bytes: between(from.done.bytes, to.done.bytes),
    }
}

/// Puts the parts of a pass together; `planned_ns` is when all were to begin to count, and
/// `round_trip_ns` the largest of any agent's exchanges.
pub(crate) fn merge(
    spec: &RunSpec,
    mut parts: Vec<Part>,
    planned_ns: u64,
    round_trip_ns: u64,
) -> PassEnd {
    let spans: Vec<Span> = parts.iter().map(Part::span).collect();
    let span = Span {
        first_start_ns: spans.iter().map(|span| span.first_start_ns).min().unwrap_or(0),
        last_start_ns: spans.iter().map(|span| span.last_start_ns).max().unwrap_or(0),
        first_end_ns: spans.iter().map(|span| span.first_end_ns).min().unwrap_or(0),
        last_end_ns: spans.iter().map(|span| span.last_end_ns).max().unwrap_or(0),
    };
    let pass = parts.first().map_or(Pass::Read, |part| part.end.result.pass);
    let mut result = PassResult {
        window_ns: span.last_end_ns.saturating_sub(span.first_start_ns),
        common_window_ns: span.first_end_ns.saturating_sub(span.last_start_ns),
        first_done_ns: span.first_end_ns.saturating_sub(span.first_start_ns),
        start_skew_ns: span.last_start_ns.saturating_sub(span.first_start_ns),
        ..PassResult::new(pass)
    };
    let mut common = Work::default();
    for (part, own) in parts.iter().zip(&spans) {
        let first_done = part.done_at(span.first_end_ns);
        let before = part.done_at(span.last_start_ns.min(span.first_end_ns));
        let both = Work {
            ops: first_done.ops.saturating_sub(before.ops),
            bytes: first_done.bytes.saturating_sub(before.bytes),
        };
        result.first_done_ops += first_done.ops;
        result.first_done_bytes += first_done.bytes;
        common.add(both);
        result.hosts.push(host_result(part, *own, planned_ns, both));
    }
    result.scope = scopes(&parts, pass, common);
    let (caveats, broken, facts) = told(&mut parts);
    result.caveats = caveats;
    add_up(&mut result, parts);
    judge(spec, &mut result, round_trip_ns);
    PassEnd { result, facts, broken, span, timeline: Vec::new() }
}

fn host_result(part: &Part, own: Span, planned_ns: u64, common: Work) -> HostResult {
    let since = |ns: u64| ns.wrapping_sub(planned_ns).cast_signed();
    let result = &part.end.result;
    HostResult {
        host: part.host.clone(),
        workers: part.workers,
        ops: result.ops(),
        bytes: result.bytes(),
        failed: result.errors(),
        common,
        start_ns: since(own.first_start_ns),
        end_ns: since(own.last_end_ns),
        error_ns: part.clock.error_ns(),
        cpu_ns: result.client_cpu_ns,
        times: ClientTimes::of(&result.service_time()),
    }
}

/// Adds up what counts add up of.
fn add_up(result: &mut PassResult, parts: Vec<Part>) {
    result.storage_read_bytes =
        parts.iter().map(|part| part.end.result.storage_read_bytes).sum::<Option<u64>>();
    result.server_cpu_ns = parts.iter().find_map(|part| part.end.result.server_cpu_ns);
    for Part { host, end, .. } in parts {
        let part = end.result;
        result.client_cpu_ns += part.client_cpu_ns;
        KindResult::merge_all(&mut result.kinds, part.kinds);
        add_samples(&mut result.samples, &part.samples);
        add_intervals(&mut result.intervals, &part.intervals);
        add_truths(&mut result.cross_checks, part.cross_checks);
        result.clients.extend(part.clients);
        for mut seen in part.telemetry {
            seen.host.clone_from(&host);
            result.telemetry.push(seen);
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
                known.ops += sample.ops;
                known.bytes += sample.bytes;
            }
        }
    }
}

/// Adds what each interval looked like.
fn add_intervals(all: &mut Vec<IntervalStats>, more: &[IntervalStats]) {
    for (index, interval) in more.iter().enumerate() {
        match all.get_mut(index) {
            None => all.push(*interval),
            Some(known) => known.add(interval),
        }
    }
}

/// Adds what was counted in the same way. Whoever found something else has said so by itself.
fn add_truths(all: &mut Vec<CrossCheck>, more: Vec<CrossCheck>) {
    for cross_check in more {
        match all.iter_mut().find(|known| known.source == cross_check.source) {
            None => all.push(cross_check),
            Some(known) => {
                known.expected += cross_check.expected;
                known.found += cross_check.found;
            }
        }
    }
}

/// Adds up the offered load and the files touched of all hosts.
fn scopes(parts: &[Part], pass: Pass, common: Work) -> Scope {
    let scopes: Vec<&Scope> = parts.iter().map(|part| &part.end.result.scope).collect();
    let mut all = Scope { common: Some(common), ..Scope::default() };
    // Where workers choose from all files, those of one host are not those of another.
    if !pass.is_timed() && pass != Pass::Seeks {
        all.working_set = sum_of(scopes.iter().map(|scope| scope.working_set), |all, more| {
            let WorkingSet { files, bytes, unit_bytes } = more;
            all.files += files;
            all.bytes += bytes;
            all.unit_bytes = all.unit_bytes.max(unit_bytes);
        });
    }
    all.offered = sum_of(scopes.iter().map(|scope| scope.offered), |all, more: Offered| {
        all.scheduled_ops += more.scheduled_ops;
        all.span_ns = all.span_ns.max(more.span_ns);
        all.late_ops += more.late_ops;
        all.unanswered_ops += more.unanswered_ops;
        all.carried_over_ops += more.carried_over_ops;
    });
    all.stalls = sum_of(scopes.iter().map(|scope| scope.stalls), |all, more: Stalls| {
        all.count = all.count.saturating_add(more.count);
        if more.longest.lasts_ns > all.longest.lasts_ns {
            all.longest = more.longest;
        }
    });
    all.recovery = sum_of(scopes.iter().map(|scope| scope.recovery), Recovery::add);
    all.kept = sum_of(scopes.iter().map(|scope| scope.kept.clone()), |all, more: Kept| {
        all.add(&more);
    });
    all.processor_wait = sum_of(scopes.iter().map(|s| s.processor_wait), ProcessorWait::add);
    for scope in scopes {
        all.slots += scope.slots;
        WarmedUp::merge_all(&mut all.warmup, &scope.warmup);
    }
    all
}

/// The sum, where all have something to add.
fn sum_of<T>(mut of_each: impl Iterator<Item = Option<T>>, add: impl Fn(&mut T, T)) -> Option<T> {
    let first = of_each.next()??;
    of_each.try_fold(first, |mut all, more| {
        add(&mut all, more?);
        Some(all)
    })
}

/// Takes what the agents say in words. What all of them caveat is doubted once, without names.
fn told(parts: &mut [Part]) -> (Vec<Caveat>, Option<Broken>, Vec<Fact>) {
    let mut facts = Vec::new();
    let mut broken = None;
    for part in &mut *parts {
        facts.extend(on_host(&part.host, std::mem::take(&mut part.end.facts)));
        broken = match (broken, part.end.broken.take()) {
            (Some(Broken::Failed(why)), _) => Some(Broken::Failed(why)),
            (_, Some(Broken::Failed(why))) => {
                Some(Broken::Failed(format!("host {}: {why}", part.host)))
            }
            (first, other) => first.or(other),
        };
    }
    let mut caveats: Vec<Caveat> = Vec::new();
    for part in &*parts {
        for caveat in &part.end.result.caveats {
            // Whether all were busy at the same time only the whole can tell.
            if caveat.code == CaveatCode::Unsynchronised || caveats.contains(caveat) {
                continue;
            }
            let is_everybodys = parts.iter().all(|p| p.end.result.caveats.contains(caveat));
            let evidence = format!("host {}: {}", part.host, caveat.evidence);
            caveats.push(if is_everybodys {
                caveat.clone()
            } else {
                caveat.code.because(evidence)
            });
        }
    }
    (caveats, broken, facts)
}

/// Doubts that only the whole can raise.
fn judge(spec: &RunSpec, result: &mut PassResult, round_trip_ns: u64) {
    if !spec.stands_idle(result.pass) {
        result.caveats.extend(result.unsynchronised(spec.all_workers()));
    }
    result.caveats.extend(host_balance::skewed(&result.hosts, round_trip_ns));
    result.caveats.extend(host_balance::straggling(result.pass, &result.hosts));
}

#[cfg(test)]
mod tests;
