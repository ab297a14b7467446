//! The origin of a request: its sender and its transport.
//!
//! The transport decides which sizes are granted, whether TLS is missing, and how planned damage
//! can affect a reply.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::callback_line::CallbackLine;

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// TCP with TLS.
    Tls,
    Udp,
}

/// The sender and the transport of a request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
    /// Our address on its connection, if data servers may have the same.
    pub(crate) local_ip: Option<IpAddr>,
    /// The callback line to the sender; datagrams have none.
    pub(crate) line: Option<Arc<CallbackLine>>,
}
