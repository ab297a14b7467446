//! A crash of a system's servers: their processes are killed, and started again on what they kept.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::SystemCrash;

use super::LabAction;
use super::accept::check_point;
use super::service::{check_root, find_ours, start_steps};
use crate::error::LabError;
use crate::findings::Findings;
use crate::processes;
use crate::step::Step;
use crate::undo::Undo;

impl LabAction for SystemCrash {
    /// Path of this program.
    type Facts = PathBuf;

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.dir)
    }

    fn look(&self) -> Result<PathBuf, LabError> {
        find_ours()
    }

    fn assume(&self) -> PathBuf {
        "dfsbench".into()
    }

    fn steps(&self, ours: &PathBuf) -> Vec<Step> {
        let mut steps = vec![Step::KillMarked(self.dir.clone())];
        steps.extend(start_steps(&self.dir, &self.steps, ours));
        steps
    }

    /// Undoes nothing: what is started again ends with the system. Refuses where none of its
    /// processes runs.
    fn undo(&self, _ours: &PathBuf, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_root(&self.system)?;
        if processes::marked(&self.dir).is_empty() {
            let what = format!("no process of {} runs that could be killed", self.system);
            return Err(LabError::Refused(what));
        }
        Ok(Vec::new())
    }

    fn check(&self, _ours: &PathBuf) -> Result<EffectiveSettings, LabError> {
        Ok(Findings::new("server").done())
    }
}
