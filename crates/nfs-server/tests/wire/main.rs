//! The server over a real loopback socket, spoken to with the codec of `nfs-proto`.
//!
//! `client` is a blocking client of a few lines; the other modules each test one side of the
//! server. Nothing here sleeps to wait for the server: it is polled, or read from until it answers.

mod client;
mod crowd;
mod faults;
mod hostile;
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
