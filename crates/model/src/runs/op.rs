//! One operation of a workload, from its scheduled start to its outcome.
//!
//! `Op` describes what to do, `Completion` what happened. Both are small `Copy` types, because
//! millions of them pass between workload, backend and recorder each second. Failures are data: an
//! `OpError` is counted and exported, never logged individually.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::words::words;

words! {
    /// What an op does to the file system.
    ///
    /// Files, directories and links are numbered separately; an op's `file` is a number of whatever
    /// its kind works on. The kinds from `Null` on are used in op mixes: each is one NFSv3 call, or
    /// its closest equivalent elsewhere.
    OpKind {
        /// Reads `len_bytes` at `offset_bytes` of an open file.
        Read = "read",
        /// Writes `len_bytes` at `offset_bytes` of an open file.
        Write = "write",
        /// Makes data written to the file durable once all earlier ops have completed: `fsync` or
        /// COMMIT.
        Sync = "sync",
        /// Creates a file. If `len_bytes` is not zero, also writes its content and closes it.
        Create = "create",
        /// Looks a file up by name and reads its attributes.
        Stat = "stat",
        /// Removes a file by name.
        Remove = "remove",
        /// Like `Write`, but puts each byte into the buffer separately: `putc`.
        PutChars = "put_chars",
        /// Like `Read`, but takes each byte out of the buffer separately: `getc`.
        GetChars = "get_chars",
        /// Reads `len_bytes`, changes them, and writes them back.
        Update = "update",
        /// Opens a file by name, reads `len_bytes` from its start in pieces of `io_size`, and
        /// closes it.
        ReadFile = "read_file",
        /// Opens a file by name, writes `len_bytes` at `offset_bytes` (its end) and closes it.
        Append = "append",
        /// Writes `len_bytes` at `offset_bytes` of an open log and makes them durable before it
        /// completes: the commit of a database.
        LogAppend = "log_append",
        /// Renames file `file`. `offset_bytes` is 0 for the first rename and 1 for the way back.
        Rename = "rename",
        /// Creates a directory. Like in `Rmdir`, `offset_bytes` is [`PLACE`] for one that contains
        /// others.
        Mkdir = "mkdir",
        /// Looks a directory up by name and reads its attributes.
        StatDir = "stat_dir",
        /// Renames a directory, like `Rename`.
        RenameDir = "rename_dir",
        /// Removes a directory.
        Rmdir = "rmdir",
        /// Sets an extended attribute of a file, by name.
        SetXattr = "set_xattr",
        /// Reads the value of an extended attribute of a file, by name.
        GetXattr = "get_xattr",
        /// Copies `len_bytes` at `offset_bytes` of a file to its twin without reading or writing
        /// them: `copy_file_range` or COPY.
        Copy = "copy",
        /// Lets the twin of a file share the blocks of a range: `FICLONERANGE` or CLONE.
        Clone = "clone",
        /// Reserves space for a range of the twin: `fallocate` or ALLOCATE.
        Allocate = "allocate",
        /// Punches a hole: `fallocate` or DEALLOCATE.
        Punch = "punch",
        /// Finds the end of the data or of the hole at `offset_bytes`: `lseek` or SEEK.
        Seek = "seek",
        /// Like `Read`, of a sparse file, whose holes a server needn't send: READ_PLUS.
        ReadPlus = "read_plus",
        /// Lists a whole directory, the one with number `file`. Like the next two, it counts as one
        /// op for each entry, and `len_bytes` is the number of entries that it must find.
        List = "list",
        /// Lists a whole directory with the attributes of each entry.
        ListStat = "list_stat",
        /// Lists a whole directory and looks for files by name, size and time. `offset_bytes` is
        /// the number of files that it must find.
        Find = "find",
        /// Does nothing on the server.
        Null = "null",
        /// Reads the attributes of an open file.
        Getattr = "getattr",
        /// Changes the mode of a file.
        Setattr = "setattr",
        /// Looks up an existing name.
        Lookup = "lookup",
        /// Looks up a missing name, for which the error is the success.
        LookupMissing = "lookup_missing",
        /// Checks access rights for a file.
        Access = "access",
        /// Reads the target of a symbolic link.
        Readlink = "readlink",
        /// Lists some entries of a directory.
        Readdir = "readdir",
        /// Lists some entries of a directory, with their attributes.
        ReaddirPlus = "readdirplus",
        /// Reads file system usage.
        Fsstat = "fsstat",
        /// Reads the limits of the server.
        Fsinfo = "fsinfo",
        /// Reads the limits of names.
        Pathconf = "pathconf",
        /// Makes data written to the file durable, without waiting for other ops.
        Commit = "commit",
        /// Creates a symbolic link.
        Symlink = "symlink",
        /// Removes a symbolic link.
        Unlink = "unlink",
        /// Adds a hard link to a file, with the number `offset_bytes`.
        Link = "link",
        /// Runs a command: see `RunSpec::command`.
        Execute = "execute",
    }
}

impl OpKind {
    /// Returns true if the kind transfers or changes file data, so that a byte rate makes sense.
    pub const fn moves_data(self) -> bool {
        self.reads_data() || self.writes_data() || self.changes_range()
    }

    /// Returns true if the kind changes a range of a file without transferring its data.
    pub const fn changes_range(self) -> bool {
        matches!(self, Self::Copy | Self::Clone | Self::Allocate | Self::Punch)
    }

    /// Returns true if the kind reads file data.
    pub const fn reads_data(self) -> bool {
        matches!(self, Self::Read | Self::GetChars | Self::Update | Self::ReadFile | Self::ReadPlus)
    }

    /// Returns true if the kind writes file data.
    pub const fn writes_data(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::PutChars
                | Self::Update
                | Self::Append
                | Self::Create
                | Self::LogAppend
        )
    }

    /// Returns true if the kind lists a whole directory and counts as one op for each entry.
    pub const fn counts_entries(self) -> bool {
        matches!(self, Self::List | Self::ListStat | Self::Find)
    }

    /// Returns true if the kind changes the file system or may do so; a command counts as well.
    pub const fn changes(self) -> bool {
        !matches!(
            self,
            Self::Read
                | Self::GetChars
                | Self::Stat
                | Self::StatDir
                | Self::ReadFile
                | Self::GetXattr
                | Self::Seek
                | Self::ReadPlus
                | Self::List
                | Self::ListStat
                | Self::Find
                | Self::Null
                | Self::Getattr
                | Self::Lookup
                | Self::LookupMissing
                | Self::Access
                | Self::Readlink
                | Self::Readdir
                | Self::ReaddirPlus
                | Self::Fsstat
                | Self::Fsinfo
                | Self::Pathconf
                | Self::Sync
                | Self::Commit
        )
    }
}

/// One operation, as requested by the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// When it should start, in nanoseconds of the worker's clock.
    pub scheduled_ns: u64,
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Number of bytes to transfer; 0 if the kind transfers none.
    pub len_bytes: u32,
    /// Number of the file, directory or link that the kind works on.
    pub file: u32,
    /// The kind of op.
    pub kind: OpKind,
}

impl Op {
    /// Creates an op scheduled for right now.
    #[inline]
    pub const fn new(kind: OpKind, file: u32, offset_bytes: u64, len_bytes: u32) -> Self {
        Self { scheduled_ns: 0, offset_bytes, len_bytes, file, kind }
    }

    /// Returns true if the op creates or removes a place.
    #[inline]
    pub const fn is_of_place(&self) -> bool {
        self.offset_bytes == PLACE && matches!(self.kind, OpKind::Mkdir | OpKind::Rmdir)
    }
}

/// Why an op failed: a Linux errno, or an NFS status above 10000 that has no errno.
///
/// **Source:** `errno(3)`; RFC 1813, 2.6 (NFS statuses below 100 are errno values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpError(pub u32);

impl OpError {
    /// The op transferred fewer bytes than requested.
    pub const SHORT: Self = Self(60_001);
    /// The data read differs from the data written.
    pub const MISMATCH: Self = Self(60_002);
    /// The connection was lost, or a reply did not arrive in time.
    pub const LOST: Self = Self(60_003);
    /// An external program failed.
    pub const PROGRAM: Self = Self(60_006);
    /// The write verifier changed: the server restarted and may have lost uncommitted data.
    pub const VERIFIER: Self = Self(60_005);
    /// The server rejected the RPC, for example because it lacks the procedure or doesn't trust us.
    pub const RPC: Self = Self(60_004);
    /// The server sent a reply that cannot be decoded or matches no request.
    pub const MALFORMED: Self = Self(60_007);
    /// The server wrote data less durably than requested, according to its reply.
    pub const LESS_STABLE: Self = Self(60_008);

    /// Returns the error's name in tables and exports.
    pub fn name(self) -> String {
        let known = match self.0 {
            1 => "EPERM",
            2 => "ENOENT",
            4 => "EINTR",
            5 => "EIO",
            6 => "ENXIO",
            7 => "E2BIG",
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
            34 => "ERANGE",
            36 | 63 => "ENAMETOOLONG",
            39 | 66 => "ENOTEMPTY",
            61 => "ENODATA",
            69 | 122 => "EDQUOT",
            70 | 116 => "ESTALE",
            95 => "EOPNOTSUPP",
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
            60_006 => "program failed",
            60_007 => "malformed reply",
            60_008 => "written less durably than requested",
            code => {
                let of_v4 =
                    code.checked_sub(NFS4_FIRST).and_then(|at| NFS4_ERRORS.get(at as usize));
                return of_v4.map_or_else(|| format!("error {code}"), |name| (*name).to_owned());
            }
        };
        known.to_owned()
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// First error number that only version 4 has.
const NFS4_FIRST: u32 = 10_009;

/// Names of the errors of version 4, from [`NFS4_FIRST`] on.
///
/// **Source:** RFC 7530, 13.1; RFC 8881, 15.1; RFC 7862, 11.1; RFC 8276, 8.3.
const NFS4_ERRORS: [&str; 88] = [
    "NFS4ERR_SAME",
    "NFS4ERR_DENIED",
    "NFS4ERR_EXPIRED",
    "NFS4ERR_LOCKED",
    "NFS4ERR_GRACE",
    "NFS4ERR_FHEXPIRED",
    "NFS4ERR_SHARE_DENIED",
    "NFS4ERR_WRONGSEC",
    "NFS4ERR_CLID_INUSE",
    "NFS4ERR_RESOURCE",
    "NFS4ERR_MOVED",
    "NFS4ERR_NOFILEHANDLE",
    "NFS4ERR_MINOR_VERS_MISMATCH",
    "NFS4ERR_STALE_CLIENTID",
    "NFS4ERR_STALE_STATEID",
    "NFS4ERR_OLD_STATEID",
    "NFS4ERR_BAD_STATEID",
    "NFS4ERR_BAD_SEQID",
    "NFS4ERR_NOT_SAME",
    "NFS4ERR_LOCK_RANGE",
    "NFS4ERR_SYMLINK",
    "NFS4ERR_RESTOREFH",
    "NFS4ERR_LEASE_MOVED",
    "NFS4ERR_ATTRNOTSUPP",
    "NFS4ERR_NO_GRACE",
    "NFS4ERR_RECLAIM_BAD",
    "NFS4ERR_RECLAIM_CONFLICT",
    "NFS4ERR_BADXDR",
    "NFS4ERR_LOCKS_HELD",
    "NFS4ERR_OPENMODE",
    "NFS4ERR_BADOWNER",
    "NFS4ERR_BADCHAR",
    "NFS4ERR_BADNAME",
    "NFS4ERR_BAD_RANGE",
    "NFS4ERR_LOCK_NOTSUPP",
    "NFS4ERR_OP_ILLEGAL",
    "NFS4ERR_DEADLOCK",
    "NFS4ERR_FILE_OPEN",
    "NFS4ERR_ADMIN_REVOKED",
    "NFS4ERR_CB_PATH_DOWN",
    "NFS4ERR_BADIOMODE",
    "NFS4ERR_BADLAYOUT",
    "NFS4ERR_BAD_SESSION_DIGEST",
    "NFS4ERR_BADSESSION",
    "NFS4ERR_BADSLOT",
    "NFS4ERR_COMPLETE_ALREADY",
    "NFS4ERR_CONN_NOT_BOUND_TO_SESSION",
    "NFS4ERR_DELEG_ALREADY_WANTED",
    "NFS4ERR_BACK_CHAN_BUSY",
    "NFS4ERR_LAYOUTTRYLATER",
    "NFS4ERR_LAYOUTUNAVAILABLE",
    "NFS4ERR_NOMATCHING_LAYOUT",
    "NFS4ERR_RECALLCONFLICT",
    "NFS4ERR_UNKNOWN_LAYOUTTYPE",
    "NFS4ERR_SEQ_MISORDERED",
    "NFS4ERR_SEQUENCE_POS",
    "NFS4ERR_REQ_TOO_BIG",
    "NFS4ERR_REP_TOO_BIG",
    "NFS4ERR_REP_TOO_BIG_TO_CACHE",
    "NFS4ERR_RETRY_UNCACHED_REP",
    "NFS4ERR_UNSAFE_COMPOUND",
    "NFS4ERR_TOO_MANY_OPS",
    "NFS4ERR_OP_NOT_IN_SESSION",
    "NFS4ERR_HASH_ALG_UNSUPP",
    "error 10073",
    "NFS4ERR_CLIENTID_BUSY",
    "NFS4ERR_PNFS_IO_HOLE",
    "NFS4ERR_SEQ_FALSE_RETRY",
    "NFS4ERR_BAD_HIGH_SLOT",
    "NFS4ERR_DEADSESSION",
    "NFS4ERR_ENCR_ALG_UNSUPP",
    "NFS4ERR_PNFS_NO_LAYOUT",
    "NFS4ERR_NOT_ONLY_OP",
    "NFS4ERR_WRONG_CRED",
    "NFS4ERR_WRONG_TYPE",
    "NFS4ERR_DIRDELEG_UNAVAIL",
    "NFS4ERR_REJECT_DELEG",
    "NFS4ERR_RETURNCONFLICT",
    "NFS4ERR_DELEG_REVOKED",
    "NFS4ERR_PARTNER_NOTSUPP",
    "NFS4ERR_PARTNER_NO_AUTH",
    "NFS4ERR_UNION_NOTSUPP",
    "NFS4ERR_OFFLOAD_DENIED",
    "NFS4ERR_WRONG_LFS",
    "NFS4ERR_BADLABEL",
    "NFS4ERR_OFFLOAD_NO_REQS",
    "NFS4ERR_NOXATTR",
    "NFS4ERR_XATTR2BIG",
];

/// Offset of a `Mkdir` or `Rmdir` whose directory is a place, with the number of the place.
pub const PLACE: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The op succeeded and transferred this many bytes, or listed this many entries.
    Done(u32),
    Failed(OpError),
}

/// A finished op with its timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The op as it was submitted.
    pub op: Op,
    /// When it was passed to the system below, in nanoseconds of the worker's clock.
    pub sent_ns: u64,
    /// When its completion was seen.
    pub done_ns: u64,
    pub outcome: Outcome,
}

impl Completion {
    /// Returns the time from sending to completion, which the system below took.
    pub const fn service_time_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.sent_ns)
    }

    /// Returns the time from the scheduled start to completion, as experienced by a caller.
    pub const fn response_time_ns(&self) -> u64 {
        self.done_ns.saturating_sub(self.op.scheduled_ns)
    }
}
