//! One campaign with some of everything, for every test of the results file.

#![allow(dead_code)] // each test binary uses its share

use std::path::PathBuf;

use model::soak::{FaultKind, Recovery};
use model::testing::RunBuilder;
use model::{
    BackendKind, Campaign, CampaignState, CaveatCode, Ceiling, ClientRecord, ClientResult,
    ClientTimes, Completion, CrossCheck, DataCheck, Durability, Evidence, Fact, FaultEvent,
    FrameDelivery, Histogram, HostResult, Identity, Interference, InterferenceSource,
    IntervalSample, IntervalStats, IntervalTimes, KindResult, ListingCalls, ListingWork, Metric,
    MetricKind, NfsSettings, NfsTarget, NfsVersion, OfferedLoad, Op, OpError, OpKind, Outcome,
    Pass, PassResult, PathWork, PnfsWork, ProcessorWait, ProgramUse, Run, RunSpec, Scope, Sec,
    Stable, Stall, Stalls, Target, Telemetry, TlsOptions, TrainingWork, Trial, TrialState,
    WarmedUp, WireBytes, Work, WorkerTime, WorkingSet, Workload, XprtSec,
};
use results::Store;
use tempfile::TempDir;

pub fn spec(target: Target) -> RunSpec {
    RunBuilder::new(Workload::Stream)
        .target_name("it's \"quoted\" <b>".into())
        .target(target)
        .backend(BackendKind::Nfs)
        .io_size_bytes(1 << 20)
        .file_size_bytes(1 << 30)
        .files(8)
        .workers(2)
        .queue_depth(8)
        .read_percent(70)
        .duration_ms(2_000)
        .transfer_size_bytes(Some(1 << 18))
        .invalidate(true)
        .durability(Durability::Sync)
        .verify(true)
        .timeout_ms(30_000)
        .build()
}

pub fn nfs() -> Target {
    Target::Nfs(NfsTarget {
        port: Some(2049),
        identity: Identity {
            sec: Sec::Sys,
            groups: vec![4, 24],
            resvport: true,
            ..Identity::new(1000, u32::MAX)
        },
        tls: Box::new(TlsOptions {
            ca: Some("/etc/ca.pem".into()),
            server_name: Some("files".into()),
            ..TlsOptions::default()
        }),
        settings: NfsSettings {
            version: NfsVersion::V4_1,
            xprtsec: XprtSec::Tls,
            nconnect: 4,
            stable: Stable::DataSync,
            ..NfsSettings::default()
        },
        ..NfsTarget::new("::1", "/export/ä")
    })
}

pub fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.record(*value);
    }
    histogram
}

pub fn clients() -> Vec<ClientResult> {
    let mut record = ClientRecord::default();
    let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 9, file: 0, kind: OpKind::Read };
    for time_ns in [1_000, 2_000_000, 1_000] {
        let outcome = Outcome::Done(9);
        record.ended(&Completion { op, sent_ns: 0, done_ns: time_ns, outcome });
    }
    vec![record.finish(0), ClientRecord::default().finish(4)]
}

pub fn hosts() -> Vec<HostResult> {
    let host = HostResult {
        host: "c1".to_owned(),
        workers: 4,
        ops: 10,
        bytes: 10 << 20,
        failed: 1,
        common: Work { ops: 6, bytes: 6 << 20 },
        start_ns: -17,
        end_ns: 1_000_000_000,
        error_ns: 40_000,
        cpu_ns: 5,
        times: ClientTimes::from_histogram(&histogram(&[1, 50, 1_000_000])),
        response_times: ClientTimes::from_histogram(&histogram(&[2, 60, 2_000_000])),
    };
    vec![host, HostResult::default()]
}

pub fn scope() -> Scope {
    Scope {
        program: Some(ProgramUse { user_ns: 1, system_ns: 2, rss_max_bytes: 3 }),
        offered: Some(OfferedLoad {
            rate_per_s: 1000,
            scheduled_ops: 998,
            span_ns: 1_000_000_000,
            late_ops: 3,
            unanswered_ops: 5,
            carried_over_ops: 7,
        }),
        working_set: Some(WorkingSet { files: 3, bytes: 12_288, unit_bytes: 4096 }),
        listing: Some(ListingWork {
            directories: 2,
            entries: 30,
            matches: 3,
            calls: vec![ListingCalls { procedure: "READDIR".to_owned(), count: 4 }],
            reply_bytes: 900,
        }),
        frames: Some(FrameDelivery {
            frames: 50,
            late_frames: 3,
            streams: 2,
            late_streams: 1,
            worst_lateness_ns: 4,
        }),
        training: Some(TrainingWork {
            accelerators: 2,
            steps: 10,
            samples: 20,
            compute_ns: 5,
            span_ns: 8,
            first_batch_ns: 1,
            longest_wait_ns: 2,
            late_steps: 3,
        }),
        worst_p95: vec![WorkerTime { kind: OpKind::ReadFile, time_ns: 80 }],
        rank_times_ns: vec![5, 6],
        wire: Some(WireBytes { sent_bytes: 7, received_bytes: 8 }),
        warmup: vec![WarmedUp { kind: OpKind::Read, done: 5, bytes: 20_480 }],
        common: Some(Work { ops: 7, bytes: 28_672 }),
        stalls: Some(Stalls {
            count: 2,
            longest: Stall { at_ns: 5, lasts_ns: 2_000_000_000, workers: 3 },
        }),
        processor_wait: Some(ProcessorWait { waited_ns: 1, held_ns: 1, of_ns: 2 }),
        slots: 16,
        paths: vec![PathWork {
            address: "10.0.1.1:2049".to_owned(),
            connections: 1,
            ops: 3,
            moved_calls: 2,
            ..PathWork::default()
        }],
        pnfs: Some(PnfsWork {
            data_servers: vec![PathWork {
                address: "10.0.2.1:2049".to_owned(),
                ops: 4,
                ..PathWork::default()
            }],
            metadata_bytes: 5,
        }),
        interference: Interference::default().with(InterferenceSource::Steal, Some(120)),
        recovery: Some(Recovery { reconnects: 1, resent_bytes: 4096, ..Recovery::default() }),
        kept: Some(DataCheck { blocks: 4, written: 3, lost: 1, ..DataCheck::default() }),
    }
}

pub fn fault_events() -> Vec<FaultEvent> {
    let event = FaultEvent {
        fault: FaultKind::ServerRestart,
        host: String::new(),
        planned_ns: 5,
        begun_ns: 6,
        ended_ns: Some(7),
        failed: None,
    };
    let failed = Some("not allowed".to_owned());
    vec![event.clone(), FaultEvent { ended_ns: None, host: "server".to_owned(), failed, ..event }]
}

pub fn telemetry(host: &str) -> Telemetry {
    let metric = |name: &str, kind, values: &[u64]| Metric {
        name: name.to_owned(),
        kind,
        values: values.to_vec(),
    };
    Telemetry {
        host: host.to_owned(),
        times_ns: vec![0, 1_000_000_000, 1_500_000_000],
        metrics: vec![
            metric("cpu.user_ns", MetricKind::Counter, &[10, 30, 35]),
            metric("memory.free_bytes", MetricKind::Gauge, &[5, 4, 6]),
        ],
    }
}

pub fn pass(pass: Pass, kind: OpKind) -> PassResult {
    let kind_result = |kind, values: &[u64]| KindResult {
        kind,
        issued: 12,
        done: 10,
        bytes: 10 << 20,
        errors: vec![(OpError(5), 1), (OpError::LOST, 1)],
        service_time: histogram(values),
        response_time: histogram(&[u64::from(u32::MAX), 7]),
    };
    PassResult {
        pass,
        window_ns: 1_000_000_007,
        common_window_ns: 900_000_001,
        first_done_ops: 9,
        first_done_bytes: 9 << 20,
        first_done_ns: 950_000_003,
        start_skew_ns: 12_345,
        client_cpu_ns: 77,
        server_cpu_ns: Some(0),
        storage_read_bytes: None,
        cross_checks: vec![CrossCheck {
            expected: 10,
            found: 9,
            source: "READ calls at the server".into(),
        }],
        samples: vec![IntervalSample { at_ns: 100, ops: 3, bytes: 4 }; 3],
        interval_times: [100, 160]
            .map(|at_ns| IntervalTimes { at_ns, times: histogram(&[at_ns, 70_000]).coarse() })
            .to_vec(),
        intervals: [100, 200]
            .map(|at_ns| IntervalStats {
                at_ns,
                errors: 3,
                p95_ns: 7 * at_ns,
                rss_bytes: 1 << 20,
                ..IntervalStats::default()
            })
            .to_vec(),
        fault_events: fault_events(),
        scope: scope(),
        telemetry: vec![telemetry("server"), telemetry("client")],
        clients: clients(),
        hosts: hosts(),
        kinds: vec![kind_result(kind, &[1, 50, 1_000_000]), kind_result(OpKind::Sync, &[])],
        caveats: vec![
            CaveatCode::Cached.because("50 % of the pages").with_data(Evidence::shares(
                0.5,
                0.9,
                "/proc/self/io",
            )),
            CaveatCode::Errors.because("2 ops"),
            CaveatCode::Cached.because("again"),
        ],
    }
}

pub fn trial(index: u32, state: TrialState, passes: Vec<PassResult>) -> Trial {
    let facts = vec![Fact::new("target", "nfsvers", "3", "NULL call")];
    Trial { index, position: 99 - index, started_unix_ms: 1_800_000_000_000, state, passes, facts }
}

pub fn campaign() -> Campaign {
    let passes = vec![pass(Pass::Write, OpKind::Write), pass(Pass::Read, OpKind::Read)];
    let directory = Target::Directory { path: "/srv/a b".into() };
    Campaign {
        id: 1,
        name: "quick".into(),
        started_unix_ms: 1_799_999_999_999,
        tool_version: "0.1.0".into(),
        command: "dfsbench run 'a b'".into(),
        question: model::Question::Ramp(model::question::RampRequest {
            max: 64,
            ..model::question::RampRequest::default()
        }),
        plan_toml: "seed = 1\n".into(),
        seed: u64::MAX,
        state: CampaignState::Complete,
        facts: vec![Fact::new("host", "kernel", "6.12", "uname"); 2],
        ceiling: Some(Ceiling { ops_per_s: 9_100_000, service_time_p50_ns: 40 }),
        durability: Vec::new(),
        runs: vec![
            Run {
                index: 0,
                spec: spec(nfs()),
                trials: vec![
                    trial(1, TrialState::Done, passes),
                    trial(0, TrialState::Failed("no such export".into()), Vec::new()),
                    trial(2, TrialState::Interrupted, vec![pass(Pass::Write, OpKind::Write)]),
                ],
            },
            Run { index: 1, spec: spec(directory), trials: Vec::new() },
            Run { index: 2, spec: spec(Target::Null), trials: Vec::new() },
        ],
    }
}

pub fn keep(store: &mut Store, campaign: &Campaign) -> i64 {
    let id = store.begin_campaign(campaign).unwrap();
    for run in &campaign.runs {
        let run_id = store.add_run(id, run.index, &run.spec).unwrap();
        for trial in &run.trials {
            store.add_trial(run_id, trial).unwrap();
        }
    }
    id
}

/// A directory with a results file that contains one campaign.
pub fn filled() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    keep(&mut Store::open_or_create(&path).unwrap(), &campaign());
    (directory, path)
}
