//! Creates a file system on a device. **Source:** mkfs.ext4(8), mkfs.xfs(8), mkfs.btrfs(8).

use std::fs;
use std::path::PathBuf;

use model::action::Format;
use model::options::{MkfsOption, parse_mkfs_options};
use model::{EffectiveSettings, FileSystem};

use super::accept::{accept, check_device};
use super::storage::Devices;
use super::{LabAction, Layer};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::Runner;
use crate::error::LabError;
use crate::host::devices;
use crate::undo::Undo;

/// Facts needed to create a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormatFacts {
    /// The device to format.
    pub devices: Devices,
    /// UUID of the new file system, by which we recognize it when undoing.
    pub uuid: String,
}

impl LabAction for Format {
    type Facts = FormatFacts;

    fn accept(&self) -> Result<(), LabError> {
        check_device(&self.device)?;
        accept("format_options", parse_mkfs_options(self.file_system, &self.options).map(drop))
    }

    fn look(&self) -> Result<FormatFacts, LabError> {
        Ok(FormatFacts { devices: Devices::find([&self.device])?, uuid: new_uuid() })
    }

    fn assume(&self) -> FormatFacts {
        FormatFacts { devices: Devices::assume([&self.device]), uuid: "UUID".to_owned() }
    }

    fn steps(&self, facts: &FormatFacts) -> Vec<Step> {
        let program = match self.file_system {
            FileSystem::Ext4 => "mkfs.ext4",
            FileSystem::Ext3 => "mkfs.ext3",
            FileSystem::Ext2 => "mkfs.ext2",
            FileSystem::Xfs => "mkfs.xfs",
            FileSystem::Btrfs => "mkfs.btrfs",
            FileSystem::Tmpfs | FileSystem::Existing => return Vec::new(),
        };
        // Parse the options again, so that no unchecked text can become an argument.
        let options = match parse_mkfs_options(self.file_system, &self.options) {
            Ok(options) => merge_extended(self.file_system, options),
            Err(error) => return vec![Step::Refuse(format!("format_options: {error}"))],
        };
        let mut argv = vec![program.to_owned(), "-q".to_owned()];
        match self.file_system {
            FileSystem::Xfs => argv.extend(["-m".to_owned(), format!("uuid={}", facts.uuid)]),
            _ => argv.extend(["-U".to_owned(), facts.uuid.clone()]),
        }
        for option in options {
            argv.push(option.flag);
            argv.extend(option.value);
        }
        argv.extend(["--".to_owned(), facts.devices.first_node()]);
        vec![Step::overwrite(argv, facts.devices.overwritten.clone())]
    }

    /// Wipes the file system's signatures.
    fn undo(&self, facts: &FormatFacts, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        facts.devices.may_destroy(std::slice::from_ref(&self.device), allowed)?;
        Ok(facts
            .devices
            .nodes
            .iter()
            .map(|device| Undo::Wipe { device: device.clone(), uuid: facts.uuid.clone() })
            .collect())
    }

    fn layer(&self) -> Layer {
        Layer::FileSystem
    }

    fn check(&self, facts: &FormatFacts) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        for node in &facts.devices.nodes {
            let found = devices::probe(&Runner::default(), node, "TYPE")?;
            findings.compare(
                "file system created",
                self.file_system.name(),
                &found,
                "blkid --probe",
            );
            let (size, source) = devices::size_bytes(node);
            findings.fact("bytes of the device", size.to_string(), source);
        }
        Ok(findings.finish())
    }
}

/// Returns a new random UUID, or an empty string if the kernel does not provide one.
fn new_uuid() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    text.trim().to_owned()
}

/// Merges all `-E` options for mkfs.ext4 into one, because mkfs.ext4 only uses the last `-E`.
/// Starts with our own, which disable lazy initialization; it would continue in the background
/// during the measurement. If a suboption is repeated, the last one wins, so the plan can override
/// ours.
fn merge_extended(file_system: FileSystem, options: Vec<MkfsOption>) -> Vec<MkfsOption> {
    if matches!(file_system, FileSystem::Xfs | FileSystem::Btrfs) {
        return options;
    }
    let mut extended = "lazy_itable_init=0,lazy_journal_init=0".to_owned();
    let mut others = Vec::new();
    for option in options {
        match option.value {
            Some(value) if option.flag == "-E" => {
                extended.push(',');
                extended.push_str(&value);
            }
            value => others.push(MkfsOption { flag: option.flag, value }),
        }
    }
    let mut merged = vec![MkfsOption { flag: "-E".to_owned(), value: Some(extended) }];
    merged.append(&mut others);
    merged
}

#[cfg(test)]
mod tests {
    use model::Device;

    use super::*;

    fn step(file_system: FileSystem, option: &str) -> Step {
        let device = Device::Node("/dev/vdb".into());
        let facts = FormatFacts { devices: Devices::assume([&device]), uuid: "u".into() };
        let format = Format { device, file_system, options: vec![option.to_owned()] };
        format.steps(&facts).remove(0)
    }

    #[test]
    fn passes_only_parsed_mkfs_options() {
        let shown = step(FileSystem::Btrfs, "-d single --nodesize=16k").to_string();
        assert_eq!(shown, "mkfs.btrfs -q -U u -d single --nodesize 16k -- /dev/vdb");
        // mkfs.ext4 would use only the last of two `-E`.
        let shown = step(FileSystem::Ext4, "-E stride=16 -b 4096").to_string();
        let expected = "mkfs.ext4 -q -U u -E lazy_itable_init=0,lazy_journal_init=0,stride=16 -b \
                        4096 -- /dev/vdb";
        assert_eq!(shown, expected);
        assert!(step(FileSystem::Ext2, "").to_string().starts_with("mkfs.ext2 -q -U u -E lazy_"));
        assert!(step(FileSystem::Ext3, "-b 1024").to_string().starts_with("mkfs.ext3 -q -U u -E"));
        assert!(step(FileSystem::Xfs, "-d su=64k,sw=4").to_string().ends_with(" -- /dev/vdb"));
        // A text that was never checked doesn't become an argument either.
        let refused = step(FileSystem::Btrfs, "-f /dev/loop4");
        assert!(matches!(refused, Step::Refuse(_)), "{refused}");
    }
}
