//! Who makes a campaign: one process at a time, while others may make other ones in the same file.
//!
//! [`Hold`] is the principal type: a locked file beside the results file, named for the campaign
//! and removed with the hold. The system drops the lock with the process, kill -9 included; what
//! is left of the file then means nothing. SQLite's own locks are held for one transaction only
//! and know no campaigns, so they can't do this.
//!
//! **Source:** flock(2), also for what it means on NFS.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::StoreError;

/// The right to add to a campaign, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    pub campaign_id: i64,
    path: PathBuf,
    /// Locked; the lock ends when it is closed.
    _file: File,
}

impl Hold {
    /// Takes a campaign of a results file that exists.
    ///
    /// # Errors
    /// When another process has it, or no file can be made beside the results.
    pub fn take(results: &Path, campaign_id: i64) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Io { path: results.to_owned(), source };
        // One file may have several names; SQLite follows links, too.
        let mut path = fs::canonicalize(results).map_err(failed)?.into_os_string();
        remove_stale_locks(Path::new(&path));
        path.push(format!("-campaign-{campaign_id}.lock"));
        let path = PathBuf::from(path);
        loop {
            let mut file = match open(&path) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(StoreError::ReadOnly(results.to_owned()));
                }
                opened => opened.map_err(failed)?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(&mut file);
                    return Err(StoreError::Held { path: results.to_owned(), campaign_id, holder });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Whoever had it may have removed it between the opening and the locking.
            if is_still_at(&file, &path) {
                let pid = std::process::id().to_string();
                file.set_len(0).and_then(|()| file.write_all(pid.as_bytes())).map_err(failed)?;
                return Ok(Self { campaign_id, path, _file: file });
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Removed while it is locked: nobody else's file can stand there.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a lock file, or makes it; a link that somebody put there is not followed, since what it
/// leads to would be overwritten.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.custom_flags(no_follow).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.nlink() <= 1 {
        return Ok(file);
    }
    let what = format!("{} is no lock file of ours", path.display());
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Removes the lock files beside a results file that nobody holds: kills leave them.
///
/// Whoever opened one at this moment, and locks it afterwards, sees that it is gone and makes
/// another one: see [`Hold::take`].
pub fn remove_stale_locks(results: &Path) {
    let Ok(results) = fs::canonicalize(results) else { return };
    let (Some(folder), Some(name)) = (results.parent(), results.file_name()) else { return };
    let mut begin = name.to_owned();
    begin.push("-campaign-");
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let number = file_name.as_bytes().strip_prefix(begin.as_bytes());
        let number = number.and_then(|rest| rest.strip_suffix(b".lock"));
        if !number.is_some_and(|number| number.iter().all(u8::is_ascii_digit)) {
            continue;
        }
        let path = entry.path();
        let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(no_follow).open(&path);
        if let Ok(file) = opened
            && file.try_lock().is_ok()
            && is_still_at(&file, &path)
        {
            // Where it may not be removed it does no harm.
            let _ = fs::remove_file(&path);
        }
    }
}

/// What the holder wrote: its number, if it came that far.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.take(20).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_owned(),
    }
}

fn is_still_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let (ours, there) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dfsbench.db");
        fs::write(&path, "").unwrap();
        (directory, path)
    }

    fn files(path: &Path) -> usize {
        fs::read_dir(path.parent().unwrap()).unwrap().count()
    }

    #[test]
    fn a_campaign_is_held_once_and_others_are_free() {
        let (directory, path) = results();
        let hold = Hold::take(&path, 3).unwrap();
        let error = Hold::take(&path, 3).unwrap_err().to_string();
        let holder = format!("campaign 3 of `{}` is being made by process", path.display());
        assert!(error.starts_with(&format!("{holder} {}", std::process::id())), "{error}");
        // The same file by another name is no way around it.
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Hold::take(&link, 3), Err(StoreError::Held { .. })));
        fs::remove_file(link).unwrap();
        let other = Hold::take(&path, 4).unwrap();
        assert_eq!(files(&path), 3);
        drop((hold, other));
        assert_eq!(files(&path), 1);
        Hold::take(&path, 3).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_holds_nothing() {
        let (_directory, path) = results();
        fs::write(path.with_file_name("dfsbench.db-campaign-1.lock"), "4194304").unwrap();
        let hold = Hold::take(&path, 1).unwrap();
        assert_eq!(fs::read_to_string(&hold.path).unwrap(), std::process::id().to_string());
        drop(hold);
        assert_eq!(files(&path), 1);
    }

    #[test]
    fn locks_that_kills_left_are_removed_and_held_ones_stay() {
        let (_directory, path) = results();
        for number in 1..=5 {
            let left = path.with_file_name(format!("dfsbench.db-campaign-{number}.lock"));
            fs::write(left, "4194304").unwrap();
        }
        let notes = path.with_file_name("dfsbench.db-campaign-notes.lock");
        fs::write(&notes, "mine").unwrap();
        let hold = Hold::take(&path, 7).unwrap();
        // The results, the notes and the lock that is held.
        assert_eq!((files(&path), notes.exists()), (3, true));
        remove_stale_locks(&path);
        assert!(matches!(Hold::take(&path, 7), Err(StoreError::Held { .. })));
        drop(hold);
        assert_eq!(files(&path), 2);
    }

    #[test]
    fn a_link_in_the_place_of_a_lock_is_not_followed() {
        let (directory, path) = results();
        let dear = directory.path().join("dear");
        fs::write(&dear, "dear").unwrap();
        let lock = path.with_file_name("dfsbench.db-campaign-1.lock");
        std::os::unix::fs::symlink(&dear, &lock).unwrap();
        assert!(matches!(Hold::take(&path, 1), Err(StoreError::Io { .. })));
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&dear, &lock).unwrap();
        // Another name of a file is no lock that somebody holds: it goes, and the file stays.
        Hold::take(&path, 1).unwrap();
        assert_eq!(fs::read_to_string(&dear).unwrap(), "dear");
    }

    #[test]
    fn of_many_that_want_it_at_once_one_has_it() {
        let (_directory, path) = results();
        let inside = std::sync::atomic::AtomicU32::new(0);
        let entered = std::sync::atomic::AtomicU32::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(_hold) = Hold::take(&path, 1) else { continue };
                        assert_eq!(inside.fetch_add(1, order), 0, "two have it");
                        entered.fetch_add(1, order);
                        inside.fetch_sub(1, order);
                    }
                });
            }
        });
        assert!(entered.into_inner() > 0);
        assert_eq!(files(&path), 1);
    }
}
