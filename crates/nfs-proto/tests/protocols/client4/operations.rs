//! The call that the session sends for each operation, and how it decodes the reply.

use nfs_proto::nfs4::{ChangeInfo, Claim, List, OpenHow, Segment, XattrOption};

use super::*;

#[test]
fn each_operation_is_one_compound() {
    use OpCode::{
        Close, Create, Getattr, Getfh, Link, Lookup, Open, Putfh, Read, Readdir, Remove, Rename,
        Savefh, Setattr, Write,
    };
    let file = &file();
    let dir = &dir();
    let attributes = Sattr::with_mode(0o755);
    let data = Data::Pool(PayloadRange { start: 0, len: 5 });
    let cursor = Cursor::default();
    let cases: [(Operation<'_>, &[OpCode]); 12] = [
        (Operation::Getattr { file }, &[Putfh, Getattr]),
        (Operation::Setattr { file, attributes }, &[Putfh, Setattr]),
        (Operation::Lookup { dir, name: b"n" }, &[Putfh, Lookup, Getfh, Getattr]),
        (Operation::Read { file, offset: 0, count: 9 }, &[Putfh, Read]),
        (Operation::Write { file, offset: 0, stable: StableHow::FileSync, data }, &[Putfh, Write]),
        (
            Operation::Create { dir, name: b"n", how: CreateHow::Guarded(attributes) },
            &[Putfh, Open, Getfh, Getattr],
        ),
        (Operation::Mkdir { dir, name: b"n", attributes }, &[Putfh, Create, Getfh, Getattr]),
        (Operation::Remove { dir, name: b"n" }, &[Putfh, Remove]),
        (
            Operation::Rename { from_dir: dir, from: b"n", to_dir: file, to: b"m" },
            &[Putfh, Savefh, Putfh, Rename],
        ),
        (Operation::Link { file, dir, name: b"n" }, &[Putfh, Savefh, Putfh, Link]),
        (Operation::Readdir { dir, cursor, bytes: 512 }, &[Putfh, Readdir]),
        (Operation::Close { file }, &[Putfh, Close]),
    ];
    for (operation, codes) in cases {
        let seen = start(&mut client(ProtocolVersion::V4_0, 4), &operation);
        assert_eq!((seen.compound().minor, seen.codes()), (0, codes.to_vec()), "{operation:?}");
        let seen = start(&mut client(ProtocolVersion::V4_1, 4), &operation);
        assert_eq!((seen.compound().minor, seen.codes()[0]), (1, OpCode::Sequence));
        assert_eq!(seen.codes()[1..], *codes, "{operation:?}");
        // Only calls that must not be executed twice are worth the server's memory.
        let Op::Sequence { cache_this, .. } = seen.ops()[0] else { panic!("{seen:?}") };
        assert_eq!(cache_this, !operation.is_idempotent(), "{operation:?}");
    }
}

#[test]
fn rejects_operations_of_later_minor() {
    let seek = Operation::Seek { file: &file(), offset: 3, what: SeekWhat::Hole };
    let mut session = client(ProtocolVersion::V4_1, 4);
    let unsupported =
        StartError::Unsupported { kind: OperationKind::Seek, version: ProtocolVersion::V4_1 };
    assert_eq!(session.start(0, 1, &seek), Err(unsupported));
    assert_eq!(session.in_flight(), 0);
    let mut session = client(ProtocolVersion::V4_2, 4);
    let seen = start(&mut session, &seek);
    assert_eq!(seen.ops()[2], Op::Seek { stateid: OPENED, offset: 3, what: 1 });
    answer(&mut session, &seen, &[PUTFH, OpResult::Ok(OpOk::Seek { eof: true, offset: 8 })]);
    assert_eq!(result(&mut session), Ok(Outcome::Found { offset: 8, eof: true }));
}

#[test]
fn copies_and_clones_whole_ranges() {
    let from = &file();
    let to = &File { owner: 7, ..file() };
    let offsets = (4096, 8192, 12_288);
    let (from_offset, to_offset, len) = offsets;
    let mut session = client(ProtocolVersion::V4_2, 4);
    let seen = start(&mut session, &Operation::Clone { from, from_offset, to, to_offset, len });
    let Op::Clone { source_offset, destination_offset, count, .. } = seen.ops()[4] else {
        panic!("{seen:?}")
    };
    assert_eq!((source_offset, destination_offset, count), offsets);
    answer(
        &mut session,
        &seen,
        &[PUTFH, OpResult::Ok(OpOk::Savefh), PUTFH, OpResult::Ok(OpOk::Clone)],
    );
    assert_eq!(result(&mut session), Ok(Outcome::Done));
    let verifier = Verifier([3; 8]);
    let committed = StableHow::FileSync;
    let expected = [
        (None, Outcome::Copied { count: len, committed, verifier }),
        (Some(OPENED), Outcome::Copying { stateid: OPENED, verifier }),
    ];
    for (callback_id, outcome) in expected {
        let mut session = client(ProtocolVersion::V4_2, 4);
        let synchronous = callback_id.is_none();
        let copy = Operation::Copy { from, from_offset, to, to_offset, len, synchronous };
        let seen = start(&mut session, &copy);
        let Op::Copy { synchronous: asked, .. } = seen.ops()[4] else { panic!("{seen:?}") };
        assert_eq!(asked, synchronous);
        let copied = OpResult::Ok(OpOk::Copy {
            callback_id,
            count: len,
            committed,
            verifier,
            consecutive: true,
            synchronous,
        });
        answer(&mut session, &seen, &[PUTFH, OpResult::Ok(OpOk::Savefh), PUTFH, copied]);
        assert_eq!(result(&mut session), Ok(outcome));
    }
}

#[test]
fn opens_by_handle_only_in_sessions() {
    let operation = Operation::OpenHandle { file: &file(), access: OpenAccess::Write };
    let mut session = client(ProtocolVersion::V4_1, 4);
    let seen = start(&mut session, &operation);
    let Op::Open { share_access, how, claim, .. } = seen.ops()[2] else { panic!("{seen:?}") };
    assert_eq!((share_access & 3, how, claim), (2, OpenHow::NoCreate, Claim::Current));
    assert_eq!(seen.ops()[1], Op::Putfh { file: file().handle });
    for version in [ProtocolVersion::V4_0, ProtocolVersion::V3, ProtocolVersion::V2] {
        let mut session = client(version, 4);
        let unsupported = StartError::Unsupported { kind: OperationKind::Open, version };
        assert_eq!(session.start(0, 1, &operation), Err(unsupported));
    }
}

#[test]
fn limits_xattrs_to_v4_2() {
    let file = &file();
    let name = &b"name"[..];
    let option = XattrOption::Create;
    let change = ChangeInfo::default();
    let names = List::default();
    let mut older = client(ProtocolVersion::V4_1, 4);
    for (operation, op, ok, outcome) in [
        (
            Operation::Getxattr { file, name },
            Op::Getxattr { name },
            OpOk::Getxattr { value: b"value" },
            Outcome::XattrValue { len: 5 },
        ),
        (
            Operation::Setxattr { file, option, name, value: b"value" },
            Op::Setxattr { option, name, value: b"value" },
            OpOk::Setxattr { change },
            Outcome::Done,
        ),
        (
            Operation::Listxattrs { file, cookie: 3, bytes: 4096 },
            Op::Listxattrs { cookie: 3, maxcount: 4096 },
            OpOk::Listxattrs { cookie: 7, names, eof: true },
            Outcome::XattrNames { cookie: 7, eof: true },
        ),
        (
            Operation::Removexattr { file, name },
            Op::Removexattr { name },
            OpOk::Removexattr { change },
            Outcome::Done,
        ),
    ] {
        let unsupported =
            StartError::Unsupported { kind: operation.kind(), version: ProtocolVersion::V4_1 };
        assert_eq!(older.start(0, 1, &operation), Err(unsupported));
        let mut session = client(ProtocolVersion::V4_2, 4);
        let seen = start(&mut session, &operation);
        assert_eq!(seen.ops()[2], op);
        answer(&mut session, &seen, &[PUTFH, OpResult::Ok(ok)]);
        let event = session.poll_event().expect("the call has ended");
        assert_eq!((event.result, event.result_of(op.code())), (Ok(outcome), Ok(ok)));
    }
    assert_eq!(older.in_flight(), 0);
}

#[test]
fn supports_attributes_of_all_versions() {
    let mut scratch = Vec::new();
    let mut session = client(ProtocolVersion::V4_1, 4);
    let seen = start(&mut session, &Operation::Lookup { dir: &dir(), name: b"n" });
    let getfh = OpResult::Ok(OpOk::Getfh { file: handle(b"found") });
    let lookup = OpResult::Ok(OpOk::Lookup);
    answer(&mut session, &seen, &[PUTFH, lookup, getfh, getattr(&mut scratch)]);
    let event = session.poll_event().expect("the call has ended");
    let Ok(Outcome::Object { attributes: Some(attributes) }) = event.result else {
        panic!("LOOKUP brings attributes");
    };
    assert_eq!(event.file, Some(&File::from(handle(b"found"))));
    let got = (attributes.size, attributes.mode, attributes.uid, attributes.gid);
    assert_eq!(
        got,
        (7, 0o640, 1000, 65_534),
        "a name that is not a number maps to the anonymous ID"
    );

    let seen = start(&mut session, &Operation::Lookup { dir: &dir(), name: b"n" });
    answer(&mut session, &seen, &[PUTFH, OpResult::Failed(OpCode::Lookup, Status::NoEnt)]);
    let error = result(&mut session).unwrap_err();
    assert_eq!(error.to_string(), "the server answered NFS4ERR_NOENT (2)");

    let seen = start(&mut session, &Operation::Lookup { dir: &dir(), name: b"n" });
    answer(&mut session, &seen, &[PUTFH, lookup]);
    assert!(matches!(result(&mut session), Err(CallError::Malformed(_))), "no handle");
}

#[test]
fn lists_with_ids_or_all_attributes() {
    let mut session = client(ProtocolVersion::V4_0, 4);
    let operation = Operation::ReaddirPlus { dir: &dir(), cursor: Cursor::default(), bytes: 999 };
    let seen = start(&mut session, &operation);
    let Op::Readdir { request, maxcount, .. } = seen.ops()[1] else { panic!("{seen:?}") };
    assert!(request.contains(attribute::FILEHANDLE) && request.contains(attribute::RDATTR_ERROR));
    assert_eq!(maxcount, 999);
    let mut scratch = Vec::new();
    let mut entries = nfs4::page_of(&mut scratch, 0, 999);
    let with_handle = Attributes { file: Some(handle(b"entry")), ..attributes() };
    assert!(entries.push(&nfs4::NewEntry {
        cookie: 3,
        name: b"name",
        attributes: &with_handle,
        requested: request,
    }));
    let entries = entries.finish();
    let page = OpOk::Readdir { verifier: Verifier(*b"verifier"), entries, eof: true };
    answer(&mut session, &seen, &[PUTFH, OpResult::Ok(page)]);
    let event = session.poll_event().unwrap();
    assert_eq!(event.result, Ok(Outcome::Listing));
    let listing = event.listing().unwrap();
    assert!(listing.eof);
    let entry = listing.iter().next().unwrap();
    assert_eq!((entry.fileid, entry.name, entry.cookie), (11, &b"name"[..], 3));
    assert_eq!(entry.handle, Some(handle(b"entry")));
    assert_eq!(entry.attributes.map(|attributes| attributes.size), Some(7));
}

#[test]
fn returns_data_and_holes_in_order() {
    let mut session = client(ProtocolVersion::V4_2, 4);
    let seen = start(&mut session, &Operation::ReadPlus { file: &file(), offset: 3, count: 90 });
    let mut scratch = Vec::new();
    let found = [Segment::Data(3, b"abc"), Segment::Hole(6, 50)];
    let segments = List::build(&mut scratch, found);
    answer(&mut session, &seen, &[PUTFH, OpResult::Ok(OpOk::ReadPlus { eof: true, segments })]);
    let event = session.poll_event().unwrap();
    assert_eq!(event.result, Ok(Outcome::Segments { eof: true }));
    let pieces: Vec<_> = event.segments().unwrap().collect();
    assert_eq!(pieces, found);
    assert!(event.listing().is_err());

    let seen = start(&mut session, &Operation::ReadPlus { file: &file(), offset: 3, count: 90 });
    answer(&mut session, &seen, &[PUTFH, OpResult::Failed(OpCode::ReadPlus, Status::Stale)]);
    assert_eq!(result(&mut session).unwrap_err().status(), Some(Status::Stale));
}

#[test]
fn leaves_write_payload_to_pool() {
    for version in [ProtocolVersion::V4_0, ProtocolVersion::V4_2] {
        let mut session = client(version, 4);
        let data = Data::Pool(PayloadRange { start: 0, len: 5 });
        let stable = StableHow::Unstable;
        let operation = Operation::Write { file: &file(), offset: 3, stable, data };
        session.start(0, 1, &operation).unwrap();
        let bytes = send(&mut session);
        assert_eq!(bytes[bytes.len() - 8..bytes.len() - 3], [7; 5], "then padding");
        let seen = ReceivedCall::from_bytes(&[&bytes[..bytes.len() - 3], &[0; 3]].concat());
        let write = Op::Write { stateid: OPENED, offset: 3, stable, data: &[7; 5] };
        assert_eq!(seen.ops().last(), Some(&write));
        let verifier = Verifier(*b"verifier");
        let written =
            |count| OpResult::Ok(OpOk::Write { count, committed: StableHow::FileSync, verifier });
        answer(&mut session, &seen, &[PUTFH, written(5)]);
        let committed = StableHow::FileSync;
        assert_eq!(result(&mut session), Ok(Outcome::Written { count: 5, committed, verifier }));
    }
}

#[test]
fn finds_read_payload_in_pieces() {
    for version in [ProtocolVersion::V4_0, ProtocolVersion::V4_1] {
        for piece in [1, 2, 3, 7, 50, 4096] {
            let mut session = client(version, 4);
            let read = Operation::Read { file: &file(), offset: 0, count: 100 };
            let seen = start(&mut session, &read);
            let ok = OpResult::Ok(OpOk::Read { eof: true, data: &[9; 99] });
            let mut results = vec![PUTFH, ok];
            if version.has_sessions() {
                results.insert(0, sequence_ok());
            }
            let bytes = reply(seen.xid, &results);
            for piece in bytes.chunks(piece) {
                assert_eq!(session.handle_input(2, piece), Ok(piece.len()));
            }
            let event = session.poll_event().unwrap();
            assert_eq!(event.result, Ok(Outcome::Read { count: 99, eof: true }));
            assert_eq!(event.payload, [9; 99]);
            assert_eq!(session.counters().payload_bytes_in, 99);
        }
        let mut session = client(version, 4);
        let seen = start(&mut session, &Operation::Read { file: &file(), offset: 0, count: 100 });
        answer(&mut session, &seen, &[PUTFH, OpResult::Failed(OpCode::Read, Status::Stale)]);
        assert_eq!(result(&mut session).unwrap_err().status(), Some(Status::Stale));
        let seen = start(&mut session, &Operation::Read { file: &file(), offset: 0, count: 8 });
        let long = OpResult::Ok(OpOk::Read { eof: true, data: &[9; 9] });
        answer(&mut session, &seen, &[PUTFH, long]);
        assert!(
            matches!(result(&mut session), Err(CallError::Malformed(_))),
            "more than requested"
        );
    }
}
