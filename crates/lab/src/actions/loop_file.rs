//! A file and its loop device. **Source:** losetup(8), fallocate(1).

use std::path::{Path, PathBuf};

use model::action::LoopFile;
use model::options::check_path;
use model::{Device, EffectiveSettings};

use super::accept::accept;
use super::{LabAction, folder_undo};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::LONG;
use crate::error::LabError;
use crate::host::{devices, trust};
use crate::undo::Undo;

const SOURCE: &str = "/sys/block/*/loop/backing_file";

impl LabAction for LoopFile {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("file of a loop device", check_path(&self.file))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let size = self.bytes.to_string();
        let name = self.file.display().to_string();
        let mut steps = Vec::new();
        if !Path::new("/dev/loop-control").exists() {
            steps.push(Step::run(["modprobe", "loop"]));
        }
        steps.push(Step::Folder(self.file.parent().unwrap_or(Path::new("/")).to_owned()));
        // Allocate everything now, so that no holes are filled during a measurement.
        steps.push(Step::with_time_limit(LONG, ["fallocate", "--length", &size, "--", &name]));
        // With buffered I/O, this host's page cache would serve requests that bypass the file
        // system's cache.
        steps.push(Step::run(["losetup", "--find", "--direct-io=on", "--", &name]));
        steps
    }

    /// Detaches the loop device and removes the file. Fails if the file already exists or another
    /// user could replace it.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let folder = self.file.parent();
        trust::check_path(folder.unwrap_or(&self.file))?;
        if self.file.symlink_metadata().is_ok() {
            let file = self.file.display();
            return Err(LabError::Refused(format!(
                "refusing to overwrite {file}: it already exists"
            )));
        }
        let mut undo = folder.map(folder_undo).unwrap_or_default();
        undo.push(Undo::File { path: self.file.clone() });
        // Undone first: the device must be detached before the file is removed, or the kernel would
        // keep its blocks.
        undo.push(Undo::Loop { file: self.file.clone() });
        Ok(undo)
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let node = devices::node(&Device::Loop(self.file.clone()))?;
        let mut findings = Findings::new("server");
        findings.fact("loop device", node.display().to_string(), SOURCE);
        findings.fact("loop file", self.file.display().to_string(), SOURCE);
        let (size, source) = devices::size_bytes(&node);
        // A loop device consists of whole sectors; the rest of the file isn't used.
        let requested = (self.bytes / 512 * 512).to_string();
        findings.compare("bytes of the loop device", &requested, &size.to_string(), &source);
        let (direct_io, source) = devices::direct_io(&node);
        findings.fact("direct I/O of the loop device", direct_io, &source);
        Ok(findings.finish())
    }
}
