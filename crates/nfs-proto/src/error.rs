//! Errors below the level of an NFS operation, as data.
//!
//! [`DecodeError`] concerns one message, [`StreamError`] the whole connection, and [`RpcError`] is
//! a refusal by the server's RPC layer. All are `Copy`, so that the measured path can count them
//! without allocating.

/// Reason why a message could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends before the field does.
    #[error("the message ends early: {needed} bytes needed, {left} left")]
    Truncated {
        /// Size of the next field, in bytes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A counted field announces more bytes or elements than allowed.
    #[error("a field of length {len} exceeds its limit of {max}")]
    TooLong {
        /// The length in the message.
        len: u32,
        /// The maximum length.
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
    /// Bytes follow after the end of the message.
    #[error("{bytes} bytes follow the end of the message")]
    Trailing {
        /// Number of extra bytes.
        bytes: usize,
    },
}

/// Reason why a connection's byte stream can't be parsed any further; close the connection.
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
    /// A record has more empty fragments than any sender needs.
    #[error("a record has more than {max} empty fragments")]
    EmptyFragments {
        /// The limit.
        max: u32,
    },
    /// A record does not contain an RPC message of the expected direction.
    #[error("a record is not an RPC message of the expected kind: {0}")]
    NotRpc(DecodeError),
}

/// How a call was refused before it reached the program.
///
/// **Source:** RFC 5531 section 9, `accept_stat` and `reject_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The server has no such program.
    #[error("the server does not offer this program (PROG_UNAVAIL)")]
    ProgramUnavailable,
    /// The server has the program in other versions.
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
    /// The server failed, for example because it ran out of memory.
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
