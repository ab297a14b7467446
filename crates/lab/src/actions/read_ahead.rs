//! The read-ahead of a mounted file system. **Source:** the kernel's
//! Documentation/ABI/testing/sysfs-class-bdi, `read_ahead_kb`.

use std::fs;
use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::ReadAhead;

use super::accept::check_point;
use super::{LabAction, Layer};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::mounts;
use crate::undo::Undo;

impl LabAction for ReadAhead {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.point)
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        // The device number is only known once it is mounted, so a dry run shows a placeholder.
        let path = path_at(&self.point)
            .unwrap_or_else(|| PathBuf::from("/sys/class/bdi/MAJOR:MINOR/read_ahead_kb"));
        vec![Step::write(path, self.kib.to_string())]
    }

    /// Restores the old read-ahead. Fails if nothing is mounted or the file system has no
    /// read-ahead.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let path = path_of_mount(&self.point)?;
        let text = read(&path)?;
        Ok(vec![Undo::Write { path, text: text.trim().to_owned() }])
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let path = path_of_mount(&self.point)?;
        let requested = self.kib.to_string();
        let found = read(&path)?;
        let mut findings = Findings::new("target");
        findings.compare("read-ahead in KiB", &requested, &found, &path.display().to_string());
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

fn path_at(point: &Path) -> Option<PathBuf> {
    let device = mounts::find_at(point)?.device;
    Some(PathBuf::from(format!("/sys/class/bdi/{device}/read_ahead_kb")))
}

fn path_of_mount(point: &Path) -> Result<PathBuf, LabError> {
    path_at(point)
        .ok_or_else(|| LabError::Unable(format!("nothing is mounted on {}", point.display())))
}

fn read(path: &Path) -> Result<String, LabError> {
    fs::read_to_string(path).map_err(|error| LabError::file("read", path, error))
}
