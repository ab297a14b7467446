//! Outcome of one load: results, or what went wrong.
//!
//! [`TrialOutcome::from_trial`] judges a trial like a report does, so that a search replayed from
//! the results file takes the same path.

use model::units::Nanos;
use model::{CaveatCode, OpError, Pass, PassResult, Run, RunSpec, Trial, TrialState};

use crate::judge;

/// Text in the reason of a failed trial that means that there was no reply.
const NO_ANSWER: &str = "no answer";

#[derive(Clone, Debug, PartialEq)]
pub enum TrialOutcome {
    /// Result of each pass, always in the same order; `None` if it doesn't describe the server.
    Figures(Vec<Option<LoadFigure>>),
    /// The trial or ops failed.
    Broken(TrialFailure),
}

/// Result of a pass at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadFigure {
    /// Rate, in the unit of the pass.
    pub per_s: f64,
    /// 99th percentile of response times, in nanoseconds.
    pub p99_ns: u64,
    /// Completed share of the scheduled ops; `None` in a closed loop.
    pub offered_share: Option<f64>,
    /// How much accelerators compute, in a training.
    pub accelerators: Option<AcceleratorUse>,
}

/// How much of the time accelerators compute, and how much they must, between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceleratorUse {
    pub utilization: f64,
    pub required: f64,
}

impl AcceleratorUse {
    /// Returns true if the accelerators wait for data longer than allowed.
    pub fn is_starved(self) -> bool {
        self.utilization < self.required
    }
}

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFailure {
    /// No reply arrived in time.
    pub hangs: bool,
    /// All ops succeeded, but frames missed their deadlines.
    pub is_late: bool,
    /// The reason as a sentence.
    pub reason: String,
}

impl TrialOutcome {
    /// Judges one trial of a run.
    pub fn from_trial(spec: &RunSpec, trial: &Trial) -> Self {
        match read_figures(spec, trial) {
            Ok(figures) => Self::Figures(figures),
            Err(trouble) => Self::Broken(trouble),
        }
    }
}

impl LoadFigure {
    /// Returns true if the server fell behind an offered load, or accelerators wait for it.
    pub fn is_behind(&self) -> bool {
        self.offered_share.is_some_and(|share| share < super::BEHIND_SHARE)
            || self.accelerators.is_some_and(AcceleratorUse::is_starved)
    }
}

fn read_figures(spec: &RunSpec, trial: &Trial) -> Result<Vec<Option<LoadFigure>>, TrialFailure> {
    if let TrialState::Failed(reason) = &trial.state {
        let hangs = reason.contains(NO_ANSWER);
        return Err(TrialFailure { hangs, is_late: false, reason: reason.clone() });
    }
    for pass in &trial.passes {
        for kind in &pass.kinds {
            if let Some((error, count)) = kind.errors.first() {
                let reason = format!("{}: {count} ops failed with {}", pass.pass, error.name());
                return Err(TrialFailure {
                    hangs: *error == OpError::LOST,
                    is_late: false,
                    reason,
                });
            }
        }
        if let Some(reason) = describe_late_frames(pass) {
            return Err(TrialFailure { hangs: false, is_late: true, reason });
        }
    }
    // Judge a run with only this trial, numbered after the warm-up so that it counts.
    let trial = Trial { index: spec.repetition.warmup_trials, ..trial.clone() };
    let run = Run { index: 0, spec: spec.clone(), trials: vec![trial] };
    spec.passes().iter().map(|pass| read_figure(&run, *pass)).collect()
}

/// Describes the late frames of a pass. They count even if this host may be the cause, because no
/// viewer would accept them.
fn describe_late_frames(pass: &PassResult) -> Option<String> {
    let frames = pass.scope.frames.filter(|frames| frames.late_frames > 0)?;
    let mut reason = format!(
        "{}: {} of {} frames were late, by up to {}, in {} of {} streams",
        pass.pass,
        frames.late_frames,
        frames.frames,
        Nanos(frames.worst_lateness_ns),
        frames.late_streams,
        frames.streams
    );
    if pass.caveats.iter().any(|caveat| is_of_client(caveat.code)) {
        reason += ", but this host was short of CPU time";
    }
    Some(reason)
}

/// Returns true if a caveat means that the client was at its own limit.
const fn is_of_client(code: CaveatCode) -> bool {
    matches!(code, CaveatCode::ClientSaturated | CaveatCode::ProcessorContention)
}

/// Reads the result of a pass, or `None` if the client was at its own limit.
fn read_figure(run: &Run, pass: Pass) -> Result<Option<LoadFigure>, TrialFailure> {
    let judged = judge::pass(run, pass);
    let Some(rate) = &judged.rate else {
        let reason = judged.reason().unwrap_or("no figure").to_owned();
        return Err(TrialFailure { hangs: false, is_late: false, reason });
    };
    for caveat in &judged.caveats {
        if is_of_client(caveat.code) {
            return Ok(None);
        }
    }
    let done_per_s = judged.ops_per_s.as_ref().map_or(0.0, |ops| ops.median);
    Ok(Some(LoadFigure {
        per_s: rate.median,
        p99_ns: judged.response_time.quantile(0.99),
        offered_share: judged.offered_per_s.map(|offered_per_s| done_per_s / offered_per_s),
        accelerators: judged.training.map(|training| AcceleratorUse {
            utilization: training.utilization.median,
            required: training.required,
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing::RunBuilder;
    use model::{FrameDelivery, Workload};

    #[test]
    fn breaks_on_late_frames() {
        let spec = RunBuilder::new(Workload::Media).build();
        let mut pass = PassResult::new(Pass::Play);
        let mut trial = Trial {
            index: 0,
            position: 0,
            started_unix_ms: 0,
            state: TrialState::Done,
            facts: Vec::new(),
            passes: Vec::new(),
        };
        let mut outcome = |late_frames| {
            pass.scope.frames = Some(FrameDelivery {
                frames: 480,
                late_frames,
                streams: 4,
                late_streams: 1,
                worst_lateness_ns: 2_500_000,
            });
            trial.passes = vec![pass.clone()];
            TrialOutcome::from_trial(&spec, &trial)
        };
        let reason = "play: 3 of 480 frames were late, by up to 2.50 ms, in 1 of 4 streams";
        let failure = TrialFailure { hangs: false, is_late: true, reason: reason.to_owned() };
        assert_eq!(outcome(3), TrialOutcome::Broken(failure));
        // Without any, the outcome is judged by other rules: here, nothing was measured.
        let TrialOutcome::Broken(failure) = outcome(0) else { panic!("no rate") };
        assert!(!failure.is_late, "{failure:?}");
    }
}
