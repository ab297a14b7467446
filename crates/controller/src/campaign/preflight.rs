//! Checks the targets of a plan before anything is measured.
//!
//! A working directory is created and removed at each of them, so that a plan that cannot work
//! fails at once and leaves nothing behind.

use std::sync::atomic::Ordering::Relaxed;

use model::{RunSpec, Workload};
use plan::Plan;

use crate::{CampaignRunner, ControllerError};

impl CampaignRunner<'_> {
    /// Checks that at least one target of the plan can be used in the way its runs need.
    ///
    /// Metadata runs need less of a target than runs that move data, so they are only tried if
    /// there are no others.
    ///
    /// # Errors
    /// If no target can be used; contains the reason of the first.
    pub fn preflight(&mut self) -> Result<(), ControllerError> {
        let mut reason = None;
        if self.reach_hosts(&mut reason) {
            return Ok(());
        }
        let mut first = reason.map(ControllerError::Unusable);
        for (number, spec) in distinct_local_uses(self.plan).into_iter().enumerate() {
            match self.check_target(spec, number + 1)? {
                None => return Ok(()),
                Some(why) => _ = first.get_or_insert(unusable(spec, why)),
            }
        }
        first.map_or(Ok(()), |error| Err(self.or_interrupted(error)))
    }

    /// Like [`Self::preflight`], but requires that every target used from this host is usable, for
    /// questions that need all of them.
    ///
    /// # Errors
    /// If a target cannot be used; contains the reason.
    pub fn preflight_all(&mut self) -> Result<(), ControllerError> {
        self.preflight()?;
        for (number, spec) in distinct_local_uses(self.plan).into_iter().enumerate() {
            if let Some(why) = self.check_target(spec, number + 1)? {
                return Err(self.or_interrupted(unusable(spec, why)));
            }
        }
        Ok(())
    }

    /// Checks whether the hosts of any run can be used; records the first reason why not.
    fn reach_hosts(&mut self, reason: &mut Option<String>) -> bool {
        let plan = self.plan;
        for spec in &plan.runs {
            let Some(lab) = spec.lab.as_deref() else { continue };
            if spec.impossible().is_some() {
                continue;
            }
            match self.hosts.connect_hosts(lab) {
                Ok(()) => return true,
                Err(why) => _ = reason.get_or_insert(why),
            }
        }
        false
    }

    /// Returns why setup failed. A stop request makes it fail, too, which says nothing about the
    /// target.
    fn or_interrupted(&self, error: ControllerError) -> ControllerError {
        if self.stop.load(Relaxed) { ControllerError::Interrupted } else { error }
    }
}

/// Returns the error for an unusable target, which depends on where the target is.
fn unusable(spec: &RunSpec, why: String) -> ControllerError {
    let is_here = spec.lab.is_none() && spec.placement.hosts.is_empty();
    if spec.target.is_local() && is_here {
        ControllerError::UnusableHere(why)
    } else {
        ControllerError::Unusable(why)
    }
}

/// Returns one run for each distinct way in which a target is used from this host.
fn distinct_local_uses(plan: &Plan) -> Vec<&RunSpec> {
    // Runs without data transfer need less of a target, so skip them if others move data.
    let any_moves_data = plan.runs.iter().any(|spec| moves_data(spec.workload));
    let mut uses: Vec<&RunSpec> = Vec::new();
    for spec in &plan.runs {
        if spec.impossible().is_some() || spec.lab.is_some() {
            continue;
        }
        if any_moves_data && !moves_data(spec.workload) {
            continue;
        }
        if !uses.iter().any(|other| has_same_use(other, spec)) {
            uses.push(spec);
        }
    }
    uses
}

fn moves_data(workload: Workload) -> bool {
    !matches!(workload, Workload::Metadata | Workload::Listing)
}

/// Returns true if both runs use the same target in the same way.
fn has_same_use(one: &RunSpec, other: &RunSpec) -> bool {
    one.target == other.target && one.backend == other.backend && one.direct == other.direct
}
