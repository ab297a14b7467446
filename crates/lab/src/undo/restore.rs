//! Undoes changes to this host, using the data in the undo log.
//!
//! Everything can be undone twice, or even if the change was never made, because each operation
//! first checks whether there is anything to do. [`guard`] also checks beforehand that the
//! entry is something dfsbench would have done.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use model::work::{directory_name, mark_of};

use crate::commands::{LONG, Runner, SOON};
use crate::error::LabError;
use crate::host::{additions, calendar, devices, exports, interfaces, nfsd, processes};
use crate::mounts::unmount;
use crate::undo::log::UndoLog;
use crate::undo::{Undo, guard};

/// Undoes a change that has several parts, from last to first. Continues if a part fails.
///
/// # Errors
/// If something cannot be undone. The error includes all failures, and it is safe to try again
/// later.
pub(crate) fn restore_all<'a>(
    runner: &mut Runner,
    undo: impl IntoIterator<Item = &'a Undo, IntoIter: DoubleEndedIterator>,
) -> Result<(), LabError> {
    let mut errors = Vec::new();
    for part in undo.into_iter().rev() {
        // A failure must not prevent the other parts from being restored.
        errors.extend(restore(part, runner).err());
    }
    LabError::join(errors)
}

/// Undoes a change and then records that in the log.
///
/// The order matters: if the process is killed in between, the entry is undone again, which does no
/// harm. In the reverse order, a change could be left without an entry.
///
/// # Errors
/// If it cannot be undone, or the log cannot be written.
pub(crate) fn restore_entry(
    runner: &mut Runner,
    log: &mut UndoLog,
    id: u64,
    undo: &[Undo],
) -> Result<(), LabError> {
    restore_all(runner, undo)?;
    log.undone(id)
}

/// Undoes one part of a change. Does nothing if there is nothing to do.
///
/// # Errors
/// If it cannot be undone. It is safe to try again later.
pub(crate) fn restore(undo: &Undo, runner: &mut Runner) -> Result<(), LabError> {
    guard::check(undo)?;
    match undo {
        Undo::Write { path, text } => write(runner, path, text),
        Undo::Mtu { interface, bytes } => interfaces::restore_mtu(runner, interface, *bytes),
        Undo::Shape { interface } => interfaces::remove_rules(runner, interface),
        Undo::Unmount { point, file_system } => unmount::unmount_point(runner, point, file_system),
        Undo::Folder { path } => remove_folder(runner, path),
        Undo::Tree { path } => remove_tree(runner, path),
        Undo::File { path } => remove_file(runner, path),
        Undo::Loop { file } => devices::detach(runner, file),
        Undo::Array { name, devices: members } => devices::stop_array(runner, name, members),
        Undo::Mapped { name } => devices::close_mapped(runner, name),
        Undo::Wipe { device, uuid } => devices::wipe(runner, device, uuid),
        Undo::End { program } => processes::end(runner, program),
        Undo::EndMarked { mark, within_s } => processes::end_marked(runner, mark, *within_s),
        Undo::Additions { path, before } => additions::remove(runner, path, before.as_ref()),
        Undo::Works { directory, campaign } => remove_works(runner, directory, campaign),
        Undo::Export { directory, clients } => exports::withdraw(runner, directory, clients),
        Undo::Nfsd { state } => nfsd::restore(runner, state),
        Undo::Calendar { offset_ns } => calendar::restore(runner, *offset_ns),
    }
}

fn write(runner: &Runner, path: &Path, text: &str) -> Result<(), LabError> {
    // Settings of a mount or an interface are gone once it is. Only root sees those of debugfs, so
    // an error may mean that the file exists.
    if let Ok(false) = path.try_exists() { Ok(()) } else { runner.write(path, text) }
}

fn remove_folder(runner: &Runner, path: &Path) -> Result<(), LabError> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Someone else has put files there, so leave it.
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = path.display().to_string();
            runner.run(&["rmdir", "--ignore-fail-on-non-empty", "--", path.as_str()], SOON)?;
            Ok(())
        }
        Err(error) => Err(LabError::file("remove", path, error)),
    }
}

fn remove_tree(runner: &Runner, path: &Path) -> Result<(), LabError> {
    if !path.exists() {
        return Ok(());
    }
    remove_all(runner, path, SOON)
}

fn remove_all(runner: &Runner, path: &Path, within: Duration) -> Result<(), LabError> {
    let path = path.display().to_string();
    runner.run(&["rm", "--recursive", "--one-file-system", "--", path.as_str()], within)?;
    Ok(())
}

/// Removes the working directories of a campaign, provided that they contain their mark or are
/// empty. Does nothing if `directory` no longer exists.
fn remove_works(runner: &Runner, directory: &Path, campaign: &str) -> Result<(), LabError> {
    let ours = directory_name(campaign, "");
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    let mut errors = Vec::new();
    for entry in entries.flatten() {
        // The type of the entry itself, so a symlink to a directory is left alone.
        let Ok(kind) = entry.file_type() else { continue };
        if let Some(name) = entry.file_name().to_str()
            && kind.is_dir()
            && name.starts_with(&ours)
        {
            errors.extend(remove_work(runner, &entry.path(), &mark_of(name)).err());
        }
    }
    LabError::join(errors)
}

fn remove_work(runner: &Runner, work: &Path, mark: &str) -> Result<(), LabError> {
    if fs::symlink_metadata(work.join(mark)).is_ok_and(|mark| mark.is_dir()) {
        // Remove the mark last, so that an interrupted removal can be repeated.
        let path = work.display().to_string();
        let mut argv = vec!["find", &path, "-mindepth", "1", "-maxdepth", "1"];
        argv.extend(["!", "-name", mark, "-exec", "rm", "--recursive", "--one-file-system"]);
        argv.extend(["--", "{}", "+"]);
        runner.run(&argv, LONG)?;
        return remove_all(runner, work, SOON);
    }
    remove_folder(runner, work)?;
    if work.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(LabError::Refused(format!(
        "refusing to remove {}: it is not empty and has no directory {mark}",
        work.display()
    )))
}

fn remove_file(runner: &Runner, path: &Path) -> Result<(), LabError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LabError::file("inspect", path, error)),
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => {}
    }
    let path = path.display().to_string();
    runner.run(&["rm", "--", path.as_str()], SOON)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_marked_working_directories() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["c-0/d", "c-0/.dfsbench-c-0.campaign", "c-1/d", "c-1/.dfsbench-c-0.campaign"] {
            fs::create_dir_all(at(&format!(".dfsbench-{name}"))).unwrap();
        }
        fs::create_dir(at(".dfsbench-c-2")).unwrap();
        fs::write(at(".dfsbench-c-0/d/file"), "data").unwrap();
        let undo = Undo::Works { directory: folder.path().to_owned(), campaign: "c".to_owned() };
        let error = restore(&undo, &mut Runner::default()).unwrap_err().to_string();
        assert!(error.contains(".dfsbench-c-1: it is not empty"), "{error}");
        let left = [0, 1, 2].map(|number| at(&format!(".dfsbench-c-{number}")).exists());
        assert_eq!(left, [false, true, false]);
        fs::remove_dir_all(at(".dfsbench-c-1")).unwrap();
        restore(&undo, &mut Runner::default()).unwrap();
    }
}
