//! Clocks, a backend and one way to run a pass, for the tests of all crates. Not used by the
//! program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use model::{Completion, Op, OpKind, Pass, RunSpec, Share};
use workload::{OpStream, Pattern};

use crate::admission::Timing;
use crate::recorder::Recorder;
use crate::stonewall::PassState;
use crate::worker::{Progress, Worker, WorkerEnd};
use crate::{
    Backend, Clock, LostTarget, MeasuredPass, Monitor, Stop, SystemClock, TargetConfig,
    TrialTarget, measure,
};

/// A clock that advances only when a test sets it or someone sleeps.
#[derive(Default)]
pub struct SetClock(pub AtomicU64);

impl Clock for SetClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn calendar_ns(&self) -> u64 {
        self.now_ns()
    }

    fn sleep_until(&self, instant_ns: u64) {
        self.0.fetch_max(instant_ns, Relaxed);
    }
}

/// The system's clock, which tests set forward.
#[derive(Default)]
pub struct JumpingClock {
    system: SystemClock,
    ahead_ns: AtomicU64,
}

impl JumpingClock {
    pub fn jump(&self, time: Duration) {
        self.ahead_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

impl Clock for JumpingClock {
    fn now_ns(&self) -> u64 {
        self.system.now_ns() + self.ahead_ns.load(Relaxed)
    }

    fn calendar_ns(&self) -> u64 {
        self.system.calendar_ns()
    }

    fn sleep_until(&self, instant_ns: u64) {
        self.system.sleep_until(instant_ns.saturating_sub(self.ahead_ns.load(Relaxed)));
    }
}

/// A backend that disturbs its pass once, in the middle.
pub struct DisturbedBackend<'a> {
    pub backend: Box<dyn Backend>,
    /// Number of ops until the disturbance.
    pub left: usize,
    /// `None` once it has happened.
    pub disturb: Option<Box<dyn FnOnce() + Send + 'a>>,
}

impl Backend for DisturbedBackend<'_> {
    fn submit(&mut self, batch: &[Op]) -> usize {
        self.backend.submit(batch)
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let before = out.len();
        self.backend.reap(min, until_ns, out)?;
        self.left = self.left.saturating_sub(out.len() - before);
        if self.left == 0
            && let Some(disturb) = self.disturb.take()
        {
            disturb();
        }
        Ok(())
    }

    fn close(&mut self, stop: &AtomicBool) -> Result<(), LostTarget> {
        self.backend.close(stop)
    }
}

/// Makes the configuration of a target whose files are in the directory `work_name`.
pub fn target_config(work_name: impl Into<String>) -> TargetConfig {
    TargetConfig {
        work_name: work_name.into(),
        seed: 1,
        pattern: Pattern::new(1, 1 << 20),
        clock: Arc::new(SystemClock::new()),
        keep: false,
        stop: Stop::default(),
        share: Share::ALL,
        joins: false,
    }
}

/// Prepares a pass and runs it with all its workers.
///
/// # Panics
/// If the target does not allow it.
pub fn measure_pass(target: &TrialTarget, spec: &RunSpec, pass: Pass) -> MeasuredPass {
    let stop = Stop::default();
    let mut monitor = Monitor {
        stop: &stop,
        opened: &|| (),
        gate: &mut || Some(0),
        observe: &mut |_| (),
        client_cpu_ns: &|| 0,
    };
    target.prepare(spec, pass).unwrap();
    measure(target, spec, pass, Share::whole(spec.workers), 1, &mut monitor).unwrap()
}

/// Runs the only worker of a prepared pass on a backend.
pub fn run_worker(
    target: &TrialTarget,
    spec: &RunSpec,
    pass: Pass,
    backend: &mut dyn Backend,
) -> WorkerEnd {
    let worker = Worker {
        stream: OpStream::new(spec, pass, 0, 1),
        backend,
        recorder: Recorder::new(OpKind::ALL),
        shared: &PassState::default(),
        progress: &Progress::default(),
        timing: Timing::new(spec, pass, target.clock().now_ns()),
        clock: target.clock().as_ref(),
        admission: None,
        working_set: None,
        queue_depth: spec.queue_depth as usize,
        vain_max_ns: u64::MAX,
        wears_out: false,
    };
    worker.run()
}
