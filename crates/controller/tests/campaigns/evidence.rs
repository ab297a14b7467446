//! Every caveat with a limit contains the number that raised it: value, limit, unit and source.
//!
//! Each code is planted with the smallest numbers that raise it. The match over all codes has no
//! other arm, so that a new code needs its plant here.

use std::path::Path;

use agent::{accounting, caveats};
use controller::results_on_target;
use controller::trial::overlap::{LoadTime, about_overlap};
use controller::trial::write_back::{self, ObjectOutcome};
use controller::trial::{quiet_hosts, server_telemetry};
use engine::backend::{BackendCounts, PnfsCounts, ShortTransfers, TcpCounters};
use engine::worker::Ending;
use fleet::clock::{Drift, Sample};
use fleet::{ClockReading, QuietWait};
use lab::facts::memory::Memory;
use lab::mounts::Mount;
use model::soak::Recovery;
use model::testing::RunBuilder;
use model::{
    BackendKind, BusyDevice, CaveatCode, CrossCheck, Evidence, Histogram, Host, HostResult,
    Interference, InterferenceSource, IntervalSample, KindResult, LabSpec, Metric, MetricKind,
    NfsTarget, OpError, OpKind, Pass, PassResult, PathWork, ProcessorWait, Run, RunSpec, Span,
    Stall, Stalls, Target, Telemetry, Trial, TrialState, Work, Workload,
};
use stats::{host_balance, judge};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A second in which the given number of ops of a kind were done, of a megabyte each.
fn result(pass: Pass, kind: OpKind, ops: u64) -> PassResult {
    PassResult {
        window_ns: SECOND,
        common_window_ns: SECOND,
        first_done_ns: SECOND,
        client_cpu_ns: SECOND / 2,
        kinds: vec![KindResult {
            kind,
            issued: ops,
            done: ops,
            bytes: ops * 1_000_000,
            errors: Vec::new(),
            service_time: Histogram::new(),
            response_time: Histogram::new(),
        }],
        ..PassResult::new(pass)
    }
}

fn reads() -> PassResult {
    result(Pass::Read, OpKind::Read, 100)
}

fn local() -> RunSpec {
    let built = RunBuilder::new(Workload::Stream).on_directory(Path::new("/srv"));
    built.file_size_bytes(1 << 20).files(4).workers(2).build()
}

fn served() -> RunSpec {
    let target = Target::Nfs(NfsTarget::new("192.0.2.1", "/export"));
    RunSpec { target, backend: BackendKind::Nfs, workers: 1, ..local() }
}

fn mixed() -> RunSpec {
    let mut spec = RunSpec { workload: Workload::Mixed, read_percent: 50, ..local() };
    spec.load.rate_per_s = 1_000;
    spec
}

fn mount(file_system: &str) -> Mount {
    Mount {
        file_system: file_system.to_owned(),
        source: "/dev/vda".to_owned(),
        mount_point: "/srv".to_owned(),
        options: String::new(),
        device: "0:1".into(),
        compression: None,
        id: 1,
    }
}

fn failed(error: OpError) -> PassResult {
    let mut failed = reads();
    failed.kinds[0].errors = vec![(error, 3)];
    failed
}

fn host(name: &str, ops: u64, start_ns: i64) -> HostResult {
    HostResult {
        host: name.to_owned(),
        workers: 1,
        ops,
        bytes: ops,
        failed: 0,
        common: Work::default(),
        start_ns,
        end_ns: start_ns + SECOND.cast_signed(),
        error_ns: 0,
        cpu_ns: 0,
        times: model::ClientTimes::from_histogram(&Histogram::new()),
        response_times: model::ClientTimes::default(),
    }
}

/// A run with trials that read the given number of megabytes in a second; those of `cached` from
/// memory.
fn run(rates: &[u64], cached: &[usize]) -> Run {
    let mut trials = Vec::new();
    for (index, ops) in rates.iter().enumerate() {
        let mut pass = result(Pass::Write, OpKind::Write, *ops);
        if cached.contains(&index) {
            pass.caveats.push(CaveatCode::Cached.because("from memory"));
        }
        trials.push(trial(index, pass));
    }
    Run { index: 0, spec: local(), trials }
}

fn trial(index: usize, pass: PassResult) -> Trial {
    Trial {
        index: index as u32,
        position: index as u32,
        started_unix_ms: 0,
        state: TrialState::Done,
        passes: vec![pass],
        facts: Vec::new(),
    }
}

/// A mix with these numbers of ops in each second.
fn changing(ops: &[u64]) -> Run {
    let mut pass = result(Pass::Mix, OpKind::Read, 5_000);
    for (number, ops) in ops.iter().enumerate() {
        let at_ns = (number as u64 + 1) * SECOND;
        pass.samples.push(IntervalSample { at_ns, ops: *ops, bytes: 0 });
        pass.window_ns = at_ns;
        pass.common_window_ns = at_ns;
        pass.first_done_ns = at_ns;
    }
    let spec = RunSpec { workload: Workload::Mixed, duration_ms: 5_000, ..local() };
    Run { index: 0, spec, trials: vec![trial(0, pass)] }
}

fn counters(named: &[(&str, u64)]) -> Telemetry {
    let metrics: Vec<_> = named
        .iter()
        .map(|(name, risen)| Metric {
            name: (*name).to_owned(),
            kind: MetricKind::Counter,
            values: vec![0, *risen],
        })
        .collect();
    Telemetry { host: "server".to_owned(), times_ns: vec![0, 1], metrics }
}

/// Takes the data of the caveat with a code from some caveats.
fn data_of(code: CaveatCode, caveats: impl IntoIterator<Item = model::Caveat>) -> Option<Evidence> {
    caveats.into_iter().find(|caveat| caveat.code == code).and_then(|caveat| caveat.data)
}

fn judged(code: CaveatCode, run: &Run, pass: Pass) -> Option<Evidence> {
    let judged = judge::pass(run, pass);
    judged.caveats.into_iter().find(|caveat| caveat.code == code).and_then(|caveat| caveat.data)
}

/// Raises a caveat, and returns the data of its evidence.
fn plant(code: CaveatCode) -> Option<Evidence> {
    match code {
        CaveatCode::Accounting
        | CaveatCode::DataMismatch
        | CaveatCode::Errors
        | CaveatCode::Cached
        | CaveatCode::Localio
        | CaveatCode::Delegated
        | CaveatCode::Pnfs
        | CaveatCode::TlsOffload
        | CaveatCode::Retransmits
        | CaveatCode::Recovered
        | CaveatCode::PathLost
        | CaveatCode::PathsUneven
        | CaveatCode::ServerBusy
        | CaveatCode::ShortTransfers
        | CaveatCode::PnfsFallback
        | CaveatCode::TcpRetransmits => plant_outcome(code),
        CaveatCode::Unsynchronised
        | CaveatCode::PartlyAlone
        | CaveatCode::ClientSaturated
        | CaveatCode::ProcessorContention
        | CaveatCode::Stalled
        | CaveatCode::TooShort
        | CaveatCode::StonewallMissed
        | CaveatCode::BelowOffered
        | CaveatCode::MixShares
        | CaveatCode::FitsMemory
        | CaveatCode::SmallDataSet
        | CaveatCode::Clock => plant_figure(code),
        CaveatCode::Straggler
        | CaveatCode::Skew
        | CaveatCode::ClockRate
        | CaveatCode::ServerCached
        | CaveatCode::ServerThreadsChanged
        | CaveatCode::NotQuiet
        | CaveatCode::NotDrained
        | CaveatCode::NotEvicted
        | CaveatCode::AcknowledgedBeforeUpload
        | CaveatCode::ResultsOnTarget
        | CaveatCode::SlotsLimited => plant_host(code),
        CaveatCode::NotSteady
        | CaveatCode::Burst
        | CaveatCode::TooFewTrials
        | CaveatCode::WideInterval
        | CaveatCode::MixedTrials
        | CaveatCode::Outlier
        | CaveatCode::TrialsInteract
        | CaveatCode::Interference
        | CaveatCode::Drift => plant_run(code),
        CaveatCode::Interrupted
        | CaveatCode::OptionNotEffective
        | CaveatCode::BackendFallback
        | CaveatCode::Traced
        | CaveatCode::ConcurrentCampaign
        | CaveatCode::Compressible
        | CaveatCode::Emulated
        | CaveatCode::MayBeServerCached
        | CaveatCode::SharedHost
        | CaveatCode::NotDurable
        | CaveatCode::RecipeNotTried => None,
    }
}

/// Raises a caveat that shows in the outcome of ops or in retransmissions.
fn plant_outcome(code: CaveatCode) -> Option<Evidence> {
    match code {
        CaveatCode::Accounting => {
            let source = "ops counted by the backend".to_owned();
            data_of(code, accounting::caveats(&[CrossCheck { expected: 9, found: 8, source }]))
        }
        CaveatCode::DataMismatch => {
            let failed = failed(OpError::MISMATCH);
            data_of(
                code,
                caveats::about_outcome(&failed, &Ending::Complete, &BackendCounts::default()),
            )
        }
        CaveatCode::Errors => {
            let failed = failed(OpError(5));
            data_of(
                code,
                caveats::about_outcome(&failed, &Ending::Complete, &BackendCounts::default()),
            )
        }
        CaveatCode::Cached => {
            let result = PassResult { storage_read_bytes: Some(10), ..reads() };
            data_of(code, caveats::about_cache(&local(), &result, Some(&mount("ext4"))))
        }
        CaveatCode::Localio => {
            let telemetry = vec![counters(&[("nfs./srv.server_write_bytes", 1_000)])];
            let result = PassResult { telemetry, ..result(Pass::Write, OpKind::Write, 1) };
            data_of(code, caveats::about_mount(&result, Some(&mount("nfs4")), None))
        }
        CaveatCode::Delegated => {
            let telemetry = vec![counters(&[("nfs./srv.OPEN.ops", 10)])];
            let result = PassResult { telemetry, ..result(Pass::ReadFiles, OpKind::ReadFile, 100) };
            data_of(code, caveats::about_delegations(&local(), &result, Some(&mount("nfs4"))))
        }
        CaveatCode::Pnfs => {
            let moved = [("nfs./srv.server_write_bytes", 1_000), ("nfs./srv.pnfs", 1)];
            let telemetry = vec![counters(&moved)];
            let result = PassResult { telemetry, ..result(Pass::Write, OpKind::Write, 1) };
            data_of(code, caveats::about_mount(&result, Some(&mount("nfs4")), None))
        }
        CaveatCode::TlsOffload => {
            let sessions =
                [("nfs./srv.sends", 10), ("tls.device_sessions", 1), ("tls.software_sessions", 0)];
            let telemetry = vec![counters(&sessions)];
            let result = PassResult { telemetry, ..result(Pass::Write, OpKind::Write, 1) };
            let mount = Mount { options: "rw,xprtsec=tls".to_owned(), ..mount("nfs4") };
            data_of(code, caveats::about_transport(&result, Some(&mount), None))
        }
        CaveatCode::Retransmits => {
            let recovered = Recovery { retransmissions: 2, ..Recovery::default() };
            data_of(code, caveats::about_recovery(&recovered))
        }
        CaveatCode::Recovered => {
            let recovered = Recovery { resent_bytes: 4_096, ..Recovery::default() };
            data_of(code, caveats::recovered(&recovered))
        }
        CaveatCode::PathLost | CaveatCode::PathsUneven => {
            let losses = u64::from(code == CaveatCode::PathLost);
            let path =
                |ops, lost_connections| PathWork { ops, lost_connections, ..PathWork::default() };
            data_of(code, caveats::about_paths(&[path(200, 0), path(0, losses)]))
        }
        CaveatCode::ServerBusy => {
            let recovered = Recovery { delays: 2, ..Recovery::default() };
            data_of(code, caveats::about_recovery(&recovered))
        }
        CaveatCode::ShortTransfers => {
            let short = ShortTransfers { calls: 10, short_reads: 2, ..ShortTransfers::default() };
            data_of(code, caveats::about_short_transfers(&short, "counted by the client"))
        }
        CaveatCode::PnfsFallback => {
            let counts = PnfsCounts { data_bytes: 9, metadata_bytes: 1, ..PnfsCounts::default() };
            data_of(code, caveats::about_pnfs(&counts))
        }
        CaveatCode::TcpRetransmits => {
            let tcp = TcpCounters {
                connections: 1,
                segments_sent: 1_000,
                segments_retransmitted: 200,
                ..TcpCounters::default()
            };
            data_of(code, caveats::about_segments(&served(), &reads(), None, &tcp))
        }
        _ => None,
    }
}

/// Plants causes that are visible in the results of one pass.
fn plant_figure(code: CaveatCode) -> Option<Evidence> {
    match code {
        CaveatCode::Unsynchronised => {
            let result = PassResult { common_window_ns: SECOND / 2, ..reads() };
            data_of(code, result.unsynchronised(2))
        }
        CaveatCode::PartlyAlone => {
            let time = |end| LoadTime {
                span: Span { last_end_ns: end, first_end_ns: end, ..Span::default() },
                warmup_ns: 0,
            };
            data_of(code, about_overlap(time(2 * SECOND), &[("b", time(SECOND))]))
        }
        CaveatCode::ClientSaturated => {
            let busy = PassResult { client_cpu_ns: SECOND, ..reads() };
            data_of(code, caveats::about_figures(&served(), &busy, None, None))
        }
        CaveatCode::ProcessorContention => {
            let mut waited = reads();
            waited.scope.processor_wait =
                Some(ProcessorWait { waited_ns: SECOND / 2, held_ns: 0, of_ns: SECOND });
            data_of(code, caveats::about_figures(&served(), &waited, None, None))
        }
        CaveatCode::Stalled => {
            let longest = Stall { at_ns: 0, lasts_ns: 2 * SECOND, workers: 1 };
            let mut stalled = reads();
            stalled.scope.stalls = Some(Stalls { count: 1, longest });
            data_of(code, caveats::about_figures(&local(), &stalled, None, None))
        }
        CaveatCode::TooShort => {
            let short = PassResult { window_ns: MS, common_window_ns: MS, ..reads() };
            data_of(code, caveats::about_figures(&local(), &short, None, None))
        }
        CaveatCode::StonewallMissed => {
            data_of(code, caveats::about_stonewall(Pass::IorHardWrite, &reads()))
        }
        CaveatCode::BelowOffered => {
            data_of(code, caveats::about_load(&mixed(), &result(Pass::Mix, OpKind::Read, 100)))
        }
        CaveatCode::MixShares => {
            data_of(code, caveats::about_load(&mixed(), &result(Pass::Mix, OpKind::Read, 1_000)))
        }
        CaveatCode::FitsMemory => {
            let memory = Memory::from_host(1 << 40);
            let mount = mount("overlay");
            let found =
                caveats::about_memory(&local(), &reads(), Some(&mount), Some(&memory), None);
            data_of(code, found)
        }
        CaveatCode::SmallDataSet => {
            let spec = RunSpec { workload: Workload::Training, ..local() };
            let memory = Memory::from_host(1 << 40);
            data_of(code, caveats::about_data_set(&spec, Pass::Train, Some(&memory)))
        }
        CaveatCode::Clock => {
            data_of(code, caveats::about_calendar(i128::from(60 * SECOND), SECOND))
        }
        _ => None,
    }
}

/// Raises a caveat that needs several hosts or a server.
fn plant_host(code: CaveatCode) -> Option<Evidence> {
    match code {
        CaveatCode::Straggler => {
            let hosts = [host("a", 1_000, 0), host("b", 1_000, 0), host("c", 100, 0)];
            data_of(code, host_balance::straggling(Pass::Stat, &hosts))
        }
        CaveatCode::Skew => {
            let hosts = [host("a", 1_000, 0), host("b", 1_000, 50 * MS.cast_signed())];
            data_of(code, host_balance::skewed(&hosts, 0))
        }
        CaveatCode::ClockRate => {
            let at = |mono_ns| ClockReading { mono_ns, wall_ns: 0 };
            let mut drift = Drift::begin(Sample::new(at(0), at(0), at(0)));
            drift.add_sample(Sample::new(at(SECOND), at(3 * SECOND), at(SECOND)));
            data_of(code, drift.caveat("web"))
        }
        CaveatCode::ServerCached => {
            let lab = LabSpec::new(Host::local("server"), Host::local("client"));
            let seen = counters(&[("nfsd.read_bytes", 1_000)]);
            data_of(code, server_telemetry::about_server(&lab, &seen))
        }
        CaveatCode::ServerThreadsChanged => {
            let seen = Telemetry {
                host: "server".to_owned(),
                times_ns: vec![0, SECOND],
                metrics: vec![Metric {
                    name: "nfsd.threads".to_owned(),
                    kind: MetricKind::Gauge,
                    values: vec![8, 16],
                }],
            };
            data_of(code, server_telemetry::changed_threads(&seen))
        }
        CaveatCode::NotQuiet => {
            let device = BusyDevice { name: "disk vdb".to_owned(), bytes_per_s: 2_000_000 };
            let wait = QuietWait { waited_ms: 10, busy: vec![device] };
            data_of(code, quiet_hosts::caveat("server", &wait))
        }
        CaveatCode::NotDrained => {
            data_of(code, [write_back::not_drained("s3", "3", 61 * SECOND, 60)])
        }
        CaveatCode::NotEvicted => data_of(code, [write_back::not_evicted("s3", "9", "9", "0")]),
        CaveatCode::AcknowledgedBeforeUpload => {
            let outcome = ObjectOutcome { after_ns: Some(SECOND), checks: 2, within_s: 9 };
            data_of(code, write_back::acknowledged_early(&outcome, ""))
        }
        CaveatCode::ResultsOnTarget => {
            let results = Path::new("/srv/r.db");
            data_of(code, results_on_target::caveat(results, &mount("ext4"), 65_536, &reads()))
        }
        // Only raised by servers with sessions; `agent/tests/caveats/causes.rs` checks its data.
        CaveatCode::SlotsLimited => Some(Evidence::counts(4, 8, "slots", "CREATE_SESSION")),
        _ => None,
    }
}

/// Raises a caveat that needs several trials of a run.
fn plant_run(code: CaveatCode) -> Option<Evidence> {
    match code {
        CaveatCode::NotSteady => {
            judged(code, &changing(&[600, 800, 1_000, 1_200, 1_400]), Pass::Mix)
        }
        CaveatCode::Burst => {
            judged(code, &changing(&[900, 900, 900, 300, 300, 300, 300]), Pass::Mix)
        }
        CaveatCode::TooFewTrials => judged(code, &run(&[100, 101], &[]), Pass::Write),
        CaveatCode::WideInterval => judged(code, &run(&[100, 130, 115, 120, 90], &[]), Pass::Write),
        CaveatCode::MixedTrials => {
            judged(code, &run(&[100, 900, 101, 905, 102], &[1, 3]), Pass::Write)
        }
        CaveatCode::Outlier => {
            judged(code, &run(&[1_000, 1_001, 1_002, 1_003, 900], &[]), Pass::Write)
        }
        CaveatCode::TrialsInteract => {
            let turns = [440, 55, 430, 60, 450, 50, 445, 52, 420, 61, 435, 58, 428, 54];
            let mut run = run(&[], &[]);
            run.spec.workload = Workload::Metadata;
            for (index, rate) in turns.into_iter().enumerate() {
                run.trials.push(trial(index, result(Pass::Stat, OpKind::Stat, rate)));
            }
            judged(code, &run, Pass::Stat)
        }
        CaveatCode::Interference => {
            let mut run = run(&[100, 101, 102], &[]);
            for trial in &mut run.trials {
                let found = Interference::default().with(InterferenceSource::Steal, Some(120));
                trial.passes[0].scope.interference = found;
            }
            judged(code, &run, Pass::Write)
        }
        CaveatCode::Drift => judged(code, &run(&[100, 99, 97, 96, 94], &[]), Pass::Write),
        _ => None,
    }
}

#[test]
fn includes_evidence_for_every_limit() {
    for code in CaveatCode::ALL {
        let data = plant(*code);
        assert_eq!(data.is_some(), code.has_threshold(), "{code}: {data:?}");
        let Some(Evidence { found, limit, unit, source }) = data else { continue };
        assert!(found.is_finite() && limit.is_finite(), "{code}: {found} and {limit}");
        assert!((found - limit).abs() > 1e-9, "{code}: {found} does not exceed the limit {limit}");
        assert!(!unit.is_empty() && source.len() > 3, "{code}: `{unit}`, `{source}`");
    }
}
