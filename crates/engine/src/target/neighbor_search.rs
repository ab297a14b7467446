//! Looks for other campaigns in a target, and makes this one visible to them: see [`Neighbors`].
//!
//! This happens before and after passes. If anything fails, a campaign stays hidden, which does no
//! harm.
//!
//! **Source:** flock(2); statx(2), `AT_STATX_FORCE_SYNC`, without which a kernel's NFS client
//! answers from its cache.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use model::work::mark_of;
use nfs_client::proto::client::{Attributes, File};
use nfs_client::{CallFailure, Mount};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, StatxFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::neighbors::{Neighbors, Signs};
use crate::limits::LISTED_SPARE;

/// Adds the working directories in a local directory.
///
/// # Errors
/// If it cannot be listed or has too many names: with half a list, the other half would seem to be
/// missing.
pub(super) fn look_into(
    neighbors: &mut Neighbors,
    target: &Path,
    own_name: &str,
) -> std::io::Result<()> {
    // Makes the kernel's NFS client notice names created or removed on other hosts.
    let _ = changed(target);
    for (number, entry) in fs::read_dir(target)?.enumerate() {
        if number as u64 == LISTED_SPARE {
            return Err(Errno::TOOBIG.into());
        }
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !is_foreign(name, own_name) {
            continue;
        }
        let path = entry.path();
        let changed = [changed(&path.join(mark_of(name))), changed(&path)];
        let signs = Signs { changed, is_held: is_held(&path) };
        neighbors.add(path.display().to_string(), signs);
    }
    Ok(())
}

/// Adds the working directories in an export.
pub(super) fn look_over_nfs(
    neighbors: &mut Neighbors,
    mount: &mut Mount,
    shown: &str,
    own_name: &str,
) -> Result<(), CallFailure> {
    let root = mount.root();
    for entry in mount.readdir_up_to(root, LISTED_SPARE)? {
        let Ok(name) = String::from_utf8(entry.name) else { continue };
        if !is_foreign(&name, own_name) {
            continue;
        }
        // If it has just been removed, the next look will show that.
        let Ok(directory) = mount.lookup(root, &name) else { continue };
        let mark = mount.lookup(directory, &mark_of(&name)).ok();
        let mut time = |file: Option<File>| {
            let Attributes { ctime, .. } = mount.getattr(file?).ok()?;
            Some((i64::from(ctime.seconds), ctime.nanos))
        };
        let changed = [time(mark), time(Some(directory))];
        neighbors.add(format!("{shown}/{name}"), Signs { changed, is_held: false });
    }
    Ok(())
}

/// Returns the campaign that a working directory belongs to, based on its name. Returns `None` for
/// any other name.
fn campaign_of(work_name: &str) -> Option<&str> {
    let (campaign, _number) = work_name.strip_prefix(".dfsbench-")?.split_once('-')?;
    Some(campaign)
}

/// Returns true if a name is that of another campaign's working directory.
fn is_foreign(name: &str, own_name: &str) -> bool {
    campaign_of(name).is_some_and(|campaign| Some(campaign) != campaign_of(own_name))
}

/// Returns when something was last changed, or `None` if it doesn't exist.
fn changed(path: &Path) -> Option<(i64, u32)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::CTIME).ok()?;
    Some((found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec))
}

/// Updates the time of a mark, so that other campaigns see that this one is active.
pub(super) fn touch(mark: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    // If the file system doesn't allow it, other hosts won't see the campaign, which does no harm.
    let _ = rustix::fs::utimensat(CWD, mark, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// Locks a working directory as long as it is open, so that other campaigns on this host see that
/// it is in use. All agents of a campaign share the lock.
pub(super) fn hold(directory: &OwnedFd) {
    // Without locks, there is still the time of the mark.
    let _ = rustix::fs::flock(directory, FlockOperation::NonBlockingLockShared);
}

/// Returns true if a process has a working directory locked.
fn is_held(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    let locked = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive);
    locked == Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target with another campaign's working directory; our own is `.dfsbench-own-1`.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(name: &str) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            folder.make(name);
            folder
        }

        fn make(&self, name: &str) {
            fs::create_dir_all(self.0.path().join(name).join(mark_of(name))).unwrap();
        }

        fn look(&self) -> Neighbors {
            let mut neighbors = Neighbors::default();
            look_into(&mut neighbors, self.0.path(), ".dfsbench-own-1").unwrap();
            neighbors
        }

        /// Touches a mark until its time changes, since file systems have limited resolution.
        fn touch(&self, name: &str) {
            let mark = self.0.path().join(name).join(mark_of(name));
            let before = changed(&mark);
            while changed(&mark) == before {
                touch(&mark);
            }
        }
    }

    #[test]
    fn leftovers_are_no_campaign() {
        let folder = Folder::with(".dfsbench-ab-1");
        folder.make(".dfsbench-ab-2.top");
        fs::create_dir(folder.0.path().join("data")).unwrap();
        let before = folder.look();
        assert_ne!(before, Neighbors::default());
        assert_eq!(folder.look().active_since(&before), Vec::<String>::new());
    }

    #[test]
    fn touched_mark_shows_campaign() {
        let folder = Folder::with(".dfsbench-ab-1");
        let before = folder.look();
        folder.touch(".dfsbench-ab-1");
        let active = folder.look().active_since(&before);
        assert_eq!(active.len(), 1, "{active:?}");
        assert!(
            active[0].ends_with(".dfsbench-ab-1: it was modified during the trial"),
            "{active:?}"
        );
    }

    #[test]
    fn made_and_removed_directories_show_campaigns() {
        let folder = Folder::with(".dfsbench-ab-1");
        let before = folder.look();
        folder.make(".dfsbench-cd-7");
        fs::remove_dir_all(folder.0.path().join(".dfsbench-ab-1")).unwrap();
        let active = folder.look().active_since(&before).join(", ");
        assert!(active.contains(".dfsbench-cd-7: it was created during the trial"), "{active}");
        assert!(active.contains(".dfsbench-ab-1: it was removed during the trial"), "{active}");
    }

    #[test]
    fn own_campaign_is_no_neighbor() {
        let folder = Folder::with(".dfsbench-own-1");
        folder.make(".dfsbench-own-check-2");
        assert_eq!(folder.look(), Neighbors::default());
    }

    #[test]
    fn lock_shows_campaign_until_it_ends() {
        let folder = Folder::with(".dfsbench-ab-1");
        let before = folder.look();
        let path = folder.0.path().join(".dfsbench-ab-1");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let [one, other] =
            [(), ()].map(|()| rustix::fs::open(&path, flags, Mode::empty()).unwrap());
        hold(&one);
        hold(&other);
        let active = folder.look().active_since(&before);
        assert!(active[0].ends_with("(flock)"), "{active:?}");
        drop(one);
        assert_eq!(folder.look().active_since(&before).len(), 1);
        drop(other);
        assert_eq!(folder.look().active_since(&before), Vec::<String>::new());
    }
}
