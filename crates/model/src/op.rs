//! One operation of a workload, from its due instant to its outcome.
//!
//! `Op` says what is to be done, `Completion` what became of it. Both are small `Copy` types,
//! because millions of them pass between workload, backend and recorder each second.
//! Failures are data: an `OpError` is counted and exported, never logged one by one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an op does to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum OpKind {
    /// Reads `len_bytes` at `offset_bytes`.
    Read,
    /// Writes `len_bytes` at `offset_bytes`.
    Write,
    /// Makes what was written to the file durable: `fsync` or COMMIT.
    Sync,
    /// Creates a file and, where `len_bytes` is not zero, writes its content and closes it.
    Create,
    /// Looks the file up by name and reads its attributes.
    Stat,
    /// Removes the file by name.
    Remove,
}

impl OpKind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Sync, Self::Create, Self::Stat, Self::Remove];

    /// Names the kind as tables and exports do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Remove => "remove",
        }
    }

    /// Says whether the kind moves file data, so that a byte rate means something.
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One operation, as the workload asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The instant it should start, in nanoseconds of the worker's clock.
    pub due_ns: u64,
    /// First byte that it touches.
    pub offset_bytes: u64,
    /// Bytes that it moves; 0 for `Sync`, `Stat` and `Remove`.
    pub len_bytes: u32,
    /// Index into the file set.
    pub file: u32,
    /// What is done.
    pub kind: OpKind,
}

/// Why an op failed: a Linux errno, or an NFS status above 10000 that has none.
///
/// **Source:** `errno(3)`; RFC 1813, 2.6 (NFS statuses below 100 are errno values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpError(pub u32);

impl OpError {
    /// The op moved fewer bytes than it asked for.
    pub const SHORT: Self = Self(60_001);
    /// The bytes that came back are not those that were written.
    pub const MISMATCH: Self = Self(60_002);
    /// The connection went away, or an answer did not come in time.
    pub const LOST: Self = Self(60_003);
    /// The write verifier changed: the server restarted and may have lost uncommitted data.
    pub const VERIFIER: Self = Self(60_005);
    /// The server answered, but with an RPC that could not be accepted.
    pub const RPC: Self = Self(60_004);

    /// Names the error as tables and exports do.
    pub fn name(self) -> String {
        let known = match self.0 {
            1 => "EPERM",
            2 => "ENOENT",
            4 => "EINTR",
            5 => "EIO",
            6 => "ENXIO",
            9 => "EBADF",
            11 => "EAGAIN",
            12 => "ENOMEM",
            13 => "EACCES",
            16 => "EBUSY",
            17 => "EEXIST",
            18 => "EXDEV",
            19 => "ENODEV",
            20 => "ENOTDIR",
            21 => "EISDIR",
            22 => "EINVAL",
            24 => "EMFILE",
            27 => "EFBIG",
            28 => "ENOSPC",
            30 => "EROFS",
            36 | 63 => "ENAMETOOLONG",
            39 | 66 => "ENOTEMPTY",
            69 | 122 => "EDQUOT",
            70 | 116 => "ESTALE",
            10_001 => "NFSERR_BADHANDLE",
            10_002 => "NFSERR_NOT_SYNC",
            10_003 => "NFSERR_BAD_COOKIE",
            10_004 => "NFSERR_NOTSUPP",
            10_005 => "NFSERR_TOOSMALL",
            10_006 => "NFSERR_SERVERFAULT",
            10_007 => "NFSERR_BADTYPE",
            10_008 => "NFSERR_JUKEBOX",
            60_001 => "short transfer",
            60_002 => "data mismatch",
            60_003 => "connection lost",
            60_004 => "RPC refused",
            60_005 => "write verifier changed",
            code => return format!("error {code}"),
        };
        known.to_owned()
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What became of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, and moved this many bytes.
    Done(u32),
    /// It failed.
    Failed(OpError),
}

/// An op that has ended, with its three instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The op as it was submitted.
    pub op: Op,
    /// The instant it was handed to the system below, in nanoseconds of the worker's clock.
    pub sent_ns: u64,
    /// The instant its end was seen.
    pub done_ns: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl Completion {
    /// Time from sent to done: what the system below took.
    pub const fn service_time_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.sent_ns)
    }

    /// Time from due to done: what somebody who wanted the op at its due instant waited.
    pub const fn response_time_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.op.due_ns)
    }
}
