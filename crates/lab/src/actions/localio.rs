//! Turns LOCALIO on or off for the mounts that follow. The parameter applies to the whole host.
//!
//! **Source:** fs/nfs/localio.c of Linux: `localio_enabled` is read when a client is created, and
//! again for each access.

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Localio;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::facts::kernel_release;
use crate::facts::localio::{PARAMETER, is_enabled};
use crate::undo::Undo;

/// Exists once the kernel's client is loaded.
const MODULE: &str = "/sys/module/nfs";

impl LabAction for Localio {
    /// Whether it is on; `None` if the kernel has no LOCALIO.
    type Facts = Option<bool>;

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn look(&self) -> Result<Option<bool>, LabError> {
        if !Path::new(MODULE).exists() {
            // Load the module now, as the mount would, because before that there is no old value
            // to restore. If there is no such module, the mount reports it.
            let _ = Runner::default().run(&["modprobe", "nfs"], SOON);
        }
        Ok(is_enabled())
    }

    fn assume(&self) -> Option<bool> {
        Some(!self.is_on)
    }

    fn steps(&self, before: &Option<bool>) -> Vec<Step> {
        let mut steps = Vec::new();
        if !Path::new(MODULE).exists() {
            steps.push(Step::run(["modprobe", "nfs"]));
        }
        // A kernel without LOCALIO has it off.
        if before.is_some() {
            steps.push(Step::write(PARAMETER, letter(self.is_on)));
        }
        steps
    }

    /// Restores the old value. Fails if LOCALIO is requested and the kernel has none.
    fn undo(&self, before: &Option<bool>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        match *before {
            None if self.is_on => Err(LabError::Unable(not_supported(&kernel_release()))),
            // Hosts that are containers of one machine share the parameter. Only the one that
            // changes it restores it, since the others would restore its value.
            Some(is_on) if is_on != self.is_on => {
                Ok(vec![Undo::Write { path: PARAMETER.into(), text: letter(is_on).to_owned() }])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn check(&self, before: &Option<bool>) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("host");
        match (before, is_enabled()) {
            (None, _) => findings.fact("LOCALIO", "not in this kernel", PARAMETER),
            (Some(_), Some(is_on)) => {
                findings.compare("localio", &self.is_on.to_string(), &is_on.to_string(), PARAMETER);
            }
            (Some(_), None) => {
                findings.add_difference("localio", self.is_on.to_string(), "unknown", PARAMETER);
            }
        }
        Ok(findings.finish())
    }
}

const fn letter(is_on: bool) -> &'static str {
    if is_on { "Y" } else { "N" }
}

fn not_supported(kernel: &str) -> String {
    format!(
        "LOCALIO is not supported by kernel {kernel}, which has no {PARAMETER} (hint: it takes \
         Linux 6.12 or newer, built with CONFIG_NFS_LOCALIO)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_only_what_it_changes() {
        let undo = |is_on, before| Localio { is_on }.undo(&before, &[]);
        let restored = |text: &str| vec![Undo::Write { path: PARAMETER.into(), text: text.into() }];
        assert_eq!(undo(false, Some(true)).unwrap(), restored("Y"));
        assert_eq!(undo(true, Some(false)).unwrap(), restored("N"));
        assert_eq!(undo(true, Some(true)).unwrap(), []);
        assert_eq!(undo(false, Some(false)).unwrap(), []);
    }

    #[test]
    fn does_nothing_without_support() {
        let off = Localio { is_on: false };
        assert_eq!(off.undo(&None, &[]).unwrap(), []);
        let writes = |step: &Step| matches!(step, Step::Write { .. });
        assert!(!off.steps(&None).iter().any(writes));
        let found = off.check(&None).unwrap();
        assert_eq!(found.differences, []);
        assert_eq!(found.facts[0].value, "not in this kernel");
    }

    #[test]
    fn names_kernel_without_support() {
        let error = Localio { is_on: true }.undo(&None, &[]).unwrap_err().to_string();
        assert!(error.contains(&not_supported(&kernel_release())), "{error}");
        assert!(not_supported("6.1.0-9").contains("not supported by kernel 6.1.0-9,"));
    }
}
