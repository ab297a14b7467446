//! Removes directories that contain our mark ([`model::work::mark_of`]): working directories of
//! trials and trees of replays.
//!
//! Each directory is opened relative to its parent without following symlinks, no matter what other
//! processes change in the meantime. The mark is removed last, so that an interrupted removal
//! leaves a directory that will still be recognized.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

use model::work::is_mark;

use super::removal::Removal;
use crate::stop::Stop;

/// Removes everything in a directory except its mark.
pub(super) fn empty_directory(path: &Path, stop: &Stop) -> io::Result<()> {
    let top = open_directory(CWD, path)?;
    empty_opened(top.as_fd(), &path.display().to_string(), stop)
}

/// Removes a directory and everything in it, its mark last.
///
/// # Errors
/// If something cannot be removed, or something new has appeared.
pub fn remove_directory(path: &Path, stop: &Stop) -> io::Result<()> {
    let top = open_directory(CWD, path)?;
    empty_opened(top.as_fd(), &path.display().to_string(), stop)?;
    remove_mark(top.as_fd())?;
    std::fs::remove_dir(path)
}

/// Removes everything in an open directory except its mark. `place` is its name for messages.
pub(super) fn empty_opened(top: BorrowedFd<'_>, place: &str, stop: &Stop) -> io::Result<()> {
    Removal::run(place.to_owned(), |removal| Emptying { top, removal, stop }.empty(top, true))
}

/// Removes the mark of a directory that is otherwise empty.
pub(super) fn remove_mark(top: BorrowedFd<'_>) -> io::Result<()> {
    let mut mark = None;
    for entry in Dir::read_from(top)? {
        let entry = entry?;
        match entry.file_name() {
            name if is_dot(name) => {}
            name if is_mark(name.to_bytes()) => mark = Some(name.to_owned()),
            _ => return Err(ErrorKind::DirectoryNotEmpty.into()),
        }
    }
    if let Some(mark) = mark {
        unless_gone(unlinkat(top, mark, AtFlags::REMOVEDIR))?;
    }
    Ok(())
}

struct Emptying<'a> {
    top: BorrowedFd<'a>,
    removal: &'a Removal,
    stop: &'a Stop,
}

impl Emptying<'_> {
    fn empty(&self, directory: BorrowedFd<'_>, is_top: bool) -> io::Result<()> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) || (is_top && is_mark(name.to_bytes())) {
                continue;
            }
            if is_directory(directory, name, entry.file_type())? {
                match open_directory(directory, name) {
                    Ok(below) => self.empty(below.as_fd(), false)?,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                unless_gone(unlinkat(directory, name, AtFlags::REMOVEDIR))?;
            } else {
                unless_gone(unlinkat(directory, name, AtFlags::empty()))?;
            }
            self.note_removed();
        }
        Ok(())
    }

    /// If someone is waiting for us to stop, counts what is left, once.
    fn note_removed(&self) {
        self.removal.note_removed();
        if self.stop.is_set()
            && !self.removal.is_everything_counted()
            && let Ok(left) = count_below(self.top)
        {
            self.removal.record_left(left);
        }
    }
}

/// Counts the entries in and below a directory.
fn count_below(directory: BorrowedFd<'_>) -> io::Result<u64> {
    let mut count = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) || is_mark(name.to_bytes()) {
            continue;
        }
        count += 1;
        if entry.file_type() == FileType::Directory {
            count += count_below(open_directory(directory, name)?.as_fd())?;
        }
    }
    Ok(count)
}

pub(super) fn open_directory(
    parent: impl AsFd,
    name: impl rustix::path::Arg,
) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Returns true if an entry is a directory. Some file systems list names without types.
fn is_directory(parent: BorrowedFd<'_>, name: &CStr, listed: FileType) -> io::Result<bool> {
    let found = match listed {
        FileType::Unknown => match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            // Another process has removed it, which is fine.
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        },
        known => known,
    };
    Ok(found == FileType::Directory)
}

/// Treats objects that no longer exist as removed.
pub(super) fn unless_gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use model::work::mark_of;

    use super::*;

    const NAME: &str = ".dfsbench-ab-0";

    /// Creates a working directory with a mark, files, a symlink, and nested directories.
    fn work_directory(folder: &Path) -> PathBuf {
        let work = folder.join(NAME);
        fs::create_dir_all(work.join(mark_of(NAME))).unwrap();
        fs::create_dir_all(work.join("d/e")).unwrap();
        for number in 0..100 {
            fs::write(work.join(format!("f{number}")), "data").unwrap();
            fs::write(work.join(format!("d/e/f{number}")), "data").unwrap();
        }
        fs::create_dir(folder.join("other")).unwrap();
        fs::write(folder.join("other/file"), "of another").unwrap();
        symlink(folder.join("other"), work.join("d/link")).unwrap();
        work
    }

    #[test]
    fn empties_all_but_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let work = work_directory(folder.path());
        empty_directory(&work, &Stop::default()).unwrap();
        let left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), mark_of(NAME).as_str());
        assert!(folder.path().join("other/file").exists(), "a symlink was followed");
    }

    #[test]
    fn removes_directory_with_mark() {
        let folder = tempfile::tempdir().unwrap();
        let work = work_directory(folder.path());
        remove_directory(&work, &Stop::default()).unwrap();
        assert!(!work.exists());
        assert!(folder.path().join("other/file").exists(), "a symlink was followed");
        let gone = remove_directory(&work, &Stop::default()).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn keeps_mark_of_refilled_directory() {
        let folder = tempfile::tempdir().unwrap();
        let work = work_directory(folder.path());
        let top = open_directory(CWD, &work).unwrap();
        let error = remove_mark(top.as_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        assert!(work.join(mark_of(NAME)).exists());
    }

    #[test]
    fn counts_what_is_left_after_stop() {
        let folder = tempfile::tempdir().unwrap();
        let work = work_directory(folder.path());
        // Two directories, a symlink and two hundred files.
        let all = 203;
        for (is_stopped, found) in [(false, 2), (true, all)] {
            let stop = Stop::default();
            if is_stopped {
                stop.set();
            }
            let top = open_directory(CWD, &work).unwrap();
            let progress = Removal::run("place".to_owned(), |removal| {
                let emptying = Emptying { top: top.as_fd(), removal, stop: &stop };
                for file in ["f0", "f1"] {
                    let _ = fs::remove_file(work.join(file));
                    emptying.note_removed();
                }
                for file in ["f0", "f1"] {
                    fs::write(work.join(file), "data").unwrap();
                }
                removal.progress()
            });
            assert_eq!((progress.removed, progress.is_all_found), (2, is_stopped));
            assert_eq!(progress.found, found);
        }
    }
}
