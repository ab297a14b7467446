//! Many connections, slow ones, and refused ones.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use nfs_proto::nfs3::Call;
use nfs_proto::program;
use nfs_server::{Server, ServerConfig, ServerError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Client, encode_call, start, until};
use crate::udp::Peer;

const CROWD: usize = 5_000;

/// Pages of this process in memory, in bytes. **Source:** proc(5), `/proc/PID/statm`.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn serves_five_thousand_connections() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let crowd = match limit.maximum {
        Some(most) if (most as usize) < 2 * CROWD + 1000 => (most as usize - 1000) / 2,
        _ => CROWD,
    };
    let server = start(ServerConfig { threads: 2, ..ServerConfig::default() });
    let call = encode_call(1, &program::Call::Nfs3(Call::Null));
    let before = resident_bytes();
    let mut streams: Vec<_> =
        (0..crowd).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for _ in 0..3 {
        for stream in &mut streams {
            stream.write_all(&call).unwrap();
        }
        for stream in &mut streams {
            std::io::Read::read_exact(stream, &mut [0; 28]).unwrap();
        }
    }
    // Server and client ends together; other tests run in this process, too.
    let each = (resident_bytes().saturating_sub(before)) / crowd as u64;
    assert_eq!(server.counters().connections_open, crowd as u64);
    // Other tests of this process allocate memory at the same time; a buffer would be a megabyte.
    assert!(each < 32 * 1024, "{each} bytes a connection");
    drop(streams);
    until(&server, |server| server.counters().connections_open == 0);
}

#[test]
fn drops_partial_record_after_timeout() {
    let config = ServerConfig { partial_record_timeout_ns: 100_000_000, ..ServerConfig::default() };
    let server = start(config);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let mut halves: Vec<_> = (0..3).map(|_| Client::connect(&server)).collect();
    halves[0].send(&[0x80, 0]);
    halves[1].send(&[0x80, 0, 0x10, 0, 1, 2, 3]);
    let large = halves[2].encode(&program::Call::Nfs3(Call::Write {
        file: &root,
        offset: 0,
        stable: nfs_proto::nfs3::StableHow::Unstable,
        data: &vec![0; 600_000],
    }));
    halves[2].send(&large[..500_000]);
    assert!(halves.iter_mut().all(|half| half.try_receive(0).is_err()));
    assert_eq!(server.counters().stalled_records, 3);
    // A connection that is only idle is kept.
    assert!(client.size(root).is_ok());
}

#[test]
fn gives_up_peer_that_never_reads() {
    let config = ServerConfig { partial_record_timeout_ns: 200_000_000, ..ServerConfig::default() };
    let server = start(config);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    client.write(file, 0, &vec![1; 1 << 20]).unwrap();
    (0..100).for_each(|_| client.send_nfs(Call::Read { file: &file, offset: 0, count: 1 << 20 }));
    until(&server, |server| server.counters().stalled_records == 1);
    until(&server, |server| server.counters().connections_open == 0);
    // None of its replies is kept.
    until(&server, |server| server.memory_bytes() < 2 << 20);
}

/// The address of this host on some network, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Connecting a datagram socket sends nothing; it only picks a route.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn off_loopback_a_list_is_needed() {
    let listen = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let error = Server::start(ServerConfig { listen, ..ServerConfig::default() }).unwrap_err();
    assert!(matches!(error, ServerError::Setting { setting: "allowed", .. }), "{error}");
}

#[test]
fn closes_and_ignores_unlisted_peers() {
    let config = ServerConfig {
        allowed: vec!["192.0.2.0/24".parse().unwrap()],
        loopback_allowed: false,
        ..ServerConfig::default()
    };
    let server = start(config);
    let mut stranger = Client::connect(&server);
    assert!(stranger.try_receive(0).is_err());
    let mut peer = Peer::connect(&server);
    peer.send(&program::Call::Nfs3(Call::Null));
    until(&server, |server| server.counters().peers_refused == 2);
    assert!(peer.is_silent());
    let counters = server.counters();
    assert_eq!((counters.connections_accepted, counters.datagrams_in), (0, 0));
}

#[test]
fn serves_only_listed_peers() {
    let listen = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let address = own_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let allowed = vec![address.to_string().parse().unwrap()];
    let server = start(ServerConfig { listen, allowed, ..ServerConfig::default() });
    let port = server.address().port();
    Client::connect_to(SocketAddr::new(address, port)).mount("/export");
    // Loopback need not be listed.
    Client::connect_to(SocketAddr::from(([127, 0, 0, 1], port))).mount("/export");
    let mut ipv6 = ServerConfig { listen: "::1".parse().unwrap(), ..ServerConfig::default() };
    ipv6.allowed.clear();
    if let Ok(server) = Server::start(ipv6) {
        Client::connect(&server).mount("/export");
        Peer::connect(&server).mount();
    }
}
