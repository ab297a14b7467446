//! Sockets around `nfs-proto`: an NFS client without a kernel mount.
//!
//! [`Mount`] is for setup and cleanup: it blocks, uses the portmapper, MOUNT and paths, and its
//! errors come with hints. [`Connection`] is for the measured path: one nonblocking socket with a
//! fixed number of calls in flight, without allocations, locks, logs or a clock of its own.
//! Retransmissions, waits and reconnects are counted. This crate must not measure.

#![warn(missing_docs, clippy::missing_errors_doc)]

mod connection;
mod error;
mod export;
mod files;
mod interrupt;
mod link;
mod listing;
mod locate;
mod mount;
mod opening;
mod options;
pub mod pnfs;
pub mod probe;
mod scratch;
mod service;
mod transport;
mod trunking;

/// The protocol types used by connections.
pub use nfs_proto as proto;

pub use connection::{CALLS_MAX, Connection, ConnectionOptions, DelegationCounts, PathCounters};
pub use error::{
    CallFailure, ConnectionError, Difference, MissingAnswer, MountError, NotTrunked, PendingCalls,
};
pub use interrupt::{Interrupt, Interrupted};
pub use listing::{DirEntry, LISTED_BYTES_MAX, LISTED_ENTRIES_MAX, Unlistable};
pub use mount::Mount;
pub use options::{
    DATAGRAM_TRANSFER_BYTES_DEFAULT, DATAGRAM_TRANSFER_BYTES_MAX, Family, Identity, MountOptions,
    PnfsRole, Proto, Sec, SessionPlan, TRANSFER_BYTES_DEFAULT,
};
pub use scratch::Scratch;
pub use transport::{TcpCounters, TcpMeter, Tls, TlsOptions};
pub use trunking::{ServerOwner, Trunking};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
