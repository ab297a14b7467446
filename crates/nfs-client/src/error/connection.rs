//! Failures of connections of the measured path, with the calls left without a reply.
//!
//! A failed connection is unusable; its owner decides whether to open another one, and whether to
//! repeat the calls on it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use nfs_proto::StreamError;
use nfs_proto::client::Pending;

/// Reason why a connection of the measured path is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A call was pending for longer than allowed.
    #[error(
        "no answer from {server} for {} ms{}; pending: {pending}",
        waited_ns / 1_000_000,
        and_strays(*strays)
    )]
    CallTimedOut {
        /// Address of the server.
        server: SocketAddr,
        /// How long the oldest call has been waiting, in nanoseconds.
        waited_ns: u64,
        /// Replies so far whose xid matched no call in flight.
        strays: u64,
        /// The calls without a reply.
        pending: PendingCalls,
    },
    /// The server or the network closed the connection.
    #[error("the connection to {server} was lost: {reason}; pending: {pending}")]
    ConnectionLost {
        /// Address of the server.
        server: SocketAddr,
        /// The system's error.
        reason: io::Error,
        /// The calls without a reply.
        pending: PendingCalls,
    },
    /// The received bytes are not RPC.
    #[error("{server} sent data that is not RPC: {error}; pending: {pending}")]
    Garbage {
        /// Address of the server.
        server: SocketAddr,
        /// The error in the stream.
        error: StreamError,
        /// The calls without a reply.
        pending: PendingCalls,
    },
}

impl ConnectionError {
    /// Returns the calls without a reply.
    pub fn pending(&self) -> &[Pending] {
        match self {
            Self::CallTimedOut { pending, .. }
            | Self::ConnectionLost { pending, .. }
            | Self::Garbage { pending, .. } => &pending.0,
        }
    }
}

/// Calls without a reply, oldest first; the first few are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCalls(pub Vec<Pending>);

impl fmt::Display for PendingCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        if self.0.is_empty() {
            return f.write_str("no call");
        }
        for (position, call) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            write!(f, "{comma}{} (tag {})", call.kind, call.tag)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn and_strays(count: u64) -> String {
    match count {
        0 => String::new(),
        count => format!(", and {count} replies so far with an unknown xid"),
    }
}
