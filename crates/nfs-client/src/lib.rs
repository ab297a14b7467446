//! Sockets around `nfs-proto`: a client of NFS v3 over TCP without a mount.
//!
//! [`Mount`] is for set-up and clean-up: it blocks, knows the portmapper, MOUNT and the file tree,
//! and its errors say what to do. [`Connection`] is for the measured path: one nonblocking socket
//! with a fixed number of calls in flight, no allocation, lock, log or clock of its own.
//! This crate must not retry, reconnect or measure: whoever drives it decides that.

mod connection;
mod control;
mod error;
mod files;
mod locate;
mod mount;
mod options;
pub mod probe;

/// The protocol that connections speak.
pub use nfs_proto as proto;

pub use connection::{Connection, ConnectionOptions};
pub use error::{CallFailure, ConnectionError, MountError, PendingCalls};
pub use files::DirEntry;
pub use mount::Mount;
pub use options::{MountOptions, TRANSFER_BYTES_DEFAULT};
