//! Caveats about who used the CPUs while a pass was measured.
//!
//! A worker that is runnable but has no CPU lowers the rate, but that doesn't show whose limit it
//! is. The client is saturated if its own CPU usage is at its limit, or if a quota throttled it.
//! Otherwise, others used the CPUs, and the caveat names them: other processes or the hypervisor. A
//! server on this host is part of how the run was arranged, so it is only a note. The null target,
//! the memory target and external programs may use all CPUs, so for them only others are reported.

use model::units::{Nanos, three_digits};
use model::{Caveat, CaveatCode, Evidence, PassResult, ProcessorWait, RunSpec};

use crate::processor_use::ProcessorUse;

/// Share of CPU time above which the workers could not have issued more ops.
pub(crate) const CLIENT_CPU_SHARE_MAX: f64 = 0.95;

/// Maximum share of time that workers may be runnable but not running. The rate is too low by the
/// same share. This is half of the limit for a wide interval; a larger effect could hide in the
/// spread.
pub(crate) const PROCESSOR_WAIT_SHARE_MAX: f64 = 0.10;

/// Share of all CPUs from which on the client's workers waited for each other.
const ALL_PROCESSORS_SHARE: f64 = 0.90;

/// Share of all CPUs that other processes and the hypervisor may use without being named. With
/// less, the workers waited for each other or for a server on this host.
const OTHERS_SHARE_MAX: f64 = 0.10;

/// Minimum time for computing shares, because the kernel counts in ticks of 10 ms.
pub(super) const COUNTED_NS_MIN: u64 = 200_000_000;

/// Returns a caveat if the client was at its own limit or others used the CPUs. `shares_host` means
/// that the server is on this host and may use them.
pub(super) fn about_processors(
    spec: &RunSpec,
    result: &PassResult,
    used: Option<&ProcessorUse>,
    shares_host: bool,
) -> Option<Caveat> {
    if may_use_all(spec) {
        return check_contention(spec, result, used, shares_host);
    }
    // Check the clearest reason first: one caveat is enough, and a saturated client also waits.
    if let Some(caveat) = check_saturated(spec, result) {
        return Some(caveat);
    }
    if let Some(caveat) = check_quota(result) {
        return Some(caveat);
    }
    check_contention(spec, result, used, shares_host)
}

/// Returns true if it is acceptable for the client to use all CPUs.
fn may_use_all(spec: &RunSpec) -> bool {
    spec.target.is_plain() || spec.workload.is_external()
}

/// Notes that a server shares this host, and what that cost if workers had to wait for it.
pub(super) fn shared_host(
    server: &str,
    result: &PassResult,
    used: Option<&ProcessorUse>,
) -> Caveat {
    let mut evidence = server.to_owned();
    if let Some(waits) = SchedulingDelay::from_result(result, used)
        && waits.share() > PROCESSOR_WAIT_SHARE_MAX
    {
        evidence = format!("{evidence}; {}", describe_wait(&waits, counted(used)));
    }
    CaveatCode::SharedHost.because(evidence)
}

/// Raises a caveat if the client's threads used all the CPU time available to them.
fn check_saturated(spec: &RunSpec, result: &PassResult) -> Option<Caveat> {
    // On a directory, the workers' CPU time is that of the file system; the null target has nothing
    // else.
    spec.target.nfs()?;
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = spec.cpus.map_or(allowed, |cpus| allowed.min(cpus as usize));
    // A worker is one thread, so it cannot use more than one CPU.
    let busy_max = (spec.workers as usize).min(cores);
    let available = result.window_ns as f64 * busy_max as f64;
    let share = result.client_cpu_ns as f64 / available.max(1.0);
    if share <= CLIENT_CPU_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "the client used {} of CPU time (CLOCK_PROCESS_CPUTIME_ID) in {} with {} workers ({} %)",
        Nanos(result.client_cpu_ns),
        Nanos(result.window_ns),
        spec.workers,
        three_digits(share * 100.0),
    );
    let source = "CLOCK_PROCESS_CPUTIME_ID as a share of the workers' time";
    let data = Evidence::shares(share, CLIENT_CPU_SHARE_MAX, source);
    Some(CaveatCode::ClientSaturated.because(evidence).with_data(data))
}

/// Raises a caveat if a cgroup quota throttled the client, which is a limit of the client itself.
fn check_quota(result: &PassResult) -> Option<Caveat> {
    let wait = result.scope.processor_wait?;
    if wait.throttled_share() <= PROCESSOR_WAIT_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "a cgroup quota throttled the client for {} of {} ({} %, limit {} %; cpu.stat)",
        Nanos(wait.held_ns),
        Nanos(wait.of_ns),
        three_digits(wait.throttled_share() * 100.0),
        PROCESSOR_WAIT_SHARE_MAX * 100.0,
    );
    let data = Evidence::shares(wait.throttled_share(), PROCESSOR_WAIT_SHARE_MAX, "cpu.stat");
    Some(CaveatCode::ClientSaturated.because(evidence).with_data(data))
}

/// Raises a caveat if runnable workers had to wait: for each other if the client used all CPUs,
/// otherwise for other processes or virtual machines.
fn check_contention(
    spec: &RunSpec,
    result: &PassResult,
    used: Option<&ProcessorUse>,
    shares_host: bool,
) -> Option<Caveat> {
    let Some(used) = used else { return check_wait_alone(spec, result, shares_host) };
    let shares = CpuShares::from_usage(used)?;
    // Only a kernel without `schedstat` doesn't report how long workers waited.
    let waits = SchedulingDelay::from_result(result, Some(used))
        .unwrap_or_else(|| SchedulingDelay::none(spec, used));
    let stolen = waits.share_of_stolen(used);
    if stolen > PROCESSOR_WAIT_SHARE_MAX {
        let source = "time taken from the workers by the hypervisor, /proc/stat";
        let data = Evidence::shares(stolen, PROCESSOR_WAIT_SHARE_MAX, source);
        let evidence = format!(
            "the hypervisor took {} % of the workers' time (limit {} %); {}",
            three_digits(stolen * 100.0),
            PROCESSOR_WAIT_SHARE_MAX * 100.0,
            describe_wait(&waits, Some((used, shares))),
        );
        return Some(CaveatCode::ProcessorContention.because(evidence).with_data(data));
    }
    if waits.share() <= PROCESSOR_WAIT_SHARE_MAX {
        return None;
    }
    let evidence = describe_wait(&waits, Some((used, shares)));
    if shares.client > ALL_PROCESSORS_SHARE {
        if may_use_all(spec) {
            return None;
        }
        let source = "share of this host's CPUs used by the client, /proc/stat";
        let data = Evidence::shares(shares.client, ALL_PROCESSORS_SHARE, source);
        return Some(CaveatCode::ClientSaturated.because(evidence).with_data(data));
    }
    if shares.others + shares.stolen <= OTHERS_SHARE_MAX {
        return None;
    }
    let data = waits.evidence();
    Some(CaveatCode::ProcessorContention.because(evidence).with_data(data))
}

/// Raises a caveat about waiting workers if the kernel doesn't report who used the CPUs.
fn check_wait_alone(spec: &RunSpec, result: &PassResult, shares_host: bool) -> Option<Caveat> {
    let waits = SchedulingDelay::from_result(result, None)?;
    let may_wait = may_use_all(spec) || shares_host;
    if waits.share() <= PROCESSOR_WAIT_SHARE_MAX || may_wait {
        return None;
    }
    let evidence = describe_wait(&waits, None);
    Some(CaveatCode::ProcessorContention.because(evidence).with_data(waits.evidence()))
}

/// How long our threads were runnable but not running.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchedulingDelay {
    /// Waiting time of the workers, or of the external program.
    ours: ProcessorWait,
    /// Waiting time of the threads of a server on this host. An op waits for both, one after the
    /// other.
    server_ns: u64,
    /// Who waited, and the source of the numbers.
    who: &'static str,
    source: &'static str,
}

impl SchedulingDelay {
    pub(super) fn from_result(result: &PassResult, used: Option<&ProcessorUse>) -> Option<Self> {
        let server = used.and_then(|used| used.server.as_ref());
        let server_ns = server.map_or(0, |server| server.waited_ns);
        if let Some(ours) = used.and_then(|used| used.program_wait) {
            let who = "the program's threads were runnable but not running";
            return Some(Self { ours, server_ns, who, source: "/proc/PID/task/TID/schedstat" });
        }
        let ours = result.scope.processor_wait?;
        let who = "workers were runnable but not running";
        Some(Self { ours, server_ns, who, source: "/proc/thread-self/schedstat" })
    }

    /// No known waiting, with the time of the workers.
    pub(super) fn none(spec: &RunSpec, used: &ProcessorUse) -> Self {
        let of_ns = span_ns(used).saturating_mul(spec.workers.max(1).into());
        let ours = ProcessorWait { of_ns, ..ProcessorWait::default() };
        Self {
            ours,
            server_ns: 0,
            who: "workers were runnable but not running",
            source: "not counted",
        }
    }

    /// Returns the share of the workers' time spent waiting.
    fn share(&self) -> f64 {
        let waited_ns = self.ours.waited_ns.saturating_add(self.server_ns);
        (waited_ns as f64 / self.ours.of_ns.max(1) as f64).min(1.0)
    }

    /// Returns the share of the workers' time that the hypervisor took, assuming that it took from
    /// each user in proportion to its usage. A stolen CPU causes no queue, so this time is not part
    /// of the waiting time.
    pub(super) fn share_of_stolen(&self, used: &ProcessorUse) -> f64 {
        let server_ns = used.server.as_ref().map_or(0, |server| server.used_ns);
        let ours_ns = used.client_ns.saturating_add(server_ns) as f64;
        let ours = (ours_ns / used.host.busy_ns.max(1) as f64).min(1.0);
        used.host.stolen_ns as f64 * ours / self.ours.of_ns.max(1) as f64
    }

    fn evidence(&self) -> Evidence {
        let source = format!("time during which {}, {}", self.who, self.source);
        Evidence::shares(self.share(), PROCESSOR_WAIT_SHARE_MAX, source)
    }
}

/// Shares of the CPUs that this process may use, by user.
#[derive(Clone, Copy, Debug)]
struct CpuShares {
    client: f64,
    server: f64,
    systems: f64,
    others: f64,
    /// Used by other virtual machines, if this is one.
    stolen: f64,
}

impl CpuShares {
    /// Computes the shares, or returns `None` if the time was too short.
    fn from_usage(used: &ProcessorUse) -> Option<Self> {
        let all_ns = used.host.all_ns();
        if span_ns(used) < COUNTED_NS_MIN {
            return None;
        }
        let share = |ns: u64| ns as f64 / all_ns as f64;
        Some(Self {
            client: share(used.client_ns),
            server: share(used.server.as_ref().map_or(0, |server| server.used_ns)),
            systems: share(used.systems_ns),
            others: share(used.others_ns()),
            stolen: share(used.host.stolen_ns),
        })
    }
}

/// Returns the time of each CPU.
pub(super) fn span_ns(used: &ProcessorUse) -> u64 {
    used.host.all_ns() / used.host.processors.max(1)
}

/// Returns the CPU usage with its shares, if it was counted for long enough.
fn counted(used: Option<&ProcessorUse>) -> Option<(&ProcessorUse, CpuShares)> {
    let used = used?;
    Some((used, CpuShares::from_usage(used)?))
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn describe_wait(waits: &SchedulingDelay, counted: Option<(&ProcessorUse, CpuShares)>) -> String {
    let server_waited = match waits.server_ns {
        0 => String::new(),
        ns => format!(", and the server's threads for {}", Nanos(ns)),
    };
    let waited = format!(
        "{} {} % of the time ({} of {}{server_waited}; limit {} %; {})",
        waits.who,
        three_digits(waits.share() * 100.0),
        Nanos(waits.ours.waited_ns),
        Nanos(waits.ours.of_ns),
        PROCESSOR_WAIT_SHARE_MAX * 100.0,
        waits.source,
    );
    let Some((used, shares)) = counted else { return waited };
    let server = match &used.server {
        Some(server) => format!(", {} {}", server.name, percent(shares.server)),
        None => String::new(),
    };
    let systems = match used.systems_ns {
        0 => String::new(),
        _ => format!(", programs of the file system {}", percent(shares.systems)),
    };
    let mut names = Vec::new();
    for (name, used_ns) in &used.others {
        // A process may also have used CPUs that this process must not use.
        let share = (*used_ns as f64 / used.host.all_ns() as f64).min(shares.others);
        names.push(format!("{name} {}", percent(share)));
    }
    let names = match names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    format!(
        "{waited}; use of {} CPUs: the client {}{server}{systems}, other processes {}{names}, the \
         hypervisor {} (/proc/stat)",
        used.host.processors,
        percent(shares.client),
        percent(shares.others),
        percent(shares.stolen),
    )
}

#[cfg(test)]
mod tests {
    use lab::telemetry::processors::HostTimes;
    use model::{NfsTarget, Pass, Scope, Target, Workload};

    use super::*;
    use crate::processor_use::ServerUse;

    const SECOND: u64 = 1_000_000_000;

    /// Shares of the time of two CPUs, by user.
    #[derive(Clone, Copy, Default)]
    struct CpuTimeShares {
        client: f64,
        server: Option<f64>,
        others: f64,
        stolen: f64,
    }

    impl CpuTimeShares {
        /// Returns the usage of two CPUs over one second.
        fn used(self) -> ProcessorUse {
            let time = |share: f64| (share * 2.0 * SECOND as f64) as u64;
            let busy = self.client + self.server.unwrap_or(0.0) + self.others;
            ProcessorUse {
                host: HostTimes {
                    busy_ns: time(busy),
                    stolen_ns: time(self.stolen),
                    idle_ns: time(1.0 - busy - self.stolen),
                    processors: 2,
                },
                client_ns: time(self.client),
                server: self.server.map(|share| ServerUse {
                    name: "the server ganesha.nfsd".into(),
                    used_ns: time(share),
                    waited_ns: 0,
                }),
                others: vec![("cc1".into(), time(self.others))],
                ..ProcessorUse::default()
            }
        }

        /// Returns the code raised if the workers waited for a quarter of the second.
        fn code(self, spec: &RunSpec) -> Option<CaveatCode> {
            self.caveat(spec).map(|caveat| caveat.code)
        }

        fn caveat(self, spec: &RunSpec) -> Option<Caveat> {
            raised(spec, &waited(SECOND / 4), Some(&self.used()))
        }
    }

    /// Judges a run whose server is on this host if its address is loopback.
    fn raised(spec: &RunSpec, result: &PassResult, used: Option<&ProcessorUse>) -> Option<Caveat> {
        let shares_host = spec.target.nfs().is_some_and(NfsTarget::is_loopback);
        about_processors(spec, result, used, shares_host)
    }

    fn waited(waited_ns: u64) -> PassResult {
        let wait = ProcessorWait { waited_ns, held_ns: 0, of_ns: SECOND };
        PassResult {
            window_ns: SECOND,
            scope: Scope { processor_wait: Some(wait), ..Scope::default() },
            ..PassResult::new(Pass::Read)
        }
    }

    fn nfs(host: &str, workers: u32) -> RunSpec {
        let target = Target::Nfs(NfsTarget::new(host, "/e"));
        RunSpec { target, workers, ..RunSpec::null(Workload::Stream) }
    }

    fn directory(workload: Workload) -> RunSpec {
        let target = Target::Directory { path: "/".into() };
        RunSpec { target, workers: 8, ..RunSpec::null(workload) }
    }

    /// Returns specs of all kinds of runs: NFS with a remote and a local server, a directory,
    /// without a target, and an external program.
    fn all_kinds() -> Vec<RunSpec> {
        let memory = RunSpec { target: Target::Memory, ..RunSpec::null(Workload::Stream) };
        let mut specs = vec![nfs("192.0.2.1", 1), nfs("127.0.0.1", 1), memory];
        specs.push(RunSpec::null(Workload::Stream));
        let workloads = [
            Workload::Stream,
            Workload::Fio,
            Workload::Dd,
            Workload::Iozone,
            Workload::Bonniexx,
            Workload::App,
        ];
        specs.extend(workloads.map(directory));
        specs
    }

    #[test]
    fn names_foreign_processes_for_every_target() {
        for spec in all_kinds() {
            let busy = CpuTimeShares { client: 0.18, others: 0.80, ..CpuTimeShares::default() };
            let caveat = busy.caveat(&spec).unwrap();
            assert_eq!(caveat.code, CaveatCode::ProcessorContention);
            for words in ["the client 18 %", "(cc1 80 %)", "the hypervisor 0 %"] {
                assert!(caveat.evidence.contains(words), "{words}: {caveat:?}");
            }
        }
    }

    #[test]
    fn stays_silent_within_both_bounds() {
        for spec in all_kinds() {
            // Up to 10 % is allowed, both for others and for the time spent waiting.
            let others = CpuTimeShares { client: 0.5, others: 0.10, ..CpuTimeShares::default() };
            assert_eq!(others.code(&spec), None);
            let others = CpuTimeShares { client: 0.5, others: 0.101, ..CpuTimeShares::default() };
            assert_eq!(others.code(&spec), Some(CaveatCode::ProcessorContention));
            let used =
                CpuTimeShares { client: 0.1, others: 0.9, ..CpuTimeShares::default() }.used();
            let code = |waited_ns| {
                raised(&spec, &waited(waited_ns), Some(&used)).map(|caveat| caveat.code)
            };
            assert_eq!(code(SECOND / 10), None);
            assert_eq!(code(SECOND / 10 + 1), Some(CaveatCode::ProcessorContention));
        }
    }

    #[test]
    fn own_limit_is_no_contention() {
        // The workers used both CPUs completely and waited for each other.
        let own = CpuTimeShares { client: 0.95, others: 0.03, ..CpuTimeShares::default() };
        assert_eq!(own.code(&directory(Workload::Stream)), Some(CaveatCode::ClientSaturated));
        // Using all CPUs is the purpose of these.
        assert_eq!(own.code(&directory(Workload::Fio)), None);
        assert_eq!(own.code(&RunSpec::null(Workload::Stream)), None);
    }

    #[test]
    fn counts_local_server_as_own() {
        let near = nfs("127.0.0.1", 1);
        let shared = CpuTimeShares { client: 0.40, server: Some(0.45), others: 0.03, stolen: 0.0 };
        assert_eq!(shared.code(&near), None);
        let server = "the server is 127.0.0.1";
        let note = shared_host(server, &waited(SECOND / 4), Some(&shared.used()));
        assert_eq!(note.code, CaveatCode::SharedHost);
        insta::assert_snapshot!(note.evidence);
        let hogged = CpuTimeShares { client: 0.30, server: Some(0.30), others: 0.35, stolen: 0.0 };
        assert_eq!(hogged.code(&near), Some(CaveatCode::ProcessorContention));
    }

    #[test]
    fn programs_of_system_are_not_foreign() {
        let spec = directory(Workload::Stream);
        let mut used =
            CpuTimeShares { client: 0.40, others: 0.50, ..CpuTimeShares::default() }.used();
        used.systems_ns = used.others_ns() - SECOND / 10;
        assert_eq!(raised(&spec, &waited(SECOND / 4), Some(&used)), None);
        used.systems_ns -= SECOND / 5;
        let caveat = raised(&spec, &waited(SECOND / 4), Some(&used)).unwrap();
        assert!(caveat.evidence.contains(", programs of the file system 35 %, "), "{caveat:?}");
    }

    #[test]
    fn time_that_the_server_waited_counts() {
        let plant = CpuTimeShares { client: 0.20, server: Some(0.20), others: 0.55, stolen: 0.0 };
        let mut used = plant.used();
        let code = |used: &ProcessorUse| {
            let result = waited(SECOND / 20);
            raised(&nfs("127.0.0.1", 1), &result, Some(used)).map(|caveat| caveat.code)
        };
        assert_eq!(code(&used), None);
        used.server.as_mut().unwrap().waited_ns = SECOND / 2;
        assert_eq!(code(&used), Some(CaveatCode::ProcessorContention));
    }

    #[test]
    fn attributes_wait_to_program() {
        let mut used =
            CpuTimeShares { client: 0.4, others: 0.5, ..CpuTimeShares::default() }.used();
        let spec = directory(Workload::Dd);
        let result = PassResult::new(Pass::Write);
        assert_eq!(raised(&spec, &result, Some(&used)), None);
        used.program_wait =
            Some(ProcessorWait { waited_ns: SECOND / 2, held_ns: 0, of_ns: SECOND });
        let caveat = raised(&spec, &result, Some(&used)).unwrap();
        insta::assert_snapshot!(caveat.evidence);
    }

    #[test]
    fn counts_stolen_time_as_contention() {
        for spec in all_kinds() {
            // A single worker on two CPUs was the only one to run, and lost 20 % of its time.
            let used =
                CpuTimeShares { client: 0.30, stolen: 0.10, ..CpuTimeShares::default() }.used();
            let caveat = raised(&spec, &waited(0), Some(&used)).unwrap();
            assert_eq!(caveat.code, CaveatCode::ProcessorContention);
            assert!(caveat.evidence.starts_with("the hypervisor took 20.0 %"), "{caveat:?}");
            assert!((caveat.data.unwrap().found - 20.0).abs() < 0.1);
            // Up to 10 % is allowed.
            let used =
                CpuTimeShares { client: 0.30, stolen: 0.05, ..CpuTimeShares::default() }.used();
            assert_eq!(raised(&spec, &waited(0), Some(&used)), None);
            // Most of it was taken from others.
            let used = CpuTimeShares {
                client: 0.10,
                others: 0.60,
                stolen: 0.20,
                ..CpuTimeShares::default()
            };
            assert_eq!(raised(&spec, &waited(0), Some(&used.used())), None);
        }
    }

    #[test]
    fn attributes_quota_to_client() {
        let mut held = waited(SECOND / 2);
        held.scope.processor_wait =
            Some(ProcessorWait { waited_ns: SECOND / 2, held_ns: SECOND / 2, of_ns: SECOND });
        let used = CpuTimeShares { client: 0.1, others: 0.1, ..CpuTimeShares::default() }.used();
        let caveat = raised(&nfs("192.0.2.1", 1), &held, Some(&used)).unwrap();
        assert_eq!(caveat.code, CaveatCode::ClientSaturated);
        insta::assert_snapshot!(caveat.evidence);
    }

    #[test]
    fn short_passes_raise_no_caveat() {
        let far = nfs("192.0.2.1", 4);
        let mut short =
            CpuTimeShares { client: 0.3, others: 0.6, ..CpuTimeShares::default() }.used();
        let code = |used: &ProcessorUse| {
            raised(&far, &waited(SECOND / 4), Some(used)).map(|caveat| caveat.code)
        };
        // Two CPUs have twice the time of one.
        short.host.busy_ns = 200_000_000;
        short.client_ns = 50_000_000;
        short.host.idle_ns = 2 * (COUNTED_NS_MIN - 1) - short.host.busy_ns;
        assert_eq!(code(&short), None);
        short.host.idle_ns += 2;
        assert_eq!(code(&short), Some(CaveatCode::ProcessorContention));
    }

    #[test]
    fn unknown_use_names_nobody() {
        let result = waited(SECOND / 4);
        let caveat = raised(&nfs("192.0.2.1", 1), &result, None).unwrap();
        assert_eq!(caveat.code, CaveatCode::ProcessorContention);
        assert!(caveat.evidence.ends_with("schedstat)"), "{}", caveat.evidence);
        assert_eq!(raised(&nfs("127.0.0.1", 1), &result, None), None);
        assert_eq!(raised(&RunSpec::null(Workload::Stream), &result, None), None);
    }
}
