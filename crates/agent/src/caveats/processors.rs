//! Caveats about who had the processors while a pass was measured.
//!
//! A worker that is ready and waits for a processor makes a rate too low, but that alone does not
//! say whose limit it is. The client is saturated where its own processor use is at its limit:
//! its threads had all that they could have, or a quota held them back. Otherwise others had the
//! processors, and the caveat names who: a server on this host, other processes, or the
//! hypervisor. Where a server shares this host that is how the run was arranged, and a note.

use model::units::{Nanos, three_digits};
use model::{Caveat, CaveatCode, Evidence, PassResult, ProcessorWait, RunSpec, Target, Telemetry};

/// Above this share of their processor time the workers could not have requested more.
pub const CLIENT_CPU_SHARE_MAX: f64 = 0.95;

/// Workers that were ready and waited for a processor for more of their time than this have a
/// rate that is as much too low: half of what makes an interval too wide would hide in the spread.
pub const PROCESSOR_WAIT_SHARE_MAX: f64 = 0.10;

/// Share of all processors from which on the client's workers waited for each other.
const ALL_PROCESSORS_SHARE: f64 = 0.90;

/// The most that other processes and the hypervisor may take of all processors before they are
/// named: with less the workers waited for each other, or for a server on this host.
const OTHERS_SHARE_MAX: f64 = 0.10;

/// The kernel counts in ticks of 10 ms: over a shorter time shares of it are too coarse.
const COUNTED_NS_MIN: u64 = 200_000_000;

/// Says whether the client was at its own limit, or others had the processors, which are expected
/// to have them where the server shares this host.
pub(super) fn about_processors(
    spec: &RunSpec,
    result: &PassResult,
    shares_host: bool,
) -> Option<Caveat> {
    if spec.target.is_plain() || spec.workload.is_external() {
        return None;
    }
    // The clearest reason first: one caveat is enough, and a saturated client also waits.
    if let Some(caveat) = check_saturated(&spec.target, spec.workers, result) {
        return Some(caveat);
    }
    if let Some(caveat) = check_quota(result) {
        return Some(caveat);
    }
    check_contention(result, shares_host)
}

/// Notes that a server shares this host, with what that cost where workers waited for it.
pub(super) fn shared_host(server: String, result: &PassResult) -> Caveat {
    let mut evidence = server;
    if let Some(wait) = long_wait(result) {
        evidence = format!("{evidence}; {}", describe_wait(wait, ProcessorUsage::of(result)));
    }
    CaveatCode::SharedHost.because(evidence)
}

/// Raises a caveat where the client's threads had all processor time that they could use.
fn check_saturated(target: &Target, workers: u32, result: &PassResult) -> Option<Caveat> {
    // On a directory the workers' time is the file system's own, on the null target all there is.
    target.nfs()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A worker is one thread, so it can't use more than one processor.
    let busy_max = (workers as usize).min(cores);
    let available = result.window_ns as f64 * busy_max as f64;
    let share = result.client_cpu_ns as f64 / available.max(1.0);
    if share <= CLIENT_CPU_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "{} of processor time (CLOCK_PROCESS_CPUTIME_ID) in {} with {} workers ({} %)",
        Nanos(result.client_cpu_ns),
        Nanos(result.window_ns),
        workers,
        three_digits(share * 100.0),
    );
    let source = "CLOCK_PROCESS_CPUTIME_ID, of the time that the workers have";
    let data = Evidence::shares(share, CLIENT_CPU_SHARE_MAX, source);
    Some(CaveatCode::ClientSaturated.because(evidence).with_data(data))
}

/// Raises a caveat where a quota of its control group held the client back: that is a limit of the
/// client's own.
fn check_quota(result: &PassResult) -> Option<Caveat> {
    let wait = result.scope.processor_wait?;
    if wait.held_share() <= PROCESSOR_WAIT_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "a quota of its control group held the client back for {} of {} ({} %, at most {} %; \
         cpu.stat)",
        Nanos(wait.held_ns),
        Nanos(wait.of_ns),
        three_digits(wait.held_share() * 100.0),
        PROCESSOR_WAIT_SHARE_MAX * 100.0,
    );
    let data = Evidence::shares(wait.held_share(), PROCESSOR_WAIT_SHARE_MAX, "cpu.stat");
    Some(CaveatCode::ClientSaturated.because(evidence).with_data(data))
}

/// Raises a caveat where ready workers waited: for each other where the client had all processors,
/// else for other processes or machines.
fn check_contention(result: &PassResult, shares_host: bool) -> Option<Caveat> {
    let wait = long_wait(result)?;
    let usage = ProcessorUsage::of(result);
    let evidence = describe_wait(wait, usage);
    let source = "time that ready workers waited, /proc/thread-self/schedstat";
    let waited = Evidence::shares(wait.share(), PROCESSOR_WAIT_SHARE_MAX, source);
    let Some(usage) = usage else {
        // Over a short pass the others can't be named, and ready threads also wait where the kernel
        // has not yet spread them over the processors.
        let is_short = match result.telemetry.first() {
            Some(host) => host.span_ns() < COUNTED_NS_MIN,
            None => false,
        };
        if is_short || shares_host {
            return None;
        }
        return Some(CaveatCode::ProcessorContention.because(evidence).with_data(waited));
    };
    if usage.client > ALL_PROCESSORS_SHARE {
        let source = "processors of this host that the client used, /proc/stat";
        let data = Evidence::shares(usage.client, ALL_PROCESSORS_SHARE, source);
        return Some(CaveatCode::ClientSaturated.because(evidence).with_data(data));
    }
    // A server on this host that is not ours is one of the other processes, and expected there.
    let has_foreign_server = shares_host && usage.server.is_none();
    let others = if has_foreign_server { 0.0 } else { usage.others };
    if others + usage.stolen <= OTHERS_SHARE_MAX {
        return None;
    }
    Some(CaveatCode::ProcessorContention.because(evidence).with_data(waited))
}

/// Returns the time that ready workers waited, where it is long enough to matter.
fn long_wait(result: &PassResult) -> Option<ProcessorWait> {
    let wait = result.scope.processor_wait?;
    if wait.share() > PROCESSOR_WAIT_SHARE_MAX { Some(wait) } else { None }
}

/// Shares of all processors of this host, by who used them.
#[derive(Clone, Copy, Debug)]
struct ProcessorUsage {
    /// By this program without its server.
    client: f64,
    /// By the server in this process; `None` where there is none.
    server: Option<f64>,
    /// By every other process, and by the kernel for itself.
    others: f64,
    /// By other machines, where this one is virtual.
    stolen: f64,
    processors: u64,
}

impl ProcessorUsage {
    /// Reads them from the kernel's counters of the whole host; `None` where they were not read, or
    /// over too short a time.
    fn of(result: &PassResult) -> Option<Self> {
        let host = result.telemetry.first()?;
        let busy_ns = sum_states(host, &["user", "nice", "system", "irq"]);
        let stolen_ns = sum_states(host, &["steal"]);
        let idle_ns = sum_states(host, &["idle", "iowait"]);
        let total_ns = busy_ns.saturating_add(stolen_ns).saturating_add(idle_ns);
        if host.span_ns() < COUNTED_NS_MIN || total_ns == 0 {
            return None;
        }
        let server_ns = result.server_cpu_ns.unwrap_or(0);
        let ours_ns = result.client_cpu_ns.saturating_add(server_ns);
        Some(Self {
            client: result.client_cpu_ns as f64 / total_ns as f64,
            server: result.server_cpu_ns.map(|ns| ns as f64 / total_ns as f64),
            // What is busy and not ours; the two are read a moment apart, so it may seem negative.
            others: busy_ns.saturating_sub(ours_ns) as f64 / total_ns as f64,
            stolen: stolen_ns as f64 / total_ns as f64,
            processors: (total_ns as f64 / host.span_ns() as f64).round() as u64,
        })
    }
}

/// Adds the time that all processors spent in some states.
fn sum_states(host: &Telemetry, states: &[&str]) -> u64 {
    let mut total_ns = 0_u64;
    for state in states {
        total_ns = total_ns.saturating_add(host.risen(&format!("cpu.{state}_ns")));
    }
    total_ns
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn describe_wait(wait: ProcessorWait, usage: Option<ProcessorUsage>) -> String {
    let waited = format!(
        "ready workers waited for a processor for {} of {} ({} %, at most {} %; \
         /proc/thread-self/schedstat)",
        Nanos(wait.waited_ns),
        Nanos(wait.of_ns),
        three_digits(wait.share() * 100.0),
        PROCESSOR_WAIT_SHARE_MAX * 100.0,
    );
    let Some(usage) = usage else { return waited };
    let server = match usage.server {
        Some(server) => format!(", the server in this process {}", percent(server)),
        None => String::new(),
    };
    format!(
        "{waited}; of {} processors the client had {}{server}, other processes {}, the hypervisor \
         {} (/proc/stat)",
        usage.processors,
        percent(usage.client),
        percent(usage.others),
        percent(usage.stolen),
    )
}

#[cfg(test)]
mod tests {
    use model::{Metric, MetricKind, NfsTarget, Pass, Scope, Workload};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A pass of a second on two processors, whose ready workers waited for a quarter of it.
    fn waiting(client: f64, server: Option<f64>, busy: f64, stolen: f64) -> PassResult {
        let metric = |name: &str, share: f64| Metric {
            name: format!("cpu.{name}_ns"),
            kind: MetricKind::Counter,
            values: vec![0, (share * 2.0 * SECOND as f64) as u64],
        };
        let idle = 1.0 - busy - stolen;
        let metrics = vec![metric("user", busy), metric("steal", stolen), metric("idle", idle)];
        let telemetry = Telemetry { host: "h".into(), times_ns: vec![0, SECOND], metrics };
        let wait = ProcessorWait { waited_ns: SECOND / 4, held_ns: 0, of_ns: SECOND };
        let time = |share: f64| (share * 2.0 * SECOND as f64) as u64;
        PassResult {
            window_ns: SECOND,
            client_cpu_ns: time(client),
            server_cpu_ns: server.map(time),
            telemetry: vec![telemetry],
            scope: Scope { processor_wait: Some(wait), ..Scope::default() },
            ..PassResult::new(Pass::Read)
        }
    }

    fn nfs(host: &str, workers: u32) -> RunSpec {
        let target = Target::Nfs(NfsTarget::new(host, "/e"));
        RunSpec { target, workers, ..RunSpec::null(Workload::Stream) }
    }

    fn code(spec: &RunSpec, result: &PassResult) -> Option<CaveatCode> {
        let shares_host = spec.target.nfs().is_some_and(NfsTarget::is_loopback);
        about_processors(spec, result, shares_host).map(|caveat| caveat.code)
    }

    #[test]
    fn a_client_that_waits_is_accused_only_where_it_had_the_processors() {
        let far = nfs("192.0.2.1", 2);
        // 37 % of a core, and other processes on both: not the client's limit.
        let busy = waiting(0.18, None, 0.98, 0.0);
        assert_eq!(code(&far, &busy), Some(CaveatCode::ProcessorContention));
        let evidence = about_processors(&far, &busy, false).unwrap().evidence;
        assert!(
            evidence.contains("of 2 processors the client had 18 %, other processes 80 %"),
            "{evidence}"
        );
        // Its workers had all of both processors, and waited for each other.
        let directory = RunSpec {
            target: Target::Directory { path: "/".into() },
            workers: 8,
            ..RunSpec::null(Workload::Stream)
        };
        let own = waiting(0.95, None, 0.98, 0.0);
        assert_eq!(code(&directory, &own), Some(CaveatCode::ClientSaturated));
    }

    #[test]
    fn a_server_on_this_host_is_a_note_and_a_third_process_is_named() {
        let near = nfs("127.0.0.1", 1);
        let shared = waiting(0.40, Some(0.45), 0.88, 0.0);
        assert_eq!(code(&near, &shared), None);
        let note = shared_host("the server is 127.0.0.1".to_owned(), &shared);
        assert_eq!(note.code, CaveatCode::SharedHost);
        let words = "the client had 40 %, the server in this process 45 %, other processes 3 %";
        assert!(note.evidence.contains(words), "{}", note.evidence);
        let hogged = waiting(0.30, Some(0.30), 0.95, 0.0);
        assert_eq!(code(&near, &hogged), Some(CaveatCode::ProcessorContention));
        let stolen = waiting(0.30, Some(0.30), 0.60, 0.40);
        assert_eq!(code(&near, &stolen), Some(CaveatCode::ProcessorContention));
        // A foreign server on this host is among the other processes.
        let theirs = waiting(0.40, None, 0.95, 0.0);
        assert_eq!(code(&near, &theirs), None);
    }

    #[test]
    fn a_quota_is_the_client_s_own_limit() {
        let mut held = waiting(0.1, None, 0.2, 0.0);
        held.scope.processor_wait =
            Some(ProcessorWait { waited_ns: SECOND / 2, held_ns: SECOND / 2, of_ns: SECOND });
        let caveat = about_processors(&nfs("192.0.2.1", 1), &held, false).unwrap();
        assert_eq!(caveat.code, CaveatCode::ClientSaturated);
        assert!(caveat.evidence.starts_with("a quota of its control group held"), "{caveat:?}");
    }

    #[test]
    fn short_passes_and_idle_processors_raise_no_caveat() {
        let far = nfs("192.0.2.1", 4);
        let mut short = waiting(0.3, None, 0.9, 0.0);
        short.telemetry[0].times_ns = vec![0, COUNTED_NS_MIN - 1];
        assert_eq!(code(&far, &short), None);
        short.telemetry[0].times_ns = vec![0, COUNTED_NS_MIN];
        assert_eq!(code(&far, &short), Some(CaveatCode::ProcessorContention));
        // The workers waited on one processor while the other one was idle.
        assert_eq!(code(&far, &waiting(0.5, None, 0.55, 0.0)), None);
    }

    #[test]
    fn the_evidence_names_no_shares_where_nothing_was_counted() {
        let mut unknown = waiting(0.1, None, 0.9, 0.0);
        unknown.telemetry.clear();
        let caveat = about_processors(&nfs("192.0.2.1", 1), &unknown, false).unwrap();
        assert_eq!(caveat.code, CaveatCode::ProcessorContention);
        assert!(caveat.evidence.ends_with("schedstat)"), "{}", caveat.evidence);
        assert_eq!(code(&nfs("127.0.0.1", 1), &unknown), None);
    }
}
