//! Targets and backends, with a table row for each kind of target and each backend.
//!
//! Plan, engine, caveats and reports use these rows instead of matching on kinds. So a new target
//! needs a variant and a row here, and a folder in `engine::target` with the code to prepare and
//! open it.

use std::fmt;
use std::path::PathBuf;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::targets::nfs::NfsTarget;
use crate::text::words::words;

words! {
    /// How ops are executed.
    BackendKind {
        /// Does nothing, to measure the tool's own upper limit.
        Null = "null",
        /// Synchronous system calls.
        Posix = "posix",
        /// The `io_uring` backend.
        Uring = "uring",
        /// The user-space NFS client.
        Nfs = "nfs",
        /// Copies data within memory.
        Memory = "memory",
        /// Sends data over a TCP connection, without RPC.
        Tcp = "tcp",
    }
}

/// An ability that not every backend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// A worker can have several ops in flight, so there is a queue depth to choose.
    QueueOps,
    /// Data is transferred, not only counted.
    MoveData,
    /// Ops are system calls on local files, through the page cache unless they are direct.
    MakeSystemCalls,
    /// Files can be mapped into memory instead of being read and written by system calls.
    MapFiles,
    /// The backend is an NFS client itself, so it has NFS settings of its own and not those of a
    /// mount.
    SpeakNfs,
}

/// Default queue depth and abilities of a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendRow {
    /// Ops in flight per worker if the plan doesn't specify it: enough to keep a fast target busy.
    pub default_queue_depth: u32,
    pub abilities: &'static [Ability],
}

const NULL: BackendRow = BackendRow {
    default_queue_depth: 1,
    // Nothing is done, either way.
    abilities: &[Ability::QueueOps, Ability::MapFiles],
};

const POSIX: BackendRow = BackendRow {
    default_queue_depth: 1,
    abilities: &[Ability::MoveData, Ability::MakeSystemCalls, Ability::MapFiles],
};

const URING: BackendRow = BackendRow {
    default_queue_depth: 8,
    abilities: &[Ability::QueueOps, Ability::MoveData, Ability::MakeSystemCalls],
};

const NFS: BackendRow = BackendRow {
    default_queue_depth: 8,
    abilities: &[Ability::QueueOps, Ability::MoveData, Ability::SpeakNfs],
};

const MEMORY: BackendRow =
    BackendRow { default_queue_depth: 1, abilities: &[Ability::QueueOps, Ability::MoveData] };

const TCP: BackendRow = BackendRow { default_queue_depth: 8, ..MEMORY };

impl BackendKind {
    /// Returns the backend's default queue depth and abilities.
    pub const fn row(self) -> &'static BackendRow {
        match self {
            Self::Null => &NULL,
            Self::Posix => &POSIX,
            Self::Uring => &URING,
            Self::Nfs => &NFS,
            Self::Memory => &MEMORY,
            Self::Tcp => &TCP,
        }
    }

    /// Returns true if the backend has an ability.
    pub fn has_ability(self, ability: Ability) -> bool {
        self.row().abilities.contains(&ability)
    }
}

/// The target of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// No target; for the null backend.
    Null,
    /// A directory on this host.
    Directory {
        /// The directory in which the working directory is created.
        path: PathBuf,
    },
    /// Several directories on this host, used together: file `f` is in directory `f` modulo their
    /// number.
    Directories {
        /// The directories in which working directories are created.
        paths: Vec<PathBuf>,
    },
    /// An NFS server, accessed without the kernel's client.
    Nfs(NfsTarget),
    /// Memory of this host, to measure the cost of copying.
    Memory,
    /// Our in-memory server, accessed over TCP without RPC.
    Tcp(TcpTarget),
}

/// Address of a dfsbench server for raw TCP without RPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpTarget {
    /// Host name or address.
    pub host: String,
    /// Its NFS port; `None` until the server in this process has one.
    pub port: Option<u16>,
    /// It is the faultless in-memory server of this process.
    pub embedded: bool,
}

/// Which data outlives a pass at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptData {
    /// None: there are no files and nothing can be durable. The text explains what happens to
    /// writes.
    Nothing(&'static str),
    /// Files in directories of this host, including mounted ones.
    FilesHere,
    /// Files on a server that this process accesses directly.
    FilesOnServer,
}

/// Properties shared by all targets of a kind.
#[derive(Clone, Copy, Debug)]
pub struct TargetRow {
    /// Name in tables unless the plan specifies one; for [`Target::PLAIN`] also the key in plans.
    pub usual_name: &'static str,
    /// The kind with its article, for messages.
    pub noun: &'static str,
    /// Effect of its key, for the plan reference; empty if the plan reader defines the key itself.
    pub meaning: &'static str,
    /// Backends that can execute ops on it; the first is the default.
    pub backends: &'static [BackendKind],
    /// Which data outlives a pass.
    pub keeps: KeptData,
}

const ONLY_COUNTED: TargetRow = TargetRow {
    usual_name: "null",
    noun: "the null target",
    meaning: "Nothing: measures what the tool itself can do.",
    backends: &[BackendKind::Null],
    keeps: KeptData::Nothing("the null backend writes nothing"),
};

/// Row for directories.
pub const OF_DIRECTORIES: TargetRow = TargetRow {
    usual_name: "dir",
    noun: "a directory",
    meaning: "",
    backends: &[BackendKind::Posix, BackendKind::Uring],
    keeps: KeptData::FilesHere,
};

/// Row for NFS servers.
pub const OF_NFS: TargetRow = TargetRow {
    usual_name: "nfs",
    noun: "an NFS server",
    meaning: "",
    backends: &[BackendKind::Nfs],
    keeps: KeptData::FilesOnServer,
};

const FORGOTTEN: KeptData = KeptData::Nothing("written data is discarded");

const OF_MEMORY: TargetRow = TargetRow {
    usual_name: "memory",
    noun: "memory",
    meaning: "Memory of this host: data is copied and discarded.",
    backends: &[BackendKind::Memory],
    keeps: FORGOTTEN,
};

const OF_TCP: TargetRow = TargetRow {
    usual_name: "tcp",
    noun: "a TCP connection",
    meaning: "",
    backends: &[BackendKind::Tcp],
    keeps: FORGOTTEN,
};

impl Target {
    /// Targets without an address. Plans select them with, for example, `null = true`; flags and
    /// the plan reference are generated from this list.
    pub const PLAIN: &'static [Self] = &[Self::Null, Self::Memory];

    /// Returns the target without an address that has this name.
    pub fn plain(name: &str) -> Option<Self> {
        Self::PLAIN.iter().find(|target| target.row().usual_name == name).cloned()
    }

    /// Returns true if the target has no address, so this process does all the work.
    pub fn is_plain(&self) -> bool {
        Self::PLAIN.contains(self)
    }

    /// Returns the properties shared by all targets of its kind.
    pub const fn row(&self) -> &'static TargetRow {
        match self {
            Self::Null => &ONLY_COUNTED,
            Self::Directory { .. } | Self::Directories { .. } => &OF_DIRECTORIES,
            Self::Nfs(_) => &OF_NFS,
            Self::Memory => &OF_MEMORY,
            Self::Tcp(_) => &OF_TCP,
        }
    }

    /// Returns true if the target consists of directories on this host.
    pub const fn is_local(&self) -> bool {
        matches!(self.row().keeps, KeptData::FilesHere)
    }

    /// Returns true if no data outlives a pass there.
    pub const fn keeps_nothing(&self) -> bool {
        matches!(self.row().keeps, KeptData::Nothing(_))
    }

    /// Returns true if its files outlive this process, unlike those of our embedded server.
    pub const fn outlives_process(&self) -> bool {
        !self.keeps_nothing() && !self.is_embedded()
    }

    /// Returns true if its server is the in-memory server of this process.
    pub const fn is_embedded(&self) -> bool {
        match self {
            Self::Nfs(nfs) => nfs.embedded,
            Self::Tcp(tcp) => tcp.embedded,
            _ => false,
        }
    }

    /// Returns the host of its server, if this process accesses one directly.
    pub fn server_host(&self) -> Option<&str> {
        match self {
            Self::Nfs(nfs) => Some(&nfs.host),
            Self::Tcp(tcp) => Some(&tcp.host),
            _ => None,
        }
    }

    /// Returns the NFS server, if this process accesses one directly.
    pub const fn nfs(&self) -> Option<&NfsTarget> {
        match self {
            Self::Nfs(nfs) => Some(nfs),
            _ => None,
        }
    }

    /// Returns the NFS server for modification, if this process accesses one directly.
    pub const fn nfs_mut(&mut self) -> Option<&mut NfsTarget> {
        match self {
            Self::Nfs(nfs) => Some(nfs),
            _ => None,
        }
    }

    /// Returns its directories on this host; empty for any other kind.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Directory { path } => slice::from_ref(path),
            Self::Directories { paths } => paths,
            _ => &[],
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { .. } | Self::Directories { .. } => {
                for (number, path) in self.paths().iter().enumerate() {
                    let joint = if number == 0 { "" } else { " + " };
                    write!(f, "{joint}{}", path.display())?;
                }
                Ok(())
            }
            Self::Nfs(nfs) => write!(f, "{nfs}"),
            Self::Tcp(tcp) if tcp.embedded => f.write_str("tcp://(in-memory server)"),
            Self::Tcp(TcpTarget { host, port, .. }) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                write!(f, "tcp://{host}:{}", port.unwrap_or_default())
            }
            plain => f.write_str(plain.row().usual_name),
        }
    }
}
