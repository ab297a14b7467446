//! Rpcbind, portmap and MOUNT v1 on the wire: golden bytes written by hand from RFC 1833 and RFC
//! 1094, truncation, and properties.

use nfs_proto::portmap;
use nfs_proto::rpcbind::{
    AddressEntry, Call, Netbuf, Registration, RemoteCall, Reply, UniversalAddress, VERSION_3,
    VERSION_4,
};
use nfs_proto::xdr::{Reader, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::hex;

/// Program 100003, version 4, over tcp, at 127.0.0.1.8.1, owned by "me".
const REGISTRATION: &str = "000186a3 00000004 00000003 74637000
    0000000d 3132372e 302e302e 312e382e 31000000 00000002 6d650000";
const ADDRESS: &str = "0000000d 3132372e 302e302e 312e382e 31000000";
const REMOTE: &str = "000186a3 00000003 00000001 00000005 61726773 35000000";

fn registration() -> Registration<'static> {
    Registration {
        program: 100_003,
        version: 4,
        netid: b"tcp",
        address: b"127.0.0.1.8.1",
        owner: b"me",
    }
}

fn calls() -> Vec<(Call<'static>, &'static str)> {
    let registration = registration();
    let remote = RemoteCall { program: 100_003, version: 3, procedure: 1, arguments: b"args5" };
    vec![
        (Call::Null, ""),
        (Call::Set(registration), REGISTRATION),
        (Call::Unset(registration), REGISTRATION),
        (Call::Getaddr(registration), REGISTRATION),
        (Call::Dump, ""),
        (Call::Broadcast(remote), REMOTE),
        (Call::Gettime, ""),
        (Call::ToBinary(b"127.0.0.1.8.1"), ADDRESS),
        (Call::ToText(Netbuf { bytes_max: 16, bytes: b"in" }), "00000010 00000002 696e0000"),
        (Call::Getversaddr(registration), REGISTRATION),
        (Call::Indirect(remote), REMOTE),
        (Call::Getaddrlist(registration), REGISTRATION),
        (Call::Getstat, ""),
    ]
}

fn encoded(reply: &Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut Writer::new(&mut out));
    out
}

#[test]
fn encodes_calls_like_rfc() {
    for (number, (call, golden)) in calls().into_iter().enumerate() {
        let procedure = number as u32;
        let golden = hex(golden);
        let mut out = Vec::new();
        call.encode(&mut Writer::new(&mut out));
        assert_eq!(out, golden, "encoding {call:?}");
        assert_eq!(call.procedure(), procedure);
        let decode = |bytes| Call::decode_in_version(VERSION_4, procedure, Reader::new(bytes));
        assert_eq!(decode(&golden), Ok(Some(call)));
        for len in 0..golden.len() {
            assert!(decode(&golden[..len]).is_err(), "{call:?} cut to {len} bytes");
        }
        let mut longer = golden.clone();
        longer.extend([0; 4]);
        assert!(decode(&longer).is_err(), "{call:?} with bytes after it");
    }
}

#[test]
fn version_3_ends_at_procedure_8() {
    for (number, (call, golden)) in calls().into_iter().enumerate() {
        let golden = hex(golden);
        let decoded = Call::decode_in_version(VERSION_3, number as u32, Reader::new(&golden));
        assert_eq!(decoded, Ok((number <= 8).then_some(call)));
    }
    assert_eq!(Call::decode_in_version(VERSION_4, 13, Reader::new(&[])), Ok(None));
}

#[test]
fn encodes_single_results_like_rfc() {
    let out = encoded(&Reply::Done(true));
    assert_eq!((Reply::decode_done(Reader::new(&out)), out), (Ok(true), hex("00000001")));
    let out = encoded(&Reply::Time(5));
    assert_eq!((Reply::decode_time(Reader::new(&out)), out), (Ok(5), hex("00000005")));
    let out = encoded(&Reply::Address(b"127.0.0.1.8.1"));
    assert_eq!(out, hex(ADDRESS));
    let text = Reply::decode_address(Reader::new(&out)).unwrap();
    assert_eq!(UniversalAddress::parse(text), Some("127.0.0.1:2049".parse().unwrap()));
    let netbuf = Netbuf { bytes_max: 16, bytes: b"in" };
    let out = encoded(&Reply::Binary(netbuf));
    assert_eq!(out, hex("00000010 00000002 696e0000"));
    assert_eq!(Reply::decode_binary(Reader::new(&out)), Ok(netbuf));
    assert!(encoded(&Reply::Null).is_empty());
}

#[test]
fn encodes_lists_like_rfc() {
    let registrations = [registration(), Registration { version: 3, ..registration() }];
    let golden = hex(&format!(
        "00000001 {REGISTRATION} 00000001 {} 00000000",
        REGISTRATION.replacen("00000004", "00000003", 1)
    ));
    assert_eq!(encoded(&Reply::Dump(&registrations)), golden);
    let mut seen = Vec::new();
    Reply::decode_dump(Reader::new(&golden), |registration| seen.push(registration)).unwrap();
    assert_eq!(seen, registrations);

    let entry = AddressEntry {
        address: b"127.0.0.1.8.1",
        netid: b"tcp",
        semantics: AddressEntry::STREAM,
        family: b"inet",
        protocol: b"tcp",
    };
    let golden = hex(&format!(
        "00000001 {ADDRESS} 00000003 74637000 00000003 00000004 696e6574 00000003 74637000 00000000"
    ));
    assert_eq!(encoded(&Reply::Addresses(&[entry])), golden);
    let mut seen = Vec::new();
    Reply::decode_addresses(Reader::new(&golden), |entry| seen.push(entry)).unwrap();
    assert_eq!(seen, [entry]);
    for len in 0..golden.len() {
        assert!(Reply::decode_addresses(Reader::new(&golden[..len]), |_| {}).is_err());
    }
}

#[test]
fn encodes_portmap_callit_like_rfc() {
    let remote = RemoteCall { program: 100_003, version: 3, procedure: 1, arguments: b"args5" };
    let golden = hex(REMOTE);
    let mut out = Vec::new();
    portmap::Call::Callit(remote).encode(&mut Writer::new(&mut out));
    assert_eq!(out, golden);
    let decoded = portmap::Call::decode(5, Reader::new(&golden));
    assert_eq!(decoded, Ok(Some(portmap::Call::Callit(remote))));
}

proptest! {
    #[test]
    fn registrations_come_back(
        (program, version) in any::<(u32, u32)>(),
        netid in vec(any::<u8>(), 0..40),
        address in vec(any::<u8>(), 0..100),
        owner in vec(any::<u8>(), 0..40),
    ) {
        let registration = Registration {
            program,
            version,
            netid: &netid,
            address: &address,
            owner: &owner,
        };
        let mut out = Vec::new();
        let call = Call::Getaddr(registration);
        call.encode(&mut Writer::new(&mut out));
        prop_assert_eq!(Call::decode_in_version(VERSION_3, 3, Reader::new(&out)), Ok(Some(call)));
    }

    #[test]
    fn addresses_come_back(address: std::net::IpAddr, port: u16) {
        let address = std::net::SocketAddr::new(address, port);
        let text = UniversalAddress::new(address);
        prop_assert_eq!(UniversalAddress::parse(text.as_bytes()), Some(address));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        for procedure in 0..14 {
            let _ = Call::decode_in_version(VERSION_4, procedure, Reader::new(&bytes));
        }
        let _ = Reply::decode_address(Reader::new(&bytes));
        let _ = Reply::decode_binary(Reader::new(&bytes));
        let _ = Reply::decode_dump(Reader::new(&bytes), |_| {});
        let _ = Reply::decode_addresses(Reader::new(&bytes), |_| {});
        let _ = UniversalAddress::parse(&bytes);
        let _ = nfs_proto::mount1::Reply::decode_mnt(Reader::new(&bytes));
    }
}
