//! Steps the wall clock forward or back, as a fault during a soak.
//!
//! If a host shares its kernel with the controller, its clock isn't touched, since it is the
//! controller's clock, too.

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::ClockStep;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::calendar;
use crate::undo::Undo;
use crate::undo::log::boot_id;

const MS_NS: i64 = 1_000_000;

impl LabAction for ClockStep {
    /// Difference between the wall clock and the time since boot, in nanoseconds.
    type Facts = i64;

    fn accept(&self) -> Result<(), LabError> {
        // The boot ID is only compared, never passed to a program.
        Ok(())
    }

    fn look(&self) -> Result<i64, LabError> {
        Ok(calendar::offset_ns())
    }

    fn assume(&self) -> i64 {
        0
    }

    fn steps(&self, before_ns: &i64) -> Vec<Step> {
        let offset_ns = before_ns.saturating_add(self.by_ms.saturating_mul(MS_NS));
        vec![Step::Calendar { offset_ns, by_ms: self.by_ms }]
    }

    /// Restores the clock. Fails if it is also the controller's clock.
    fn undo(&self, before_ns: &i64, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        refuse_own(&self.not_boot, &boot_id())?;
        Ok(vec![Undo::Calendar { offset_ns: *before_ns }])
    }

    fn check(&self, before_ns: &i64) -> Result<EffectiveSettings, LabError> {
        let name = "wall clock set by";
        let source = "CLOCK_REALTIME relative to CLOCK_BOOTTIME";
        let by_ns = calendar::offset_ns().saturating_sub(*before_ns);
        let requested_ns = self.by_ms.saturating_mul(MS_NS);
        let mut findings = Findings::new("host");
        findings.fact(name, seconds(by_ns), source);
        if !calendar::is_near(by_ns, requested_ns) {
            findings.add_difference(name, seconds(requested_ns), seconds(by_ns), source);
        }
        Ok(findings.finish())
    }
}

/// Rejects a host that runs on the controller's kernel, or on an unknown one.
fn refuse_own(not_boot: &str, boot: &str) -> Result<(), LabError> {
    if boot.is_empty() || boot == not_boot {
        let what =
            "it shares its clock with the controller's host, so the clock will not be changed";
        return Err(LabError::Refused(what.to_owned()));
    }
    Ok(())
}

fn seconds(ns: i64) -> String {
    format!("{:+.3} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Runner;

    fn step(by_ms: i64, not_boot: &str) -> ClockStep {
        ClockStep { by_ms, not_boot: not_boot.to_owned() }
    }

    #[test]
    fn undoes_relative_step_absolutely() {
        let before_ns = 1_700_000_000_000_000_000;
        let action = step(-5_000, "another kernel");
        let steps = action.steps(&before_ns);
        let [Step::Calendar { offset_ns, by_ms }] = steps[..] else { panic!("one step") };
        assert_eq!((offset_ns, by_ms), (1_699_999_995_000_000_000, -5_000));
        assert_eq!(steps[0].to_string(), "date --set '-5.000 seconds'");
        let undo = action.undo(&before_ns, &[]).unwrap();
        assert_eq!(undo, [Undo::Calendar { offset_ns: before_ns }]);
        assert!(!undo[0].outlives_boot(), "a boot reads the hardware clock");
    }

    #[test]
    fn skips_host_sharing_controller_clock() {
        let here = boot_id();
        insta::assert_snapshot!(
            step(1, &here).undo(&0, &[]).unwrap_err(),
            @"it shares its clock with the controller's host, so the clock will not be changed"
        );
        assert!(refuse_own("x", "").is_err(), "an unknown kernel may be the same");
        assert!(refuse_own("x", "y").is_ok());
    }

    #[test]
    fn does_not_reset_corrected_clock() {
        // This runner cannot run any program, but none is needed: the clock is already right.
        calendar::restore(&Runner::default(), calendar::offset_ns()).unwrap();
        assert!(calendar::is_near(-400_000_000, 0) && !calendar::is_near(-600_000_000, 0));
        let found = step(5_000, "").check(&calendar::offset_ns()).unwrap();
        assert_eq!(found.differences[0].requested, "+5.000 s");
    }
}
