//! Extended attributes over the wire, which only v4.2 supports.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Attributes, Bitmap, ChannelAttributes, FileHandle, Op, OpCode, OpOk, OpResult, XattrOption,
    access, attribute, xattr_access,
};
use nfs_proto::rpc::AuthSys;
use nfs_server::ServerConfig;

use super::fixtures::{CHANNEL, Peer, Reply4, lookup, server};
use crate::client::{USER, start};

const ALL: u32 = xattr_access::READ | xattr_access::WRITE | xattr_access::LIST;

fn set<'a>(option: XattrOption, name: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Setxattr { option, name, value }
}

fn call_on(peer: &mut Peer, file: FileHandle, op: Op<'_>) -> Reply4 {
    peer.sequence += 1;
    peer.again(&[Op::Putfh { file }, op], false)
}

fn status_of(peer: &mut Peer, file: FileHandle, op: Op<'_>) -> Status {
    call_on(peer, file, op).status()
}

fn value_of(peer: &mut Peer, file: FileHandle, name: &[u8]) -> Result<Vec<u8>, Status> {
    let reply = call_on(peer, file, Op::Getxattr { name });
    match reply.results().pop() {
        Some(OpResult::Ok(OpOk::Getxattr { value })) => Ok(value.to_vec()),
        _ => Err(reply.status()),
    }
}

/// Names from `cookie` on, the next cookie, and whether the listing is complete.
type Page = (Vec<String>, u64, bool);

fn list(peer: &mut Peer, file: FileHandle, cookie: u64, maxcount: u32) -> Result<Page, Status> {
    let reply = call_on(peer, file, Op::Listxattrs { cookie, maxcount });
    match reply.results().pop() {
        Some(OpResult::Ok(OpOk::Listxattrs { cookie, names, eof })) => {
            let names = names.iter().map(|name| String::from_utf8(name.to_vec()).unwrap());
            Ok((names.collect(), cookie, eof))
        }
        _ => Err(reply.status()),
    }
}

fn change_of(peer: &mut Peer, file: FileHandle) -> u64 {
    let request = Bitmap::from_numbers(&[attribute::CHANGE]);
    let reply = call_on(peer, file, Op::Getattr { request });
    let OpOk::Getattr { attributes } = reply.ok() else { panic!("no GETATTR") };
    attributes.decode_values().unwrap().change.unwrap()
}

#[test]
fn sets_reads_replaces_and_removes() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, _) = peer.open("a");
    assert_eq!(value_of(&mut peer, file, b"key"), Err(Status::NoXattr));
    for (op, status) in [
        (set(XattrOption::Replace, b"key", b"1"), Status::NoXattr),
        (set(XattrOption::Create, b"key", b"1"), Status::Ok),
        (set(XattrOption::Create, b"key", b"2"), Status::Exist),
        (set(XattrOption::Replace, b"key", b"3"), Status::Ok),
        (set(XattrOption::Either, b"other", b""), Status::Ok),
    ] {
        assert_eq!(status_of(&mut peer, file, op), status, "{op:?}");
    }
    assert_eq!(value_of(&mut peer, file, b"key").unwrap(), b"3");
    let page = list(&mut peer, file, 0, 4096).unwrap();
    assert_eq!(page, (vec!["key".to_owned(), "other".to_owned()], 2, true));
    assert_eq!(status_of(&mut peer, file, Op::Removexattr { name: b"key" }), Status::Ok);
    assert_eq!(status_of(&mut peer, file, Op::Removexattr { name: b"key" }), Status::NoXattr);
    assert_eq!(list(&mut peer, file, 0, 4096).unwrap().0, ["other"]);
    let counted = server.counters().nfs4_operations;
    assert_eq!(counted[OpCode::Setxattr.number() as usize], 5);
}

#[test]
fn updates_change_attribute() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, _) = peer.open("a");
    let first = change_of(&mut peer, file);
    let reply = call_on(&mut peer, file, set(XattrOption::Either, b"k", b"v"));
    let OpOk::Setxattr { change } = reply.ok() else { panic!("no SETXATTR") };
    assert!(change.atomic && change.before == first && change.after > first, "{change:?}");
    assert_eq!(change_of(&mut peer, file), change.after);
    let reply = call_on(&mut peer, file, Op::Removexattr { name: b"k" });
    let OpOk::Removexattr { change: removed } = reply.ok() else { panic!("no REMOVEXATTR") };
    assert!(removed.before == change.after && removed.after > change.after, "{removed:?}");
}

#[test]
fn pages_attribute_list_by_cookie() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, _) = peer.open("a");
    assert_eq!(list(&mut peer, file, 0, 16), Ok((vec![], 0, true)));
    assert_eq!(list(&mut peer, file, 0, 15), Err(Status::TooSmall));
    for name in [&b"abcd"[..], b"efghi", b"j"] {
        assert_eq!(status_of(&mut peer, file, set(XattrOption::Create, name, b"")), Status::Ok);
    }
    // Cookie, count and end are 16 bytes; the names 8, 12 and 8.
    for (cookie, maxcount, names) in [
        (0, 24, &["abcd"][..]),
        (0, 35, &["abcd"]),
        (0, 36, &["abcd", "efghi"]),
        (0, 43, &["abcd", "efghi"]),
        (0, 44, &["abcd", "efghi", "j"]),
        (1, 28, &["efghi"]),
        (2, 24, &["j"]),
    ] {
        let (found, next, eof) = list(&mut peer, file, cookie, maxcount).unwrap();
        assert_eq!(found, names, "{cookie} {maxcount}");
        assert_eq!((next, eof), (cookie + names.len() as u64, next == 3), "{cookie} {maxcount}");
    }
    assert_eq!(list(&mut peer, file, 0, 23), Err(Status::TooSmall));
    assert_eq!(list(&mut peer, file, 1, 27), Err(Status::TooSmall));
    assert_eq!(list(&mut peer, file, 3, 16), Ok((vec![], 3, true)));
    assert_eq!(list(&mut peer, file, u64::MAX, 16), Ok((vec![], u64::MAX, true)));
}

#[test]
fn refuses_oversized_and_unnamed() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, _) = peer.open("a");
    let large = vec![7; 65_537];
    let long = [b'n'; 251];
    for (name, value, status) in [
        (&b"k"[..], &large[..], Status::XattrTooBig),
        (b"k", &large[1..], Status::Ok),
        (&long, b"v", Status::NameTooLong),
        (&long[1..], b"v", Status::Ok),
        (b"", b"v", Status::Inval),
        (b"a\0b", b"v", Status::Inval),
    ] {
        let op = set(XattrOption::Either, name, value);
        assert_eq!(status_of(&mut peer, file, op), status, "{} bytes", name.len());
    }
    assert_eq!(value_of(&mut peer, file, b"k").unwrap(), large[1..]);
    let op = set(XattrOption::Either, b"k", b"v");
    assert_eq!(peer.call(&[op]).status(), Status::NoFileHandle);
}

#[test]
fn refuses_value_beyond_session_limit() {
    let server = server();
    let mut peer = Peer::new(&server, 2, b"me");
    let (file, _) = peer.open("a");
    let value = vec![7; 3000];
    for name in [b"k", b"l"] {
        let op = set(XattrOption::Either, name, &value);
        assert_eq!(status_of(&mut peer, file, op), Status::Ok);
    }
    let fore = ChannelAttributes { response_bytes_max: 1024, ..CHANNEL };
    let mut small = Peer::with_channel(&server, 2, b"small", fore);
    assert_eq!(value_of(&mut small, file, b"k"), Err(Status::RepTooBig));
    assert_eq!(list(&mut small, file, 0, 1 << 20).unwrap().0, ["k", "l"]);
}

#[test]
fn reports_support_and_access_rights() {
    let server = server();
    let request = Bitmap::from_numbers(&[attribute::XATTR_SUPPORT]);
    for (minor, support) in [(1, None), (2, Some(true))] {
        let mut peer = Peer::new(&server, minor, &[minor as u8]);
        let (file, _) = peer.open("a");
        let reply = call_on(&mut peer, file, Op::Getattr { request });
        let OpOk::Getattr { attributes } = reply.ok() else { panic!("no GETATTR") };
        let expected = Attributes { xattr_support: support, ..Attributes::default() };
        assert_eq!(attributes.decode_values().unwrap(), expected, "v4.{minor}");
        let reply = call_on(&mut peer, file, Op::Access { access: access::READ | ALL });
        if minor < 2 {
            assert_eq!(reply.status(), Status::Inval);
            continue;
        }
        let OpOk::Access { supported, access } = reply.ok() else { panic!("no ACCESS") };
        assert_eq!((supported, access), (access::READ | ALL, access::READ | ALL));
    }
}

#[test]
fn restricts_others_to_reading() {
    let server = server();
    let mut owner = Peer::new(&server, 2, b"me");
    let (file, _) = owner.open("a");
    assert_eq!(status_of(&mut owner, file, set(XattrOption::Create, b"k", b"v")), Status::Ok);
    let mut other = Peer::new(&server, 2, b"other");
    other.client.user = AuthSys { uid: 1001, gid: 101, ..USER };
    assert_eq!(value_of(&mut other, file, b"k").unwrap(), b"v");
    let refused = status_of(&mut other, file, set(XattrOption::Either, b"k", b"w"));
    assert_eq!(refused, Status::Access);
    let reply = call_on(&mut other, file, Op::Access { access: ALL });
    let OpOk::Access { access, .. } = reply.ok() else { panic!("no ACCESS") };
    assert_eq!(access, xattr_access::READ | xattr_access::LIST);
}

#[test]
fn refuses_xattrs_in_earlier_minors() {
    let server = start(ServerConfig::default());
    let mut peer = Peer::new(&server, 1, b"me");
    for op in [
        Op::Getxattr { name: b"k" },
        set(XattrOption::Either, b"k", b"v"),
        Op::Listxattrs { cookie: 0, maxcount: 4096 },
        Op::Removexattr { name: b"k" },
    ] {
        let reply = peer.call(&[Op::Putrootfh, lookup("export"), op]);
        let illegal = OpResult::Failed(OpCode::Illegal, Status::OpIllegal);
        assert_eq!(reply.results().pop(), Some(illegal), "{op:?}");
    }
}
