//! The stages of ops with pNFS, and the calls that they consist of.

use nfs_client::proto::nfs4::OpCode;

use super::super::transfers::Stage as DataStage;

/// The number of the metadata server among the servers.
pub(super) const METADATA: usize = 0;

/// Why an op is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The worker wants it.
    Op,
    /// Makes all data of a file safe.
    Sync,
    /// The same, and returns the layout.
    Return,
    /// Returns the layout; what is unstable stays so.
    Publish,
    /// Closes the file.
    Close,
    /// Gets a new layout.
    Get,
    /// Reports errors of data servers.
    ReportErrors,
    /// Reports how much the layout was used.
    ReportUse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Data(DataStage),
    Commit,
    LayoutCommit,
    LayoutReturn,
    LayoutGet,
    LayoutError,
    LayoutStats,
    Close,
}

impl Stage {
    /// Returns the operation of its calls.
    pub(super) const fn code(self) -> OpCode {
        match self {
            Self::Data(DataStage::Read) => OpCode::Read,
            Self::Data(_) => OpCode::Write,
            Self::Commit => OpCode::Commit,
            Self::LayoutCommit => OpCode::Layoutcommit,
            Self::LayoutReturn => OpCode::Layoutreturn,
            Self::LayoutGet => OpCode::Layoutget,
            Self::LayoutError => OpCode::Layouterror,
            Self::LayoutStats => OpCode::Layoutstats,
            Self::Close => OpCode::Close,
        }
    }
}

/// A call, waiting or in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    /// Index of its op.
    pub(super) op: u32,
    /// Number of the file.
    pub(super) file: u32,
    /// Number of the server.
    pub(super) side: u32,
    pub(super) mirror: u32,
    pub(super) stripe: u32,
    /// Offset in the file.
    pub(super) offset: u64,
    pub(super) server_offset: u64,
    /// Bytes to transfer.
    pub(super) left: u32,
    /// Bytes that the call in flight transfers.
    pub(super) len: u32,
    /// It writes another mirror than the first.
    pub(super) is_extra: bool,
    pub(super) is_active: bool,
    /// It was sent to a data server, and has no reply.
    pub(super) is_sent: bool,
}
