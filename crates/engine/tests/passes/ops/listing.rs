//! Directories that take longer than a worker may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::backend::NO_LIMIT;
use engine::testing::target_config;
use engine::{Clock, TargetConfig, TrialTarget};
use model::testing::RunBuilder;
use model::{Outcome, Pass, Target, Workload};
use workload::OpStream;

/// A clock that advances by more than a tick with each reading.
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(60_000_000, Relaxed)
    }

    fn calendar_ns(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _instant_ns: u64) {}
}

#[test]
fn continues_slow_listings() {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::Directory { path: directory.path().to_owned() };
    let files = 5_000;
    let spec = RunBuilder::new(Workload::Listing).target(target).files(files).build();
    let clock = Arc::new(SlowClock(AtomicU64::new(1)));
    let config = TargetConfig { clock, ..target_config(".dfsbench-slow-0") };
    let target = TrialTarget::create(&spec, config).unwrap();
    for (pass, interruptions_min) in [(Pass::List, 1), (Pass::ListStat, 300), (Pass::Find, 3)] {
        target.prepare(&spec, pass).unwrap();
        let mut backend = target.open(&spec, pass, 0).unwrap().backend;
        let op = OpStream::new(&spec, pass, 0, 1).next_op().unwrap();
        assert_eq!((op.len_bytes, backend.submit(&[op])), (files, 1));
        let mut done = Vec::with_capacity(1);
        let mut interruptions = 0;
        let mut listed = 0;
        while done.is_empty() {
            backend.reap(1, NO_LIMIT, &mut done).unwrap();
            let entries = backend.entries_in_progress();
            assert!(entries >= listed || !done.is_empty());
            listed = entries;
            interruptions += u32::from(done.is_empty());
        }
        assert_eq!(done[0].outcome, Outcome::Done(files), "{pass}");
        assert!(interruptions >= interruptions_min, "{pass}: {interruptions}");
        let found = backend.tally().listed.unwrap();
        assert_eq!(found.entries, u64::from(files));
        assert_eq!(found.matches, found.matches_expected, "{pass}");
        assert_eq!(found.matches > 0, pass == Pass::Find);
    }
}
