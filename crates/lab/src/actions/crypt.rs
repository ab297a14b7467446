//! A device that is encrypted with a key that is thrown away. **Source:** cryptsetup(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::action::Crypt;
use model::options::check_object_name;
use model::{Device, EffectiveSettings};

use super::LabAction;
use super::accept::{accept, check_device};
use super::storage::Devices;
use crate::error::LabError;
use crate::findings::Findings;
use crate::host::devices;
use crate::step::Step;
use crate::undo::Undo;

/// Arguments of a mapping without a header on the device: no mark is left on it, and the key is
/// known to the kernel alone.
//
// A type with a header (luks2) would derive its key from a passphrase, on purpose slowly, and leave
// a signature to wipe. The cipher, and so what is measured, is luks2's default; XTS takes two keys
// of 256 bits.
const OPEN_PLAIN: [&str; 12] = [
    "cryptsetup",
    "open",
    "--type",
    "plain",
    "--cipher",
    "aes-xts-plain64",
    "--key-size",
    "512",
    "--key-file",
    "/dev/urandom",
    "--batch-mode",
    "--",
];

impl LabAction for Crypt {
    type Facts = Devices;

    fn accept(&self) -> Result<(), LabError> {
        accept("mapping", check_object_name(&self.name))?;
        check_device(&self.device)
    }

    fn look(&self) -> Result<Devices, LabError> {
        Devices::find([&self.device])
    }

    fn assume(&self) -> Devices {
        Devices::assume([&self.device])
    }

    fn steps(&self, facts: &Devices) -> Vec<Step> {
        let mut argv = OPEN_PLAIN.map(str::to_owned).to_vec();
        argv.extend([facts.first_node(), self.name.clone()]);
        vec![Step::run(["modprobe", "dm-crypt"]), Step::overwrite(argv, facts.overwritten.clone())]
    }

    /// Closes the mapping; refuses where there is one of that name.
    fn undo(&self, facts: &Devices, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        facts.may_destroy(std::slice::from_ref(&self.device), allowed)?;
        let name = &self.name;
        if Path::new("/dev/mapper").join(name).exists() {
            return Err(LabError::Refused(format!(
                "there is a mapping /dev/mapper/{name} already"
            )));
        }
        Ok(vec![Undo::Mapped { name: name.clone() }])
    }

    fn check(&self, _facts: &Devices) -> Result<EffectiveSettings, LabError> {
        let node = devices::node(&Device::Mapped(self.name.clone()))?;
        let path = devices::sysfs(&node).join("dm/uuid");
        let text =
            fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
        let mut findings = Findings::new("server");
        let requested = format!("CRYPT-PLAIN-{}", self.name);
        findings.compare("mapping", &requested, &text, &path.display().to_string());
        Ok(findings.done())
    }
}
