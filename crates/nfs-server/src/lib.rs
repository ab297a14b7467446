//! The perfect server: an in-memory file system behind NFS v2 to v4.2, over TCP, TLS and UDP.
//!
//! [`Server`] is the main type, [`ServerConfig`] configures it, and [`FaultPlan`] lists what it
//! does wrong on purpose. It exists to be the known half of a measurement: no disk, no kernel file
//! system, no copies of data that can be sent from where it is, one event loop per thread. Wire
//! formats come from `nfs-proto`; this crate owns sockets, threads, timers and the store.
//!
//! Invariants: memory is bounded; bytes from a peer never panic a loop; data handed to a socket
//! never changes. It listens on loopback unless configured otherwise. Mode bits and owners decide
//! what a caller may do; the caller's identity is taken on trust, as usual with AUTH_SYS.
//!
//! **Source:** RFC 1094, 1813, 7530, 8881 and 7862 (NFS), RFC 5531 (RPC), RFC 9289 (RPC over TLS),
//! RFC 1833 (portmapper).

#![warn(missing_docs, clippy::missing_errors_doc)]

mod access;
mod callback_line;
mod channel;
mod clock;
mod config;
mod connection;
mod controls;
mod counters;
mod datagrams;
mod delay;
mod dispatch;
mod error;
mod event_loop;
mod fault;
pub mod fs;
mod held_memory;
pub mod limits;
mod listen;
mod mailbox;
mod memory;
mod origin;
mod outbox;
mod placement;
mod pnfs;
mod reflect;
mod registry;
mod replies;
mod resources;
mod schedule;
mod server;
mod service;
mod slots;
mod sync;
mod tls;

/// Protocol types that appear in counters and fault plans.
pub use nfs_proto as proto;

pub use crate::access::{Network, NetworkError};
pub use crate::config::{
    DataServerAddress, DataServers, Delegations, LayoutKind, PnfsConfig, Portmap, ServerConfig,
    Versions,
};
pub use crate::counters::ServerCounters;
pub use crate::error::ServerError;
pub use crate::fault::{
    BandwidthCap, CallServiceTime, CappedBytes, ChangingVerifier, CopyFault, Damage,
    DataServerEvent, DataServerFault, DelayFault, EndlessListing, ErrorFault, FaultKind, FaultPlan,
    FaultedCalls, LayoutEvent, PartsPerMillion, ScheduledEvent, ServerEvent, ServiceTime,
};
pub use crate::fs::{Permissions, Quirks, SlowFile, StoreMode};
pub use crate::server::Server;
pub use crate::tls::{Certificate, TlsConfig};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
