//! Unmounts what we mounted, and reports what prevents it.
//!
//! Mounts whose server is gone are eventually forced off, so that they don't prevent the host from
//! being restored.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::Runner;
use crate::error::LabError;
use crate::host::processes;
use crate::mounts;

/// Time limit for unmounting, which may have to write data back first.
const LIMIT: Duration = Duration::from_secs(120);
/// Time limit for unmounting from an unresponsive server before we use force.
const NFS_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for one forced attempt, which doesn't wait for any server.
const FORCED_LIMIT: Duration = Duration::from_secs(3);
/// Options for the forced attempts: fail pending requests several times, then detach the mount.
const ATTEMPTS: [&str; 4] = ["--force", "--force", "--force", "--lazy"];
/// Number of attempts to unmount a busy file system.
const TRIES: u32 = 20;
/// Number of attempts if no process uses it. The kernel's server releases files after a while,
/// which takes longer on a busy machine.
const TRIES_OF_KERNEL: u32 = 120;
/// Placeholder for any network file system in the undo log; its servers may be gone.
pub(crate) const ANY: &str = "any";
const PAUSE: Duration = Duration::from_millis(250);

/// Unmounts one of our mount points. Does nothing if no file system of this type is mounted there.
///
/// # Errors
/// If it is busy. The error lists who uses it.
pub(crate) fn unmount_point(
    runner: &Runner,
    point: &Path,
    file_system: &str,
) -> Result<(), LabError> {
    for tried in 0..TRIES_OF_KERNEL {
        if !is_mounted(point, file_system) {
            return Ok(());
        }
        // A process may keep files open as long as it likes, so there is no point in waiting long.
        // But one that is stuck waiting for this file system will continue as soon as the server
        // answers.
        if tried >= TRIES && !only_waiting(point) {
            break;
        }
        if is_remote(file_system) { try_nfs(runner, point)? } else { try_local(runner, point)? }
    }
    if !is_mounted(point, file_system) {
        return Ok(());
    }
    if is_remote(file_system) && only_waiting(point) {
        return force(runner, point);
    }
    let mut holders = holders(point);
    if holders.is_empty() {
        holders.push(
            "in use by the kernel, for example by its NFS server or a loop device".to_owned(),
        );
    }
    Err(LabError::Busy { point: point.to_owned(), holders })
}

/// Returns true if the mount may be waiting for a server that is gone.
fn is_remote(file_system: &str) -> bool {
    matches!(file_system, "nfs" | ANY)
}

/// Returns true if a file system of this type is mounted there. `nfs` includes `nfs4`.
fn is_mounted(point: &Path, file_system: &str) -> bool {
    // Resolving the path could block if the mount's server is gone.
    let mount =
        if is_remote(file_system) { mounts::find_named(point) } else { mounts::find_at(point) };
    mount.is_some_and(|mount| file_system == ANY || mount.file_system.starts_with(file_system))
}

fn try_local(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    await_if_busy(runner.run(&["umount", "--", name.as_str()], LIMIT))
}

/// Unmounts, and uses force if the server doesn't respond.
fn try_nfs(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    match runner.run(&["umount", "--no-canonicalize", "--", name.as_str()], NFS_LIMIT) {
        Err(LabError::TooSlow { .. }) => force(runner, point),
        tried => await_if_busy(tried),
    }
}

/// Interprets an attempt by umount(8)'s message, which isn't translated, see [`Runner`]. If the
/// mount is busy, pauses before the next attempt. If it is no longer mounted, that counts as
/// success.
fn await_if_busy(tried: Result<String, LabError>) -> Result<(), LabError> {
    match tried {
        Ok(_) => Ok(()),
        Err(LabError::Failed { message, .. }) if message.contains("busy") => {
            processes::pause(PAUSE);
            Ok(())
        }
        Err(LabError::Failed { message, .. }) if message.contains("not mounted") => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a mount whose server doesn't respond, no matter what is waiting for it.
///
/// `umount -f` makes the kernel fail all pending requests, or disconnects a FUSE mount from its
/// program. Processes may send new requests, so several attempts are made. If the mount is still
/// busy after that, it is detached: no path leads to it anymore, and the kernel drops it after its
/// last user. Nothing here accesses a path on the mount, since that would block, too.
///
/// **Source:** umount(2), `MNT_FORCE` and `MNT_DETACH`; fs/fuse/inode.c, `fuse_umount_begin`.
///
/// # Errors
/// If it is still there. The error is a sentence that says what to do.
fn force(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    let mut why = String::new();
    for how in ATTEMPTS {
        // Bypass `umount.nfs`, which would contact the server first.
        let argv = ["umount", "--internal-only", "--no-canonicalize", how, "--", name.as_str()];
        if let Err(error) = runner.run(&argv, FORCED_LIMIT) {
            why = error.to_string();
        }
        if mounts::find_named(point).is_none() {
            return Ok(());
        }
        processes::pause(PAUSE);
    }
    Err(LabError::Stuck { point: point.to_owned(), why })
}

/// Removes one of our mounts whose server doesn't respond: by force, and if that fails, by
/// detaching it.
///
/// # Errors
/// If it is still there. The error is a sentence that says what to do.
pub fn force_off(point: &Path) -> Result<(), LabError> {
    force(&Runner::default(), point)
}

/// Lists what uses a mount point: processes, and mounts below it.
fn holders(point: &Path) -> Vec<String> {
    let mut holders = processes::below(point);
    holders.extend(
        mounts_on(point).into_iter().map(|inner| format!("the mount on {}", inner.display())),
    );
    holders
}

/// Returns true if the mount is used only by processes stuck in uninterruptible I/O, such as our
/// own that were killed while the servers were gone. A process that is closing its files while
/// exiting is no longer visible, so there may be no user at all.
fn only_waiting(point: &Path) -> bool {
    mounts_on(point).is_empty() && processes::all_users_wait(point)
}

/// Returns the mount points below this one.
fn mounts_on(point: &Path) -> Vec<PathBuf> {
    mounts::list_mounts()
        .into_iter()
        .filter_map(|mount| {
            let inner = mount.mount_point;
            (inner != point && inner.starts_with(point)).then_some(inner)
        })
        .collect()
}
