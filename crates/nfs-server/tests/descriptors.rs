//! A server whose process has run out of file descriptors.
//!
//! The limit applies to the whole process, so this test has its own process.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nfs_server::{Server, ServerConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A framed NULL call of NFS v3 with xid 1 and AUTH_NONE. **Source:** RFC 5531 section 9.
const NULL_CALL: [u8; 44] = {
    let mut bytes = [0; 44];
    let words: [u32; 11] = [0x8000_0028, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    let mut at = 0;
    while at < 44 {
        bytes[at] = words[at / 4].to_be_bytes()[at % 4];
        at += 1;
    }
    bytes
};

fn null_call(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(&NULL_CALL)?;
    stream.read_exact(&mut [0; 28])
}

#[test]
fn refuses_some_and_serves_others() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let mut first = TcpStream::connect(server.address()).unwrap();
    null_call(&mut first).unwrap();

    // Leave one descriptor: the next caller takes it, and the server has none left to accept with.
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    let limit = getrlimit(Resource::Nofile);
    let one_more = Rlimit { current: Some(next as u64 + 1), maximum: limit.maximum };
    setrlimit(Resource::Nofile, one_more).unwrap();
    for turned_away in 1..4 {
        let mut second = TcpStream::connect(server.address()).unwrap();
        null_call(&mut second).unwrap_err();
        null_call(&mut first).unwrap();
        assert_eq!(server.counters().connections_turned_away, turned_away);
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    null_call(&mut TcpStream::connect(server.address()).unwrap()).unwrap();
}
