//! The origin of a request: its sender and its transport.
//!
//! The transport decides which sizes are granted, whether TLS is missing, and how a reply can be
//! damaged by plan.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::callback_line::CallbackLine;

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// TCP under TLS.
    Tls,
    Udp,
}

/// The sender and the transport of a request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
    /// The way back to the sender, which a datagram has not.
    pub(crate) line: Option<Arc<CallbackLine>>,
}
