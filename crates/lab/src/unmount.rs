//! Unmounts what we mounted, and says who holds what can't be unmounted.
//!
//! A mount from a server that is gone is forced off in the end: it must not keep the host from
//! being put back.

use std::path::Path;
use std::time::Duration;

use procfs::process::Process;

use crate::commands::Runner;
use crate::error::LabError;
use crate::mounts::{self, Mount};
use crate::processes;

/// The longest time for unmounting: data may have to be written first.
const LIMIT: Duration = Duration::from_secs(120);
/// The longest time for unmounting from a server that is gone, before it is forced.
const NFS_LIMIT: Duration = Duration::from_secs(20);
/// The longest time for one forced attempt: it waits for no server.
const FORCED_LIMIT: Duration = Duration::from_secs(3);
/// How often unmounting is forced before the mount is detached.
const FORCED_TRIES: usize = 3;
/// How often a busy file system is requested again.
const TRIES: u32 = 20;
/// The same where no process holds it: the kernel's server lets files go after a while, a busy
/// machine's after a longer one.
const TRIES_OF_KERNEL: u32 = 120;
const PAUSE: Duration = Duration::from_millis(250);

/// Unmounts a mount point of ours; does nothing where nothing of that type is mounted.
///
/// # Errors
/// Where it is busy, with those who hold it.
pub fn at(runner: &Runner, point: &Path, file_system: &str) -> Result<(), LabError> {
    let is_ours = |mount: &Mount| mount.file_system.starts_with(file_system);
    let is_nfs = file_system == "nfs";
    // Following a link at a mount whose server is gone would wait for it.
    let mounted = || if is_nfs { mounts::named(point) } else { mounts::at(point) };
    let is_there = || mounted().is_some_and(|mount| is_ours(&mount));
    for tried in 0..TRIES_OF_KERNEL {
        if !is_there() {
            return Ok(());
        }
        if tried >= TRIES && !holders(point).is_empty() {
            break;
        }
        if is_nfs { nfs(runner, point)? } else { local(runner, point)? }
    }
    if !is_there() {
        return Ok(());
    }
    let mut holders = holders(point);
    if holders.is_empty() {
        holders.push("held by the kernel, such as by its NFS server or a loop device".to_owned());
    }
    Err(LabError::Busy { point: point.to_owned(), holders })
}

fn local(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let point = point.display().to_string();
    match runner.run(&["umount", "--", point.as_str()], LIMIT) {
        Ok(_) => Ok(()),
        Err(LabError::Failed { said, .. }) if said.contains("busy") => {
            processes::pause(PAUSE);
            Ok(())
        }
        Err(LabError::Failed { said, .. }) if said.contains("not mounted") => Ok(()),
        Err(error) => Err(error),
    }
}

/// A server that is gone must not keep the host from being restored.
fn nfs(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    match runner.run(&["umount", "--no-canonicalize", "--", name.as_str()], NFS_LIMIT) {
        Err(LabError::TooSlow { .. }) => force(runner, point),
        Err(LabError::Failed { said, .. }) if said.contains("busy") => {
            processes::pause(PAUSE);
            Ok(())
        }
        Err(LabError::Failed { said, .. }) if said.contains("not mounted") => Ok(()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a mount whose server doesn't answer, however much waits for it.
///
/// `umount -f` has the kernel fail what waits for an answer now; they may ask again, so that it
/// takes several. What is still busy then is detached: no path leads to it any more, and
/// the kernel drops it with its last user. Nothing here looks at a path on the mount, which would
/// wait like all others. **Source:** umount(2), `MNT_FORCE` and `MNT_DETACH`.
///
/// # Errors
/// Where it is still there, in a sentence that says what to do.
fn force(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    let mut why = String::new();
    for how in [&["--force"][..]; FORCED_TRIES].into_iter().chain([&["--lazy"][..]]) {
        // Its helper would tell the server first.
        let mut argv = vec!["umount", "--internal-only", "--no-canonicalize"];
        argv.extend(how);
        argv.extend(["--", name.as_str()]);
        if let Err(error) = runner.run(&argv, FORCED_LIMIT) {
            why = error.to_string();
        }
        if mounts::named(point).is_none() {
            return Ok(());
        }
        processes::pause(PAUSE);
    }
    Err(LabError::Stuck { point: point.to_owned(), why })
}

/// Removes a mount of ours whose server doesn't answer: forced, then detached.
///
/// # Errors
/// Where it is still there, in a sentence that says what to do.
pub fn force_off(point: &Path) -> Result<(), LabError> {
    force(&Runner::default(), point)
}

/// Who holds a mount point: processes, and mounts on it.
fn holders(point: &Path) -> Vec<String> {
    let mut holders = processes::below(point);
    let mounts = Process::myself().and_then(|process| process.mountinfo());
    let inner = mounts.into_iter().flat_map(|mounts| mounts.0).map(|mount| mount.mount_point);
    let inner = inner.filter(|inner| inner != point && inner.starts_with(point));
    holders.extend(inner.map(|inner| format!("the mount on {}", inner.display())));
    holders
}
