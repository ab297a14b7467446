//! Differential tests: the independent `nfs3_types` decodes messages of this crate, encodes them
//! again to the same bytes, and finds the same values in cases where equal bytes are not enough.

use nfs_proto::mount3;
use nfs_proto::nfs3::{Call, Procedure, Reply};
use nfs_proto::rpc::{AuthSys, CallHeader, Credential, Groups, ReplyHeader, RpcError};
use nfs_proto::wire::Wire;
use nfs_proto::xdr::{Reader, Writer};
use nfs3_types::nfs3 as oracle;
use nfs3_types::xdr_codec::{Pack, Unpack};

use crate::common::{self, calls, failures, fattr, replies, sattr};

fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut Writer::new(&mut out));
    out
}

/// Makes the oracle decode all of `bytes` as a `T` and encode it again.
fn again<T: Pack + Unpack>(bytes: &[u8]) -> T {
    let mut rest = bytes;
    let (value, read) = T::unpack(&mut rest).expect("the oracle reads what we write");
    assert_eq!((read, rest.len()), (bytes.len(), 0), "the oracle reads all of it");
    let mut out = Vec::new();
    value.pack(&mut out).expect("the oracle writes what it read");
    assert_eq!(out, bytes, "the oracle writes the same bytes");
    value
}

#[test]
fn the_oracle_reads_every_call() {
    for call in calls() {
        let bytes = encoded(|writer| call.encode(writer));
        match call.procedure() {
            Procedure::Null => assert!(bytes.is_empty()),
            Procedure::Getattr => drop(again::<oracle::GETATTR3args>(&bytes)),
            Procedure::Setattr => drop(again::<oracle::SETATTR3args>(&bytes)),
            Procedure::Lookup => drop(again::<oracle::LOOKUP3args<'_>>(&bytes)),
            Procedure::Access => drop(again::<oracle::ACCESS3args>(&bytes)),
            Procedure::Readlink => drop(again::<oracle::READLINK3args>(&bytes)),
            Procedure::Read => drop(again::<oracle::READ3args>(&bytes)),
            Procedure::Write => drop(again::<oracle::WRITE3args<'_>>(&bytes)),
            Procedure::Create => drop(again::<oracle::CREATE3args<'_>>(&bytes)),
            Procedure::Mkdir => drop(again::<oracle::MKDIR3args<'_>>(&bytes)),
            Procedure::Symlink => drop(again::<oracle::SYMLINK3args<'_>>(&bytes)),
            Procedure::Mknod => check_mknod(&call, &bytes),
            Procedure::Remove => drop(again::<oracle::REMOVE3args<'_>>(&bytes)),
            Procedure::Rmdir => drop(again::<oracle::RMDIR3args<'_>>(&bytes)),
            Procedure::Rename => drop(again::<oracle::RENAME3args<'_, '_>>(&bytes)),
            Procedure::Link => drop(again::<oracle::LINK3args<'_>>(&bytes)),
            Procedure::Readdir => drop(again::<oracle::READDIR3args>(&bytes)),
            Procedure::Readdirplus => drop(again::<oracle::READDIRPLUS3args>(&bytes)),
            Procedure::Fsstat => drop(again::<oracle::FSSTAT3args>(&bytes)),
            Procedure::Fsinfo => drop(again::<oracle::FSINFO3args>(&bytes)),
            Procedure::Pathconf => drop(again::<oracle::PATHCONF3args>(&bytes)),
            Procedure::Commit => drop(again::<oracle::COMMIT3args>(&bytes)),
        }
    }
}

/// The oracle has no variant for the types that MKNOD does not create.
fn check_mknod(call: &Call<'_>, bytes: &[u8]) {
    let Call::Mknod { what, .. } = call else { unreachable!() };
    if !matches!(what, nfs_proto::nfs3::MknodWhat::Other(_)) {
        again::<oracle::MKNOD3args<'_>>(bytes);
    }
}

#[test]
fn the_oracle_reads_every_reply() {
    let mut names = Vec::new();
    let mut plus = Vec::new();
    for reply in replies(&mut names, &mut plus).into_iter().chain(failures()) {
        let bytes = encoded(|writer| reply.encode(writer));
        check_reply(&reply, &bytes);
    }
}

fn check_reply(reply: &Reply<'_>, bytes: &[u8]) {
    match reply.procedure() {
        Procedure::Null => assert!(bytes.is_empty()),
        Procedure::Getattr => drop(again::<oracle::GETATTR3res>(bytes)),
        Procedure::Setattr => drop(again::<oracle::SETATTR3res>(bytes)),
        Procedure::Lookup => drop(again::<oracle::LOOKUP3res>(bytes)),
        Procedure::Access => drop(again::<oracle::ACCESS3res>(bytes)),
        Procedure::Readlink => drop(again::<oracle::READLINK3res<'_>>(bytes)),
        Procedure::Read => drop(again::<oracle::READ3res<'_>>(bytes)),
        Procedure::Write => drop(again::<oracle::WRITE3res>(bytes)),
        Procedure::Create => drop(again::<oracle::CREATE3res>(bytes)),
        Procedure::Mkdir => drop(again::<oracle::MKDIR3res>(bytes)),
        Procedure::Symlink => drop(again::<oracle::SYMLINK3res>(bytes)),
        Procedure::Mknod => drop(again::<oracle::MKNOD3res>(bytes)),
        Procedure::Remove => drop(again::<oracle::REMOVE3res>(bytes)),
        Procedure::Rmdir => drop(again::<oracle::RMDIR3res>(bytes)),
        Procedure::Rename => drop(again::<oracle::RENAME3res>(bytes)),
        Procedure::Link => drop(again::<oracle::LINK3res>(bytes)),
        Procedure::Readdir => drop(again::<oracle::READDIR3res<'_>>(bytes)),
        Procedure::Readdirplus => drop(again::<oracle::READDIRPLUS3res<'_>>(bytes)),
        Procedure::Fsstat => drop(again::<oracle::FSSTAT3res>(bytes)),
        Procedure::Fsinfo => drop(again::<oracle::FSINFO3res>(bytes)),
        Procedure::Pathconf => drop(again::<oracle::PATHCONF3res>(bytes)),
        Procedure::Commit => drop(again::<oracle::COMMIT3res>(bytes)),
    }
}

#[test]
fn the_oracle_sees_the_same_attributes() {
    let ours = fattr();
    let theirs: oracle::fattr3 = again(&encoded(|writer| ours.encode(writer)));
    assert_eq!(
        (theirs.mode, theirs.nlink, theirs.uid, theirs.gid),
        (ours.mode, ours.nlink, ours.uid, ours.gid)
    );
    assert_eq!((theirs.size, theirs.used), (ours.size, ours.used));
    assert_eq!((theirs.fsid, theirs.fileid), (ours.fsid, ours.fileid));
    assert_eq!(
        (theirs.rdev.specdata1, theirs.rdev.specdata2),
        (ours.device.major, ours.device.minor)
    );
    let times =
        [(theirs.atime, ours.atime), (theirs.mtime, ours.mtime), (theirs.ctime, ours.ctime)];
    for (theirs, ours) in times {
        assert_eq!((theirs.seconds, theirs.nseconds), (ours.seconds, ours.nanos));
    }
    let theirs: oracle::sattr3 = again(&encoded(|writer| sattr().encode(writer)));
    assert!(matches!(theirs.mode, oracle::Nfs3Option::Some(0o755)));
    assert!(matches!(theirs.uid, oracle::Nfs3Option::Some(1)));
    assert!(matches!(theirs.gid, oracle::Nfs3Option::Some(2)));
    assert!(matches!(theirs.atime, oracle::set_atime::SET_TO_SERVER_TIME));
    assert!(matches!(theirs.mtime, oracle::set_mtime::SET_TO_CLIENT_TIME(_)));
}

#[test]
fn the_oracle_reads_rpc_headers() {
    use nfs3_types::rpc;
    let auth = AuthSys {
        stamp: 1,
        machine_name: b"client",
        uid: 2,
        gid: 3,
        groups: Groups::from_slice(&[4, 5]),
    };
    let header = CallHeader {
        xid: 6,
        rpc_version: 2,
        program: 100_003,
        version: 3,
        procedure: 7,
        credential: Ok(Credential::Sys(auth)),
    };
    let bytes = encoded(|writer| header.encode(writer));
    let theirs: rpc::rpc_msg<'_, '_> = again(&bytes);
    let rpc::msg_body::CALL(call) = theirs.body else { panic!("the oracle sees a call") };
    assert_eq!((theirs.xid, call.prog, call.vers, call.proc), (6, 100_003, 3, 7));
    assert_eq!(CallHeader::decode(&mut Reader::new(&bytes)), Ok(header));
    let sys: rpc::auth_unix = again(call.cred.body.as_ref());
    assert_eq!((sys.uid, sys.gid, sys.gids), (2, 3, vec![4, 5]));

    let refusals = [
        RpcError::ProgramUnavailable,
        RpcError::ProgramMismatch { low: 2, high: 4 },
        RpcError::ProcedureUnavailable,
        RpcError::GarbageArguments,
        RpcError::SystemError,
        RpcError::RpcMismatch { low: 2, high: 2 },
        RpcError::Authentication(5),
    ];
    for result in refusals.into_iter().map(Err).chain([Ok(())]) {
        let header = ReplyHeader { xid: 9, result };
        let bytes = encoded(|writer| header.encode(writer));
        again::<rpc::rpc_msg<'_, '_>>(&bytes);
        assert_eq!(ReplyHeader::decode(&mut Reader::new(&bytes)), Ok(header));
    }
}

#[test]
fn the_oracle_reads_mount_lists() {
    let exports = [
        mount3::Export { dir: b"/a", groups: &[b"10.0.0.0/8", b"host"] },
        mount3::Export { dir: b"/longer", groups: &[] },
    ];
    let bytes = encoded(|writer| mount3::Reply::Export(&exports).encode(writer));
    again::<nfs3_types::mount::exports<'_, '_>>(&bytes);
    let lines = [mount3::Mounted { host: b"host", dir: b"/a" }];
    let bytes = encoded(|writer| mount3::Reply::Dump(&lines).encode(writer));
    again::<nfs3_types::mount::mountlist<'_, '_>>(&bytes);
    let ok = mount3::MountOk {
        root: common::file(),
        flavors: mount3::Flavors::from_slice(&[1, 390_003]),
    };
    let bytes = encoded(|writer| mount3::Reply::Mnt(Ok(ok)).encode(writer));
    again::<nfs3_types::mount::mountres3<'_>>(&bytes);
}
