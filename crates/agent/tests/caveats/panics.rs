//! A panic in the middle of a trial: the order fails with its message, the other workers stop, the
//! target is removed, and the agent continues with the next trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use engine::{Clock, SystemClock};
use fleet::Report;
use model::{Pass, RunSpec, Workload};

use crate::driven_agent::{DrivenAgent, stream};

/// A clock that panics at the nth reading by a thread whose name has this prefix.
struct PanickingClock {
    system: SystemClock,
    thread: &'static str,
    left: AtomicU32,
}

impl PanickingClock {
    fn for_thread(thread: &'static str, looks: u32) -> Arc<Self> {
        Arc::new(Self { system: SystemClock::new(), thread, left: AtomicU32::new(looks) })
    }
}

impl Clock for PanickingClock {
    fn now_ns(&self) -> u64 {
        if self.left.load(Relaxed) > 0
            && thread::current().name().is_some_and(|name| name.starts_with(self.thread))
            && self.left.fetch_sub(1, Relaxed) == 1
        {
            panic!("a planted bug at {}", self.thread);
        }
        self.system.now_ns()
    }

    fn calendar_ns(&self) -> u64 {
        self.system.calendar_ns()
    }

    fn sleep_until(&self, instant_ns: u64) {
        self.system.sleep_until(instant_ns);
    }
}

/// Three workers that would run for an hour.
fn endless(directory: &std::path::Path) -> RunSpec {
    RunSpec {
        workload: Workload::Mixed,
        workers: 3,
        files: 3,
        duration_ms: 3_600_000,
        io_size_bytes: 4096,
        read_percent: 50,
        file_size_bytes: 64 << 10,
        ..stream(directory)
    }
}

fn fails_of_a_panic(report: &Report, sentence: &str) {
    let Report::Failed(why) = report else { panic!("{report:?}") };
    assert!(why.starts_with(sentence), "{why}");
    assert!(why.contains("hint: report it"), "{why}");
}

#[test]
fn stops_pass_after_worker_panic() {
    let directory = tempfile::tempdir().unwrap();
    // At its start, and in the middle of its work.
    for looks in [1, 200] {
        let mut agent = DrivenAgent::on(PanickingClock::for_thread("worker-1", looks));
        let spec = endless(directory.path());
        agent.begin(&spec);
        let sentence = "worker 1 panicked: a planted bug at worker-1";
        fails_of_a_panic(&agent.try_run(Pass::Mix), sentence);
        agent.end();
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "the working directory is removed");
        // The next trial works as usual.
        let spec = RunSpec { duration_ms: 50, ..spec };
        agent.begin(&spec);
        assert_eq!(agent.run(Pass::Mix).broken, None);
        agent.end();
    }
}

#[test]
fn survives_panicking_order() {
    let directory = tempfile::tempdir().unwrap();
    // The thread that reads telemetry has no name of ours; the agent's thread joins it.
    let mut agent = DrivenAgent::on(PanickingClock::for_thread("agent-of-test", 40));
    let spec = RunSpec { duration_ms: 3_600_000, ..endless(directory.path()) };
    agent.begin(&spec);
    fails_of_a_panic(&agent.try_run(Pass::Mix), "panicked: a planted bug at agent-of-test");
    agent.end();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    agent.begin(&RunSpec { duration_ms: 50, ..spec });
    agent.end();
}
