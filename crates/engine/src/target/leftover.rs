//! Removes the working directories that a killed process left behind.
//!
//! [`remove`] takes away the directories of one campaign, and only what bears its mark (`mark_of`)
//! or is still empty: the kill may have come between the making of the two. Links are never
//! followed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::work::directory_name;
use model::{NfsTarget, Target};
use nfs_client::proto::client::File;
use nfs_client::{CallFailure, Mount, MountOptions};

use super::TargetError;
pub use super::access::mark_of;
use super::directory::{self, empty_top, io_error};
use super::job_timer::{Job, JobTimer};
use super::mount_options::mount_options;
use super::nfs::{self, WalkFailure, connect, empty_leftover, remove_emptied};
use crate::clock::SystemClock;
use crate::limits::LISTED_SPARE_UNBOUNDED;
use crate::stop::Stop;

/// The outcome for a working directory that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// It was removed; its place.
    Removed(String),
    /// It is left alone: its place, and why.
    Kept(String, String),
}

/// Removes the working directories that a campaign left at a target.
///
/// # Errors
/// When the target can't be reached or listed; asking again later is safe.
pub fn remove(target: &Target, campaign: &str) -> Result<Vec<Leftover>, TargetError> {
    let begin = directory_name(campaign, "");
    if !target.outlives_process() {
        return Ok(Vec::new());
    }
    if let Some(nfs) = target.nfs() {
        return remove_over_nfs(nfs, &Wanted::Marked(&begin));
    }
    let mut found = Vec::new();
    for path in target.paths() {
        found.extend(remove_local(path, &begin)?);
    }
    Ok(found)
}

/// Removes a directory of this very name from a target, whatever is in it.
///
/// # Errors
/// As [`remove`].
pub fn remove_tree(target: &Target, name: &str) -> Result<Vec<Leftover>, TargetError> {
    if let Some(nfs) = target.nfs() {
        return remove_over_nfs(nfs, &Wanted::Named(name));
    }
    let mut found = Vec::new();
    for path in target.paths() {
        let tree = path.join(name);
        let is_there = fs::symlink_metadata(&tree).is_ok_and(|found| found.is_dir());
        if is_there {
            let place = tree.display().to_string();
            found.push(match directory::remove_directory(&tree, &Stop::default()) {
                Ok(()) => Leftover::Removed(place),
                Err(error) => Leftover::Kept(place, error.to_string()),
            });
        }
    }
    Ok(found)
}

/// The directories that are to be removed.
enum Wanted<'a> {
    /// Those whose names begin so, and that bear their marks or are empty.
    Marked(&'a str),
    /// The one of this name.
    Named(&'a str),
}

fn remove_local(target: &Path, begin: &str) -> Result<Vec<Leftover>, TargetError> {
    let entries = match fs::read_dir(target) {
        // What is gone holds nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| io_error("list", target, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| io_error("list", target, &error))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if !name.starts_with(begin) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(remove_directory(&entry.path(), name));
        }
    }
    Ok(found)
}

fn remove_directory(path: &PathBuf, name: &str) -> Leftover {
    let mark = fs::symlink_metadata(path.join(mark_of(name)));
    let removed = if mark.is_ok_and(|mark| mark.is_dir()) {
        directory::remove_directory(path, &Stop::default())
    } else {
        empty_top(path, name).and_then(|()| fs::remove_dir(path))
    };
    let place = path.display().to_string();
    match removed {
        Ok(()) => Leftover::Removed(place),
        Err(error) if error.kind() == ErrorKind::NotFound => Leftover::Removed(place),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            Leftover::Kept(place, format!("it is not empty and has no directory {}", mark_of(name)))
        }
        Err(error) => Leftover::Kept(place, error.to_string()),
    }
}

fn remove_over_nfs(target: &NfsTarget, wanted: &Wanted<'_>) -> Result<Vec<Leftover>, TargetError> {
    let shown = target.to_string();
    let options = mount_options(target);
    let job = Job::Mount(options.timeout);
    let timer = JobTimer::new(Stop::default(), Arc::new(SystemClock::new()), job);
    let options = MountOptions { interrupt: timer.interrupt(), ..options };
    let mut mount = connect(&options).map_err(|error| nfs::mount_error(&shown, &error))?;
    timer.begin(Job::CleanUp);
    let swept = remove_from(&mut mount, &timer, wanted, &shown);
    // A server that no longer answers MOUNT loses nothing by it.
    let _ = mount.unmount();
    swept.map_err(|failure| TargetError::Io {
        what: "remove what was left in",
        location: shown,
        reason: failure.to_string(),
    })
}

fn remove_from(
    mount: &mut Mount,
    timer: &JobTimer,
    wanted: &Wanted<'_>,
    shown: &str,
) -> Result<Vec<Leftover>, CallFailure> {
    let root = mount.root();
    let mut found = Vec::new();
    for name in list(mount, root)? {
        let is_wanted = match wanted {
            Wanted::Marked(begin) => name.starts_with(begin),
            Wanted::Named(wanted) => name == *wanted,
        };
        if !is_wanted {
            continue;
        }
        let place = format!("{shown}/{name}");
        let directory = mount.lookup(root, &name)?;
        let is_wanted = match wanted {
            Wanted::Marked(_) => is_ours(mount, directory, &name),
            Wanted::Named(_) => Ok(true),
        };
        let removed = match is_wanted {
            Ok(true) => empty_leftover(mount, timer, directory, &place)
                .and_then(|()| remove_emptied(mount, directory, &name))
                .map(|()| true),
            Ok(false) => Ok(false),
            Err(failure) => Err(failure.into()),
        };
        found.push(match removed {
            Ok(true) => Leftover::Removed(place),
            Ok(false) => {
                let why = format!("it is not empty and has no directory {}", mark_of(&name));
                Leftover::Kept(place, why)
            }
            Err(WalkFailure::Call(lost)) if lost.answered().is_none() => return Err(lost),
            Err(failure) => Leftover::Kept(place, failure.to_string()),
        });
    }
    Ok(found)
}

/// Returns true if a directory has its mark, or is empty.
fn is_ours(mount: &mut Mount, directory: File, name: &str) -> Result<bool, CallFailure> {
    let inside = list(mount, directory)?;
    Ok(inside.is_empty() || inside.contains(&mark_of(name)))
}

/// Lists a directory, within bounds; names that are no text are not ours.
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
    fn a_top_with_empty_directories_of_its_campaign_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at(".dfsbench-ab-1.top/.dfsbench-ab-1.1")).unwrap();
        fs::create_dir_all(at(".dfsbench-ab-2.top/.dfsbench-ab-2.1/notes")).unwrap();
        fs::create_dir_all(at(".dfsbench-ab-3.top/notes")).unwrap();
        let target = Target::Directory { path: folder.path().to_owned() };
        let found = remove(&target, "ab").unwrap();
        let mut kept = 0;
        for one in &found {
            kept += usize::from(matches!(one, Leftover::Kept(..)));
        }
        assert_eq!((found.len(), kept), (3, 2), "{found:?}");
        assert!(!at(".dfsbench-ab-1.top").exists());
        assert!(at(".dfsbench-ab-2.top/.dfsbench-ab-2.1/notes").exists());
        assert!(at(".dfsbench-ab-3.top/notes").exists());
    }

    #[test]
    fn only_what_bears_the_mark_of_its_campaign_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".dfsbench-ab-1", ".dfsbench-ab-2", ".dfsbench-ab-3", ".dfsbench-cd-1"] {
            fs::create_dir_all(at(name).join("d")).unwrap();
        }
        fs::create_dir(at(".dfsbench-ab-1").join(".dfsbench-ab-1.campaign")).unwrap();
        fs::write(at(".dfsbench-ab-1/d/file"), "data").unwrap();
        // The mark of another directory is none, nor is a link.
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
