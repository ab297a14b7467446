//! Removes working directories and replay trees left behind by a killed process.
//!
//! A directory is removed only if it is an entry of the target itself, has a name that we use, and
//! contains its mark ([`mark_of`]) or is empty, because the process may have been killed before it
//! could create the mark. Names are only compared with those listed by the target and never used as
//! a path. Symlinks below the target are not followed.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::work::{directory_name, mark_of};
use model::{NfsTarget, Target};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::FileType as NfsFileType;
use nfs_client::{CallFailure, Mount, MountOptions};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::TargetError;
use super::directory::{empty_top, io_error};
use super::job_timer::{Job, JobTimer};
use super::marked_directories::{empty_opened, open_directory, remove_mark, unless_gone};
use super::mount_options::mount_options;
use super::nfs::{self, WalkFailure, connect, empty_leftover, remove_emptied};
use crate::clock::SystemClock;
use crate::limits::LISTED_SPARE_UNBOUNDED;
use crate::stop::Stop;

/// The outcome for one working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// It was removed. Contains its location.
    Removed(String),
    /// It was left alone. Contains its location and the reason.
    Kept(String, String),
}

/// Removes the working directories that a campaign left at a target.
///
/// # Errors
/// If the target cannot be reached or listed. It is safe to try again later.
pub fn remove(target: &Target, campaign: &str) -> Result<Vec<Leftover>, TargetError> {
    remove_wanted(target, &DirectoryNames::Begins(&directory_name(campaign, "")))
}

/// Removes the directory that a replay created for its tree.
pub fn remove_tree(target: &Target, name: &str) -> Result<Vec<Leftover>, TargetError> {
    remove_wanted(target, &DirectoryNames::Is(name))
}

/// The names of the directories to remove.
enum DirectoryNames<'a> {
    /// Names with this prefix.
    Begins(&'a str),
    /// Exactly this name.
    Is(&'a str),
}

impl DirectoryNames<'_> {
    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Begins(begin) => name.starts_with(begin),
            Self::Is(wanted) => name == *wanted,
        }
    }
}

fn remove_wanted(
    target: &Target,
    wanted: &DirectoryNames<'_>,
) -> Result<Vec<Leftover>, TargetError> {
    if !target.outlives_process() {
        return Ok(Vec::new());
    }
    if let Some(nfs) = target.nfs() {
        return remove_over_nfs(nfs, wanted);
    }
    let mut found = Vec::new();
    for path in target.paths() {
        found.extend(remove_local(path, wanted)?);
    }
    Ok(found)
}

fn remove_local(target: &Path, wanted: &DirectoryNames<'_>) -> Result<Vec<Leftover>, TargetError> {
    // Open it only once: if its path is redirected in the meantime, nothing is removed elsewhere.
    let opened = match rustix::fs::open(target, DIRECTORY, Mode::empty()).map_err(io::Error::from) {
        // If the target doesn't exist, there is nothing to remove.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(|error| io_error("open", target, &error))?,
    };
    let failed = |error: io::Error| io_error("list", target, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(path_of(&opened)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if wanted.contains(name) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let place = target.join(name).display().to_string();
            found.push(match remove_directory(&opened, name, &place) {
                Ok(true) => Leftover::Removed(place),
                Ok(false) => Leftover::Kept(place, describe_unmarked(name)),
                Err(error) => Leftover::Kept(place, error.to_string()),
            });
        }
    }
    Ok(found)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Returns a path to an open directory that stays valid even if its name is reused.
///
/// **Source:** `proc_pid_fd(5)`.
fn path_of(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Removes a directory if it contains its mark or is empty. Returns false otherwise.
fn remove_directory(target: &OwnedFd, name: &str, place: &str) -> io::Result<bool> {
    let directory = open_directory(target, name)?;
    if is_directory(directory.as_fd(), &mark_of(name)) {
        empty_opened(directory.as_fd(), place, &Stop::default())?;
        remove_mark(directory.as_fd())?;
    } else {
        empty_top(&path_of(&directory), name)?;
    }
    match rustix::fs::unlinkat(target, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY) => Ok(false),
        removed => unless_gone(removed).map(|()| true),
    }
}

fn is_directory(parent: impl AsFd, name: &str) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

fn describe_unmarked(name: &str) -> String {
    format!("it is not empty and has no directory {}", mark_of(name))
}

fn remove_over_nfs(
    target: &NfsTarget,
    wanted: &DirectoryNames<'_>,
) -> Result<Vec<Leftover>, TargetError> {
    let shown = target.to_string();
    let options = mount_options(target);
    let job = Job::Mount(options.timeout);
    let timer = JobTimer::new(Stop::default(), Arc::new(SystemClock::new()), job);
    let options = MountOptions { interrupt: timer.interrupt(), ..options };
    let mut mount = connect(&options).map_err(|error| nfs::mount_error(&shown, &error))?;
    timer.begin(Job::CleanUp);
    let swept = remove_from(&mut mount, &timer, wanted, &shown);
    // It does no harm if the server no longer answers MOUNT.
    let _ = mount.unmount();
    swept.map_err(|failure| TargetError::Io {
        what: "remove leftovers in",
        location: shown,
        reason: failure.to_string(),
    })
}

fn remove_from(
    mount: &mut Mount,
    timer: &JobTimer,
    wanted: &DirectoryNames<'_>,
    shown: &str,
) -> Result<Vec<Leftover>, CallFailure> {
    let root = mount.root();
    let mut found = Vec::new();
    for name in list(mount, root)? {
        if !wanted.contains(&name) {
            continue;
        }
        let place = format!("{shown}/{name}");
        let directory = mount.lookup(root, &name)?;
        found.push(match remove_marked(mount, timer, directory, &name, &place) {
            Ok(true) => Leftover::Removed(place),
            Ok(false) => Leftover::Kept(place, describe_unmarked(&name)),
            Err(WalkFailure::Call(lost)) if lost.answered().is_none() => return Err(lost),
            Err(failure) => Leftover::Kept(place, failure.to_string()),
        });
    }
    Ok(found)
}

/// Removes a directory if it contains its mark or is empty. Returns false otherwise.
fn remove_marked(
    mount: &mut Mount,
    timer: &JobTimer,
    directory: File,
    name: &str,
    place: &str,
) -> Result<bool, WalkFailure> {
    let inside = list(mount, directory)?;
    if !inside.is_empty() {
        let mark = mark_of(name);
        if !inside.contains(&mark) {
            return Ok(false);
        }
        let mark = mount.lookup(directory, &mark)?;
        if mount.getattr(mark)?.file_type != NfsFileType::Directory {
            return Ok(false);
        }
    }
    empty_leftover(mount, timer, directory, place)?;
    remove_emptied(mount, directory, name)?;
    Ok(true)
}

/// Lists a directory, up to a limit. Names that aren't UTF-8 aren't ours.
fn list(mount: &mut Mount, directory: File) -> Result<Vec<String>, CallFailure> {
    let entries = mount.readdir_up_to(directory, LISTED_SPARE_UNBOUNDED)?;
    let mut names = Vec::with_capacity(entries.len());
    for entry in entries {
        match String::from_utf8(entry.name) {
            Ok(name) if name != "." && name != ".." => names.push(name),
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_top_with_empty_directories() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at(".dfsbench-ab-1.top/.dfsbench-ab-1.1")).unwrap();
        fs::create_dir_all(at(".dfsbench-ab-2.top/.dfsbench-ab-2.1/notes")).unwrap();
        fs::create_dir_all(at(".dfsbench-ab-3.top/notes")).unwrap();
        let target = Target::Directory { path: folder.path().to_owned() };
        let found = remove(&target, "ab").unwrap();
        let kept = found.iter().filter(|one| matches!(one, Leftover::Kept(..))).count();
        assert_eq!((found.len(), kept), (3, 2), "{found:?}");
        assert!(!at(".dfsbench-ab-1.top").exists());
        assert!(at(".dfsbench-ab-2.top/.dfsbench-ab-2.1/notes").exists());
        assert!(at(".dfsbench-ab-3.top/notes").exists());
    }

    #[test]
    fn removes_only_tree_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let target = Target::Directory { path: at("target") };
        for directory in ["precious/dear", "target/precious/dear", "target/marked/marked.campaign"]
        {
            fs::create_dir_all(at(directory)).unwrap();
        }
        fs::write(at("target/marked/file"), "data").unwrap();
        std::os::unix::fs::symlink(at("precious"), at("target/link")).unwrap();
        // None of these is the name of an entry of the target.
        let absolute = at("precious").display().to_string();
        for name in ["../precious", "link/dear", ".", "..", "", &absolute, "link", "marked/file"] {
            assert_eq!(remove_tree(&target, name).unwrap(), [], "{name}");
        }
        let [Leftover::Kept(..)] = remove_tree(&target, "precious").unwrap()[..] else {
            panic!("it is not marked as ours")
        };
        assert!(at("precious/dear").exists() && at("target/precious/dear").exists());
        let [Leftover::Removed(_)] = remove_tree(&target, "marked").unwrap()[..] else {
            panic!("it is marked as ours")
        };
        assert!(!at("target/marked").exists());
    }

    #[test]
    fn removes_only_marked_directories() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".dfsbench-ab-1", ".dfsbench-ab-2", ".dfsbench-ab-3", ".dfsbench-cd-1"] {
            fs::create_dir_all(at(name).join("d")).unwrap();
        }
        fs::create_dir(at(".dfsbench-ab-1").join(".dfsbench-ab-1.campaign")).unwrap();
        fs::write(at(".dfsbench-ab-1/d/file"), "data").unwrap();
        // Neither another directory's mark nor a symlink counts as a mark.
        fs::create_dir(at(".dfsbench-ab-2").join(".dfsbench-ab-1.campaign")).unwrap();
        let link = at(".dfsbench-ab-3").join(".dfsbench-ab-3.campaign");
        std::os::unix::fs::symlink("/etc", link).unwrap();
        fs::create_dir(at(".dfsbench-ab-4")).unwrap();
        fs::write(at(".dfsbench-ab-5"), "a file of another process").unwrap();
        std::os::unix::fs::symlink(at(".dfsbench-cd-1"), at(".dfsbench-ab-6")).unwrap();
        let target = Target::Directory { path: folder.path().to_owned() };
        let mut found = remove(&target, "ab").unwrap();
        found.sort_by_key(|one| match one {
            Leftover::Removed(place) | Leftover::Kept(place, _) => place.clone(),
        });
        let removed: Vec<bool> =
            found.iter().map(|one| matches!(one, Leftover::Removed(_))).collect();
        assert_eq!(removed, [true, false, false, true], "{found:?}");
        let left = [".dfsbench-ab-2", ".dfsbench-ab-3", ".dfsbench-ab-5", ".dfsbench-ab-6"];
        assert!(left.iter().all(|name| at(name).symlink_metadata().is_ok()));
        assert!(at(".dfsbench-cd-1/d").exists() && !at(".dfsbench-ab-1").exists());
        let gone = Target::Directory { path: at("no-such") };
        assert_eq!(remove(&gone, "ab").unwrap(), []);
    }
}
