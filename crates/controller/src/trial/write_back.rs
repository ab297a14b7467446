//! Data that a system holds back: waits until it has drained, empties the system's own caches, and
//! checks whether a synced file is in the object store when the write is acknowledged.
//!
//! The commands come from the system's recipe. The controller repeats them, since it also knows
//! when the campaign is stopped.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fleet::request;
use lab::{DrainSteps, EvictSteps, drain_of_system, evict_of_system, object_of_system};
use model::action::SystemCommand;
use model::units::{Nanos, three_digits};
use model::{
    Caveat, CaveatCode, Evidence, Fact, Invalidation, LabSpec, LabStep, Metric, MetricKind,
    PassResult, RunSpec, Telemetry,
};

use super::system_counts::ask_facts;
use crate::hosts::Hosts;

/// Time between two checks at first, in nanoseconds.
const POLL_MIN_NS: u64 = 100_000_000;
/// Maximum time between two checks, in nanoseconds.
const POLL_MAX_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What a command reported.
struct CommandResult {
    status: String,
    printed: String,
}

impl CommandResult {
    /// Returns true if it succeeded, with the given last line unless that is empty.
    fn prints(&self, expected: &str) -> bool {
        self.status == "0" && (expected.is_empty() || self.printed == expected.trim())
    }
}

/// The last results of commands that were repeated until they succeeded.
#[derive(Default)]
struct Repeated {
    /// When all of them succeeded, by our clock; `None` if that did not happen in time.
    succeeded_ns: Option<u64>,
    checks: u64,
    /// How long they were repeated.
    waited_ns: u64,
    /// What the first one that did not succeed printed last, or its exit status.
    last_seen: String,
}

/// Runs a command on each of some hosts.
fn run(hosts: &mut Hosts<'_>, steps: &[LabStep]) -> Result<Vec<CommandResult>, String> {
    let mut results = Vec::with_capacity(steps.len());
    for effective in ask_facts(hosts, steps)? {
        let mut facts = effective?.facts;
        let mut take = |name: &str| {
            let fact = facts.iter_mut().find(|fact| fact.name == name);
            fact.map(|fact| std::mem::take(&mut fact.value)).unwrap_or_default()
        };
        let status = take(SystemCommand::STATUS);
        results.push(CommandResult { status, printed: take(SystemCommand::PRINTED) });
    }
    Ok(results)
}

/// Runs commands that must succeed; `what` names them in the error.
fn run_all(hosts: &mut Hosts<'_>, what: &str, steps: &[LabStep]) -> Result<(), String> {
    for (step, result) in steps.iter().zip(run(hosts, steps)?) {
        if !result.prints("") {
            let CommandResult { status, printed } = result;
            return Err(format!("{what} failed on {} with {status}: {printed}", step.host));
        }
    }
    Ok(())
}

/// Repeats commands until all of them succeed and print `expected`, or the campaign is stopped.
fn repeat(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    steps: &[LabStep],
    (expected, within_s): (&str, u64),
) -> Result<Repeated, String> {
    let begun_ns = hosts.now_ns();
    let mut repeated = Repeated::default();
    loop {
        let results = run(hosts, steps)?;
        let now_ns = hosts.now_ns();
        repeated.checks += 1;
        let Some(unfinished) = results.into_iter().find(|result| !result.prints(expected)) else {
            repeated.succeeded_ns = Some(now_ns);
            return Ok(repeated);
        };
        let CommandResult { status, printed } = unfinished;
        repeated.last_seen =
            if status == "0" { printed } else { format!("exit status {status}: {printed}") };
        let waited_ns = now_ns.saturating_sub(begun_ns);
        repeated.waited_ns = waited_ns;
        if waited_ns >= within_s.saturating_mul(SECOND_NS) || stop.load(Relaxed) {
            return Ok(repeated);
        }
        // A check may cost the system something, so long waits are less precise.
        let next_ns = now_ns.saturating_add((waited_ns / 10).clamp(POLL_MIN_NS, POLL_MAX_NS));
        while hosts.now_ns() < next_ns && !stop.load(Relaxed) {
            hosts.wait();
        }
    }
}

/// Waits until the data written by a pass has drained, and records the time since the pass ended
/// at `ended_ns` of our clock.
///
/// # Errors
/// If a host is lost or a command cannot be run; the error is a sentence.
pub(crate) fn drain(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    lab: &LabSpec,
    ended_ns: u64,
    result: &mut PassResult,
) -> Result<(), String> {
    if !result.pass.writes() {
        return Ok(());
    }
    match await_drained(hosts, stop, lab)? {
        Some(Ok(at_ns)) => {
            add_drain_time(&mut result.telemetry, &lab.server.name, at_ns.saturating_sub(ended_ns));
        }
        Some(Err(caveat)) => result.caveats.push(caveat),
        None => {}
    }
    Ok(())
}

/// Waits before a pass until its files, and what earlier passes wrote, have drained. Returns a
/// caveat if they have not in time.
///
/// # Errors
/// If a host is lost or a command cannot be run; the error is a sentence.
pub(crate) fn settle(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    lab: &LabSpec,
) -> Result<Option<Caveat>, String> {
    Ok(await_drained(hosts, stop, lab)?.and_then(Result::err))
}

/// Returns when the system had drained, by our clock, or a caveat. `None` if its recipe cannot tell
/// or the campaign is stopped.
fn await_drained(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    lab: &LabSpec,
) -> Result<Option<Result<u64, Caveat>>, String> {
    let Some(steps) = drain_of_system(lab).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let DrainSteps { run, check, until, within_s } = steps;
    run_all(hosts, "[drain] run", &run)?;
    let Repeated { succeeded_ns, last_seen, waited_ns, .. } =
        repeat(hosts, stop, &check, (&until, within_s))?;
    Ok(match succeeded_ns {
        Some(at_ns) => Some(Ok(at_ns)),
        None if stop.load(Relaxed) => None,
        None => {
            let system = lab.system.as_ref().map_or("", |system| &system.recipe.name);
            Some(Err(not_drained(system, &last_seen, waited_ns, within_s)))
        }
    })
}

fn add_drain_time(telemetry: &mut Vec<Telemetry>, server: &str, drain_ns: u64) {
    let at = telemetry.iter().position(|seen| seen.host == server).unwrap_or_else(|| {
        let host = server.to_owned();
        telemetry.push(Telemetry { host, times_ns: vec![0], metrics: Vec::new() });
        telemetry.len() - 1
    });
    let seen = &mut telemetry[at];
    if seen.times_ns.is_empty() {
        // Nothing was read, so no metric has a value.
        *seen = Telemetry { host: server.to_owned(), times_ns: vec![0], metrics: Vec::new() };
    }
    seen.metrics.push(Metric {
        name: PassResult::DRAIN_METRIC.to_owned(),
        kind: MetricKind::Gauge,
        values: vec![drain_ns; seen.times_ns.len()],
    });
}

/// The caveat of a pass whose data had not drained in time.
pub fn not_drained(system: &str, last_seen: &str, waited_ns: u64, within_s: u64) -> Caveat {
    let source = "[drain] of the recipe";
    let evidence =
        format!("{system} had not drained after {within_s} s: the check said `{last_seen}`");
    let limit_ns = within_s.saturating_mul(SECOND_NS);
    let data = Evidence::nanos(waited_ns, limit_ns, source);
    CaveatCode::NotDrained.because(format!("{evidence} ({source})")).with_data(data)
}

/// Returns true if a pass with this invalidation has to find the system's own caches empty.
pub(super) fn must_evict(lab: &LabSpec, how: Invalidation) -> bool {
    let recipe = lab.system.as_ref().map(|system| &system.recipe);
    recipe.is_some_and(|recipe| recipe.evict.is_some() && how >= recipe.caches.cold)
        && how > Invalidation::None
}

/// Empties the system's own caches, and returns what they contained before and after as facts. If
/// they are not proved to be empty, adds a caveat.
///
/// # Errors
/// If a host is lost or a command fails; the error is a sentence.
pub(super) fn evict(
    hosts: &mut Hosts<'_>,
    lab: &LabSpec,
) -> Result<(Vec<Fact>, Option<Caveat>), String> {
    let Some(steps) = evict_of_system(lab).map_err(|error| error.to_string())? else {
        return Ok((Vec::new(), None));
    };
    let EvictSteps { run: evict, check, empty } = steps;
    let before = run(hosts, &check)?;
    run_all(hosts, "[evict] run", &evict)?;
    let after = run(hosts, &check)?;
    let system = lab.system.as_ref().map_or("", |system| &system.recipe.name);
    let mut facts = Vec::new();
    let mut caveat = None;
    for ((step, before), after) in check.iter().zip(before).zip(after) {
        let seen = |result: &CommandResult| match result.status.as_str() {
            "0" => result.printed.clone(),
            status => format!("exit status {status}: {}", result.printed),
        };
        let value = format!("{} before, {} after it was emptied", seen(&before), seen(&after));
        facts.push(Fact::new(&step.host, "system cache", value, "[evict] of the recipe"));
        if !after.prints(&empty) && caveat.is_none() {
            caveat = Some(not_evicted(system, &seen(&before), &seen(&after), &empty));
        }
    }
    Ok((facts, caveat))
}

/// The caveat of a pass that may have read from the system's own caches.
pub fn not_evicted(system: &str, before: &str, after: &str, empty: &str) -> Caveat {
    let source = "[evict] of the recipe";
    let evidence = format!(
        "the cache of {system} contained `{before}` before and `{after}` after it was emptied, \
         not `{empty}`"
    );
    let caveat = CaveatCode::NotEvicted.because(format!("{evidence} ({source})"));
    match (after.parse(), empty.parse()) {
        (Ok(found), Ok(limit)) => {
            caveat.with_data(Evidence::counts(found, limit, "in cache", source))
        }
        _ => caveat,
    }
}

/// Writes and syncs a file, and checks whether it is in the object store when that is acknowledged.
/// Returns what was found as a fact, and the caveat for passes that write.
///
/// # Errors
/// If a host is lost or the file cannot be written; the error is a sentence.
pub(crate) fn check_object(
    hosts: &mut Hosts<'_>,
    stop: &AtomicBool,
    spec: &RunSpec,
    lab: &LabSpec,
    folder: &str,
) -> Result<(Option<Fact>, Option<Caveat>), String> {
    let file = format!("{folder}/{}", fleet::PROBE_FILE);
    let Some(steps) = object_of_system(lab, &file).map_err(|error| error.to_string())? else {
        return Ok((None, None));
    };
    if !spec.passes().iter().any(|pass| pass.writes()) {
        return Ok((None, None));
    }
    let Some(writer) = spec.client_hosts().first() else { return Ok((None, None)) };
    hosts.reach_one(writer)?;
    let written = hosts.ask(&writer.name, request::write_probe(spec.target.clone(), folder));
    let acknowledged_ns = hosts.now_ns();
    let check = [steps.check];
    let seen = match &written {
        Ok(()) => Some(repeat(hosts, stop, &check, ("", steps.within_s))),
        Err(_) => None,
    };
    let removed = hosts.ask(&writer.name, request::remove_probe(spec.target.clone(), folder));
    written.map_err(|why| format!("the probe file of [object]: {why}"))?;
    removed.map_err(|why| format!("the probe file of [object]: {why}"))?;
    let Some(seen) = seen.transpose()? else { return Ok((None, None)) };
    if seen.succeeded_ns.is_none() && stop.load(Relaxed) {
        return Ok((None, None));
    }
    let after_ns = seen.succeeded_ns.map(|at_ns| at_ns.saturating_sub(acknowledged_ns));
    let outcome = ObjectOutcome { after_ns, checks: seen.checks, within_s: steps.within_s };
    let fact = Fact::new(&check[0].host, "object of a synced file", outcome.to_string(), SOURCE);
    Ok((Some(fact), acknowledged_early(&outcome, &seen.last_seen)))
}

const SOURCE: &str = "[object] of the recipe";

/// When the object of a synced file was found.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOutcome {
    /// Time since the acknowledgement, in nanoseconds; `None` if it was not found.
    pub after_ns: Option<u64>,
    /// Number of checks; the first one begins right after the acknowledgement.
    pub checks: u64,
    /// Time limit in seconds.
    pub within_s: u64,
}

impl std::fmt::Display for ObjectOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.after_ns {
            Some(ns) if self.checks == 1 => {
                write!(f, "in the bucket when acknowledged (seen {} later)", Nanos(ns))
            }
            Some(ns) => {
                let seconds = three_digits(ns as f64 / 1e9);
                write!(f, "not in the bucket when acknowledged; appeared {seconds} s later")
            }
            None => write!(f, "not in the bucket within {} s", self.within_s),
        }
    }
}

/// Raises a caveat unless the object was there when the write was acknowledged.
pub fn acknowledged_early(outcome: &ObjectOutcome, last_seen: &str) -> Option<Caveat> {
    if outcome.after_ns.is_some() && outcome.checks == 1 {
        return None;
    }
    let mut evidence = format!("a synced file was {outcome}");
    if outcome.after_ns.is_none() && !last_seen.is_empty() {
        evidence = format!("{evidence}; the check said `{last_seen}`");
    }
    let limit_ns = outcome.within_s.saturating_mul(SECOND_NS);
    let data = Evidence::nanos(outcome.after_ns.unwrap_or(limit_ns), 0, SOURCE);
    let caveat = CaveatCode::AcknowledgedBeforeUpload.because(format!("{evidence} ({SOURCE})"));
    Some(caveat.with_data(data))
}
