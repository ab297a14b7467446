//! Errors below the level of an NFS operation, as data.
//!
//! [`DecodeError`] is about one message, [`StreamError`] about the whole connection, and
//! [`CallError`] is how one call ended when it did not succeed. All are `Copy`, so that the
//! measured path can count them without allocating.

use crate::rpc::RpcError;
use crate::status::{Spoken, Status};

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
    /// A record holds no RPC message of the expected direction.
    #[error("a record is not an RPC message of the expected kind: {0}")]
    NotRpc(DecodeError),
}

/// Tells how one call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an NFS error.
    #[error("the server answered {0}")]
    Status(Spoken),
    /// The call failed at the RPC level.
    #[error(transparent)]
    Rpc(RpcError),
    /// The reply could not be decoded.
    #[error("the reply is malformed: {0}")]
    Malformed(DecodeError),
    /// The connection broke before the reply; whether the call was done is not known.
    #[error("the connection was lost before the reply")]
    Lost,
}

impl From<DecodeError> for CallError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl CallError {
    /// Returns the status the server answered with, if it answered with one.
    pub const fn status(&self) -> Option<Status> {
        if let Self::Status(spoken) = self { Some(spoken.status) } else { None }
    }
}
