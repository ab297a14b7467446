//! Probes of NFS v4 servers with scripted answers: minor versions, the root, exports.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nfs_client::probe::{Flavor, Limits, NoAnswer, Probe, ProbeOptions};
use nfs_client::proto::nfs3::Verifier;
use nfs_client::proto::nfs4::{
    self, Attributes, ChannelAttributes, ClientId, Compound, CompoundReply, GssInfo, List,
    NewEntry, Op, OpOk, ReplyBuilder, SecurityFlavor, SessionId, StateProtectionReply,
};
use nfs_client::proto::program::{Call, OfferedPrograms, Reply};
use nfs_client::proto::server::{Session, encode_reply};
use nfs_client::proto::xdr::Reader;
use nfs_client::proto::{ProtocolVersion, Status};

const SESSION: SessionId = SessionId([7; 16]);

/// Starts a server with these minor versions, and with one export `/exp` in its root.
fn start(minors: &'static [u32]) -> SocketAddr {
    start_mortal(minors, i64::MAX)
}

/// Starts such a server that dies instead of answering once it has received more than the given
/// number of NULL calls.
fn start_mortal(minors: &'static [u32], nulls: i64) -> SocketAddr {
    let life = Arc::new(AtomicI64::new(nulls));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let life = Arc::clone(&life);
            // A dead server closes connections that the system accepts for it.
            if life.load(Relaxed) >= 0 {
                std::thread::spawn(move || serve(stream, minors, &life));
            }
        }
    });
    address
}

fn serve(mut stream: TcpStream, minors: &[u32], life: &AtomicI64) {
    let mut session = Session::new(OfferedPrograms { nfs4: true, ..OfferedPrograms::NONE });
    let mut out = Vec::new();
    while let Ok(len @ 1..) = stream.read(session.free_space(1)) {
        session.mark_filled(len);
        while let Some(request) = session.next_request(&mut out).unwrap() {
            match request.body {
                Ok(Call::Nfs4(nfs4::Call::Null)) => {
                    if life.fetch_sub(1, Relaxed) <= 0 {
                        return;
                    }
                    encode_reply(&mut out, request.xid, &Reply::Nfs4(nfs4::Reply::Null));
                }
                Ok(Call::Nfs4(nfs4::Call::Compound(compound))) => {
                    let mut bytes = Vec::new();
                    answer(&compound, minors, &mut bytes);
                    let reply = CompoundReply::decode(Reader::new(&bytes)).unwrap();
                    let reply = Reply::Nfs4(nfs4::Reply::Compound(reply));
                    encode_reply(&mut out, request.xid, &reply);
                }
                _ => {}
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
        out.clear();
    }
}

fn answer(compound: &Compound<'_>, minors: &[u32], bytes: &mut Vec<u8>) {
    let mut reply = ReplyBuilder::new(bytes, compound.tag);
    if !minors.contains(&compound.minor) {
        reply.set_status(Status::MinorVersMismatch);
        reply.finish();
        return;
    }
    for (index, op) in compound.ops().enumerate() {
        let op = op.expect("probes send well-formed operations");
        let alone = matches!(
            op,
            Op::Sequence { .. }
                | Op::ExchangeId { .. }
                | Op::CreateSession { .. }
                | Op::DestroySession { .. }
                | Op::DestroyClientid { .. }
        );
        if compound.minor > 0 && index == 0 && !alone {
            reply.fail(op.code(), Status::OpNotInSession);
            break;
        }
        if let Err(status) = carry_out(&op, &mut reply) {
            reply.fail(op.code(), status);
            break;
        }
    }
    reply.finish();
}

fn carry_out(op: &Op<'_>, reply: &mut ReplyBuilder<'_>) -> Result<(), Status> {
    let mut scratch = Vec::new();
    let sys = SecurityFlavor::Plain(1);
    match *op {
        Op::Putrootfh => reply.ok(&OpOk::Putrootfh),
        Op::Lookup { name: b"exp" } => reply.ok(&OpOk::Lookup),
        Op::Getattr { request } => {
            let attributes = Attributes {
                lease_seconds: Some(35),
                file_bytes_max: Some(1 << 40),
                read_bytes_max: Some(65_536),
                write_bytes_max: Some(32_768),
                ..Attributes::default()
            };
            reply.getattr_ok(&attributes, request);
        }
        Op::Readdir { dircount, maxcount, .. } => {
            let mut entries = nfs4::page_of(&mut scratch, dircount, maxcount);
            entries.push(&NewEntry {
                cookie: 5,
                name: b"exp",
                attributes: &Attributes::default(),
                requested: nfs4::Bitmap::EMPTY,
            });
            reply.ok(&OpOk::Readdir {
                verifier: Verifier::default(),
                entries: entries.finish(),
                eof: true,
            });
        }
        Op::Secinfo { name: b"exp" } => {
            reply.ok(&OpOk::Secinfo { flavors: List::build(&mut scratch, [sys]) });
        }
        Op::SecinfoNoName { style: 0 } => {
            let krb5p = SecurityFlavor::Gss(GssInfo { oid: b"oid", quality: 0, service: 3 });
            reply.ok(&OpOk::SecinfoNoName { flavors: List::build(&mut scratch, [krb5p, sys]) });
        }
        Op::ExchangeId { .. } => reply.ok(&OpOk::ExchangeId {
            client: ClientId(9),
            sequence: 4,
            flags: 0,
            protection: StateProtectionReply::None,
            server_minor_id: 0,
            server_major_id: b"",
            scope: b"",
            implementation: None,
        }),
        Op::CreateSession { client: ClientId(9), sequence: 4, fore, back, .. } => {
            reply.ok(&created(fore, back));
        }
        Op::Sequence { session: SESSION, sequence, slot: 0, .. } => reply.ok(&OpOk::Sequence {
            session: SESSION,
            sequence,
            slot: 0,
            highest_slot: 0,
            target_highest_slot: 0,
            flags: 0,
        }),
        Op::DestroySession { session: SESSION } => reply.ok(&OpOk::DestroySession),
        Op::DestroyClientid { client: ClientId(9) } => reply.ok(&OpOk::DestroyClientid),
        _ => return Err(Status::NoEnt),
    }
    Ok(())
}

fn created(fore: ChannelAttributes, back: ChannelAttributes) -> OpOk<'static> {
    OpOk::CreateSession { session: SESSION, sequence: 4, flags: 0, fore, back }
}

fn probe(address: SocketAddr) -> Probe {
    // Nothing listens on port 1, so neither the portmapper nor MOUNT is found there.
    Probe::run(&ProbeOptions {
        port: Some(address.port()),
        mount_port: Some(1),
        portmap_port: 1,
        timeout: Duration::from_secs(5),
        samples: 1,
        ..ProbeOptions::new("127.0.0.1")
    })
    .unwrap()
}

fn root_limits() -> Limits {
    Limits {
        read_bytes_max: 65_536,
        write_bytes_max: 32_768,
        file_bytes_max: 1 << 40,
        ..Limits::default()
    }
}

#[test]
fn names_unsupported_minor_versions() {
    let cases: [(&[u32], [bool; 3]); 3] = [
        (&[0, 1, 2], [true, true, true]),
        (&[0], [true, false, false]),
        (&[1, 2], [false, true, true]),
    ];
    for (minors, spoken) in cases {
        let probe = probe(start(minors));
        let found: Vec<_> = probe.minor_versions.iter().map(|(_, found)| found.clone()).collect();
        assert_eq!(found, spoken.map(Ok), "{minors:?}");
        let versions = [ProtocolVersion::V4_0, ProtocolVersion::V4_1, ProtocolVersion::V4_2];
        let expected: Vec<_> =
            versions.into_iter().zip(spoken).filter(|pair| pair.1).map(|pair| pair.0).collect();
        assert_eq!(probe.versions(), expected);
    }
}

#[test]
fn reads_root_limits_with_session() {
    for minors in [&[0][..], &[1], &[0, 1, 2]] {
        let root = probe(start(minors)).root;
        assert_eq!(root.limits, Ok(root_limits()), "{minors:?}");
        assert_eq!(root.lease_seconds, Ok(35));
        assert_eq!(root.names, Ok(vec!["exp".to_owned()]));
        match minors {
            [0] => assert!(matches!(root.flavors, Err(NoAnswer::NotRequested(_)))),
            _ => assert_eq!(root.flavors, Ok(vec![Flavor(390_005), Flavor(1)])),
        }
    }
}

#[test]
fn reports_missing_xattr_support() {
    assert_eq!(probe(start(&[0, 1, 2])).xattrs, Ok(false));
    assert!(matches!(probe(start(&[1])).xattrs, Err(NoAnswer::NotRequested(_))));
}

#[test]
fn reports_missing_minor_versions() {
    let probe = probe(start(&[]));
    assert!(probe.minor_versions.iter().all(|(_, spoken)| *spoken == Ok(false)));
    assert!(matches!(probe.root.limits, Err(NoAnswer::NotRequested(_))));
    assert_eq!(probe.exports, Err(NoAnswer::Refused));
}

#[test]
fn names_flavors_like_mount_options() {
    let names = [0, 1, 390_003, 390_004, 390_005, 4711].map(|flavor| Flavor(flavor).to_string());
    assert_eq!(names, ["none", "sys", "krb5", "krb5i", "krb5p", "4711"]);
}

#[test]
fn stops_probing_dead_server() {
    // It answers the NULL of the first query, and dies when its round trip is measured.
    let found = probe(start_mortal(&[0, 1], 1));
    assert_eq!(found.stopped, Some(NoAnswer::Closed));
    let not_requested = NoAnswer::NotRequested("the server has stopped answering");
    for (_, reply) in &found.minor_replies {
        assert_eq!(*reply, Err(not_requested.clone()));
    }
    assert_eq!(
        (found.tls, found.reserved_port),
        (Err(not_requested.clone()), Err(not_requested.clone()))
    );
    assert_eq!(found.exports, Err(not_requested));
    // The same server, if it stays alive, gets all calls.
    assert_eq!(probe(start(&[0, 1])).stopped, None);
}
