//! Targets and backends: one row for each kind of target, and for each way in which ops reach it.
//!
//! Plan, engine, caveats and reports read these rows instead of matching on kinds, so a new target
//! is a variant with its row here, and a folder in `engine::target` that can prepare and open it.

use std::fmt;
use std::path::PathBuf;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::nfs::NfsTarget;
use crate::words::words;

words! {
    /// How ops are executed.
    BackendKind {
        /// Nothing is done: the tool's own ceiling.
        Null = "null",
        /// Synchronous system calls.
        Posix = "posix",
        /// The `io_uring` backend.
        Uring = "uring",
        /// The user-space NFS client.
        Nfs = "nfs",
        /// Data is copied within memory.
        Memory = "memory",
        /// Data goes over a TCP connection, without RPC.
        Tcp = "tcp",
    }
}

/// Something that not every backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// A worker can have several ops in flight, so there is a queue depth to choose.
    QueueOps,
    /// Data is moved, not only counted.
    MoveData,
    /// Ops are system calls on files of this host, through its page cache unless they are direct.
    MakeSystemCalls,
    /// Files may be mapped into memory instead of being read and written by calls.
    MapFiles,
    /// It is an NFS client by itself, so settings of NFS are its own and not those of a mount.
    SpeakNfs,
}

/// The default depth and the abilities of a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendRow {
    /// Ops in flight per worker where the plan names no depth: as many as keep a fast target busy.
    pub default_queue_depth: u32,
    /// The backend's abilities.
    pub abilities: &'static [Ability],
}

const NULL: BackendRow = BackendRow {
    default_queue_depth: 1,
    // Nothing is done, by whichever way.
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
    /// Returns its default depth and its abilities.
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

    /// Says whether it can do that.
    pub fn can(self, ability: Ability) -> bool {
        self.row().abilities.contains(&ability)
    }
}

/// The target of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// Nothing: the null backend.
    Null,
    /// A directory of this host.
    Directory {
        /// The directory below which a working directory is made.
        path: PathBuf,
    },
    /// Several directories of this host, used together: file `f` of the set lives in directory `f`
    /// modulo their number.
    Directories {
        /// The directories below each of which a working directory is made.
        paths: Vec<PathBuf>,
    },
    /// An NFS server, spoken to without the kernel's client.
    Nfs(NfsTarget),
    /// Memory of this host: what copying alone takes.
    Memory,
    /// An in-memory server of ours, spoken to over TCP without RPC.
    Tcp(TcpTarget),
}

/// The address of a dfsbench server that speaks plain TCP without RPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpTarget {
    /// Host name or address.
    pub host: String,
    /// Its port of NFS; `None` until the server of this process has one.
    pub port: Option<u16>,
    /// It is the in-memory server of this very process, the one without faults.
    pub embedded: bool,
}

/// The data that outlives a pass at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing: no files, and no data that could be durable. The words say what becomes of writes.
    Nothing(&'static str),
    /// Files in directories of this host, mounted ones included.
    FilesHere,
    /// Files on a server that this process speaks to by itself.
    FilesOnServer,
}

/// The properties that all targets of a kind share.
#[derive(Clone, Copy, Debug)]
pub struct TargetRow {
    /// The name it gets in tables where the plan gives none; for [`Target::PLAIN`] also the key
    /// of plans.
    pub usual_name: &'static str,
    /// The kind with its article, as messages name it.
    pub noun: &'static str,
    /// The effect of its key, for the reference of plans; empty where the plan has an own key.
    pub meaning: &'static str,
    /// The backends that can execute ops on it; the first is the default.
    pub backends: &'static [BackendKind],
    /// The data that outlives a pass.
    pub keeps: Keeps,
}

const ONLY_COUNTED: TargetRow = TargetRow {
    usual_name: "null",
    noun: "the null target",
    meaning: "Nothing: measures what the tool itself can do.",
    backends: &[BackendKind::Null],
    keeps: Keeps::Nothing("the null backend writes nothing"),
};

/// The row of directories.
pub const OF_DIRECTORIES: TargetRow = TargetRow {
    usual_name: "dir",
    noun: "a directory",
    meaning: "",
    backends: &[BackendKind::Posix, BackendKind::Uring],
    keeps: Keeps::FilesHere,
};

/// The row of NFS servers.
pub const OF_NFS: TargetRow = TargetRow {
    usual_name: "nfs",
    noun: "an NFS server",
    meaning: "",
    backends: &[BackendKind::Nfs],
    keeps: Keeps::FilesOnServer,
};

const FORGOTTEN: Keeps = Keeps::Nothing("what is written is kept nowhere");

const OF_MEMORY: TargetRow = TargetRow {
    usual_name: "memory",
    noun: "memory",
    meaning: "Memory of this host: data is copied and kept nowhere.",
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
    /// The targets without an address: a plan says `null = true` of one, and flags and the
    /// reference of plans have them from here.
    pub const PLAIN: &'static [Self] = &[Self::Null, Self::Memory];

    /// Returns the target without an address that has this name.
    pub fn plain(name: &str) -> Option<Self> {
        Self::PLAIN.iter().find(|target| target.row().usual_name == name).cloned()
    }

    /// Says whether it has no address: this process alone does all the work.
    pub fn is_plain(&self) -> bool {
        Self::PLAIN.contains(self)
    }

    /// Returns what all targets of its kind have in common.
    pub const fn row(&self) -> &'static TargetRow {
        match self {
            Self::Null => &ONLY_COUNTED,
            Self::Directory { .. } | Self::Directories { .. } => &OF_DIRECTORIES,
            Self::Nfs(_) => &OF_NFS,
            Self::Memory => &OF_MEMORY,
            Self::Tcp(_) => &OF_TCP,
        }
    }

    /// Says whether it is directories of this host.
    pub const fn is_local(&self) -> bool {
        matches!(self.row().keeps, Keeps::FilesHere)
    }

    /// Says whether nothing is kept there: no files, and no data that could be durable.
    pub const fn keeps_nothing(&self) -> bool {
        matches!(self.row().keeps, Keeps::Nothing(_))
    }

    /// Says whether its files outlive this process: those of its own server don't.
    pub const fn outlives_process(&self) -> bool {
        !self.keeps_nothing() && !self.is_embedded()
    }

    /// Says whether its server is the in-memory server of this very process.
    pub const fn is_embedded(&self) -> bool {
        match self {
            Self::Nfs(nfs) => nfs.embedded,
            Self::Tcp(tcp) => tcp.embedded,
            _ => false,
        }
    }

    /// Names the host of its server, where this process speaks to one by itself.
    pub fn server_host(&self) -> Option<&str> {
        match self {
            Self::Nfs(nfs) => Some(&nfs.host),
            Self::Tcp(tcp) => Some(&tcp.host),
            _ => None,
        }
    }

    /// Returns the NFS server, where this process speaks NFS by itself.
    pub const fn nfs(&self) -> Option<&NfsTarget> {
        match self {
            Self::Nfs(nfs) => Some(nfs),
            _ => None,
        }
    }

    /// Returns the NFS server to be changed, where this process speaks NFS by itself.
    pub const fn nfs_mut(&mut self) -> Option<&mut NfsTarget> {
        match self {
            Self::Nfs(nfs) => Some(nfs),
            _ => None,
        }
    }

    /// Lists its directories of this host; none for any other kind.
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
