//! What a run does, with every setting resolved.
//!
//! A `RunSpec` is one point of the matrix: nothing in it is left to a default any more. It is
//! stored with the results and handed to the agents as it stands.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::units::Size;

/// How ops are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Nothing is done: the tool's own ceiling.
    Null,
    /// Synchronous system calls.
    Posix,
    /// `io_uring`.
    Uring,
    /// The user-space NFS client.
    Nfs,
}

impl BackendKind {
    /// Names the backend as plans and tables do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Posix => "posix",
            Self::Uring => "uring",
            Self::Nfs => "nfs",
        }
    }

    /// Ops in flight per worker when nobody asked: one for synchronous calls, else as much as
    /// keeps a fast target busy.
    pub const fn default_queue_depth(self) -> u32 {
        match self {
            Self::Null | Self::Posix => 1,
            Self::Uring | Self::Nfs => 8,
        }
    }
}

/// What kind of work a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Sequential write, then sequential read, of whole files.
    Stream,
    /// Reads and writes at random offsets of prepared files, for a time.
    Random,
    /// Create, stat and remove many small files.
    Metadata,
}

impl Workload {
    /// Names the workload as plans and tables do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Random => "random",
            Self::Metadata => "metadata",
        }
    }

    /// The passes of one trial, in their order.
    pub const fn passes(self) -> &'static [Pass] {
        match self {
            Self::Stream => &[Pass::Write, Pass::Read],
            Self::Random => &[Pass::Mix],
            Self::Metadata => &[Pass::Create, Pass::Stat, Pass::Remove],
        }
    }
}

/// One sweep of one kind of op over the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// Sequential write of every file.
    Write,
    /// Sequential read of every file.
    Read,
    /// Random reads and writes in the stated share.
    Mix,
    /// Creation of every file.
    Create,
    /// Attributes of every file, by name.
    Stat,
    /// Removal of every file.
    Remove,
}

impl Pass {
    /// Names the pass as tables and exports do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Mix => "mix",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Remove => "remove",
        }
    }

    /// Finds a pass by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Write, Self::Read, Self::Mix, Self::Create, Self::Stat, Self::Remove]
            .into_iter()
            .find(|pass| pass.name() == name)
    }

    /// Says whether the figure is a byte rate (else it is an op rate).
    pub const fn is_byte_rate(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }

    /// Says whether the pass reads file data.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Mix)
    }

    /// Says whether the pass changes the file system.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Mix | Self::Create | Self::Remove)
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// Nothing: the null backend.
    Null,
    /// A directory of this host.
    Directory {
        /// Where a working directory of our own is made.
        path: PathBuf,
    },
    /// An NFS server, spoken to without the kernel's client.
    Nfs(NfsTarget),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Directory { path } => write!(f, "{}", path.display()),
            Self::Nfs(nfs) => write!(f, "{nfs}"),
        }
    }
}

/// Where an export is and as whom it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NfsTarget {
    /// Host name or address.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// Path to mount; it may lead below an export.
    pub path: String,
    /// NFS version.
    pub version: u32,
    /// User id sent with each call.
    pub uid: u32,
    /// Group id sent with each call.
    pub gid: u32,
    /// It is the in-memory server of this very process.
    pub embedded: bool,
}

impl NfsTarget {
    /// Says whether the server is reached without leaving this host, as far as its name tells.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for NfsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.embedded {
            return write!(f, "nfs://(in-memory server){}", self.path);
        }
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => write!(f, "nfs://{host}:{port}{}", self.path),
            None => write!(f, "nfs://{host}{}", self.path),
        }
    }
}

/// When written data must be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Never waited for.
    None,
    /// Each file is synced (`fsync`, COMMIT) inside the timed window.
    Sync,
}

impl Durability {
    /// Names the durability as plans and tables do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sync => "sync",
        }
    }
}

/// One point of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunSpec {
    /// Under which name the target stands in tables, such as `nfs` or `dir`.
    pub target_name: String,
    /// What is measured.
    pub target: Target,
    /// How ops are executed.
    pub backend: BackendKind,
    /// What kind of work is done.
    pub workload: Workload,
    /// Bytes of one read or write.
    pub io_size_bytes: u32,
    /// Size of each file: `file_size` of a plan, `small_file_size` for metadata.
    pub file_size_bytes: u64,
    /// Files in the set, all workers together: `files` of a plan, `small_files` for metadata.
    pub files: u32,
    /// Threads with a recorder each.
    pub workers: u32,
    /// Ops in flight per worker.
    pub queue_depth: u32,
    /// Share of reads in a mix, in percent.
    pub read_percent: u32,
    /// How long a mix runs.
    pub duration_ms: u64,
    /// Largest payload of one READ or WRITE on the wire; `None` takes what the server offers.
    pub transfer_size_bytes: Option<u32>,
    /// Bypass the page cache with `O_DIRECT`.
    pub direct: bool,
    /// Drop the files from this host's page cache before they are read.
    pub invalidate: bool,
    /// When written data must be safe.
    pub durability: Durability,
    /// Compare every byte read with what was written.
    pub verify: bool,
    /// An answer that takes longer is a failure.
    pub timeout_ms: u64,
}

impl RunSpec {
    /// Every setting that a reader may want to tell runs apart by, as (name, shown value).
    ///
    /// The names are those of plans and of `--where`.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let [files, file_size] = match self.workload {
            Workload::Stream | Workload::Random => ["files", "file_size"],
            Workload::Metadata => ["small_files", "small_file_size"],
        };
        let mut settings = vec![
            ("target", self.target_name.clone()),
            ("backend", self.backend.name().to_owned()),
            ("workload", self.workload.name().to_owned()),
            ("workers", self.workers.to_string()),
            ("queue_depth", self.queue_depth.to_string()),
            (files, self.files.to_string()),
            (file_size, Size(self.file_size_bytes).to_string()),
        ];
        if self.workload != Workload::Metadata {
            settings.push(("io_size", Size(u64::from(self.io_size_bytes)).to_string()));
            settings.push(("direct", self.direct.to_string()));
        }
        if self.workload == Workload::Random {
            settings.push(("read_percent", self.read_percent.to_string()));
        }
        // A mix that only reads has nothing to sync at its end.
        let mix_writes = self.workload == Workload::Random && self.read_percent < 100;
        if self.workload == Workload::Stream || mix_writes {
            settings.push(("durability", self.durability.name().to_owned()));
        }
        if self.workload != Workload::Metadata && self.target != Target::Null {
            if matches!(self.target, Target::Directory { .. }) {
                settings.push(("invalidate", self.invalidate.to_string()));
            }
            settings.push(("verify", self.verify.to_string()));
        }
        if let Target::Nfs(nfs) = &self.target {
            settings.push(("nfsvers", nfs.version.to_string()));
            let shown = self.transfer_size_bytes.map(|bytes| Size(u64::from(bytes)).to_string());
            settings.push(("transfer_size", shown.unwrap_or_else(|| "server's".to_owned())));
        }
        settings
    }

    /// Bytes that the file set holds.
    pub const fn set_bytes(&self) -> u64 {
        self.file_size_bytes * self.files as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_keep_their_names() {
        for workload in [Workload::Stream, Workload::Random, Workload::Metadata] {
            for pass in workload.passes() {
                assert_eq!(Pass::from_name(pass.name()), Some(*pass));
            }
        }
        assert_eq!(Pass::from_name("silly"), None);
    }

    fn run(workload: Workload, read_percent: u32) -> RunSpec {
        RunSpec {
            target_name: "null".into(),
            target: Target::Null,
            backend: BackendKind::Null,
            workload,
            io_size_bytes: 4096,
            file_size_bytes: 4096,
            files: 2,
            workers: 1,
            queue_depth: 1,
            read_percent,
            duration_ms: 1_000,
            transfer_size_bytes: None,
            direct: false,
            invalidate: true,
            durability: Durability::Sync,
            verify: false,
            timeout_ms: 5_000,
        }
    }

    #[test]
    fn settings_are_those_that_the_workload_depends_on() {
        let names = |workload, read_percent| {
            let settings = run(workload, read_percent).settings();
            settings.into_iter().skip(5).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let stream = ["files", "file_size", "io_size", "direct", "durability"];
        assert_eq!(names(Workload::Stream, 0), stream);
        let reads = ["files", "file_size", "io_size", "direct", "read_percent"];
        assert_eq!(names(Workload::Random, 100), reads);
        assert_eq!(names(Workload::Random, 99), [reads.as_slice(), &["durability"]].concat());
        assert_eq!(names(Workload::Metadata, 0), ["small_files", "small_file_size"]);
    }

    #[test]
    fn an_ipv6_target_prints_as_a_url() {
        let nfs = NfsTarget {
            host: "::1".into(),
            port: Some(2049),
            mount_port: None,
            path: "/export".into(),
            version: 3,
            uid: 0,
            gid: 0,
            embedded: false,
        };
        assert_eq!(nfs.to_string(), "nfs://[::1]:2049/export");
    }
}
