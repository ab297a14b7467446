//! Encrypts a device with a throwaway key. **Source:** cryptsetup(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::action::Crypt;
use model::options::{check_crypt_cipher, check_object_name};
use model::{Device, EffectiveSettings};

use super::LabAction;
use super::accept::{accept, check_device};
use super::storage::Devices;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::devices;
use crate::undo::Undo;

/// Arguments for a mapping without an on-disk header. It leaves no traces on the device, and only
/// the kernel knows the key.
// Types with a header, such as luks2, would derive the key from a passphrase, which is deliberately
// slow, and leave a signature that has to be wiped.
const OPEN_PLAIN: [&str; 4] = ["cryptsetup", "open", "--type", "plain"];
/// Default cipher of luks2, and therefore the one that people use and want to measure.
const CIPHER: &str = "aes-xts-plain64";
/// Key size in bits: XTS takes two keys of 256 bits.
const KEY_BITS: u32 = 512;

impl LabAction for Crypt {
    type Facts = Devices;

    fn accept(&self) -> Result<(), LabError> {
        accept("mapping", check_object_name(&self.name))?;
        if let Some(cipher) = &self.cipher {
            accept("crypt_cipher", check_crypt_cipher(cipher))?;
        }
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
        let cipher = self.cipher.as_deref().unwrap_or(CIPHER);
        let key_bits = self.key_bits.unwrap_or(KEY_BITS).to_string();
        argv.extend(["--cipher", cipher, "--key-size", &key_bits].map(str::to_owned));
        argv.extend(["--key-file", "/dev/urandom", "--batch-mode", "--"].map(str::to_owned));
        argv.extend([facts.first_node(), self.name.clone()]);
        vec![Step::run(["modprobe", "dm-crypt"]), Step::overwrite(argv, facts.overwritten.clone())]
    }

    /// Closes the mapping. Fails if one with this name already exists.
    fn undo(&self, facts: &Devices, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        facts.may_destroy(std::slice::from_ref(&self.device), allowed)?;
        let name = &self.name;
        if Path::new("/dev/mapper").join(name).exists() {
            return Err(LabError::Refused(format!(
                "the mapping /dev/mapper/{name} already exists"
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
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(cipher: Option<&str>, key_bits: Option<u32>) -> String {
        let crypt = Crypt {
            name: "dfsbench".to_owned(),
            device: Device::Node("/dev/vdb".into()),
            cipher: cipher.map(str::to_owned),
            key_bits,
        };
        crypt.steps(&crypt.assume())[1].to_string()
    }

    #[test]
    fn applies_requested_cipher_and_key() {
        let rest = "--key-file /dev/urandom --batch-mode -- /dev/vdb dfsbench";
        let usual = "cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512";
        assert_eq!(open(None, None), format!("{usual} {rest}"));
        let other = "cryptsetup open --type plain --cipher aes-cbc-essiv:sha256 --key-size 256";
        assert_eq!(open(Some("aes-cbc-essiv:sha256"), Some(256)), format!("{other} {rest}"));
    }
}
