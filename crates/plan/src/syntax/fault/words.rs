//! Names of calls and errors for planned faults.
//!
//! Their numbers in each version are defined by the protocol crates; a test of the binary checks
//! every word of these lists against them.
//!
//! **Source:** RFC 1094, 2.2 and 2.3.1; RFC 1813, 3.3 and 2.6; RFC 7530, 16 and 13; RFC 8881, 18
//! and 15; RFC 7862, 15 and 11.

/// Procedures of v2 and v3, and operations of v4.
#[rustfmt::skip] // a word list
pub const CALLS: &[&str] = &[
    "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR",
    "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "STATFS",
    "FSSTAT", "FSINFO", "PATHCONF", "COMMIT", "OPEN", "CLOSE", "LOCK", "LOCKU", "RENEW",
    "SETCLIENTID", "SETCLIENTID_CONFIRM", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION",
    "SEQUENCE", "ALLOCATE", "DEALLOCATE", "SEEK", "READ_PLUS", "COPY",
];

/// Errors, without the prefix of a version.
#[rustfmt::skip] // a word list
pub const ERRORS: &[&str] = &[
    "PERM", "NOENT", "IO", "NXIO", "ACCES", "EXIST", "NODEV", "NOTDIR", "ISDIR", "INVAL", "FBIG",
    "NOSPC", "ROFS", "MLINK", "NAMETOOLONG", "NOTEMPTY", "DQUOT", "STALE", "BADHANDLE",
    "BAD_COOKIE", "NOTSUPP", "TOOSMALL", "SERVERFAULT", "JUKEBOX", "DELAY", "DENIED", "EXPIRED",
    "LOCKED", "GRACE", "SHARE_DENIED", "WRONGSEC", "RESOURCE", "MOVED", "STALE_CLIENTID",
    "STALE_STATEID", "OLD_STATEID", "BAD_STATEID", "BAD_SEQID", "ADMIN_REVOKED", "BADSESSION",
    "BADSLOT", "CONN_NOT_BOUND_TO_SESSION", "SEQ_MISORDERED", "DEADSESSION",
];
