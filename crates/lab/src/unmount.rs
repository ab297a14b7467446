//! Unmounts what we mounted, and says who holds what can't be unmounted.
//!
//! A mount from a server that is gone is forced off in the end: it must not keep the host from
//! being restored.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::Runner;
use crate::error::LabError;
use crate::mounts;
use crate::processes;

/// The longest time for unmounting: data may have to be written first.
const LIMIT: Duration = Duration::from_secs(120);
/// The longest time for unmounting from a server that is gone, before it is forced.
const NFS_LIMIT: Duration = Duration::from_secs(20);
/// The longest time for one forced attempt: it waits for no server.
const FORCED_LIMIT: Duration = Duration::from_secs(3);
/// How unmounting is forced: what waits is failed several times, then the mount is detached.
const ATTEMPTS: [&str; 4] = ["--force", "--force", "--force", "--lazy"];
/// How often a busy file system is requested again.
const TRIES: u32 = 20;
/// The same where no process holds it: the kernel's server lets files go after a while, a busy
/// machine's after a longer one.
const TRIES_OF_KERNEL: u32 = 120;
/// Stands for any type of file system in the undo log: one of other hosts, whose servers may be
/// gone.
pub const ANY: &str = "any";
const PAUSE: Duration = Duration::from_millis(250);

/// Unmounts a mount point of ours; does nothing where nothing of that type is mounted.
///
/// # Errors
/// Where it is busy, with those who hold it.
pub fn at(runner: &Runner, point: &Path, file_system: &str) -> Result<(), LabError> {
    for tried in 0..TRIES_OF_KERNEL {
        if !is_mounted(point, file_system) {
            return Ok(());
        }
        // A process keeps what it has open as long as it likes: no use to wait for it for long.
        // One that waits for the file system itself goes on as soon as its server answers.
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
        holders.push("held by the kernel, such as by its NFS server or a loop device".to_owned());
    }
    Err(LabError::Busy { point: point.to_owned(), holders })
}

/// Says whether the mount may wait for a server that is gone.
fn is_remote(file_system: &str) -> bool {
    matches!(file_system, "nfs" | ANY)
}

/// Says whether a file system of this type is mounted there; `nfs` stands for `nfs4`, too.
fn is_mounted(point: &Path, file_system: &str) -> bool {
    // Following a link at a mount whose server is gone would wait for it.
    let mount = if is_remote(file_system) { mounts::named(point) } else { mounts::at(point) };
    match mount {
        Some(mount) => file_system == ANY || mount.file_system.starts_with(file_system),
        None => false,
    }
}

fn try_local(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    await_if_busy(runner.run(&["umount", "--", name.as_str()], LIMIT))
}

/// A server that is gone must not keep the host from being restored.
fn try_nfs(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    match runner.run(&["umount", "--no-canonicalize", "--", name.as_str()], NFS_LIMIT) {
        Err(LabError::TooSlow { .. }) => force(runner, point),
        tried => await_if_busy(tried),
    }
}

/// Judges an attempt by what umount(8) prints, which is not translated: see [`Runner`]. A busy
/// point is tried again after a pause; one that is not mounted any more is what was wanted.
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

/// Removes a mount whose server doesn't answer, however much waits for it.
///
/// `umount -f` has the kernel fail what waits for an answer now, and cuts a mount of FUSE from its
/// program; they may ask again, so that it takes several. What is still busy then is detached: no
/// path leads to it any more, and the kernel drops it with its last user. Nothing here looks at a
/// path on the mount, which would wait like all others.
///
/// **Source:** umount(2), `MNT_FORCE` and `MNT_DETACH`; fs/fuse/inode.c, `fuse_umount_begin`.
///
/// # Errors
/// Where it is still there, in a sentence that says what to do.
fn force(runner: &Runner, point: &Path) -> Result<(), LabError> {
    let name = point.display().to_string();
    let mut why = String::new();
    for how in ATTEMPTS {
        // Without `umount.nfs`, which would send the server a message first.
        let argv = ["umount", "--internal-only", "--no-canonicalize", how, "--", name.as_str()];
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
    for inner in mounts_on(point) {
        holders.push(format!("the mount on {}", inner.display()));
    }
    holders
}

/// Says whether nothing holds a mount point but processes that wait for the file system and that no
/// signal ends: those of ours that were killed while its servers were gone. Of one that closes its
/// files as it ends none can be seen any more, so that no holder may be seen at all.
fn only_waiting(point: &Path) -> bool {
    mounts_on(point).is_empty() && processes::all_below_wait(point)
}

/// Mount points below this one.
fn mounts_on(point: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in mounts::all() {
        let inner = mount.mount_point;
        if inner != point && inner.starts_with(point) {
            found.push(inner);
        }
    }
    found
}
