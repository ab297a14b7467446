//! The MTU of an interface. **Source:** ip-link(8).

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::Mtu;
use model::options::check_interface;

use super::LabAction;
use super::accept::accept;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::interfaces;
use crate::undo::Undo;

impl LabAction for Mtu {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("interface", check_interface(&self.interface))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let bytes = self.bytes.to_string();
        vec![Step::run(["ip", "link", "set", "dev", self.interface.as_str(), "mtu", &bytes])]
    }

    /// Restores the old MTU. Fails if there is no such interface.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let bytes = interfaces::mtu(&self.interface)?;
        Ok(vec![Undo::Mtu { interface: self.interface.clone(), bytes }])
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("network");
        let found = interfaces::mtu(&self.interface)?.to_string();
        let name = format!("MTU of {}", self.interface);
        findings.compare(&name, &self.bytes.to_string(), &found, "ip -json link");
        Ok(findings.finish())
    }
}
