//! Names, attributes and listings.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Attributes, Bitmap, Claim, CreateKind, Device, Fattr, FileType, List, Op, OpOk, OpenHow,
    SecurityFlavor, StateOwner, Stateid, Verifier, access, attribute,
};

use crate::client::ROOT;

use super::fixtures::{Peer, lookup, mode, server, size};

const EXPORT: [Op<'static>; 2] = [Op::Putrootfh, Op::Lookup { name: b"export" }];

fn on_export(peer: &mut Peer, op: Op<'_>) -> super::fixtures::Reply4 {
    peer.call(&[EXPORT[0], EXPORT[1], op])
}

#[test]
fn refuses_invalid_names() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let long = "n".repeat(256);
    for (name, status) in [
        ("", Status::Inval),
        (".", Status::BadName),
        ("..", Status::BadName),
        ("a/b", Status::BadChar),
        (&long, Status::NameTooLong),
        ("none", Status::NoEnt),
    ] {
        assert_eq!(on_export(&mut peer, lookup(name)).status(), status, "{name}");
        let op = Op::Remove { name: name.as_bytes() };
        assert_eq!(on_export(&mut peer, op).status(), status, "{name}");
    }
    let reply = peer.call(&[Op::Putrootfh, Op::Lookupp]);
    assert_eq!(reply.status(), Status::NoEnt);
    let up = peer.call(&[EXPORT[0], EXPORT[1], Op::Lookupp, Op::Getfh]);
    assert_eq!(up.file(), peer.call(&[Op::Putrootfh, Op::Getfh]).file());
    assert_eq!(peer.call(&[Op::Getfh]).status(), Status::NoFileHandle);
    assert_eq!(peer.call(&[Op::Restorefh]).status(), Status::RestoreFh);
}

#[test]
fn creates_all_object_kinds() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    peer.client.user = ROOT;
    let device = Device { major: 3, minor: 4 };
    let kinds = [
        ("d", CreateKind::Directory, FileType::Directory),
        ("l", CreateKind::Symlink(b"target"), FileType::Symlink),
        ("b", CreateKind::Block(device), FileType::Block),
        ("c", CreateKind::Character(device), FileType::Character),
        ("s", CreateKind::Socket, FileType::Socket),
        ("p", CreateKind::Fifo, FileType::Fifo),
    ];
    let request = Bitmap::from_numbers(&[attribute::TYPE, attribute::MODE, attribute::RAWDEV]);
    for (name, kind, file_type) in kinds {
        let mut scratch = Vec::new();
        let attributes = mode(0o710, &mut scratch);
        let create = Op::Create { kind, name: name.as_bytes(), attributes };
        let reply = peer.call(&[EXPORT[0], EXPORT[1], create, Op::Getattr { request }]);
        let OpOk::Getattr { attributes } = reply.ok() else { unreachable!() };
        let found = attributes.decode_values().unwrap();
        assert_eq!((found.file_type, found.mode), (Some(file_type), Some(0o710)));
        assert_eq!(on_export(&mut peer, create).status(), Status::Exist);
    }
    let regular = CreateKind::Other(1);
    let create = Op::Create { kind: regular, name: b"f", attributes: Fattr::default() };
    assert_eq!(on_export(&mut peer, create).status(), Status::BadType);
    let reply = peer.call(&[EXPORT[0], EXPORT[1], lookup("l"), Op::Readlink]);
    assert_eq!(reply.ok(), OpOk::Readlink { target: b"target" });
    let through = peer.call(&[EXPORT[0], EXPORT[1], lookup("l"), lookup("x")]);
    assert_eq!(through.status(), Status::Symlink);
    for (name, _, _) in kinds {
        assert_eq!(on_export(&mut peer, Op::Remove { name: name.as_bytes() }).status(), Status::Ok);
    }
    assert!(server.list_directory("/export").unwrap().is_empty());
}

fn open(how: OpenHow<'_>) -> Op<'_> {
    Op::Open {
        seqid: 0,
        share_access: 2,
        share_deny: 0,
        owner: StateOwner { client: nfs_proto::nfs4::ClientId(0), owner: b"o" },
        how,
        claim: Claim::Name(b"f"),
    }
}

#[test]
fn creates_files_in_every_open_mode() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    assert_eq!(on_export(&mut peer, open(OpenHow::NoCreate)).status(), Status::NoEnt);
    let mut scratch = Vec::new();
    let five = size(5, &mut scratch);
    let reply = on_export(&mut peer, open(OpenHow::Guarded(five)));
    let OpOk::Open { set, change, .. } = reply.ok() else { unreachable!() };
    assert!(set.contains(attribute::SIZE) && change.before < change.after);
    assert_eq!(on_export(&mut peer, open(OpenHow::Guarded(five))).status(), Status::Exist);
    let unchecked = on_export(&mut peer, open(OpenHow::Unchecked(five)));
    assert_eq!(unchecked.status(), Status::Ok);
    assert_eq!(server.file_size("/export/f"), Some(5), "an existing file is only truncated to 0");
    let mut scratch = Vec::new();
    on_export(&mut peer, open(OpenHow::Unchecked(size(0, &mut scratch))));
    assert_eq!(server.file_size("/export/f"), Some(0));
    let verifier = Verifier([7; 8]);
    assert_eq!(on_export(&mut peer, open(OpenHow::Exclusive(verifier))).status(), Status::Exist);
    assert_eq!(on_export(&mut peer, Op::Remove { name: b"f" }).status(), Status::Ok);
    let mut scratch = Vec::new();
    let exclusive = OpenHow::ExclusiveWith(verifier, mode(0o600, &mut scratch));
    assert_eq!(on_export(&mut peer, open(exclusive)).status(), Status::Ok);
    assert_eq!(on_export(&mut peer, open(exclusive)).status(), Status::Ok, "the same call again");
    let other = OpenHow::Exclusive(Verifier([8; 8]));
    assert_eq!(on_export(&mut peer, open(other)).status(), Status::Exist);
}

#[test]
fn attributes_are_set_compared_and_refused() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let (file, stateid) = peer.open("f");
    let mut scratch = Vec::new();
    let ten = size(10, &mut scratch);
    let set = |stateid, attributes| Op::Setattr { stateid, attributes };
    let put = Op::Putfh { file };
    assert_eq!(peer.call(&[put, set(stateid, ten)]).status(), Status::Ok);
    assert_eq!(peer.call(&[put, Op::Verify { attributes: ten }]).status(), Status::Ok);
    assert_eq!(peer.call(&[put, Op::Nverify { attributes: ten }]).status(), Status::Same);
    let mut scratch = Vec::new();
    let eleven = size(11, &mut scratch);
    assert_eq!(peer.call(&[put, Op::Verify { attributes: eleven }]).status(), Status::NotSame);
    let forged = Stateid { seqid: 7, ..stateid };
    assert_eq!(peer.call(&[put, set(forged, eleven)]).status(), Status::BadStateid);
    let cases = [
        (Attributes { fileid: Some(3), ..Attributes::default() }, attribute::FILEID, Status::Inval),
        (
            Attributes { hidden: Some(true), ..Attributes::default() },
            attribute::HIDDEN,
            Status::AttrNotSupp,
        ),
        (
            Attributes { owner: Some(b"root"), ..Attributes::default() },
            attribute::OWNER,
            Status::BadOwner,
        ),
    ];
    for (attributes, number, status) in cases {
        let mut scratch = Vec::new();
        let fattr = attributes.to_fattr(Bitmap::from_numbers(&[number]), &mut scratch);
        let reply =
            peer.call(&[put, Op::Setattr { stateid: Stateid::ANONYMOUS, attributes: fattr }]);
        assert_eq!(reply.status(), status, "{number}");
    }
    let write_only = Bitmap::from_numbers(&[attribute::TIME_MODIFY_SET]);
    let reply = peer.call(&[put, Op::Getattr { request: write_only }]);
    assert_eq!(reply.status(), Status::Inval);
}

#[test]
fn listings_go_on_where_they_ended() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let names: Vec<String> = (0..300).map(|number| format!("name-{number}")).collect();
    for name in &names {
        let kind = CreateKind::Directory;
        let create = Op::Create { kind, name: name.as_bytes(), attributes: Fattr::default() };
        assert_eq!(on_export(&mut peer, create).status(), Status::Ok);
    }
    let request = Bitmap::from_numbers(&[attribute::FILEID, attribute::TYPE]);
    let mut cookie = 0;
    let mut verifier = Verifier::default();
    let mut found = Vec::new();
    loop {
        let readdir = Op::Readdir { cookie, verifier, dircount: 0, maxcount: 2000, request };
        peer.sequence += 1;
        let reply = peer.again(&[EXPORT[0], EXPORT[1], readdir], false);
        let OpOk::Readdir { verifier: given, entries, eof } = reply.ok() else { unreachable!() };
        for entry in &entries {
            let values = entry.attributes.decode_values().unwrap();
            assert_eq!(values.file_type, Some(FileType::Directory));
            found.push(String::from_utf8(entry.name.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        verifier = given;
        if eof {
            break;
        }
    }
    assert_eq!(found, names);
    let list = |cookie, verifier, maxcount| Op::Readdir {
        cookie,
        verifier,
        dircount: 0,
        maxcount,
        request,
    };
    for (op, status) in [
        (list(1, verifier, 2000), Status::BadCookie),
        (list(cookie, Verifier([1; 8]), 2000), Status::NotSame),
        (list(0, Verifier::default(), 20), Status::TooSmall),
    ] {
        assert_eq!(on_export(&mut peer, op).status(), status);
    }
}

#[test]
fn rights_and_flavors_are_reported() {
    let server = server();
    let mut peer = Peer::new(&server, 1, b"me");
    let all = 0x3f;
    let reply = on_export(&mut peer, Op::Access { access: all });
    let granted = all & !access::EXECUTE;
    assert_eq!(reply.ok(), OpOk::Access { supported: granted, access: granted });
    assert_eq!(on_export(&mut peer, Op::Access { access: 0x40 }).status(), Status::Inval);
    let secinfo = Op::Secinfo { name: b"export" };
    let reply = peer.call(&[Op::Putrootfh, secinfo]);
    let OpOk::Secinfo { flavors } = reply.ok() else { unreachable!() };
    let expected = [SecurityFlavor::Plain(1), SecurityFlavor::Plain(0)];
    assert!(List::iter(&flavors).eq(expected));
    let gone = peer.call(&[Op::Putrootfh, secinfo, Op::Getfh]);
    assert_eq!(gone.status(), Status::NoFileHandle);
}
