//! A soak of a million ops: its journal and its statistics take no more memory at the end than
//! before.

use engine::intervals::resident_bytes;
use engine::testing::target_config;
use engine::{Monitor, Stop, TargetConfig, TrialTarget, measure};
use model::testing::RunBuilder;
use model::{Load, Pass, RunSpec, Share, Soak, Workload};

/// A fast machine needs two seconds for them, which is twenty intervals.
const OPS: u64 = 8_000_000;

/// A mix on the null backend, with a journal like a soak.
fn spec() -> RunSpec {
    let mut spec = RunBuilder::new(Workload::Mixed)
        .files(16)
        .file_size_bytes(1 << 20)
        .workers(2)
        .queue_depth(8)
        .read_percent(50)
        .load(Load { ops_max: OPS, ..Load::default() })
        .soak(Some(Box::new(Soak { commit_every_ops: 64, ..Soak::default() })))
        .build();
    spec.data.stamp = true;
    spec.sampling.interval_ms = 100;
    spec
}

#[test]
fn keeps_memory_steady() {
    let spec = spec();
    let work_name = ".dfsbench-soak";
    let pattern = engine::target::pattern_of(&spec, 1, work_name);
    let config = TargetConfig { pattern, ..target_config(work_name) };
    let mut target = TrialTarget::create(&spec, config).unwrap();
    let share = Share { count: spec.workers, ..Share::ALL };
    target.make_content_of(&spec, Pass::Mix, share);
    let mut monitor = Monitor {
        stop: &Stop::default(),
        opened: &|| {},
        gate: &mut || Some(0),
        observe: &mut |_| {},
        client_cpu_ns: &|| 0,
    };
    let measured = measure(&target, &spec, Pass::Mix, share, 1, &mut monitor).unwrap();
    let result = measured.result;
    assert_eq!((result.ops(), result.errors()), (OPS, 0));
    let journaled: u64 = result.intervals.iter().map(|interval| interval.ops).sum();
    assert_eq!(journaled, OPS, "every op belongs to an interval");
    let kept = target.journal().unwrap().summarize(|_| true);
    // Each block is written about 1,000 times; blocks that are not safe were written since the last
    // sync.
    assert_eq!((kept.blocks, kept.written, kept.lost), (16 * 256, 16 * 256, 0));
    assert!(kept.uncommitted > 0 && kept.uncommitted < kept.blocks / 2, "{kept:?}");
    let intervals = &result.intervals;
    assert!(intervals.len() >= 4, "{} intervals", intervals.len());
    let early = intervals[intervals.len() / 4].rss_bytes;
    let grown = resident_bytes().saturating_sub(early);
    assert!(grown < 2 << 20, "{grown} B more than {early} B, {OPS} ops later");
}
