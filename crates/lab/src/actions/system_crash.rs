//! Crashes a system's servers on a host by killing their processes.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::SystemCrash;

use super::LabAction;
use super::accept::check_point;
use super::service::check_root;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::processes;
use crate::undo::Undo;

impl LabAction for SystemCrash {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.dir)
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        vec![Step::KillMarked(self.dir.clone())]
    }

    /// Nothing to undo: stopping the system also stops what is started again. Fails if none of its
    /// processes is running.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_root(&self.system)?;
        if processes::marked(&self.dir).is_empty() {
            let what = format!("no process of {} is running", self.system);
            return Err(LabError::Refused(what));
        }
        Ok(Vec::new())
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        Ok(Findings::new("server").finish())
    }
}
