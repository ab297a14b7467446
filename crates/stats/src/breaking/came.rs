//! What came of one load: figures, or what went wrong.
//!
//! [`Came::of`] judges a trial as a report would, so that a search that is told again from the
//! results file takes the same way.

use model::{CaveatCode, OpError, Run, RunSpec, Trial, TrialState};

use crate::judge;

/// What words of a failed trial say that an answer did not come.
const NO_ANSWER: &str = "no answer";

/// What came of one load.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// The figure of each pass, in an order that is always the same; `None` where it says nothing
    /// of the server.
    Figures(Vec<Option<Figure>>),
    /// A trial failed, or ops did.
    Broken(Trouble),
}

/// What a pass did under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its rate, in the unit of the pass.
    pub per_s: f64,
    /// 99th percentile of its response times, in nanoseconds.
    pub p99_ns: u64,
    /// What was done of what fell due, as a share; `None` in a closed loop.
    pub offered_share: Option<f64>,
}

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// An answer did not come in time.
    pub hangs: bool,
    /// In a sentence.
    pub reason: String,
}

impl Came {
    /// Judges one trial of a run.
    pub fn of(spec: &RunSpec, trial: &Trial) -> Self {
        match figures(spec, trial) {
            Ok(figures) => Self::Figures(figures),
            Err(trouble) => Self::Broken(trouble),
        }
    }
}

fn figures(spec: &RunSpec, trial: &Trial) -> Result<Vec<Option<Figure>>, Trouble> {
    if let TrialState::Failed(reason) = &trial.state {
        return Err(Trouble { hangs: reason.contains(NO_ANSWER), reason: reason.clone() });
    }
    let kinds = trial.passes.iter().flat_map(|pass| pass.kinds.iter().map(move |k| (pass, k)));
    let mut errors = kinds.flat_map(|(pass, kind)| kind.errors.iter().map(move |e| (pass, e)));
    if let Some((pass, (error, count))) = errors.next() {
        let reason = format!("{}: {count} ops failed with {}", pass.pass, error.name());
        return Err(Trouble { hangs: *error == OpError::LOST, reason });
    }
    let trial = Trial { index: spec.repetition.warmup_trials, ..trial.clone() };
    let run = Run { index: 0, spec: spec.clone(), trials: vec![trial] };
    let figure = |pass: &model::Pass| {
        let judged = judge::pass(&run, *pass);
        let none = || judged.reason().unwrap_or("no figure").to_owned();
        let limited = |known: &judge::JudgedCaveat| {
            matches!(known.code, CaveatCode::ClientSaturated | CaveatCode::ProcessorContention)
        };
        let told = !judged.caveats.iter().any(limited);
        let done_per_s = judged.ops_per_s.as_ref().map_or(0.0, |ops| ops.median);
        let asked_per_s = spec.load.rate_per_s as f64;
        let figure = |rate: &crate::Summary| Figure {
            per_s: rate.median,
            p99_ns: judged.response_time.quantile(0.99),
            offered_share: judged.offered_per_s.map(|_| done_per_s / asked_per_s),
        };
        judged.rate.as_ref().map(|rate| told.then(|| figure(rate))).ok_or_else(none)
    };
    let figures: Result<Vec<Option<Figure>>, String> = spec.passes().iter().map(figure).collect();
    figures.map_err(|reason| Trouble { hangs: false, reason })
}
