//! Locks on campaigns: one process at a time may run a campaign, while others may run other
//! campaigns in the same file.
//!
//! [`CampaignLock`] is the main type: a locked file next to the results file, named after the
//! campaign and removed with the hold. The system releases the lock when the process ends, even by
//! kill -9; the remaining file is then meaningless and [`remove_abandoned`] removes it. SQLite's
//! own locks last for one transaction and don't distinguish campaigns, so they can't do this.
//!
//! **Source:** flock(2), also for its semantics on NFS.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::error::StoreError;

/// Number and interval of retries for a lock that may be held only to remove its file: two seconds
/// in total, although removing takes microseconds.
const RETRIES_MAX: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// The right to add to a campaign, until dropped.
#[derive(Debug)]
pub(crate) struct CampaignLock {
    pub campaign_id: i64,
    path: PathBuf,
    /// Locked; closing it releases the lock.
    _file: File,
}

impl CampaignLock {
    /// Takes a campaign of an existing results file.
    ///
    /// # Errors
    /// If another process has it, or no file can be created next to the results.
    pub(crate) fn acquire(results: &Path, campaign_id: i64) -> Result<Self, StoreError> {
        let path = lock_path_of(results, campaign_id)
            .map_err(|source| StoreError::Io { path: results.to_owned(), source })?;
        let mut retries = 0;
        loop {
            match try_lock(&path) {
                Ok(LockAttempt::Locked(file)) => {
                    return Ok(Self { campaign_id, path, _file: file });
                }
                // The holder removed the file between our open and our lock.
                Ok(LockAttempt::Removed) => {}
                // A process that removes abandoned files locks each for a moment; the process id in
                // such a file belongs to a process that is gone.
                Ok(LockAttempt::Held(holder)) if retries < RETRIES_MAX && !is_running(holder) => {
                    retries += 1;
                    std::thread::park_timeout(RETRY_AFTER);
                }
                Ok(LockAttempt::Held(holder)) => {
                    return Err(StoreError::Held {
                        path: results.to_owned(),
                        campaign_id,
                        holder: describe_holder(holder),
                    });
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(StoreError::ReadOnly(results.to_owned()));
                }
                Err(source) => return Err(StoreError::Io { path, source }),
            }
        }
    }
}

fn lock_path_of(results: &Path, campaign_id: i64) -> io::Result<PathBuf> {
    // One file may have several names; SQLite also follows links.
    let mut path = fs::canonicalize(results)?.into_os_string();
    path.push(format!("-campaign-{campaign_id}.lock"));
    Ok(PathBuf::from(path))
}

/// Returns true if a process is running a campaign; does not create or change any file.
pub(crate) fn is_held(results: &Path, campaign_id: i64) -> bool {
    let Ok(path) = lock_path_of(results, campaign_id) else { return false };
    let Ok(file) = open_with(OpenOptions::new().read(true), &path) else { return false };
    // A shared lock, released at once: a process that takes the campaign at this moment tries
    // again, as it does if a file is locked for removal.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The result of one attempt to lock a file.
enum LockAttempt {
    /// We have locked it, and it contains our process id.
    Locked(File),
    /// It is locked by the process whose id it contains, if that has been written yet.
    Held(Option<u32>),
    /// It was locked after its holder removed it: another file may be at its path.
    Removed,
}

fn try_lock(path: &Path) -> io::Result<LockAttempt> {
    let mut file = open_lock_file(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Held(read_holder(&mut file))),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if !is_same_file(&file, path) {
        return Ok(LockAttempt::Removed);
    }
    file.set_len(0)?;
    file.write_all(std::process::id().to_string().as_bytes())?;
    Ok(LockAttempt::Locked(file))
}

impl Drop for CampaignLock {
    fn drop(&mut self) {
        // Removed while locked: no other process's file can be at that path.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the lock files of a results file that no process holds, and returns their number: each
/// was left by a killed process. Failing to remove one does no harm.
///
/// A file is removed only while we hold its lock: if another process is just taking it, either that
/// process has locked it and we keep it, or it finds the file gone and creates it again.
pub fn remove_abandoned(results: &Path) -> usize {
    let Ok(real) = fs::canonicalize(results) else { return 0 };
    let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else { return 0 };
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let begin = [name.as_encoded_bytes(), b"-campaign-"].concat();
    entries
        .flatten()
        .filter(|entry| is_lock_name(entry.file_name().as_encoded_bytes(), &begin))
        .map(|entry| usize::from(remove_if_abandoned(&entry.path())))
        .sum()
}

/// Recognizes names of lock files, such as `dfsbench.db-campaign-7.lock`.
fn is_lock_name(name: &[u8], begin: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(begin) else { return false };
    let Some(number) = rest.strip_suffix(b".lock") else { return false };
    !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

fn remove_if_abandoned(path: &Path) -> bool {
    let Ok(file) = open_with(OpenOptions::new().read(true).write(true), path) else {
        return false;
    };
    file.try_lock().is_ok() && is_same_file(&file, path) && fs::remove_file(path).is_ok()
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Opens a lock file, and refuses anything that another user may have placed under its name: the
/// file is truncated, so neither a symbolic link nor a hard link is acceptable.
fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    // The link count is 0 if its holder removed it after we opened it.
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("it is not a lock file of dfsbench (hint: remove it)"));
    }
    Ok(file)
}

/// Reads the process id written by the holder, if it has been written yet.
fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    let _ = file.take(20).read_to_string(&mut text);
    text.trim().parse().ok()
}

fn describe_holder(holder: Option<u32>) -> String {
    match holder {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// Returns true if a process with this id exists on this host. A holder on another host may seem to
/// be gone, which only costs a wait.
fn is_running(pid: Option<u32>) -> bool {
    let Some(Ok(pid)) = pid.map(i32::try_from) else { return false };
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    // EPERM: it exists, but belongs to another user.
    matches!(rustix::process::test_kill_process(pid), Ok(()) | Err(rustix::io::Errno::PERM))
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
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
    fn holds_each_campaign_once() {
        let (directory, path) = results();
        let hold = CampaignLock::acquire(&path, 3).unwrap();
        let error = CampaignLock::acquire(&path, 3).unwrap_err().to_string();
        let holder = format!("campaign 3 of `{}` is being measured by process", path.display());
        assert!(error.starts_with(&format!("{holder} {}", std::process::id())), "{error}");
        // A different name for the same file does not bypass the lock.
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(CampaignLock::acquire(&link, 3), Err(StoreError::Held { .. })));
        fs::remove_file(link).unwrap();
        let other = CampaignLock::acquire(&path, 4).unwrap();
        assert_eq!(files(&path), 3);
        drop((hold, other));
        assert_eq!(files(&path), 1);
        CampaignLock::acquire(&path, 3).unwrap();
    }

    #[test]
    fn ignores_lock_of_dead_process() {
        let (_directory, path) = results();
        fs::write(path.with_file_name("dfsbench.db-campaign-1.lock"), "4194304").unwrap();
        let hold = CampaignLock::acquire(&path, 1).unwrap();
        assert_eq!(fs::read_to_string(&hold.path).unwrap(), std::process::id().to_string());
        drop(hold);
        assert_eq!(files(&path), 1);
    }

    #[test]
    fn grants_lock_to_one_of_many() {
        let (_directory, path) = results();
        let inside = std::sync::atomic::AtomicU32::new(0);
        let entered = std::sync::atomic::AtomicU32::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(_hold) = CampaignLock::acquire(&path, 1) else { continue };
                        assert_eq!(inside.fetch_add(1, order), 0, "two locks were granted");
                        entered.fetch_add(1, order);
                        inside.fetch_sub(1, order);
                    }
                });
            }
        });
        assert!(entered.into_inner() > 0);
        assert_eq!(files(&path), 1);
    }

    fn lock_path(path: &Path, campaign_id: i64) -> PathBuf {
        path.with_file_name(format!("dfsbench.db-campaign-{campaign_id}.lock"))
    }

    #[test]
    fn removes_only_abandoned_locks() {
        let (directory, path) = results();
        for id in [1, 2, 33] {
            fs::write(lock_path(&path, id), "4194304").unwrap();
        }
        let _held = CampaignLock::acquire(&path, 4).unwrap();
        let others = ["other.db-campaign-1.lock", "dfsbench.db-campaign-x.lock", "dfsbench.db-wal"];
        for other in others {
            fs::write(directory.path().join(other), "").unwrap();
        }
        std::os::unix::fs::symlink(&path, lock_path(&path, 5)).unwrap();
        assert_eq!(remove_abandoned(&path), 3);
        // The results, the held lock, the link, and the files of other programs.
        assert_eq!(files(&path), 3 + others.len());
        assert!(lock_path(&path, 4).exists());
        assert_eq!(remove_abandoned(&path), 0);
    }

    #[test]
    fn does_not_truncate_through_links() {
        let (directory, path) = results();
        let precious = directory.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        std::os::unix::fs::symlink(&precious, lock_path(&path, 1)).unwrap();
        fs::hard_link(&precious, lock_path(&path, 2)).unwrap();
        for id in [1, 2] {
            let error = CampaignLock::acquire(&path, id).unwrap_err().to_string();
            assert!(error.contains(&format!("campaign-{id}.lock")), "{error}");
        }
        assert_eq!(fs::read_to_string(precious).unwrap(), "kept");
    }

    #[test]
    fn locks_despite_concurrent_cleanup() {
        let (_directory, path) = results();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(order) {
                        remove_abandoned(&path);
                    }
                });
            }
            // Each time, a process that is gone has left the file.
            let pid = std::process::id().to_string();
            let mut failures = 0;
            for _ in 0..300 {
                fs::write(lock_path(&path, 1), "4194304").unwrap();
                match CampaignLock::acquire(&path, 1) {
                    Ok(hold) => {
                        let is_there = fs::read_to_string(&hold.path).is_ok_and(|text| text == pid);
                        failures += u32::from(!is_there);
                    }
                    Err(_) => failures += 1,
                }
            }
            is_over.store(true, order);
            assert_eq!(failures, 0);
        });
    }

    #[test]
    fn names_holder_despite_late_number() {
        let (_directory, path) = results();
        let locked = open_lock_file(&lock_path(&path, 1)).unwrap();
        locked.lock().unwrap();
        std::thread::scope(|scope| {
            let taken = scope
                .spawn(|| CampaignLock::acquire(&path, 1).map(|_| ()).unwrap_err().to_string());
            (&locked).write_all(std::process::id().to_string().as_bytes()).unwrap();
            let error = taken.join().unwrap();
            assert!(error.contains(&format!("by process {}", std::process::id())), "{error}");
        });
    }

    #[test]
    fn reports_held_campaign_as_running() {
        let (_directory, path) = results();
        assert!(!is_held(&path, 1));
        let hold = CampaignLock::acquire(&path, 1).unwrap();
        assert!(is_held(&path, 1) && !is_held(&path, 2));
        drop(hold);
        assert!(!is_held(&path, 1));
        // A killed process no longer holds its lock.
        fs::write(lock_path(&path, 1), "4194304").unwrap();
        assert!(!is_held(&path, 1) && CampaignLock::acquire(&path, 1).is_ok());
    }
}
