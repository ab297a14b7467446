//! Serves `/export` until its standard input ends, to be tried with any NFS v3 client.
//!
//! `cargo run --release -p nfs-server --example serve -- [PORT]`
//!
//! NFS, MOUNT and the portmapper are answered on the one port, so clients must be told it, as in
//! `nfs-ls "nfs://127.0.0.1/export?version=3&nfsport=PORT&mountport=PORT"`.
#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::io::{self, Read};

use nfs_server::{Portmap, Server, ServerConfig};

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let config = ServerConfig { port, portmap: Portmap::SamePort, ..ServerConfig::default() };
    let server = Server::start(config).map_err(io::Error::other)?;
    println!("{}", server.address());
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:#?}", server.counters());
    server.shutdown();
    Ok(())
}
