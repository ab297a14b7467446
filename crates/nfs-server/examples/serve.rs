//! Serves `/export` until its standard input ends, to be tried with any NFS client.
//!
//! `cargo run --release -p dfsbench-nfs-server --example serve -- [PORT] [LEASE_SECONDS]
//! [MEMORY_MIB]`
//!
//! NFS, MOUNT and the portmapper are answered on the one port, so clients must be given it, as in
//! `nfs-ls "nfs://127.0.0.1/export?version=3&nfsport=PORT&mountport=PORT"`.
#![allow(clippy::print_stdout, reason = "prints its address")]

use std::io::{self, Read};

use nfs_server::{Portmap, Server, ServerConfig};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let lease_s = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(90);
    let memory_mib: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1024);
    let memory_limit_bytes = memory_mib << 20;
    let config = ServerConfig {
        port,
        lease_s,
        memory_limit_bytes,
        portmap: Portmap::SamePort,
        // As the example `load` of the client does.
        congestion_control: Some("cubic".to_owned()),
        ..ServerConfig::default()
    };
    let server = Server::start(config).map_err(io::Error::other)?;
    println!("{}", server.address());
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:#?}", server.counters());
    server.shutdown();
    Ok(())
}
