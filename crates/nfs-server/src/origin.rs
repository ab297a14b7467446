//! The origin of a request: its sender and its transport.
//!
//! The transport decides which sizes are granted, whether TLS is missing, and how a reply can be
//! damaged by plan.

use std::net::SocketAddr;

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// TCP under TLS.
    Tls,
    Udp,
}

/// The sender and the transport of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
}
