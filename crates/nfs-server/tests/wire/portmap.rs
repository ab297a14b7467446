//! The portmapper over the wire: portmap v2 and rpcbind v3 and v4 report the same.

use nfs_proto::portmap::{self, PROTOCOL_TCP, PROTOCOL_UDP};
use nfs_proto::rpcbind::{self, Call, Netbuf, Registration, RemoteCall, Reply, UniversalAddress};
use nfs_proto::{RpcError, mount3, nfs3, program};
use nfs_server::fs::FileTime;
use nfs_server::{Portmap, Server, ServerConfig};

use crate::client::{CallResults, Client, start};

fn pair() -> (Server, Client) {
    let clock = || FileTime::from_parts(1_234, 0);
    let server =
        start(ServerConfig { portmap: Portmap::Port(0), clock, ..ServerConfig::default() });
    let client = Client::connect_to(server.portmap_address().unwrap());
    (server, client)
}

fn ask(client: &mut Client, call: Call<'_>) -> CallResults {
    client.call(&program::Call::Rpcbind4(call))
}

fn wanted(program: u32, version: u32) -> Registration<'static> {
    Registration { program, version, netid: b"tcp", address: b"", owner: b"" }
}

fn address(answer: &CallResults) -> Option<std::net::SocketAddr> {
    UniversalAddress::parse(Reply::decode_address(answer.reader()).unwrap())
}

#[test]
fn returns_listening_addresses() {
    let (server, mut client) = pair();
    let nfs = Some(server.address());
    for version in [2, 3] {
        let call = Call::Getversaddr(wanted(nfs3::PROGRAM, version));
        assert_eq!(address(&ask(&mut client, call)), nfs);
    }
    let mount = Call::Getaddr(wanted(mount3::PROGRAM, 3));
    assert_eq!(address(&client.call(&program::Call::Rpcbind3(mount))), nfs);
    let own = Call::Getaddr(wanted(portmap::PROGRAM, 4));
    assert_eq!(address(&ask(&mut client, own)), server.portmap_address());
    // GETADDR accepts any version, GETVERSADDR only the one named.
    let other = wanted(mount3::PROGRAM, 2);
    assert_eq!(address(&ask(&mut client, Call::Getaddr(other))), nfs);
    assert_eq!(address(&ask(&mut client, Call::Getversaddr(other))), None);
    let unknown = wanted(4711, 1);
    assert_eq!(address(&ask(&mut client, Call::Getaddr(unknown))), None);
    let ipv6 = Registration { netid: b"tcp6", ..wanted(nfs3::PROGRAM, 3) };
    assert_eq!(address(&ask(&mut client, Call::Getaddr(ipv6))), None);
}

#[test]
fn both_dumps_list_the_same() {
    let (server, mut client) = pair();
    let mut mapped = Vec::new();
    let answer = client.call(&program::Call::Portmap(portmap::Call::Dump));
    portmap::Reply::decode_dump(answer.reader(), |mapping| {
        let udp = mapping.protocol == PROTOCOL_UDP;
        assert!(udp || mapping.protocol == PROTOCOL_TCP);
        mapped.push((mapping.program, mapping.version, mapping.port, udp));
    })
    .unwrap();
    let mut registered = Vec::new();
    let answer = ask(&mut client, Call::Dump);
    Reply::decode_dump(answer.reader(), |found| {
        let udp = found.netid == b"udp";
        assert!((udp || found.netid == b"tcp") && found.owner == b"dfsbench");
        let port = UniversalAddress::parse(found.address).unwrap().port();
        registered.push((found.program, found.version, u32::from(port), udp));
    })
    .unwrap();
    assert_eq!(mapped, registered);
    let nfs = u32::from(server.address().port());
    for udp in [false, true] {
        for (program, version) in [(100_003, 2), (100_003, 3), (100_005, 1), (100_005, 3)] {
            assert!(mapped.contains(&(program, version, nfs, udp)), "{program} {version} {udp}");
        }
    }
    let own = u32::from(server.portmap_address().unwrap().port());
    for version in 2..=4 {
        assert!(mapped.contains(&(portmap::PROGRAM, version, own, true)), "{version}");
    }
}

#[test]
fn lists_every_transport() {
    let (server, mut client) = pair();
    let answer = ask(&mut client, Call::Getaddrlist(wanted(nfs3::PROGRAM, 3)));
    let mut seen = Vec::new();
    Reply::decode_addresses(answer.reader(), |entry| {
        seen.push((entry.netid.to_vec(), UniversalAddress::parse(entry.address)));
    })
    .unwrap();
    assert_eq!(seen[0], (b"tcp".to_vec(), Some(server.address())));
}

#[test]
fn converts_universal_addresses() {
    let (_server, mut client) = pair();
    let answer = ask(&mut client, Call::ToBinary(b"10.1.2.3.8.1"));
    let netbuf = Reply::decode_binary(answer.reader()).unwrap();
    assert_eq!(netbuf.bytes.len(), 16);
    let back = ask(&mut client, Call::ToText(netbuf));
    assert_eq!(Reply::decode_address(back.reader()), Ok(&b"10.1.2.3.8.1"[..]));
    let answer = ask(&mut client, Call::ToBinary(b"nonsense"));
    assert!(Reply::decode_binary(answer.reader()).unwrap().bytes.is_empty());
    let answer = ask(&mut client, Call::ToText(Netbuf { bytes_max: 9, bytes: b"nonsense" }));
    assert_eq!(Reply::decode_address(answer.reader()), Ok(&b""[..]));
}

#[test]
fn reports_time_and_refuses_registration() {
    let (_server, mut client) = pair();
    let answer = ask(&mut client, Call::Gettime);
    assert_eq!(Reply::decode_time(answer.reader()), Ok(1_234));
    for call in [Call::Set(wanted(4711, 1)), Call::Unset(wanted(nfs3::PROGRAM, 3))] {
        let answer = ask(&mut client, call);
        assert_eq!(Reply::decode_done(answer.reader()), Ok(false));
    }
    assert!(address(&ask(&mut client, Call::Getversaddr(wanted(nfs3::PROGRAM, 3)))).is_some());
}

#[test]
fn nothing_is_passed_on() {
    let (_server, mut client) = pair();
    let remote = RemoteCall { program: nfs3::PROGRAM, version: 3, procedure: 0, arguments: b"" };
    let calls = [
        program::Call::Portmap(portmap::Call::Callit(remote)),
        program::Call::Rpcbind3(Call::Broadcast(remote)),
        program::Call::Rpcbind4(Call::Indirect(remote)),
    ];
    for call in calls {
        assert_eq!(client.call(&call).rpc, Err(RpcError::ProcedureUnavailable), "{call:?}");
    }
}

#[test]
fn lists_available_versions_on_mismatch() {
    let (server, mut client) = pair();
    let mut refusal = |program, version| {
        let bytes = client.encode_numbers(program, version, 0);
        client.send(&bytes);
        client.receive(0).rpc.unwrap_err()
    };
    let mismatch = |low, high| RpcError::ProgramMismatch { low, high };
    assert_eq!(refusal(rpcbind::PROGRAM, 5), mismatch(2, 4));
    assert_eq!(refusal(nfs3::PROGRAM, 3), RpcError::ProgramUnavailable);
    let mut client = Client::connect(&server);
    let bytes = client.encode_numbers(mount3::PROGRAM, 2, 0);
    client.send(&bytes);
    assert_eq!(client.receive(0).rpc, Err(mismatch(1, 3)));
}
