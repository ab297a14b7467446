//! Errors below the level of an NFS operation, as data.
//!
//! [`DecodeError`] is about one message, [`StreamError`] about the whole connection, and
//! [`RpcError`] is a refusal by the RPC layer of the server. All are `Copy`, so that the measured
//! path can count them without allocating.

/// Tells why a message could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends before the field does.
    #[error("the message ends early: {needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes the next field takes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A counted field announces more bytes or elements than it may have.
    #[error("a field of length {len} exceeds its limit of {max}")]
    TooLong {
        /// The length found.
        len: u32,
        /// The length allowed.
        max: u32,
    },
    /// A field has a value outside its definition.
    #[error("{what} has the unexpected value {value}")]
    BadValue {
        /// The name of the field.
        what: &'static str,
        /// The value found.
        value: u32,
    },
    /// Bytes follow where the message should end.
    #[error("{bytes} bytes follow the end of the message")]
    Trailing {
        /// How many bytes follow.
        bytes: usize,
    },
}

/// Tells why a connection's byte stream can't be understood any further; close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The fragments of one record add up to more than the limit.
    #[error("a record of at least {bytes} bytes exceeds the limit of {max}")]
    RecordTooLong {
        /// Bytes announced so far.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// One record has more empty fragments than any sender has a use for.
    #[error("a record has more than {max} empty fragments")]
    EmptyFragments {
        /// The limit.
        max: u32,
    },
    /// A record holds no RPC message of the expected direction.
    #[error("a record is not an RPC message of the expected kind: {0}")]
    NotRpc(DecodeError),
}

/// Tells how a call was refused before it reached the program.
///
/// **Source:** RFC 5531 section 9, `accept_stat` and `reject_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The server has no such program.
    #[error("the server does not offer this program (PROG_UNAVAIL)")]
    ProgramUnavailable,
    /// The server has the program, in other versions.
    #[error("the server offers versions {low} to {high} of this program (PROG_MISMATCH)")]
    ProgramMismatch {
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The program has no such procedure.
    #[error("the server does not offer this procedure (PROC_UNAVAIL)")]
    ProcedureUnavailable,
    /// The server could not decode the arguments.
    #[error("the server could not decode the arguments (GARBAGE_ARGS)")]
    GarbageArguments,
    /// The server failed, for example for lack of memory.
    #[error("the server had an error of its own (SYSTEM_ERR)")]
    SystemError,
    /// The server speaks other versions of RPC.
    #[error("the server speaks RPC versions {low} to {high} (RPC_MISMATCH)")]
    RpcMismatch {
        /// Lowest version spoken.
        low: u32,
        /// Highest version spoken.
        high: u32,
    },
    /// The server does not accept the credential; the number is an `auth_stat`.
    #[error("the server rejected the credential (AUTH_ERROR, auth_stat {0})")]
    Authentication(u32),
}
