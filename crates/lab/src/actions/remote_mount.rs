//! Mounts file systems other than NFS, either with mount(8) or with a program of their own.
//!
//! Any type known to the kernel or to a helper of mount(8) works. Everything mounted on our mount
//! points is unmounted at the end, by force if its servers are gone.
//!
//! **Source:** mount(8), mount.fuse3(8), proc_filesystems(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::{FuseMount, RemoteMount};
use model::options::{check_remote_options, check_remote_source, check_remote_type};

use super::accept::{accept, check_point};
use super::service::{check_leaves, check_programs, check_root, undo_of_programs};
use super::{LabAction, Layer, folder_undo};
use crate::actions::findings::Findings;
use crate::actions::options::{self, RequestedOption};
use crate::actions::step::Step;
use crate::commands::search::ProgramSearch;
use crate::commands::{self, Runner, SOON};
use crate::error::LabError;
use crate::facts::disks;
use crate::host::{processes, safety};
use crate::mounts;
use crate::mounts::unmount::ANY;
use crate::undo::Undo;

const SOURCE: &str = "/proc/self/mountinfo";
/// Time limit for mounting.
const LIMIT: Duration = Duration::from_secs(150);

impl LabAction for RemoteMount {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.point)?;
        accept("mount type", check_remote_type(&self.kind))?;
        accept("mount source", check_remote_source(&self.source))?;
        accept("mount options", check_remote_options(&self.options))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let mut argv: Vec<String> = ["mount", "-t", &self.kind].map(str::to_owned).to_vec();
        if !self.options.is_empty() {
            argv.extend(["-o".to_owned(), self.options.join(",")]);
        }
        argv.extend(["--".to_owned(), self.source.clone(), self.point.display().to_string()]);
        vec![Step::Folder(self.point.clone()), Step::with_time_limit(LIMIT, argv)]
    }

    /// Unmounts the file system, and removes the mount point if we create it. Fails if something is
    /// already mounted there, or if neither the kernel nor a helper knows the type.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_known(&self.kind)?;
        safety::check_mount_point(&self.point)?;
        let mut undo = folder_undo(&self.point);
        undo.push(Undo::Unmount { point: self.point.clone(), file_system: ANY.to_owned() });
        Ok(undo)
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let (mut findings, mount) = read_back(&self.point)?;
        findings.fact("requested mount type", &self.kind, "the plan");
        let requested = RequestedOption::local(&self.options);
        options::compare(&mut findings, &requested, &mount.options, SOURCE);
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

impl LabAction for FuseMount {
    programs_of_recipe!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.point)?;
        check_point(&self.dir)?;
        check_leaves(&self.leaves)
    }

    fn steps(&self, search: &ProgramSearch) -> Vec<Step> {
        vec![
            Step::Folder(self.dir.clone()),
            Step::Folder(self.point.clone()),
            Step::Launch {
                argv: processes::marked_command(&self.dir, &search.command(&self.run)),
                stderr: self.dir.join("stderr"),
            },
            Step::AwaitMount {
                point: self.point.clone(),
                limit: Duration::from_secs(self.within_s),
                mark: self.dir.clone(),
            },
        ]
    }

    /// Unmounts the file system, stops the program and removes its files. Fails if the program is
    /// missing or something is already mounted there.
    fn undo(&self, search: &ProgramSearch, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        check_root(&self.system)?;
        check_programs(search, &self.run[..1], &self.packages)?;
        if !Path::new("/dev/fuse").exists() {
            return Err(LabError::Unable(
                "/dev/fuse does not exist (hint: run `modprobe fuse`)".to_owned(),
            ));
        }
        safety::check_mount_point(&self.point)?;
        let mut undo = folder_undo(&self.point);
        undo.extend(undo_of_programs(&self.dir, &self.leaves)?);
        // Executed first: once unmounted, the program usually exits on its own.
        undo.push(Undo::EndMarked { mark: self.dir.clone(), within_s: 5 });
        undo.push(Undo::Unmount { point: self.point.clone(), file_system: ANY.to_owned() });
        Ok(undo)
    }

    fn check(&self, _search: &ProgramSearch) -> Result<EffectiveSettings, LabError> {
        let (mut findings, _) = read_back(&self.point)?;
        findings.fact("mounted by", commands::show(&self.run), "the recipe");
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

/// Reads back what is mounted on one of our mount points.
fn read_back(point: &Path) -> Result<(Findings, mounts::Mount), LabError> {
    let Some(mount) = mounts::find_at(point) else {
        let point = point.display();
        return Err(LabError::Unable(format!("nothing is mounted on {point}")));
    };
    let mut findings = Findings::new("target");
    findings.extend(disks::facts("target", &mount));
    // The number changes whenever it is mounted again.
    findings.fact("mount number", mount.id.to_string(), SOURCE);
    Ok((findings, mount))
}

/// Rejects a type that this host cannot mount.
fn check_known(kind: &str) -> Result<(), LabError> {
    if commands::find(&format!("mount.{kind}")).is_some() {
        return Ok(());
    }
    let listed = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if listed.lines().any(|line| line.split_whitespace().last() == Some(kind)) {
        return Ok(());
    }
    // This only checks that the module exists. Mounting will load it.
    let module = format!("fs-{kind}");
    let argv = ["modprobe", "--dry-run", "--quiet", &module];
    if commands::find("modprobe").is_some()
        && Runner::default().output(&argv, SOON).is_ok_and(|output| output.status.success())
    {
        return Ok(());
    }
    Err(LabError::Unable(format!(
        "neither the kernel nor a program mount.{kind} supports file system `{kind}` (hint: \
         /proc/filesystems lists those of the kernel)"
    )))
}
