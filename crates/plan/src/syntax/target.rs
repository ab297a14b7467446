//! Targets as people write them: a directory, `null`, an NFS address, hosts that we set up.
//!
//! A [`TargetArg`] may still lack values from the surroundings: uid, gid and the temporary folder.

use std::path::PathBuf;

use model::target::{OF_DIRECTORIES, OF_NFS, TargetRow};
use model::{BackendKind, Target, TcpTarget};

use crate::syntax::address::{NfsAddress, User};
use crate::syntax::lab::LabArg;
use crate::syntax::settings::Settings;

const EMBEDDED_PATH: &str = "/export";

/// A target as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// A target that needs nothing from its surroundings.
    Ready(Target),
    /// A directory of our own under the temporary folder.
    Temporary,
    /// An NFS server.
    Nfs(NfsAddress),
    /// The in-memory server of this process; its address has no port yet.
    Embedded(NfsAddress),
    /// Hosts that we set up for it.
    Lab(Box<LabArg>),
}

/// The row for hosts that we set up: backends use them through a mount or through our client.
pub(crate) const OF_LAB: TargetRow = TargetRow {
    noun: "a directory of a server",
    backends: &[BackendKind::Posix, BackendKind::Uring, BackendKind::Nfs, BackendKind::Tcp],
    ..OF_NFS
};

impl TargetArg {
    pub const NULL: Self = Self::Ready(Target::Null);

    /// Returns the properties of such a target: usual name, backends, and its name in messages.
    pub const fn row(&self) -> &'static TargetRow {
        match self {
            Self::Ready(target) => target.row(),
            Self::Temporary => &OF_DIRECTORIES,
            Self::Nfs(_) | Self::Embedded(_) => &OF_NFS,
            Self::Lab(_) => &OF_LAB,
        }
    }

    /// Returns the backends that can execute ops on it; the first one is the default.
    pub const fn backends(&self) -> &'static [BackendKind] {
        self.row().backends
    }

    /// Creates a target of a directory on the local host.
    pub const fn directory(path: PathBuf) -> Self {
        Self::Ready(Target::Directory { path })
    }

    /// Creates a target of the in-memory server with these credentials.
    pub fn embedded(user: User) -> Self {
        Self::Embedded(NfsAddress {
            host: "127.0.0.1".to_owned(),
            path: EMBEDDED_PATH.to_owned(),
            user,
            ..NfsAddress::default()
        })
    }

    /// Creates a target of the in-memory server without faults.
    pub fn without_faults(user: User) -> Self {
        match Self::embedded(user) {
            Self::Embedded(address) => Self::Embedded(NfsAddress { faultless: true, ..address }),
            other => other,
        }
    }

    /// Creates a target of a dfsbench server over TCP without RPC; the one in this process has no
    /// port yet.
    pub(crate) const fn tcp(host: String, port: Option<u16>) -> Self {
        let embedded = port.is_none();
        Self::Ready(Target::Tcp(TcpTarget { host, port, embedded }))
    }

    /// Creates a target of the in-memory server over TCP without RPC.
    pub(crate) fn tcp_embedded() -> Self {
        Self::tcp("127.0.0.1".to_owned(), None)
    }

    /// Returns the address of the export if the target is used through NFS.
    pub const fn address(&self) -> Option<&NfsAddress> {
        match self {
            Self::Nfs(address) | Self::Embedded(address) => Some(address),
            _ => None,
        }
    }

    pub(crate) const fn address_mut(&mut self) -> Option<&mut NfsAddress> {
        match self {
            Self::Nfs(address) | Self::Embedded(address) => Some(address),
            _ => None,
        }
    }

    /// Returns the settings written as part of the target.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        match self {
            Self::Lab(lab) => Some(&lab.settings),
            _ => self.address().map(|address| &address.settings),
        }
    }

    pub(crate) fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            Self::Lab(lab) => Some(&mut lab.settings),
            _ => self.address_mut().map(|address| &mut address.settings),
        }
    }

    /// Returns the hosts to set up, if any.
    pub(crate) const fn lab(&self) -> Option<&LabArg> {
        match self {
            Self::Lab(lab) => Some(lab),
            _ => None,
        }
    }
}
