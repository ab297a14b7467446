//! Sockets around `nfs-proto`: a client of NFS without a mount.
//!
//! [`Mount`] is for set-up and clean-up: it blocks, knows the portmapper, MOUNT and the file tree,
//! and its errors say what to do. [`Connection`] is for the measured path: one nonblocking socket
//! with a fixed number of calls in flight, no allocation, lock, log or clock of its own. What is
//! sent again, waited for or connected again is counted. This crate must not measure.

#![warn(missing_docs)]

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
pub mod probe;
mod scratch;
mod service;
mod transport;

/// The protocol that connections speak.
pub use nfs_proto as proto;

pub use connection::{CALLS_MAX, Connection, ConnectionOptions, DelegationCounts};
pub use error::{CallFailure, ConnectionError, MountError, PendingCalls, Silence};
pub use interrupt::{Interrupt, Interrupted};
pub use listing::{DirEntry, LISTED_BYTES_MAX, LISTED_ENTRIES_MAX, Unlistable};
pub use mount::Mount;
pub use options::{
    DATAGRAM_TRANSFER_BYTES_DEFAULT, DATAGRAM_TRANSFER_BYTES_MAX, Family, Identity, MountOptions,
    Proto, Sec, SessionPlan, TRANSFER_BYTES_DEFAULT,
};
pub use scratch::Scratch;
pub use transport::{TcpCounters, TcpMeter, Tls, TlsOptions};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
