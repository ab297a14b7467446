//! The server over a real loopback socket, using the codec of `nfs-proto`.
//!
//! `client` is a simple blocking client; each of the other modules tests one aspect of the server.
//! Nothing here sleeps to wait for the server: it is polled, or read from until it answers.

mod client;
mod crowd;
mod faults;
mod hostile;
mod in_place;
mod listing;
mod memory;
mod mount;
mod nfs2;
mod nfs4;
mod permissions;
mod planned;
mod portmap;
mod repeats;
mod robustness;
mod semantics;
mod tls;
mod udp;
