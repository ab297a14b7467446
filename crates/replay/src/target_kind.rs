//! The kinds of targets, and which operations each has.

use nfs_client::proto::client::{OperationKind, ProtocolVersion};

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// An NFS server that is spoken to in this version.
    Nfs(ProtocolVersion),
    /// A directory of this host.
    Directory,
}

impl TargetKind {
    /// Names it, as in `not in NFS v3`.
    pub fn name(self) -> String {
        match self {
            Self::Nfs(version) => format!("NFS v{}", version.name()),
            Self::Directory => "a directory".to_owned(),
        }
    }

    /// Returns the version whose names of statuses apply.
    pub const fn status_version(self) -> ProtocolVersion {
        match self {
            Self::Nfs(version) => version,
            Self::Directory => ProtocolVersion::V3,
        }
    }

    /// Tells whether it opens files by their handles. **Source:** RFC 8881 section 18.16, CLAIM_FH.
    pub fn opens_handles(self) -> bool {
        match self {
            Self::Nfs(version) => version.has_sessions(),
            Self::Directory => true,
        }
    }

    /// Tells whether it has an operation.
    pub fn has(self, kind: OperationKind) -> bool {
        match self {
            Self::Nfs(version) => version.has(kind),
            // Nothing else has no system call that does the same.
            Self::Directory => kind != OperationKind::Null,
        }
    }
}
