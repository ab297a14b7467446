//! Campaigns with known results: the material of every test of the report.
//!
//! It uses no random number and no clock: every number follows from the run, the pass and the
//! trial.

#![allow(dead_code)] // an example of `results` uses a share

use model::testing::RunBuilder;
use model::{
    BackendKind, Campaign, CampaignState, CaveatCode, Ceiling, CrossCheck, Durability, Fact,
    Histogram, IntervalSample, KindResult, NfsSettings, NfsTarget, NfsVersion, OpError, OpKind,
    Pass, PassResult, ProgramUse, Proto, Run, RunSpec, Stall, Stalls, Target, Trial, TrialState,
    Workload,
};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// A command and a stream on one directory: a time next to rates.
pub fn programs() -> Campaign {
    let mut campaign = header("programs");
    let stream = spec("posix", BackendKind::Posix, Workload::Stream);
    let mut app = spec("posix", BackendKind::Posix, Workload::App);
    app.command.run = ["tar", "cf", "all.tar", "tree"].map(str::to_owned).to_vec();
    for (index, spec) in [stream, app].into_iter().enumerate() {
        let trials = (0..5).map(|trial_index| trial(&spec, index as u32, trial_index, 10));
        let trials = trials.collect();
        campaign.runs.push(Run { index: index as u32, spec, trials });
    }
    for (trial, wall_ds) in campaign.runs[1].trials.iter_mut().zip([123, 119, 131, 125, 122]) {
        let wall_ns = wall_ds * SECOND / 10;
        let pass = &mut trial.passes[0];
        let mut times = Histogram::sparse();
        times.record(wall_ns);
        let executed = KindResult {
            service_time: times.clone(),
            response_time: times,
            ..kind(OpKind::Execute, 1, 0, wall_ns)
        };
        pass.window_ns = wall_ns;
        pass.kinds = vec![executed];
        pass.client_cpu_ns = wall_ns / 2;
        pass.scope.program = Some(ProgramUse {
            user_ns: wall_ns / 3,
            system_ns: wall_ns / 6,
            rss_max_bytes: (20 + u64::from(trial.index)) * MIB,
        });
    }
    campaign
}

/// Name that is markup and that a page must show literally.
pub const HOSTILE: &str = "<script>alert(1)</script>";

/// Returns three targets, three workloads and five trials each. One target fails, one read is
/// cached, and one trial is invalid.
pub fn quick() -> Campaign {
    let mut campaign = header("quick");
    for (target, backend, speed) in [
        ("nfs", BackendKind::Nfs, 9),
        ("posix", BackendKind::Posix, 30),
        ("uring", BackendKind::Uring, 31),
    ] {
        for workload in [Workload::Stream, Workload::Mixed, Workload::Metadata] {
            let spec = spec(target, backend, workload);
            let trials = (0..5).map(|index| trial(&spec, campaign.runs.len() as u32, index, speed));
            let trials = trials.collect();
            campaign.runs.push(Run { index: campaign.runs.len() as u32, spec, trials });
        }
    }
    cache_reads(&mut campaign.runs[3]);
    let broken = &mut campaign.runs[1].trials[4].passes[0];
    broken.window_ns *= 3;
    broken.kinds[0].errors.push((OpError(5), 3));
    broken.kinds[0].issued += 3;
    broken.caveats.push(CaveatCode::Errors.because("3 of 44800 ops failed: 3 × EIO (read)"));
    campaign.runs[8].trials[2].passes[0].window_ns *= 2;
    let mut failed = spec(HOSTILE, BackendKind::Nfs, Workload::Stream);
    failed.durability = Durability::Sync;
    let reason = "the server <b>192.0.2.7</b> does not speak NFS version 3 (RPC: program 100003, \
                  versions 4 to 4)";
    campaign.runs.push(failures(9, failed, reason));
    campaign
}

/// bonnie's output for files of 100 and 500 MB, from a user: K/sec (for seeks, tenths of ops per
/// second), and tenths of a percent of CPU time.
const PRINTED: [(u64, [(u64, u64); 6]); 2] = [
    (
        100,
        [
            (5_537, 931),
            (26_336, 761),
            (23_495, 787),
            (7_041, 1_000),
            (177_193, 1_004),
            (62_983, 898),
        ],
    ),
    (500, [(5_517, 947), (17_783, 333), (6_292, 200), (4_889, 886), (16_175, 648), (6_486, 234)]),
];

/// The same as one of our campaigns.
pub fn bonnie() -> Campaign {
    let mut campaign = header("bonnie");
    for (mib, figures) in PRINTED {
        let mut spec = spec("MTU-1500", BackendKind::Posix, Workload::Bonnie);
        spec.file_size_bytes = mib * MIB;
        spec.files = 1;
        spec.workers = 1;
        let index = campaign.runs.len() as u32;
        let mut trial = trial(&spec, index, 0, 10);
        for (result, (rate, percent)) in trial.passes.iter_mut().zip(figures) {
            result.window_ns = 10 * SECOND;
            result.client_cpu_ns = percent * SECOND / 100;
            let kind = &mut result.kinds[0];
            kind.kind = result.pass.kinds()[0];
            kind.bytes = rate * 10 * 1_024;
            if result.pass == Pass::Seeks {
                kind.done = rate;
                kind.issued = rate;
                kind.bytes = 0;
            }
        }
        campaign.runs.push(Run { index, spec, trials: vec![trial] });
    }
    campaign
}

/// Returns one target and one workload with varying workers and I/O size.
pub fn sweep() -> Campaign {
    let mut campaign = header("sweep");
    for workers in [1, 4] {
        for io_size_bytes in [65_536, 1 << 20] {
            let mut spec = spec("nfs", BackendKind::Nfs, Workload::Stream);
            spec.workers = workers;
            spec.io_size_bytes = io_size_bytes;
            let index = campaign.runs.len() as u32;
            let speed = 10 * u64::from(workers);
            let trials = (0..3).map(|number| trial(&spec, index, number, speed)).collect();
            campaign.runs.push(Run { index, spec, trials });
        }
    }
    campaign
}

/// So many factors that they don't fit next to the results.
pub fn wide() -> Campaign {
    let mut campaign = header("wide");
    for (index, factor) in
        ["workers", "depth", "files", "io", "transfer", "durability"].iter().enumerate()
    {
        let mut spec = spec("nfs", BackendKind::Nfs, Workload::Stream);
        match *factor {
            "workers" => spec.workers = 4,
            "depth" => spec.queue_depth = 64,
            "files" => spec.files = 16,
            "io" => spec.io_size_bytes = 65_536,
            "transfer" => spec.transfer_size_bytes = Some(32_768),
            _ => spec.durability = Durability::Sync,
        }
        let index = index as u32;
        let trials = (0..2).map(|number| trial(&spec, index, number, 10)).collect();
        campaign.runs.push(Run { index, spec, trials });
    }
    campaign
}

/// Returns NFS versions, transports and transfer sizes as factors. v4.1 has no UDP, and the server
/// grants 64 KiB.
pub fn transports() -> Campaign {
    let mut campaign = header("transports");
    let product = [NfsVersion::V3, NfsVersion::V4_1]
        .into_iter()
        .flat_map(|version| [32_u32, 256].map(|kib| (version, kib)))
        .flat_map(|(version, kib)| [1, 5].map(|ahead| (version, kib, ahead)))
        .flat_map(|(version, kib, ahead)| {
            [Proto::Udp, Proto::Tcp].map(|proto| (version, kib, ahead, proto))
        });
    for (index, (version, kib, ahead, proto)) in product.enumerate() {
        let mut spec = spec("nfs", BackendKind::Nfs, Workload::Stream);
        spec.transfer_size_bytes = Some(kib << 10);
        if let Target::Nfs(nfs) = &mut spec.target {
            let settings = NfsSettings { version, proto, read_ahead: ahead, ..nfs.settings };
            nfs.settings = settings;
        }
        let index = index as u32;
        let speed = u64::from(ahead) * u64::from(kib.min(64)) / 4;
        let mut trials: Vec<Trial> =
            (0..3).map(|number| trial(&spec, index, number, speed)).collect();
        if spec.impossible().is_some() {
            trials.clear();
        }
        for facts in trials.iter_mut().map(|trial| &mut trial.facts) {
            let granted = format!("{} KiB", kib.min(64));
            for name in ["rsize", "wsize"] {
                facts.push(Fact::new("target", name, granted.clone(), "effective"));
            }
        }
        campaign.runs.push(Run { index, spec, trials });
    }
    campaign
}

/// Returns a campaign that only has failures.
pub fn failed() -> Campaign {
    let mut campaign = header("failed");
    let spec = spec("nfs", BackendKind::Nfs, Workload::Metadata);
    campaign.runs.push(failures(0, spec, "no route to host"));
    campaign
}

/// Killed before its first run; nothing is known about it.
pub fn empty() -> Campaign {
    let mut campaign = header("empty");
    campaign.state = CampaignState::Running;
    campaign.ceiling = None;
    campaign.facts = Vec::new();
    campaign
}

/// These runs, each at its speed and with the given number of trials.
pub fn made(runs: Vec<(RunSpec, u64, u32)>) -> Campaign {
    let mut campaign = header("made");
    for (index, (spec, speed, trials)) in runs.into_iter().enumerate() {
        let index = index as u32;
        let trials = (0..trials).map(|number| trial(&spec, index, number, speed)).collect();
        campaign.runs.push(Run { index, spec, trials });
    }
    campaign
}

/// The given number of runs of one workload, each with different settings.
pub fn many(runs: u32, workload: Workload, trials: u32) -> Campaign {
    let run = |index: u32| {
        let mut spec = spec("nfs", BackendKind::Nfs, workload);
        spec.workers = 1 + index % 10;
        spec.queue_depth = 1 + index / 10 % 10;
        spec.io_size_bytes = 4_096 << (index / 100 % 10);
        spec.file_size_bytes = (64 << 20) << (index / 1_000 % 10);
        spec.durability = [Durability::None, Durability::Sync][(index / 10_000 % 2) as usize];
        spec.read_percent = index / 20_000;
        (spec, 10 + u64::from(index % 97), trials)
    };
    let mut campaign = made((0..runs).map(run).collect());
    let trials = campaign.runs.iter_mut().flat_map(|run| &mut run.trials);
    for kind in trials.flat_map(|trial| &mut trial.passes).flat_map(|pass| &mut pass.kinds) {
        let mut times = Histogram::sparse();
        times.record_n(kind.service_time.quantile(0.5), kind.done);
        kind.service_time = times.clone();
        kind.response_time = times;
    }
    campaign
}

/// Returns a matrix of 240 runs: two targets by I/O size, workers, queue depth and durability, with
/// two passes each. I/O size matters most, followed by durability; one pass of the first run
/// stalls.
pub fn matrix() -> Campaign {
    let mut runs = Vec::new();
    for (target, backend, base) in
        [("nfs", BackendKind::Nfs, 60), ("posix", BackendKind::Posix, 90)]
    {
        for (durability, divisor) in [(Durability::None, 1), (Durability::Sync, 3)] {
            for io_kib in [4_u32, 16, 64, 256, 1_024] {
                for workers in [1_u32, 2, 4, 8] {
                    for queue_depth in [1_u32, 8, 32] {
                        let mut spec = spec(target, backend, Workload::Stream);
                        spec.io_size_bytes = io_kib << 10;
                        spec.workers = workers;
                        spec.queue_depth = queue_depth;
                        spec.durability = durability;
                        let by_size = u64::from(io_kib.ilog2() + 1);
                        let by_workers =
                            10 + 2 * u64::from(workers.min(4)) + u64::from(queue_depth.min(8)) / 4;
                        runs.push((spec, base * by_size * by_workers / 10 / divisor, 3));
                    }
                }
            }
        }
    }
    let mut campaign = made(runs);
    campaign.name = "matrix".into();
    for pass in campaign.runs[0].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        share_out(pass);
    }
    campaign
}

/// Splits a pass into twenty intervals, two of them in a stall.
fn share_out(pass: &mut PassResult) {
    let window_ns = pass.window_ns;
    let all = pass.samples[0];
    pass.samples.clear();
    for number in 1..=20 {
        let share = u64::from(!(9..=10).contains(&number));
        pass.samples.push(IntervalSample {
            at_ns: window_ns * number / 20,
            ops: all.ops / 18 * share,
            bytes: all.bytes / 18 * share,
        });
    }
    let longest = Stall { at_ns: window_ns * 2 / 5, lasts_ns: window_ns / 10, workers: 2 };
    pass.scope.stalls = Some(Stalls { count: 1, longest });
}

fn header(name: &str) -> Campaign {
    Campaign {
        id: 7,
        name: name.into(),
        started_unix_ms: 1_763_752_623_000,
        tool_version: "0.1.0".into(),
        command: "dfsbench run quick.toml --where 'target=nfs & \"posix\"'".into(),
        question: model::Question::Figures,
        plan_toml: "seed = 42\n[target.nfs]\nurl = \"nfs://(embedded)/\" # <i>in memory</i>\n"
            .into(),
        seed: 42,
        state: CampaignState::Complete,
        facts: vec![
            Fact::new("host", "kernel", "6.12.43", "uname(2)"),
            Fact::new("host", "processor", "AMD EPYC 7763, 2 cores", "/proc/cpuinfo"),
            Fact::new("host", "memory", "7.8 GiB", "/proc/meminfo: MemTotal"),
            Fact::new("host", "file system", "ext4 on /dev/vda1", "/proc/self/mountinfo"),
        ],
        ceiling: Some(Ceiling { ops_per_s: 9_100_000, service_time_p50_ns: 40 }),
        durability: Vec::new(),
        runs: Vec::new(),
    }
}

/// A run of one of the campaigns' targets.
pub fn spec(target_name: &str, backend: BackendKind, workload: Workload) -> RunSpec {
    let nfs =
        NfsTarget { embedded: target_name == "nfs", ..NfsTarget::new("127.0.0.1", "/export") };
    let is_nfs = backend == BackendKind::Nfs;
    let small = workload == Workload::Metadata;
    RunBuilder::new(workload)
        .target_name(target_name.into())
        .target(if is_nfs {
            Target::Nfs(nfs)
        } else {
            Target::Directory { path: "/var/tmp".into() }
        })
        .backend(backend)
        .io_size_bytes(if workload == Workload::Mixed { 4_096 } else { 1 << 20 })
        .file_size_bytes(if small { 4_096 } else { 64 * MIB })
        .files(if small { 2_000 } else { 4 })
        .workers(2)
        .queue_depth(backend.row().default_queue_depth)
        .read_percent(70)
        .duration_ms(1_000)
        .invalidate(true)
        .durability(if is_nfs { Durability::None } else { Durability::Sync })
        .timeout_ms(30_000)
        .build()
}

fn failures(index: u32, spec: RunSpec, reason: &str) -> Run {
    let trial = |number| Trial {
        index: number,
        position: index * 5 + number,
        started_unix_ms: 1_763_752_623_000,
        state: TrialState::Failed(reason.into()),
        passes: Vec::new(),
        facts: Vec::new(),
    };
    Run { index, spec, trials: (0..5).map(trial).collect() }
}

/// Returns a trial. Trials differ by up to 4 %, in unsorted order.
fn trial(spec: &RunSpec, run: u32, index: u32, speed: u64) -> Trial {
    let jitter = [100, 98, 101, 103, 99][index as usize % 5];
    let pass = |pass: &Pass| result(spec, *pass, speed, jitter);
    Trial {
        index,
        position: run * 5 + index,
        started_unix_ms: 1_763_752_623_000 + u64::from(run * 5 + index) * 4_000,
        state: TrialState::Done,
        passes: spec.passes().iter().map(pass).collect(),
        facts: vec![
            Fact::new("target", "file system", "ext4", "statfs(2)"),
            Fact::new("target", "mount options", "rw,<relatime>", "/proc/self/mountinfo"),
        ],
    }
}

fn result(spec: &RunSpec, pass: Pass, speed: u64, jitter: u64) -> PassResult {
    let (ops, bytes_each) = match pass {
        Pass::Write
        | Pass::Read
        | Pass::RandomRead
        | Pass::RandomWrite
        | Pass::Save
        | Pass::Restore => (spec.set_bytes() / MIB, MIB),
        Pass::Mix => (44_800, 4_096),
        _ => (2_000, 0),
    };
    let slowness = match pass {
        Pass::Write | Pass::Save => 20,
        Pass::Read | Pass::Restore | Pass::Create => 10,
        Pass::Mix | Pass::Remove => 8,
        _ => 2,
    };
    let window_ns = SECOND * slowness / speed * 100 / jitter;
    let mean_ns = window_ns / (ops / u64::from(spec.workers));
    let is_nfs = spec.backend == BackendKind::Nfs;
    let read = ops * 7 / 10;
    let kinds = match pass {
        Pass::Write | Pass::RandomWrite | Pass::Save => {
            vec![kind(OpKind::Write, ops, bytes_each, mean_ns), kind(OpKind::Sync, 4, 0, mean_ns)]
        }
        Pass::Read | Pass::RandomRead | Pass::Restore => {
            vec![kind(OpKind::Read, ops, bytes_each, mean_ns)]
        }
        Pass::Mix => vec![
            kind(OpKind::Read, read, bytes_each, mean_ns),
            kind(OpKind::Write, ops - read, bytes_each, mean_ns),
            kind(OpKind::Sync, 4, 0, mean_ns),
        ],
        Pass::Oltp => vec![
            kind(OpKind::Read, read, bytes_each, mean_ns),
            kind(OpKind::Write, ops - read, bytes_each, mean_ns),
            kind(OpKind::LogAppend, ops / 10, bytes_each, mean_ns * 3),
        ],
        _ => vec![kind(pass.kinds()[0], ops, bytes_each, mean_ns)],
    };
    let mut caveats = Vec::new();
    if is_nfs {
        caveats.push(CaveatCode::SharedHost.because("client and server on 2 processors"));
    }
    if pass == Pass::Write && spec.durability == Durability::None {
        caveats.push(CaveatCode::NotDurable.because("durability none"));
    }
    PassResult {
        window_ns,
        common_window_ns: window_ns / 100 * 97,
        first_done_ops: ops / 100 * 98,
        first_done_bytes: ops * bytes_each / 100 * 98,
        first_done_ns: window_ns / 100 * 98,
        start_skew_ns: 81_000,
        client_cpu_ns: window_ns / 2,
        server_cpu_ns: is_nfs.then_some(window_ns / 4),
        cross_checks: vec![CrossCheck {
            expected: ops,
            found: ops,
            source: "calls at the server".into(),
        }],
        samples: vec![IntervalSample { at_ns: window_ns, ops, bytes: ops * bytes_each }],
        kinds,
        caveats,
        ..PassResult::new(pass)
    }
}

/// Returns times around a mean: most equal to it, a few four times as long, one fifty times.
fn kind(kind: OpKind, ops: u64, bytes_each: u64, mean_ns: u64) -> KindResult {
    let mut times = Histogram::sparse();
    times.record_n(mean_ns, ops - ops / 50 - 1);
    times.record_n(mean_ns * 4, ops / 50);
    times.record(mean_ns * 50);
    KindResult {
        kind,
        issued: ops,
        done: ops,
        bytes: ops * bytes_each,
        errors: Vec::new(),
        service_time: times.clone(),
        response_time: times,
    }
}

fn cache_reads(run: &mut Run) {
    for trial in run.trials.iter_mut().take(3) {
        let read = trial.passes.iter_mut().find(|result| result.pass == Pass::Read);
        read.expect("a stream reads")
            .caveats
            .push(CaveatCode::Cached.because("98 % of 268 MB were in the page cache (cachestat)"));
    }
}
