//! How one change of a host is put back, as data that suffices alone.
//!
//! Principal type: [`Undo`]. It is made before the change and holds what the change loses, such as
//! the old value of a sysctl. Everything can be put back twice, and also where the change was
//! never made: each looks first whether there is something to do.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::work::directory_name;
use serde::{Deserialize, Serialize};

use crate::actions::{clock, export, nfsd, shape, storage};
use crate::commands::{LONG, Runner, SOON};
use crate::error::LabError;
use crate::processes;
use crate::{undo_guard, unmount};

/// How one change is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// Writes the old value of a kernel's setting.
    Write {
        /// Below /proc or /sys.
        path: PathBuf,
        /// The old value.
        text: String,
    },
    /// Gives an interface its old largest packet back.
    Mtu {
        /// Name of the interface.
        interface: String,
        /// The old value, in bytes.
        bytes: u32,
    },
    /// Takes our tc rules from an interface.
    Shape {
        /// Name of the interface.
        interface: String,
    },
    /// Unmounts what we mounted.
    Unmount {
        /// Path of the mount point.
        point: PathBuf,
        /// Type of the file system, as far as it is known: `nfs` stands for `nfs4`, too.
        file_system: String,
    },
    /// Removes a folder that we made, if it is empty.
    Folder {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Removes a folder of ours below /run/dfsbench with what is in it.
    Tree {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Removes a file that we made.
    File {
        /// Path of the file.
        path: PathBuf,
    },
    /// Detaches the loop device of a file.
    Loop {
        /// The file behind it.
        file: PathBuf,
    },
    /// Stops an array and takes its marks from the devices.
    Array {
        /// Its name under /dev/md.
        name: String,
        /// Devices of the array.
        devices: Vec<PathBuf>,
    },
    /// Closes a mapping of dm-crypt.
    Mapped {
        /// Its name under /dev/mapper.
        name: String,
    },
    /// Takes the marks of a file system that we made from a device.
    Wipe {
        /// Path of the device.
        device: PathBuf,
        /// The file system's UUID: another one isn't ours.
        uuid: String,
    },
    /// Ends programs that we started.
    End {
        /// The path that they run by, which nobody else uses.
        program: PathBuf,
    },
    /// Removes what a campaign's clients left in a directory that was served to them, once the
    /// campaign is over: one that is lost while nothing is mounted can't do it.
    Works {
        /// Path of the directory.
        directory: PathBuf,
        /// The campaign that its working directories are named after.
        campaign: String,
    },
    /// Takes back an export.
    Export {
        /// Path of the directory.
        directory: PathBuf,
        /// Who could mount it.
        clients: String,
    },
    /// Sets the kernel's NFS server as it was.
    Nfsd {
        /// How it was.
        state: nfsd::State,
    },
    /// Sets the calendar as it was.
    Calendar {
        /// How far it was ahead of the time since boot, in nanoseconds.
        offset_ns: i64,
    },
}

impl Undo {
    /// There is something to put back even after the host was started anew.
    pub const fn outlives_boot(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Array { .. } | Self::Wipe { .. })
            || matches!(self, Self::Folder { .. } | Self::Works { .. })
    }

    /// Puts it back; does nothing where there is nothing to do.
    ///
    /// # Errors
    /// Where it can't be put back; asking again later is safe.
    pub fn restore(&self, runner: &mut Runner) -> Result<(), LabError> {
        undo_guard::check(self)?;
        match self {
            Self::Write { path, text } => write(runner, path, text),
            Self::Mtu { interface, bytes } => shape::restore_mtu(runner, interface, *bytes),
            Self::Shape { interface } => shape::remove(runner, interface),
            Self::Unmount { point, file_system } => unmount::at(runner, point, file_system),
            Self::Folder { path } => remove_folder(runner, path),
            Self::Tree { path } => remove_tree(runner, path),
            Self::File { path } => remove_file(runner, path),
            Self::Loop { file } => storage::detach(runner, file),
            Self::Array { name, devices } => storage::stop_array(runner, name, devices),
            Self::Mapped { name } => storage::close_mapped(runner, name),
            Self::Wipe { device, uuid } => storage::wipe(runner, device, uuid),
            Self::End { program } => processes::end(runner, program),
            Self::Works { directory, campaign } => remove_works(runner, directory, campaign),
            Self::Export { directory, clients } => export::take_back(runner, directory, clients),
            Self::Nfsd { state } => nfsd::restore(runner, state),
            Self::Calendar { offset_ns } => clock::restore(runner, *offset_ns),
        }
    }
}

fn write(runner: &Runner, path: &Path, text: &str) -> Result<(), LabError> {
    // What belonged to a mount or an interface is gone with it.
    if path.exists() { runner.write(path, text) } else { Ok(()) }
}

fn remove_folder(runner: &Runner, path: &Path) -> Result<(), LabError> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Somebody has put something there since: then it isn't ours alone.
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

/// A directory that is gone holds nothing.
fn remove_works(runner: &Runner, directory: &Path, campaign: &str) -> Result<(), LabError> {
    let ours = directory_name(campaign, "");
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries.flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name().as_bytes().starts_with(ours.as_bytes()) {
            remove_all(runner, &entry.path(), LONG)?;
        }
    }
    Ok(())
}

fn remove_file(runner: &Runner, path: &Path) -> Result<(), LabError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LabError::file("look at", path, error)),
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => {}
    }
    let path = path.display().to_string();
    runner.run(&["rm", "--", path.as_str()], SOON)?;
    Ok(())
}
