//! How one change of a host is undone, as data that suffices alone.
//!
//! Principal type: [`Undo`]. It is made before the change and holds what the change loses, such as
//! the old value of a sysctl. [`crate::restore`] carries it out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use model::work::directory_name;
use serde::{Deserialize, Serialize};

use crate::host::nfsd;

/// How one change is undone.
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
        /// The path that they run by, which no other program uses.
        program: PathBuf,
    },
    /// Ends the processes that carry a mark of ours in their environment.
    EndMarked {
        /// The mark: a folder of ours, which no other program names.
        mark: PathBuf,
        /// Longest time to end after SIGTERM, in seconds.
        within_s: u64,
    },
    /// Removes what programs of ours added to a folder that isn't ours.
    Additions {
        /// The folder, or a single file.
        path: PathBuf,
        /// All that was there before; `None` where the path itself wasn't.
        before: Option<BTreeSet<PathBuf>>,
    },
    /// Removes what a campaign's clients left in a directory that was served to them, once the
    /// campaign is over: one that is lost while nothing is mounted can't do it.
    Works {
        /// Path of the directory.
        directory: PathBuf,
        /// The campaign that its working directories are named after.
        campaign: String,
    },
    /// Withdraws an export.
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
    /// Sets the wall clock as it was.
    Calendar {
        /// How far it was ahead of the time since boot, in nanoseconds.
        offset_ns: i64,
    },
}

impl Undo {
    /// Says whether there is something to undo even after the host was started again.
    pub const fn outlives_boot(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Array { .. } | Self::Wipe { .. })
            || matches!(self, Self::Folder { .. } | Self::Works { .. } | Self::Additions { .. })
    }

    /// States what stays on the host if this is never undone.
    pub fn remainder(&self) -> String {
        match self {
            Self::Write { path, text } => {
                format!("the setting {} keeps its value; it was `{text}` before", path.display())
            }
            Self::Mtu { interface, bytes } => {
                format!("interface {interface} keeps its MTU; it was {bytes} before")
            }
            Self::Shape { interface } => format!("interface {interface} keeps its traffic rules"),
            Self::Unmount { point, .. } => format!("{} stays mounted", point.display()),
            Self::Folder { path } | Self::Tree { path } => {
                format!("the folder {} stays", path.display())
            }
            Self::File { path } => format!("the file {} stays", path.display()),
            Self::Loop { file } => format!("the loop device of {} stays attached", file.display()),
            Self::Array { name, .. } => format!("the array {name} stays"),
            Self::Mapped { name } => format!("the encrypted mapping {name} stays open"),
            Self::Wipe { device, uuid } => {
                format!("the file system {uuid} on {} stays", device.display())
            }
            Self::End { program } => format!("processes of {} keep running", program.display()),
            Self::EndMarked { mark, .. } => {
                format!("processes of the system in {} keep running", mark.display())
            }
            Self::Additions { path, .. } => {
                format!("what was added to {} stays", path.display())
            }
            Self::Works { directory, campaign } => {
                let name = directory_name(campaign, '*');
                format!("working directories {} stay", directory.join(name).display())
            }
            Self::Export { directory, clients } => {
                format!("{} stays exported to {clients}", directory.display())
            }
            Self::Nfsd { .. } => "the kernel's NFS server stays as it is".to_owned(),
            Self::Calendar { .. } => "the wall clock stays as it is".to_owned(),
        }
    }
}
