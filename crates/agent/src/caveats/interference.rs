//! What disturbed a pass from outside of the run, as numbers that don't depend on its result.
//!
//! A source is left out if the run itself may be behind it: memory pressure if its files go through
//! the page cache of this host, other programs if one of them may serve the target. Time that a
//! quota of its own control group took from the client is left out, too: the more a run uses, the
//! more of it a quota takes.

use lab::mounts::Mount;
use model::{Interference, InterferenceSource, PassResult, RunSpec, Target};

use super::processors::{COUNTED_NS_MIN, SchedulingDelay, span_ns};
use crate::processor_use::ProcessorUse;

/// Returns what disturbed a pass; nothing if it was too short for the counters of the kernel.
/// `server_here` is the server if it is on this host.
pub fn interference(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    server_here: Option<&str>,
    used: &ProcessorUse,
) -> Interference {
    let span_ns = span_ns(used);
    if span_ns < COUNTED_NS_MIN {
        return Interference::default();
    }
    let waits = SchedulingDelay::from_result(result, Some(used))
        .unwrap_or_else(|| SchedulingDelay::none(spec, used));
    let is_file_here = matches!(spec.target, Target::Directory { .. });
    let is_on_storage = is_file_here && !mount.is_some_and(Mount::is_nfs);
    let goes_past_memory = !is_file_here || spec.direct;
    // Another program of this host may serve the directory.
    let is_served_here =
        is_file_here && (server_here.is_some() || mount.is_some_and(Mount::is_fuse));
    // So is another load of the plan.
    let programs = used.programs.filter(|_| !is_served_here && !spec.has_company());
    let share = |ns: u64| permille(ns as f64 / span_ns as f64);
    let disk = programs.filter(|_| is_on_storage).map(|programs| {
        (u128::from(programs.io_bytes) * 1_000_000_000 / u128::from(span_ns)) as u64
    });
    let of_processors = |ns: u64| permille(ns as f64 / used.host.all_ns() as f64);
    Interference::default()
        .with(InterferenceSource::Steal, Some(permille(waits.share_of_stolen(used))))
        .with(
            InterferenceSource::Programs,
            // On the CPUs that the run is confined to, they used no more than all others did.
            programs.map(|programs| of_processors(programs.used_ns.min(used.others_ns()))),
        )
        .with(InterferenceSource::Disk, disk)
        .with(
            InterferenceSource::Memory,
            used.memory_stalled_ns.filter(|_| goes_past_memory && !spec.has_company()).map(share),
        )
        .with(InterferenceSource::Heat, used.throttled_ns.map(share))
}

fn permille(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lab::telemetry::processors::HostTimes;
    use model::testing::RunBuilder;
    use model::{Pass, ProcessorWait, Scope, Workload};

    use super::super::find_server;
    use super::*;
    use crate::processor_use::ProgramsUse;

    const SECOND: u64 = 1_000_000_000;

    /// Two CPUs over a second: ours used half of one, others and the hypervisor a fifth of one
    /// each.
    fn used() -> ProcessorUse {
        ProcessorUse {
            host: HostTimes {
                busy_ns: SECOND * 7 / 10,
                stolen_ns: SECOND / 5,
                idle_ns: SECOND * 11 / 10,
                processors: 2,
            },
            client_ns: SECOND / 2,
            programs: Some(ProgramsUse { used_ns: SECOND / 5, io_bytes: 30_000_000 }),
            memory_stalled_ns: Some(SECOND / 8),
            throttled_ns: Some(SECOND / 50),
            ..ProcessorUse::default()
        }
    }

    fn on(spec: &RunSpec, mount: Option<&Mount>, used: &ProcessorUse) -> Interference {
        let wait = ProcessorWait { of_ns: SECOND, ..ProcessorWait::default() };
        let scope = Scope { processor_wait: Some(wait), ..Scope::default() };
        let result = PassResult { window_ns: SECOND, scope, ..PassResult::new(Pass::Read) };
        let server = find_server(&spec.target, mount);
        interference(spec, &result, mount, server.as_deref(), used)
    }

    fn directory() -> RunBuilder {
        RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv"))
    }

    fn mount(file_system: &str, options: &str) -> Mount {
        Mount {
            file_system: file_system.to_owned(),
            source: "x".to_owned(),
            mount_point: "/srv".to_owned(),
            compression: None,
            options: options.to_owned(),
            device: "0:1".into(),
            id: 1,
        }
    }

    /// The numbers of all sources, in their order.
    fn numbers(found: &Interference) -> [Option<u64>; 5] {
        [0, 1, 2, 3, 4].map(|at| found.get(InterferenceSource::ALL[at]))
    }

    #[test]
    fn records_every_source() {
        let found = on(&directory().direct(true).build(), None, &used());
        // Of 0.2 s that were stolen, five sevenths were taken from us.
        let shares = [Some(143), Some(100), Some(30_000_000), Some(125), Some(20)];
        assert_eq!(numbers(&found), shares);
        let null = on(&RunSpec::null(Workload::Stream), None, &used());
        assert_eq!(numbers(&null), [Some(143), Some(100), None, Some(125), Some(20)]);
    }

    #[test]
    fn omits_what_run_may_cause() {
        // Files that go through the page cache press on memory themselves.
        let buffered = on(&directory().direct(false).build(), None, &used());
        assert_eq!(numbers(&buffered)[3], None);
        // A daemon or a server of this host works for the run.
        let direct = directory().direct(true).build();
        for served in [mount("fuse.sshfs", ""), mount("nfs4", "proto=tcp,addr=127.0.0.1")] {
            let found = numbers(&on(&direct, Some(&served), &used()));
            assert_eq!(found, [Some(143), None, None, Some(125), Some(20)]);
        }
        let unknown = ProcessorUse { programs: None, ..used() };
        assert_eq!(numbers(&on(&direct, None, &unknown))[1..3], [None, None]);
    }

    #[test]
    fn counts_programs_on_run_cpus() {
        // The run is confined to one CPU, and the other programs used another one.
        let mut confined = used();
        confined.host = HostTimes {
            busy_ns: confined.client_ns + SECOND / 20,
            stolen_ns: 0,
            idle_ns: SECOND * 9 / 20,
            processors: 1,
        };
        let found = on(&RunSpec::null(Workload::Stream), None, &confined);
        assert_eq!(found.get(InterferenceSource::Programs), Some(50));
    }

    #[test]
    fn short_passes_have_no_record() {
        let mut short = used();
        short.host.idle_ns = 0;
        short.host.busy_ns = 2 * COUNTED_NS_MIN - short.host.stolen_ns - 2;
        assert!(on(&RunSpec::null(Workload::Stream), None, &short).is_empty());
        short.host.busy_ns += 2;
        assert!(!on(&RunSpec::null(Workload::Stream), None, &short).is_empty());
    }
}
