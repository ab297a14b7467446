//! Reasons why two addresses can't be used as one server.

use std::net::SocketAddr;

/// A further address is not that of the server at the first one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{server} is not another address of the server at {first}: {why}\n  hint: list only addresses \
     of one server, and make each other server a target of its own"
)]
pub struct NotTrunked {
    /// The first address.
    pub first: SocketAddr,
    /// The further address.
    pub server: SocketAddr,
    /// How they differ.
    pub why: Difference,
}

/// How the servers at two addresses differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// They give themselves different names.
    #[error("its owner is {of_other}, that of the first {of_first} (EXCHANGE_ID)")]
    Owner {
        /// The names of the server at the first address.
        of_first: String,
        /// The names of the other one.
        of_other: String,
    },
    /// They share a name, but not their clients.
    #[error("it names the same owner, {owner}, but knows the client by another id (EXCHANGE_ID)")]
    Client {
        /// The name of both.
        owner: String,
    },
    /// They share a name, but not their sessions.
    #[error("it names the same owner, {owner}, but has no such session (BIND_CONN_TO_SESSION)")]
    Session {
        /// The name of both.
        owner: String,
    },
    /// It has something else under the handle of a directory.
    #[error(
        "it has another file system (fsid {:x} and fileid {}, instead of {:x} and {})",
        of_other.0, of_other.1, of_first.0, of_first.1
    )]
    FileSystem {
        /// fsid and fileid at the first address.
        of_first: (u64, u64),
        /// Those at the other one.
        of_other: (u64, u64),
    },
    /// It does not know the handle of a directory.
    #[error("it does not know the handle of a directory that the first has ({status})")]
    Handle {
        /// Its answer.
        status: nfs_proto::Status,
    },
}
