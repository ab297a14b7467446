//! Turns a feature of the kernel's NFS server or client on or off for the mounts that follow. Each
//! switch applies to the whole host.

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::{KernelSwitch, SwitchName};

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::facts::kernel_release;
use crate::facts::kernel_switch::{DEBUGFS, SwitchPlace, is_on, place_of};
use crate::mounts;
use crate::undo::Undo;

/// What is known about a switch before it is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchState {
    /// It is on.
    On,
    Off,
    /// The kernel doesn't have it, so it does what it does when it is off.
    Missing,
    /// It would be in debugfs, which isn't mounted.
    NoDebugfs,
}

impl From<bool> for SwitchState {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

impl LabAction for KernelSwitch {
    type Facts = SwitchState;

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn look(&self) -> Result<SwitchState, LabError> {
        let SwitchPlace { path, module, .. } = place_of(self.switch);
        if let Some(module) = module
            && is_on(self.switch).is_none()
        {
            // Load the module now, as the server or the mount would, because before that there is
            // no old value to restore. If there is no such module, they report it.
            let _ = Runner::default().run(&["modprobe", module], SOON);
        }
        Ok(match is_on(self.switch) {
            Some(is_on) => is_on.into(),
            None if path.starts_with(DEBUGFS) && !has_debugfs() => SwitchState::NoDebugfs,
            None => SwitchState::Missing,
        })
    }

    fn assume(&self) -> SwitchState {
        (!self.is_on).into()
    }

    fn steps(&self, before: &SwitchState) -> Vec<Step> {
        let SwitchPlace { path, module, .. } = place_of(self.switch);
        let mut steps = Vec::new();
        if let Some(module) = module
            && is_on(self.switch).is_none()
        {
            steps.push(Step::run(["modprobe", module]));
        }
        if matches!(before, SwitchState::On | SwitchState::Off) {
            steps.push(Step::write(path, digit(self.is_on)));
        }
        steps
    }

    /// Restores the old value. Fails if the feature is requested and the kernel doesn't have it.
    fn undo(&self, before: &SwitchState, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        match *before {
            SwitchState::Missing if self.is_on => {
                Err(LabError::Unable(not_supported(self.switch, &kernel_release())))
            }
            SwitchState::Missing => Ok(Vec::new()),
            SwitchState::NoDebugfs => Err(LabError::Unable(format!(
                "{} is a file in debugfs, which is not mounted on {DEBUGFS} (hint: mount -t \
                 debugfs debugfs {DEBUGFS})",
                self.switch,
            ))),
            // Hosts that are containers of one machine share the switch. Only the one that changes
            // it restores it, since the others would restore its value.
            before if before == self.is_on.into() => Ok(Vec::new()),
            before => Ok(vec![Undo::Write {
                path: place_of(self.switch).path.into(),
                text: digit(before == SwitchState::On).to_owned(),
            }]),
        }
    }

    fn check(&self, before: &SwitchState) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("host");
        let path = place_of(self.switch).path;
        let name = self.switch.name();
        match (before, is_on(self.switch)) {
            (SwitchState::Missing, _) => findings.fact(name, "not in this kernel", path),
            (_, Some(is_on)) => {
                findings.compare(name, &self.is_on.to_string(), &is_on.to_string(), path);
            }
            (_, None) => {
                findings.add_difference(name, self.is_on.to_string(), "unknown", path);
            }
        }
        Ok(findings.finish())
    }
}

fn not_supported(switch: SwitchName, kernel: &str) -> String {
    let SwitchPlace { path, since, .. } = place_of(switch);
    format!(
        "{switch} is not supported by kernel {kernel}, which has no {path} (hint: it takes Linux \
         {since})"
    )
}

/// Module parameters, debugfs and sysctls all take numbers.
const fn digit(is_on: bool) -> &'static str {
    if is_on { "1" } else { "0" }
}

fn has_debugfs() -> bool {
    mounts::find_named(Path::new(DEBUGFS)).is_some_and(|mount| mount.file_system == "debugfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: SwitchName = SwitchName::DirectoryDelegations;

    fn undo(is_on: bool, before: SwitchState) -> Result<Vec<Undo>, LabError> {
        KernelSwitch { switch: SWITCH, is_on }.undo(&before, &[])
    }

    #[test]
    fn restores_only_what_it_changes() {
        let path = place_of(SWITCH).path;
        let restored = |text: &str| vec![Undo::Write { path: path.into(), text: text.into() }];
        assert_eq!(undo(false, SwitchState::On).unwrap(), restored("1"));
        assert_eq!(undo(true, SwitchState::Off).unwrap(), restored("0"));
        assert_eq!(undo(true, SwitchState::On).unwrap(), []);
        assert_eq!(undo(false, SwitchState::Off).unwrap(), []);
    }

    #[test]
    fn does_nothing_without_support() {
        assert_eq!(undo(false, SwitchState::Missing).unwrap(), []);
        let off = KernelSwitch { switch: SWITCH, is_on: false };
        let writes = |step: &Step| matches!(step, Step::Write { .. });
        assert!(!off.steps(&SwitchState::Missing).iter().any(writes));
        let found = off.check(&SwitchState::Missing).unwrap();
        assert_eq!(found.differences, []);
        assert_eq!(found.facts[0].value, "not in this kernel");
    }

    #[test]
    fn explains_missing_files() {
        let error = undo(true, SwitchState::Missing).unwrap_err().to_string();
        let kernel = kernel_release();
        let begin = format!("directory_delegations is not supported by kernel {kernel}, which");
        assert!(error.contains(&begin) && error.contains("Linux 6.19 or newer"), "{error}");
        for is_on in [true, false] {
            let error = undo(is_on, SwitchState::NoDebugfs).unwrap_err().to_string();
            assert!(error.contains("not mounted on /sys/kernel/debug"), "{error}");
        }
    }
}
