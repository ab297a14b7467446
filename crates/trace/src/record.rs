//! Rows of a trace: calls and their operations.
//!
//! Numbers replace everything that could identify anything: files, names, clients. In all of them,
//! 0 means "none" or "unknown".

use nfs_proto::nfs4::OpCode;
use nfs_proto::{nfs2, nfs3};
use serde::{Deserialize, Serialize};

/// The program and version of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    /// NFS version 2.
    V2,
    /// NFS version 3.
    V3,
    /// NFS version 4.0.
    V4_0,
    /// NFS version 4.1.
    V4_1,
    /// NFS version 4.2.
    V4_2,
    /// MOUNT version 1.
    Mount1,
    /// MOUNT version 3.
    Mount3,
}

/// Procedures of MOUNT by number. **Source:** RFC 1813 section 5.2.
const MOUNT_PROCEDURES: [&str; 6] = ["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"];

impl Version {
    /// All versions with their numbers in a trace file.
    pub const ALL: [(Self, u8); 7] = [
        (Self::V2, 20),
        (Self::V3, 30),
        (Self::V4_0, 40),
        (Self::V4_1, 41),
        (Self::V4_2, 42),
        (Self::Mount1, 101),
        (Self::Mount3, 103),
    ];

    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, known)| u64::from(*known) == number)
            .map(|(version, _)| version)
    }

    pub const fn number(self) -> u8 {
        match self {
            Self::V2 => 20,
            Self::V3 => 30,
            Self::V4_0 => 40,
            Self::V4_1 => 41,
            Self::V4_2 => 42,
            Self::Mount1 => 101,
            Self::Mount3 => 103,
        }
    }

    /// Returns the name as written by users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "v3",
            Self::V4_0 => "v4.0",
            Self::V4_1 => "v4.1",
            Self::V4_2 => "v4.2",
            Self::Mount1 => "mount1",
            Self::Mount3 => "mount3",
        }
    }

    /// Returns true if calls are compounds of operations.
    pub const fn is_compound(self) -> bool {
        matches!(self, Self::V4_0 | Self::V4_1 | Self::V4_2)
    }

    /// Returns the name of a procedure or operation.
    pub fn kind_name(self, kind: u8) -> &'static str {
        let number = u32::from(kind);
        let name = match self {
            Self::V2 => nfs2::Procedure::from_number(number).map(nfs2::Procedure::name),
            Self::V3 => nfs3::Procedure::from_number(number).map(nfs3::Procedure::name),
            Self::Mount1 | Self::Mount3 => MOUNT_PROCEDURES.get(usize::from(kind)).copied(),
            Self::V4_0 | Self::V4_1 | Self::V4_2 if kind == Op::NULL => Some("NULL"),
            Self::V4_0 | Self::V4_1 | Self::V4_2 => OpCode::from_number(number).map(OpCode::name),
        };
        name.unwrap_or("ILLEGAL")
    }
}

/// Bits of [`Call::flags`].
pub mod call_flag {
    /// The server's RPC layer rejected the call.
    pub const REFUSED: u8 = 1;
    /// The call could not be decoded completely.
    pub const CALL_INCOMPLETE: u8 = 2;
    /// The reply could not be decoded completely.
    pub(crate) const REPLY_INCOMPLETE: u8 = 4;
}

/// Bits of [`Op::flags`].
pub mod op_flag {
    /// The end of the file or directory was reached.
    pub const EOF: u8 = 1;
    /// The file is created if it doesn't exist (OPEN, CREATE).
    pub const CREATES: u8 = 2;
    /// `length` is a size being set (SETATTR, CREATE, OPEN).
    pub const SETS_SIZE: u8 = 4;
}

/// A call with its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, in the order of starts.
    pub number: u64,
    /// When the first byte was captured, in nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// Time until the last byte of the reply, in nanoseconds; `None` if there was no reply.
    pub response_ns: Option<u64>,
    pub connection: u32,
    pub version: Version,
    /// Bits of [`call_flag`].
    pub flags: u8,
    /// How often the call was retransmitted before its reply.
    pub retransmissions: u32,
    /// Length of the call message in bytes.
    pub call_bytes: u32,
    /// Length of the reply message in bytes.
    pub reply_bytes: u32,
    /// Operations: one, or all those of a compound.
    pub ops: Vec<Op>,
}

/// An operation with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Op {
    /// Number of the procedure or v4 operation, including [`Op::NULL`] and [`Op::ILLEGAL`].
    pub kind: u8,
    /// NFS status, 0 for success; `None` if no result was seen.
    pub status: Option<u32>,
    /// The file or directory that the operation applies to.
    pub file: u32,
    /// A second one: the directory of the new name (RENAME, LINK) or the source (COPY, CLONE).
    pub other: u32,
    /// The file returned in the reply: found, created or mounted.
    pub result: u32,
    /// Keyed hash of a name in `file` (in `other` for LINK), 56 bits.
    pub name: u64,
    /// Keyed hash of the new name (RENAME), 56 bits.
    pub other_name: u64,
    /// Offset in bytes, or the cookie of a listing.
    pub offset: u64,
    /// Offset in the source (COPY, CLONE), in bytes.
    pub source_offset: u64,
    /// Requested bytes; a size being set; share access and deny (OPEN).
    pub length: u64,
    /// Bytes transferred, or entries listed.
    pub count: u64,
    /// Requested stability (WRITE), kind of creation, or type of lock; 1 above the protocol value.
    pub how: u8,
    /// Granted stability (WRITE); 1 above the protocol value.
    pub committed: u8,
    /// Type of the file described in the reply, as v3's `ftype3`: that of `result` if present,
    /// otherwise that of `file`.
    pub file_type: u8,
    /// Size of the same file, in bytes.
    pub size: Option<u64>,
    /// Size of `file` before the operation, if the reply contains it (WRITE and SETATTR of v3).
    pub size_before: Option<u64>,
    /// Bits of [`op_flag`].
    pub flags: u8,
}

impl Op {
    /// The kind of NULL in v4, whose operations begin at 3.
    pub const NULL: u8 = 0;
    /// The kind of an operation that no RFC defines.
    pub const ILLEGAL: u8 = 255;

    /// Returns true if a v4 operation only begins a compound or selects files for the others.
    pub fn is_frame(&self) -> bool {
        matches!(
            OpCode::from_number(self.kind.into()),
            Some(
                OpCode::Sequence
                    | OpCode::Putfh
                    | OpCode::Putrootfh
                    | OpCode::Putpubfh
                    | OpCode::Savefh
                    | OpCode::Restorefh
                    | OpCode::Getfh
            )
        )
    }
}
