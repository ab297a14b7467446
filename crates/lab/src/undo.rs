//! Self-contained data on how to undo one change of a host.
//!
//! An [`Undo`] is created before the change and contains whatever the change would lose, such as
//! the old value of a sysctl. [`crate::undo::restore`] executes it.

pub(crate) mod clean;
pub(crate) mod guard;
pub(crate) mod log;
pub(crate) mod restore;

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::work::directory_name;
use serde::{Deserialize, Serialize};

use crate::host::nfsd;

/// How to undo one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub(crate) enum Undo {
    /// Restores a kernel setting.
    Write {
        /// Path below /proc or /sys.
        path: PathBuf,
        /// The old value.
        text: String,
    },
    /// Restores the MTU of an interface.
    Mtu {
        /// Name of the interface.
        interface: String,
        /// The old value, in bytes.
        bytes: u32,
    },
    /// Removes our tc rules from an interface.
    Shape {
        /// Name of the interface.
        interface: String,
    },
    /// Unmounts something we mounted.
    Unmount {
        /// Path of the mount point.
        point: PathBuf,
        /// Type of the file system, as far as known. `nfs` includes `nfs4`.
        file_system: String,
    },
    /// Removes a folder we created, if it is empty.
    Folder {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Removes one of our folders below /run/dfsbench with its contents.
    Tree {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Removes a file we created.
    File {
        /// Path of the file.
        path: PathBuf,
    },
    /// Detaches a file's loop device.
    Loop {
        /// Path of the backing file.
        file: PathBuf,
    },
    /// Stops an array and wipes its superblocks from the devices.
    Array {
        /// Its name in /dev/md.
        name: String,
        /// Devices of the array.
        devices: Vec<PathBuf>,
    },
    /// Closes a dm-crypt mapping.
    Mapped {
        /// Its name in /dev/mapper.
        name: String,
    },
    /// Wipes the signatures of a file system that we created.
    Wipe {
        device: PathBuf,
        /// UUID of the file system. If it differs, it isn't ours.
        uuid: String,
    },
    /// Stops programs that we started.
    End {
        /// The path they were started with, which no other program uses.
        program: PathBuf,
    },
    /// Stops the processes that carry our mark in their environment.
    EndMarked {
        /// The mark, which is one of our folders and isn't used by any other program.
        mark: PathBuf,
        /// Time to exit after SIGTERM, in seconds.
        within_s: u64,
    },
    /// Removes files that our programs added to a folder that isn't ours.
    Additions {
        /// The folder, or a single file.
        path: PathBuf,
        /// Everything that was there before; `None` if the path itself didn't exist.
        before: Option<BTreeSet<PathBuf>>,
    },
    /// Removes the files that a campaign's clients left in an exported directory, once the campaign
    /// is over. Clients that are lost cannot do it while nothing is mounted.
    Works {
        directory: PathBuf,
        /// The campaign that its working directories are named after.
        campaign: String,
    },
    /// Removes an export.
    Export {
        directory: PathBuf,
        /// The clients it was exported to.
        clients: String,
    },
    /// Restores the kernel's NFS server.
    Nfsd {
        /// Its previous state.
        state: nfsd::State,
    },
    /// Restores the wall clock.
    Calendar {
        /// Its previous offset from the time since boot, in nanoseconds.
        offset_ns: i64,
    },
}

impl Undo {
    /// Returns true if this still has to be undone after a reboot.
    pub(crate) const fn outlives_boot(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Array { .. } | Self::Wipe { .. })
            || matches!(self, Self::Folder { .. } | Self::Works { .. } | Self::Additions { .. })
    }

    /// Describes what remains on the host if this is never undone.
    pub(crate) fn remainder(&self) -> String {
        match self {
            Self::Write { path, text } => {
                format!(
                    "the setting {} was not restored; its old value was `{text}`",
                    path.display()
                )
            }
            Self::Mtu { interface, bytes } => {
                format!("the MTU of interface {interface} was not restored; it was {bytes}")
            }
            Self::Shape { interface } => {
                format!("interface {interface} still has our traffic rules")
            }
            Self::Unmount { point, .. } => format!("{} is still mounted", point.display()),
            Self::Folder { path } | Self::Tree { path } => {
                format!("the folder {} still exists", path.display())
            }
            Self::File { path } => format!("the file {} still exists", path.display()),
            Self::Loop { file } => {
                format!("the loop device of {} is still attached", file.display())
            }
            Self::Array { name, .. } => format!("the array {name} still exists"),
            Self::Mapped { name } => format!("the encrypted mapping {name} is still open"),
            Self::Wipe { device, uuid } => {
                format!("the file system {uuid} on {} was not wiped", device.display())
            }
            Self::End { program } => {
                format!("processes of {} are still running", program.display())
            }
            Self::EndMarked { mark, .. } => {
                format!("processes of the system in {} are still running", mark.display())
            }
            Self::Additions { path, .. } => {
                format!("files added to {} were not removed", path.display())
            }
            Self::Works { directory, campaign } => {
                let name = directory_name(campaign, '*');
                format!("the working directories {} still exist", directory.join(name).display())
            }
            Self::Export { directory, clients } => {
                format!("{} is still exported to {clients}", directory.display())
            }
            Self::Nfsd { .. } => "the kernel's NFS server was not restored".to_owned(),
            Self::Calendar { .. } => "the wall clock was not restored".to_owned(),
        }
    }
}
