//! Mounts a file system of the host, or memory.
//!
//! Options are compared with what the kernel lists in /proc/self/mountinfo. The number of the mount
//! is a fact, too: one that was made anew has another. **Source:** mount(8).

use std::path::Path;

use model::{EffectiveSettings, FileSystem};

use super::{Known, folder_undo};
use crate::commands::LONG;
use crate::error::LabError;
use crate::findings::Findings;
use crate::mounts;
use crate::options::{self, Asked};
use crate::safety;
use crate::step::Step;
use crate::undo::Undo;

/// Makes the mount point and mounts.
pub fn steps(
    file_system: FileSystem,
    point: &Path,
    options: &[String],
    known: &Known,
) -> Vec<Step> {
    let device = known.nodes.first().map(|node| node.display().to_string());
    let mut argv = vec!["mount".to_owned(), "-t".to_owned(), file_system.name().to_owned()];
    if !options.is_empty() {
        argv.extend(["-o".to_owned(), options.join(",")]);
    }
    argv.push("--".to_owned());
    argv.push(device.unwrap_or_else(|| "dfsbench".to_owned()));
    argv.push(point.display().to_string());
    vec![Step::Folder(point.to_owned()), Step::within(LONG, argv)]
}

/// Unmounts, and removes the mount point where it is made.
///
/// # Errors
/// Where something is mounted there already, or the point isn't fit for it.
pub fn undo(file_system: FileSystem, point: &Path) -> Result<Vec<Undo>, LabError> {
    safety::may_mount_on(point)?;
    let unmount =
        Undo::Unmount { point: point.to_owned(), file_system: file_system.name().to_owned() };
    Ok(folder_undo(point).into_iter().chain([unmount]).collect())
}

/// Reads the mount back.
///
/// # Errors
/// Where nothing is mounted there.
pub fn check(
    file_system: FileSystem,
    point: &Path,
    options: &[String],
) -> Result<EffectiveSettings, LabError> {
    let source = "/proc/self/mountinfo";
    let nothing = || LabError::Unable(format!("nothing is mounted on {}", point.display()));
    let mount = mounts::at(point).ok_or_else(nothing)?;
    let mut findings = Findings::new("server");
    findings.compare("file system", file_system.name(), &mount.file_system, source);
    findings.fact("device", &mount.source, source);
    findings.fact("mount point", &mount.mount_point, source);
    findings.fact("mount options", &mount.options, source);
    findings.fact("mount number", mount.id.to_string(), source);
    options::compare(&mut findings, &Asked::local(options), &mount.options, source);
    Ok(findings.done())
}
