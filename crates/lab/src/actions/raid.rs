//! A RAID array. **Source:** mdadm(8), md(4).

use std::fs;
use std::path::PathBuf;

use model::action::Raid;
use model::options::check_object_name;
use model::{Device, EffectiveSettings, Raid as RaidLevel};

use super::LabAction;
use super::accept::{accept, check_device};
use super::storage::Devices;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::devices;
use crate::undo::Undo;

impl LabAction for Raid {
    type Facts = Devices;

    fn accept(&self) -> Result<(), LabError> {
        accept("array", check_object_name(&self.name))?;
        for device in &self.devices {
            check_device(device)?;
        }
        Ok(())
    }

    fn look(&self) -> Result<Devices, LabError> {
        Devices::find(&self.devices)
    }

    fn assume(&self) -> Devices {
        Devices::assume(&self.devices)
    }

    /// Creates the array without an initial sync, which would disturb the measurement.
    fn steps(&self, facts: &Devices) -> Vec<Step> {
        let name = &self.name;
        let mut argv: Vec<String> =
            ["mdadm", "--create", &format!("/dev/md/{name}"), "--run"].map(str::to_owned).to_vec();
        argv.extend(["--quiet".to_owned(), format!("--name={name}"), "--metadata=1.2".to_owned()]);
        argv.push(format!("--level={}", self.level.name()));
        if let Some(bytes) = self.chunk_bytes {
            // A number without a unit is in KiB.
            argv.push(format!("--chunk={}", bytes / 1024));
        }
        // Without redundancy there is nothing to sync.
        if self.level != RaidLevel::Raid0 {
            argv.push("--assume-clean".to_owned());
        }
        argv.push(format!("--raid-devices={}", facts.nodes.len()));
        // mdadm processes its arguments in order, including `--`, so there is no separator here. A
        // node is always an absolute path and cannot be taken for an option.
        for node in &facts.nodes {
            argv.push(node.display().to_string());
        }
        let module = match self.level {
            RaidLevel::Raid5 | RaidLevel::Raid6 => "raid456".to_owned(),
            other => format!("raid{}", other.name()),
        };
        vec![
            Step::run(["modprobe", module.as_str()]),
            Step::overwrite(argv, facts.overwritten.clone()),
        ]
    }

    /// Stops the array and wipes its signatures from the devices. Fails if an array with this name
    /// already exists.
    fn undo(&self, facts: &Devices, allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        facts.may_destroy(&self.devices, allowed)?;
        let name = &self.name;
        if devices::array_node(name).is_some() {
            return Err(LabError::Refused(format!("the array /dev/md/{name} already exists")));
        }
        Ok(vec![Undo::Array { name: name.clone(), devices: facts.nodes.clone() }])
    }

    fn check(&self, _facts: &Devices) -> Result<EffectiveSettings, LabError> {
        let node = devices::node(&Device::Array(self.name.clone()))?;
        let folder = devices::sysfs(&node).join("md");
        let disks = self.devices.len().to_string();
        let level = format!("raid{}", self.level.name());
        let mut findings = Findings::new("server");
        for (name, requested, file) in [
            ("RAID level", level.as_str(), "level"),
            ("disks of the array", disks.as_str(), "raid_disks"),
            ("what the array does", "idle", "sync_action"),
        ] {
            let path = folder.join(file);
            let found = fs::read_to_string(&path).unwrap_or_default();
            // Levels without redundancy have no sync state, and no such file.
            if file != "sync_action" || !found.is_empty() {
                findings.compare(name, requested, &found, &path.display().to_string());
            }
        }
        if let Some(bytes) = self.chunk_bytes {
            let path = folder.join("chunk_size");
            let found = fs::read_to_string(&path).unwrap_or_default();
            let source = path.display().to_string();
            findings.compare("array chunk in bytes", &bytes.to_string(), &found, &source);
        }
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(chunk_bytes: Option<u32>) -> String {
        let devices = ["/dev/vdb", "/dev/vdc", "/dev/vdd"].map(|node| Device::Node(node.into()));
        let raid = Raid {
            name: "dfsbench".to_owned(),
            level: RaidLevel::Raid5,
            chunk_bytes,
            devices: devices.to_vec(),
        };
        raid.steps(&raid.assume())[1].to_string()
    }

    #[test]
    fn applies_requested_raid_chunk() {
        assert!(create(Some(64 << 10)).contains(" --level=5 --chunk=64 --assume-clean "));
        assert!(!create(None).contains("--chunk"));
    }
}
