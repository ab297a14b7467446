//! Permissions over the wire: operations that another user may not do, in each version, and the
//! differences without permission checks.

use nfs_proto::Status;
use nfs_proto::nfs2;
use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Reply, Sattr, access};
use nfs_proto::nfs4::{self, Bitmap, Claim, Fattr, Op, OpOk, OpenHow, StateOwner, Stateid};
use nfs_proto::rpc::{AuthSys, Groups};
use nfs_server::{Permissions, Server, ServerConfig};

use crate::client::{Client, ROOT, USER, start};
use crate::nfs4::fixtures::{Peer, Plain, Reply4, lookup, mode, size};

const OTHER: AuthSys<'static> = AuthSys { uid: 1001, gid: 101, ..USER };

fn enforcing() -> Server {
    start(ServerConfig::default())
}

fn permissive() -> Server {
    start(ServerConfig { permissions: Permissions::Off, ..ServerConfig::default() })
}

/// A server, a client of the owner with a file of this mode in the export, and a client of another
/// user.
fn file_of_owner(server: &Server, bits: u32) -> (Client, Client, FileHandle, FileHandle) {
    let mut owner = Client::connect(server);
    let mut other = Client::connect(server);
    other.user = OTHER;
    let root = owner.mount("/export");
    let how = CreateHow::Guarded(Sattr::with_mode(bits));
    let answer = owner.nfs(Call::Create { dir: &root, name: b"f", how });
    let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
    (owner, other, root, result.unwrap().file.unwrap())
}

fn granted(client: &mut Client, file: FileHandle) -> u32 {
    let answer = client.nfs(Call::Access { file: &file, access: 0x3f });
    let Reply::Access { result, .. } = answer.nfs3() else { unreachable!() };
    result.unwrap()
}

fn chmod(client: &mut Client, file: FileHandle, bits: u32) -> Result<(), Status> {
    let attributes = Sattr::with_mode(bits);
    let answer = client.nfs(Call::Setattr { file: &file, attributes, guard: None });
    let Reply::Setattr { result, .. } = answer.nfs3() else { unreachable!() };
    result
}

fn remove(client: &mut Client, dir: FileHandle) -> Result<(), Status> {
    let answer = client.nfs(Call::Remove { dir: &dir, name: b"f" });
    let Reply::Remove { result, .. } = answer.nfs3() else { unreachable!() };
    result
}

#[test]
fn checks_owner_in_v3() {
    let server = enforcing();
    let (mut owner, mut other, root, file) = file_of_owner(&server, 0o600);
    assert_eq!(owner.write(file, 0, b"data"), Ok(4));
    assert_eq!(other.write(file, 0, b"x"), Err(Status::Access));
    assert_eq!(other.read(file, 0, 4), Err(Status::Access));
    assert_eq!(chmod(&mut other, file, 0o666), Err(Status::Perm));
    assert_eq!(remove(&mut other, root), Err(Status::Perm), "the export has the sticky bit");
    assert_eq!((granted(&mut owner, file), granted(&mut other, file)), (0x0d, 0));
    let all = access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE;
    assert_eq!(granted(&mut other, root), all);
    chmod(&mut owner, file, 0).unwrap();
    assert_eq!(owner.write(file, 0, b"more"), Ok(4));
    assert_eq!(granted(&mut owner, file), 0);
    // A supplementary group counts, and user 0 may do everything.
    chmod(&mut owner, file, 0o640).unwrap();
    other.user = AuthSys { groups: Groups::from_slice(&[7, USER.gid]), ..OTHER };
    assert_eq!(other.read(file, 0, 4).map(|read| read.0), Ok(b"more".to_vec()));
    other.user = AuthSys { uid: 0, gid: 0, ..USER };
    assert_eq!(other.write(file, 0, b"x"), Ok(1));
    remove(&mut other, root).unwrap();
}

#[test]
fn without_permissions_another_user_does_everything() {
    let server = permissive();
    let (_, mut other, root, file) = file_of_owner(&server, 0);
    assert_eq!(other.write(file, 0, b"x"), Ok(1));
    assert_eq!(granted(&mut other, file), 0x2d);
    chmod(&mut other, file, 0o6666).unwrap();
    assert_eq!(other.read(file, 0, 1).map(|read| read.0), Ok(b"x".to_vec()));
    remove(&mut other, root).unwrap();
}

#[test]
fn v2_refuses_another_user() {
    let server = enforcing();
    let (_, mut other, root, file) = file_of_owner(&server, 0o600);
    let wire = |file: &FileHandle| {
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(file.as_slice());
        nfs2::FileHandle::from_slice(&bytes).unwrap()
    };
    let answer = other.nfs2(nfs2::Call::Read { file: wire(&file), offset: 0, count: 9 });
    assert!(matches!(answer.nfs2(), nfs2::Reply::Read(Err(Status::Access))));
    let answer = other.nfs2(nfs2::Call::Write { file: wire(&file), offset: 0, data: b"x" });
    assert!(matches!(answer.nfs2(), nfs2::Reply::Write(Err(Status::Access))));
    let answer = other.nfs2(nfs2::Call::Remove { dir: wire(&root), name: b"f" });
    assert!(matches!(answer.nfs2(), nfs2::Reply::Remove(Err(Status::Perm))));
}

/// OPEN of `f` in the export without creating it.
fn open(share_access: u32, share_deny: u32, seqid: u32, id: nfs4::ClientId) -> Op<'static> {
    let owner = StateOwner { client: id, owner: b"o" };
    Op::Open {
        seqid,
        share_access,
        share_deny,
        owner,
        how: OpenHow::NoCreate,
        claim: Claim::Name(b"f"),
    }
}

fn in_export(peer: &mut Peer, op: Op<'_>) -> Reply4 {
    peer.call(&[Op::Putrootfh, lookup("export"), op])
}

#[test]
fn checks_anonymous_access_in_v4() {
    let server = enforcing();
    let mut owner = Peer::new(&server, 1, b"owner");
    let (file, stateid) = owner.open("f");
    let mut other = Peer::new(&server, 1, b"other");
    other.client.user = OTHER;
    let id = other.id;
    let mut scratch = Vec::new();
    assert_eq!(in_export(&mut other, open(2, 0, 0, id)).status(), Status::Access);
    assert_eq!(in_export(&mut other, open(1, 1, 0, id)).status(), Status::Access, "it denies");
    let reply = in_export(&mut other, open(1, 0, 0, id));
    let OpOk::Open { stateid: reading, .. } = reply.ok() else { unreachable!() };
    let denied = Op::Setattr { stateid: Stateid::ANONYMOUS, attributes: mode(0o666, &mut scratch) };
    assert_eq!(other.call(&[Op::Putfh { file }, denied]).status(), Status::Perm);
    let access = Op::Access { access: 0x3f };
    let reply = other.call(&[Op::Putfh { file }, access]);
    assert!(matches!(reply.ok(), OpOk::Access { supported: 0x2d, access: 0x01 }));
    assert_eq!(in_export(&mut other, Op::Remove { name: b"f" }).status(), Status::Perm);

    let read = |stateid| Op::Read { stateid, offset: 0, count: 9 };
    for stateid in [Stateid::ANONYMOUS, Stateid::READ_BYPASS] {
        assert_eq!(other.call(&[Op::Putfh { file }, read(stateid)]).status(), Status::Ok);
    }
    let write = Op::Write {
        stateid: Stateid::ANONYMOUS,
        offset: 0,
        stable: nfs4::StableHow::Unstable,
        data: b"x",
    };
    assert_eq!(other.call(&[Op::Putfh { file }, write]).status(), Status::Access);

    // For the owner an OPEN survives a chmod, like a file descriptor; for others it does not.
    let mut scratch = Vec::new();
    let shut = Op::Setattr { stateid, attributes: mode(0, &mut scratch) };
    assert_eq!(owner.call(&[Op::Putfh { file }, shut]).status(), Status::Ok);
    for stateid in [reading, Stateid::ANONYMOUS, Stateid::READ_BYPASS] {
        let denied = other.call(&[Op::Putfh { file }, read(stateid)]).status();
        assert_eq!(denied, Status::Access, "{stateid:?}");
    }
    assert_eq!(in_export(&mut other, open(1, 0, 0, id)).status(), Status::Access);
    for stateid in [stateid, Stateid::ANONYMOUS] {
        assert_eq!(owner.call(&[Op::Putfh { file }, read(stateid)]).status(), Status::Ok);
    }
}

/// pynfs WRT19: the owner's open, used by another user of the same client.
#[test]
fn v4_checks_who_uses_an_open() {
    let server = enforcing();
    let mut peer = Peer::new(&server, 2, b"shared");
    let (file, stateid) = peer.open("f");
    let mut scratch = Vec::new();
    let private = Op::Setattr { stateid, attributes: mode(0o600, &mut scratch) };
    assert_eq!(peer.call(&[Op::Putfh { file }, private]).status(), Status::Ok);
    let mut scratch = Vec::new();
    let offset = 0;
    let length = 9;
    let ops = [
        Op::Write { stateid, offset, stable: nfs4::StableHow::Unstable, data: b"x" },
        Op::Read { stateid, offset, count: 9 },
        Op::Setattr { stateid, attributes: size(0, &mut scratch) },
        Op::Allocate { stateid, offset, length },
        Op::ReadPlus { stateid, offset, count: 9 },
        Op::Seek { stateid, offset, what: nfs4::content::DATA },
        Op::Deallocate { stateid, offset, length },
    ];
    for op in ops {
        for (user, expected) in [(OTHER, Status::Access), (USER, Status::Ok), (ROOT, Status::Ok)] {
            if matches!(op, Op::Seek { .. }) && expected == Status::Ok {
                continue; // The file may have no data to find.
            }
            peer.client.user = user;
            let status = peer.call(&[Op::Putfh { file }, op]).status();
            assert_eq!(status, expected, "{op:?} by {}", user.uid);
        }
    }
    peer.client.user = USER;
    let mut scratch = Vec::new();
    let shared = Op::Setattr { stateid, attributes: mode(0o666, &mut scratch) };
    assert_eq!(peer.call(&[Op::Putfh { file }, shared]).status(), Status::Ok);
    peer.client.user = OTHER;
    assert_eq!(peer.call(&[Op::Putfh { file }, ops[0]]).status(), Status::Ok);
}

#[test]
fn checks_user_of_open() {
    let server = enforcing();
    let mut plain = Plain::new(&server, b"shared", 1);
    let (file, stateid) = plain.open("f", b"o");
    let write = Op::Write { stateid, offset: 0, stable: nfs4::StableHow::Unstable, data: b"x" };
    plain.client.user = OTHER;
    assert_eq!(plain.call(&[Op::Putfh { file }, write]).status(), Status::Access);
    plain.client.user = USER;
    assert_eq!(plain.call(&[Op::Putfh { file }, write]).status(), Status::Ok);
    // Without permission checks everything is allowed.
    let server = permissive();
    let mut plain = Plain::new(&server, b"shared", 1);
    let (file, stateid) = plain.open("f", b"o");
    plain.client.user = OTHER;
    let write = Op::Write { stateid, offset: 0, stable: nfs4::StableHow::Unstable, data: b"x" };
    assert_eq!(plain.call(&[Op::Putfh { file }, write]).status(), Status::Ok);
}

#[test]
fn checks_open_and_creates_as_caller() {
    let server = enforcing();
    let mut owner = Plain::new(&server, b"owner", 1);
    owner.open("f", b"o");
    let mut other = Plain::new(&server, b"other", 1);
    other.client.user = OTHER;
    let id = other.id;
    let refused = other.call(&[Op::Putrootfh, lookup("export"), open(2, 0, 1, id)]);
    assert_eq!(refused.status(), Status::Access);
    // The requested owner is not set, and the reply lists the attributes that were set.
    let attributes =
        nfs4::Attributes { mode: Some(0o755), owner: Some(b"77"), ..nfs4::Attributes::default() };
    let masked = &[nfs4::attribute::MODE, nfs4::attribute::OWNER];
    let mut scratch = Vec::new();
    let attributes: Fattr<'_> = attributes.to_fattr(Bitmap::from_numbers(masked), &mut scratch);
    let make = Op::Create { kind: nfs4::CreateKind::Directory, name: b"d", attributes };
    let reply = other.call(&[Op::Putrootfh, lookup("export"), make]);
    let OpOk::Create { set, .. } = reply.ok() else { unreachable!() };
    assert_eq!(set, Bitmap::from_numbers(&[nfs4::attribute::MODE]));
    let found = server.file_system().find_path("/export/d").unwrap().1;
    assert_eq!((found.uid, found.gid, found.mode), (1001, 101, 0o755));
}
