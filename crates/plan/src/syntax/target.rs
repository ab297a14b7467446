//! Targets as people write them: a directory, `null`, an NFS address, hosts of ours.
//!
//! [`TargetArg`] is a target before the surroundings are known: uid, gid and the temporary folder
//! may still be open.

use std::path::PathBuf;

use model::target::{OF_DIRECTORIES, OF_NFS, TargetRow};
use model::{BackendKind, Target, TcpTarget};

use crate::syntax::address::{NfsAddress, User};
use crate::syntax::lab::LabArg;
use crate::syntax::settings::Settings;

/// Path of the in-memory server's files.
const EMBEDDED_PATH: &str = "/export";

/// A target, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// A target that leaves nothing to its surroundings.
    Ready(Target),
    /// A directory of our own under the temporary folder.
    Temporary,
    /// An NFS server.
    Nfs(NfsAddress),
    /// The in-memory server of this process; its address has no port yet.
    Embedded(NfsAddress),
    /// Hosts that are set up for it.
    Lab(Box<LabArg>),
}

/// The row of hosts that are set up: what they serve is used through a mount or by our clients.
pub(crate) const OF_LAB: TargetRow = TargetRow {
    noun: "a directory of a server",
    backends: &[BackendKind::Posix, BackendKind::Uring, BackendKind::Nfs, BackendKind::Tcp],
    ..OF_NFS
};

impl TargetArg {
    /// The null target.
    pub const NULL: Self = Self::Ready(Target::Null);

    /// Returns the usual name of such a target, its backends, and what it is called in messages.
    pub const fn row(&self) -> &'static TargetRow {
        match self {
            Self::Ready(target) => target.row(),
            Self::Temporary => &OF_DIRECTORIES,
            Self::Nfs(_) | Self::Embedded(_) => &OF_NFS,
            Self::Lab(_) => &OF_LAB,
        }
    }

    /// The backends that can execute ops on it; the first is the default.
    pub const fn backends(&self) -> &'static [BackendKind] {
        self.row().backends
    }

    /// Takes a directory of this host.
    pub const fn directory(path: PathBuf) -> Self {
        Self::Ready(Target::Directory { path })
    }

    /// Takes the in-memory server, used as this user.
    pub fn embedded(user: User) -> Self {
        Self::Embedded(NfsAddress {
            host: "127.0.0.1".to_owned(),
            path: EMBEDDED_PATH.to_owned(),
            user,
            ..NfsAddress::default()
        })
    }

    /// Takes the in-memory server of this process that does nothing wrong, as root of its own
    /// files.
    pub fn faultless(user: User) -> Self {
        match Self::embedded(user) {
            Self::Embedded(address) => Self::Embedded(NfsAddress { faultless: true, ..address }),
            other => other,
        }
    }

    /// Takes a server of ours, over TCP without RPC; the one of this process has no port yet.
    pub(crate) const fn tcp(host: String, port: Option<u16>) -> Self {
        let embedded = port.is_none();
        Self::Ready(Target::Tcp(TcpTarget { host, port, embedded }))
    }

    /// Takes the same server, over TCP without RPC.
    pub(crate) fn tcp_embedded() -> Self {
        Self::tcp("127.0.0.1".to_owned(), None)
    }

    /// Returns the address of the export, if NFS is spoken.
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

    /// The settings that were written with it.
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

    /// The hosts that are set up for it, if any are.
    pub(crate) const fn lab(&self) -> Option<&LabArg> {
        match self {
            Self::Lab(lab) => Some(lab),
            _ => None,
        }
    }
}
