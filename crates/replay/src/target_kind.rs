//! The kinds of targets, and the operations they support.

use nfs_client::proto::client::{OperationKind, ProtocolVersion};

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// An NFS server, with the protocol version to use.
    Nfs(ProtocolVersion),
    /// A local directory.
    Directory,
}

impl TargetKind {
    /// Returns its name, as in `not in NFS v3`.
    pub fn name(self) -> String {
        match self {
            Self::Nfs(version) => format!("NFS v{}", version.name()),
            Self::Directory => "a directory".to_owned(),
        }
    }

    /// Returns the version whose status names apply.
    pub(crate) const fn status_version(self) -> ProtocolVersion {
        match self {
            Self::Nfs(version) => version,
            Self::Directory => ProtocolVersion::V3,
        }
    }

    /// Returns true if files can be opened by handle. **Source:** RFC 8881 section 18.16, CLAIM_FH.
    pub(crate) fn opens_handles(self) -> bool {
        match self {
            Self::Nfs(version) => version.has_sessions(),
            Self::Directory => true,
        }
    }

    /// Returns true if it supports an operation.
    pub fn has(self, kind: OperationKind) -> bool {
        match self {
            Self::Nfs(version) => version.has(kind),
            // There is an equivalent system call for everything except NULL.
            Self::Directory => kind != OperationKind::Null,
        }
    }
}
