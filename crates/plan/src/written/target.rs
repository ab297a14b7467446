//! Targets as people write them: a directory, `null`, an NFS address, hosts of ours.
//!
//! [`TargetArg`] is a target before the surroundings are known: uid, gid and the temporary folder
//! may still be open.

use std::path::PathBuf;

use model::{BackendKind, TcpTarget};

use crate::written::address::{NfsAddress, User};
use crate::written::lab::LabArg;
use crate::written::settings::Settings;

/// Path of the in-memory server's files.
const EMBEDDED_PATH: &str = "/export";

/// A target, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// Nothing: the tool's own ceiling.
    Null,
    /// A directory of this host.
    Directory(PathBuf),
    /// Several directories of this host, used together.
    Directories(Vec<PathBuf>),
    /// A directory of our own under the temporary folder.
    Temporary,
    /// An NFS server.
    Nfs(NfsAddress),
    /// The in-memory server of this process; its address has no port yet.
    Embedded(NfsAddress),
    /// Hosts that are set up for it.
    Lab(Box<LabArg>),
    /// Memory of this host.
    Memory,
    /// A server of ours, over TCP without RPC.
    Tcp(TcpTarget),
}

impl TargetArg {
    /// The name it gets in tables where nobody names it.
    pub const fn usual_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Directory(_) | Self::Directories(_) | Self::Temporary => "dir",
            Self::Nfs(_) | Self::Embedded(_) | Self::Lab(_) => "nfs",
            Self::Memory => "memory",
            Self::Tcp(_) => "tcp",
        }
    }

    /// The backends that can execute ops on it; the first is the default.
    pub const fn backends(&self) -> &'static [BackendKind] {
        match self {
            Self::Null => &[BackendKind::Null],
            Self::Directory(_) | Self::Directories(_) | Self::Temporary => {
                &[BackendKind::Posix, BackendKind::Uring]
            }
            Self::Nfs(_) | Self::Embedded(_) => &[BackendKind::Nfs],
            Self::Lab(_) => {
                &[BackendKind::Posix, BackendKind::Uring, BackendKind::Nfs, BackendKind::Tcp]
            }
            Self::Memory => &[BackendKind::Memory],
            Self::Tcp(_) => &[BackendKind::Tcp],
        }
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

    /// Takes the in-memory server of this process that does nothing wrong, as root of nobody's
    /// files.
    pub fn faultless(user: User) -> Self {
        match Self::embedded(user) {
            Self::Embedded(address) => Self::Embedded(NfsAddress { faultless: true, ..address }),
            other => other,
        }
    }

    /// Takes the same server, over TCP without RPC.
    pub fn tcp_embedded() -> Self {
        Self::Tcp(TcpTarget { host: "127.0.0.1".to_owned(), port: None, embedded: true })
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
