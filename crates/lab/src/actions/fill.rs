//! Fills up one of our file systems, as a fault during a soak.

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Fill;

use super::LabAction;
use super::accept::check_point;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::filler;
use crate::undo::Undo;

/// Name of the file that takes up the space.
const FILLER: &str = ".dfsbench-filler";

impl LabAction for Fill {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.point)
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        vec![Step::Fill(filler_of(&self.point))]
    }

    /// Removes the filler file. Fails if a file with this name already exists.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let path = filler_of(&self.point);
        if path.symlink_metadata().is_ok() {
            let path = path.display();
            return Err(LabError::Refused(format!(
                "{path} already exists (hint: run `dfsbench clean`)"
            )));
        }
        Ok(vec![Undo::File { path }])
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        let left = filler::free_bytes(&self.point).to_string();
        findings.fact("bytes free on the filled file system", left, "statvfs");
        Ok(findings.finish())
    }
}

fn filler_of(point: &Path) -> PathBuf {
    point.join(FILLER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_disk_and_removes_filler() {
        let folder = tempfile::tempdir().unwrap();
        let fill = Fill { point: folder.path().to_owned() };
        let shown = fill.steps(&())[0].to_string();
        assert!(shown.starts_with("fallocate --length (all but 1 MiB) -- /"), "{shown}");
        let file = folder.path().join(FILLER);
        assert_eq!(fill.undo(&(), &[]).unwrap(), [Undo::File { path: file.clone() }]);
        std::fs::write(&file, "x").unwrap();
        assert!(fill.undo(&(), &[]).unwrap_err().to_string().contains("already exists"));
        assert!(filler::free_bytes(folder.path()) > 0);
    }
}
