//! The NFS wire protocols as pure functions and state machines.
//!
//! XDR, ONC RPC over record-marked streams, portmap v2, rpcbind v3 and v4, MOUNT v1 and v3, NFS v2,
//! v3 and v4, each in both directions. [`client::Session`] and [`server::Session`] are sans-I/O:
//! bytes and times are arguments, bytes and events are return values.
//!
//! Invariants: bytes from the network never cause a panic, and never make this crate allocate more
//! than has arrived; decoders return views into their input; nothing is allocated once warm. This
//! crate must not use a socket, clock, file, environment variable or thread. Sources: RFC 4506
//! (XDR), RFC 5531 (RPC), RFC 1833 (portmap, rpcbind), RFC 1094 (NFS v2 and MOUNT v1), RFC 1813
//! (NFS v3 and MOUNT v3).

#![warn(missing_docs, clippy::missing_errors_doc)]
#![allow(
    clippy::large_enum_variant,
    reason = "handles are held inline, so that messages are views and nothing is allocated"
)]

pub mod client;
pub mod error;
pub mod limits;
pub mod lists;
pub mod mount1;
pub mod mount3;
pub mod nfs2;
pub mod nfs3;
pub mod nfs4;
pub mod portmap;
mod procedures;
pub mod program;
pub mod raw;
pub mod record;
pub mod rpc;
pub mod rpcbind;
pub mod server;
pub mod status;
pub mod striping;
pub mod version;
pub mod wire;
pub mod xdr;

pub use error::{DecodeError, RpcError, StreamError};
pub use status::{CallError, Status};
pub use version::ProtocolVersion;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
