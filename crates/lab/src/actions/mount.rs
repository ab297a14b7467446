//! Mounts one of the host's file systems, or tmpfs.
//!
//! The requested options are compared with those in /proc/self/mountinfo. The mount ID is recorded
//! as a fact, because it changes whenever the file system is mounted again. **Source:** mount(8).

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::Mount;
use model::options::check_mount_options;

use super::accept::{accept, check_device, check_point};
use super::storage::Devices;
use super::{LabAction, Layer, folder_undo};
use crate::actions::findings::Findings;
use crate::actions::options::{self, RequestedOption};
use crate::actions::step::Step;
use crate::commands::LONG;
use crate::error::LabError;
use crate::facts::disks;
use crate::host::safety;
use crate::mounts;
use crate::undo::Undo;

const SOURCE: &str = "/proc/self/mountinfo";

impl LabAction for Mount {
    type Facts = Devices;

    fn accept(&self) -> Result<(), LabError> {
        if let Some(device) = &self.device {
            check_device(device)?;
        }
        check_point(&self.point)?;
        accept("fs_mount_options", check_mount_options(self.file_system, &self.options))
    }

    fn look(&self) -> Result<Devices, LabError> {
        Devices::find(&self.device)
    }

    fn assume(&self) -> Devices {
        Devices::assume(&self.device)
    }

    fn steps(&self, facts: &Devices) -> Vec<Step> {
        let mut argv = vec!["mount".to_owned(), "-t".to_owned()];
        argv.push(self.file_system.name().to_owned());
        if !self.options.is_empty() {
            argv.extend(["-o".to_owned(), self.options.join(",")]);
        }
        argv.push("--".to_owned());
        // tmpfs has no device; this name appears as its source in /proc/self/mountinfo.
        let memory = self.device.is_none();
        argv.push(if memory { "dfsbench".to_owned() } else { facts.first_node() });
        argv.push(self.point.display().to_string());
        vec![Step::Folder(self.point.clone()), Step::with_time_limit(LONG, argv)]
    }

    /// Unmounts the file system, and removes the mount point if we create it. Fails if something is
    /// already mounted there or the mount point is unsuitable.
    fn undo(&self, _facts: &Devices, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        safety::check_mount_point(&self.point)?;
        let file_system = self.file_system.name().to_owned();
        let mut undo = folder_undo(&self.point);
        undo.push(Undo::Unmount { point: self.point.clone(), file_system });
        Ok(undo)
    }

    fn check(&self, _facts: &Devices) -> Result<EffectiveSettings, LabError> {
        let Some(mount) = mounts::find_at(&self.point) else {
            let point = self.point.display();
            return Err(LabError::Unable(format!("nothing is mounted on {point}")));
        };
        let mut findings = Findings::new("server");
        findings.compare("file system", self.file_system.name(), &mount.file_system, SOURCE);
        findings.fact("device", &mount.source, SOURCE);
        findings.fact("mount point", &mount.mount_point, SOURCE);
        findings.fact("mount options", &mount.options, SOURCE);
        findings.fact("mount number", mount.id.to_string(), SOURCE);
        let requested = RequestedOption::local(&self.options);
        options::compare(&mut findings, &requested, &mount.options, SOURCE);
        findings.extend(disks::facts("server", &mount));
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        if self.device.is_some() { Layer::Storage } else { Layer::Memory }
    }
}
