//! One operation of every kind and shape, next to its bytes as the RFCs define them.

use nfs_proto::nfs4::{
    Bitmap, CallbackSecurity, ChannelAttributes, Claim, ClientId, ClientOwner, CreateKind, Device,
    Fattr, FileHandle, Implementation, List, LockType, Locker, NetAddress, NetLocation, Op,
    OpenHow, ProtectedOps, SessionId, StableHow, StateOwner, StateProtection, Stateid, Time,
    Verifier, Wire, XattrOption,
};
use nfs_proto::rpc::{AuthSys, Groups};
use nfs_proto::xdr::Reader;

use crate::common::hex;

pub const STATEID: &str = "00000007 73746174 65696400 64617461";
pub const OTHER_STATEID: &str = "00000008 6f746865 72206f6e 65212121";
pub const SESSION: &str = "73657373 696f6e2d 69642d31 36427974";
pub const CLIENT: &str = "0a0b0c0d 01020304";
pub const RANGE: &str = "00000001 00000002 00000003 00000004";
pub const NAME: &str = "00000004 6e616d65";
pub const LONGER: &str = "00000005 6f746865 72000000";
pub const VERIFIER: &str = "76657269 66696572";
/// Size 5 and mode 0644: bits 4 and 33.
pub const FATTR: &str = "00000002 00000010 00000002 0000000c 00000000 00000005 000001a4";
pub const FORE: &str = "00000000 00100000 00200000 00001000 00000008 00000040 00000000";
pub const BACK: &str = "00000001 00001000 00002000 00000000 00000002 00000001 00000001 00000009";

pub const STATE: Stateid = Stateid { seqid: 7, other: *b"stateid\0data" };
pub const OTHER: Stateid = Stateid { seqid: 8, other: *b"other one!!!" };
pub const SESSION_ID: SessionId = SessionId(*b"session-id-16Byt");
pub const CLIENT_ID: ClientId = ClientId(0x0a0b_0c0d_0102_0304);
pub const VERF: Verifier = Verifier(*b"verifier");

pub fn fore() -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: 0x10_0000,
        response_bytes_max: 0x20_0000,
        cached_bytes_max: 0x1000,
        operations_max: 8,
        requests_max: 64,
        rdma_ird: None,
    }
}

pub fn back() -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 1,
        request_bytes_max: 0x1000,
        response_bytes_max: 0x2000,
        cached_bytes_max: 0,
        operations_max: 2,
        requests_max: 1,
        rdma_ird: Some(9),
    }
}

/// Decodes a value from bytes written by hand, for views that can't be constructed otherwise.
pub fn view<T: Wire<'static>>(text: &str) -> T {
    let bytes: &'static [u8] = Vec::leak(hex(text));
    let mut reader = Reader::new(bytes);
    let value = T::decode(&mut reader).expect("the sample is well formed");
    assert_eq!(reader.remaining(), 0, "the sample has nothing more");
    value
}

pub fn fattr() -> Fattr<'static> {
    view(FATTR)
}

fn owner() -> StateOwner<'static> {
    StateOwner { client: CLIENT_ID, owner: b"owner" }
}

const OWNED: &str = "0a0b0c0d 01020304 00000005 6f776e65 72000000";
const OFFSET: u64 = 0x1_0000_0002;
const LENGTH: u64 = 0x3_0000_0004;

type Samples = Vec<(Op<'static>, String)>;

fn creates() -> Samples {
    let device = Device { major: 0x11, minor: 0x22 };
    let create = |kind, bytes: &str| {
        let op = Op::Create { kind, name: b"name", attributes: fattr() };
        (op, format!("{bytes} {NAME} {FATTR}"))
    };
    vec![
        create(CreateKind::Directory, "00000002"),
        create(CreateKind::Symlink(b"other"), &format!("00000005 {LONGER}")),
        create(CreateKind::Block(device), "00000003 00000011 00000022"),
        create(CreateKind::Character(device), "00000004 00000011 00000022"),
        create(CreateKind::Socket, "00000006"),
        create(CreateKind::Fifo, "00000007"),
        create(CreateKind::Other(1), "00000001"),
    ]
}

fn locks() -> Samples {
    let offset = OFFSET;
    let length = LENGTH;
    let new = Locker::New { open_seqid: 5, open: STATE, lock_seqid: 6, owner: owner() };
    let existing = Locker::Existing { lock: OTHER, lock_seqid: 9 };
    let lock = |lock_type, locker| Op::Lock { lock_type, reclaim: true, offset, length, locker };
    vec![
        (
            lock(LockType::Write, new),
            format!("00000002 00000001 {RANGE} 00000001 00000005 {STATEID} 00000006 {OWNED}"),
        ),
        (
            lock(LockType::ReadBlocking, existing),
            format!("00000003 00000001 {RANGE} 00000000 {OTHER_STATEID} 00000009"),
        ),
        (
            Op::Lockt { lock_type: LockType::Read, offset, length, owner: owner() },
            format!("00000001 {RANGE} {OWNED}"),
        ),
        (
            Op::Locku {
                lock_type: LockType::WriteBlocking,
                seqid: 4,
                stateid: STATE,
                offset,
                length,
            },
            format!("00000004 00000004 {STATEID} {RANGE}"),
        ),
    ]
}

fn opens() -> Samples {
    let open = |how, how_bytes: &str, claim, claim_bytes: &str| {
        let op = Op::Open { seqid: 1, share_access: 2, share_deny: 3, owner: owner(), how, claim };
        (op, format!("00000001 00000002 00000003 {OWNED} {how_bytes} {claim_bytes}"))
    };
    vec![
        open(OpenHow::NoCreate, "00000000", Claim::Name(b"name"), &format!("00000000 {NAME}")),
        open(
            OpenHow::Unchecked(fattr()),
            &format!("00000001 00000000 {FATTR}"),
            Claim::Previous(2),
            "00000001 00000002",
        ),
        open(
            OpenHow::Guarded(fattr()),
            &format!("00000001 00000001 {FATTR}"),
            Claim::DelegateCurrent(STATE, b"name"),
            &format!("00000002 {STATEID} {NAME}"),
        ),
        open(
            OpenHow::Exclusive(VERF),
            &format!("00000001 00000002 {VERIFIER}"),
            Claim::DelegatePrevious(b"name"),
            &format!("00000003 {NAME}"),
        ),
        open(
            OpenHow::ExclusiveWith(VERF, fattr()),
            &format!("00000001 00000003 {VERIFIER} {FATTR}"),
            Claim::Current,
            "00000004",
        ),
        open(
            OpenHow::NoCreate,
            "00000000",
            Claim::DelegateCurrentFile(STATE),
            &format!("00000005 {STATEID}"),
        ),
        open(OpenHow::NoCreate, "00000000", Claim::DelegatePreviousFile, "00000006"),
    ]
}

/// Operations of handles and names.
fn names() -> Samples {
    let putfh = FileHandle::from_slice(&[0xab; 5]).unwrap();
    vec![
        (Op::Lookup { name: b"name" }, NAME.into()),
        (Op::Lookupp, String::new()),
        (Op::Nverify { attributes: fattr() }, FATTR.into()),
        (Op::Remove { name: b"name" }, NAME.into()),
        (Op::Rename { from: b"name", to: b"other" }, format!("{NAME} {LONGER}")),
        (Op::Renew { client: CLIENT_ID }, CLIENT.into()),
        (Op::Restorefh, String::new()),
        (Op::Savefh, String::new()),
        (Op::Secinfo { name: b"name" }, NAME.into()),
        (Op::Putfh { file: putfh }, "00000005 abababab ab000000".into()),
        (Op::Putpubfh, String::new()),
        (Op::Putrootfh, String::new()),
        (Op::Getfh, String::new()),
        (Op::Link { name: b"name" }, NAME.into()),
        (Op::Openattr { create_dir: true }, "00000001".into()),
        (Op::Readlink, String::new()),
    ]
}

/// Operations of data, attributes and state.
fn file_ops() -> Samples {
    let offset = OFFSET;
    let request = Bitmap::from_numbers(&[1, 33, 64]);
    vec![
        (Op::Access { access: 0x1f }, "0000001f".into()),
        (Op::Close { seqid: 3, stateid: STATE }, format!("00000003 {STATEID}")),
        (Op::Commit { offset, count: 5 }, "00000001 00000002 00000005".into()),
        (Op::Delegpurge { client: CLIENT_ID }, CLIENT.into()),
        (Op::Delegreturn { stateid: STATE }, STATEID.into()),
        (Op::Getattr { request }, "00000003 00000002 00000002 00000001".into()),
        (Op::OpenConfirm { stateid: STATE, seqid: 2 }, format!("{STATEID} 00000002")),
        (
            Op::OpenDowngrade { stateid: STATE, seqid: 1, share_access: 2, share_deny: 3 },
            format!("{STATEID} 00000001 00000002 00000003"),
        ),
        (
            Op::Read { stateid: STATE, offset, count: 9 },
            format!("{STATEID} 00000001 00000002 00000009"),
        ),
        (
            Op::Readdir { cookie: offset, verifier: VERF, dircount: 3, maxcount: 4, request },
            format!(
                "00000001 00000002 {VERIFIER} 00000003 00000004
                 00000003 00000002 00000002 00000001"
            ),
        ),
        (Op::Setattr { stateid: STATE, attributes: fattr() }, format!("{STATEID} {FATTR}")),
        (Op::Verify { attributes: fattr() }, FATTR.into()),
        (
            Op::Write { stateid: STATE, offset, stable: StableHow::FileSync, data: b"payload" },
            format!("{STATEID} 00000001 00000002 00000002 00000007 7061796c 6f616400"),
        ),
        (Op::ReleaseLockowner { owner: owner() }, OWNED.into()),
    ]
}

fn exchanges() -> Samples {
    let client = ClientOwner { verifier: VERF, id: b"other" };
    let client_bytes = format!("{VERIFIER} {LONGER}");
    let implementation =
        Implementation { domain: b"name", name: b"other", date: Time { seconds: -2, nanos: 3 } };
    let exchange = |protection, implementation, bytes: &str| {
        let op = Op::ExchangeId { owner: client, flags: 0x1_0002, protection, implementation };
        (op, format!("{client_bytes} 00010002 {bytes}"))
    };
    let protected =
        ProtectedOps { enforce: Bitmap::from_numbers(&[43]), allow: Bitmap::from_numbers(&[3]) };
    let protected_bytes = "00000002 00000000 00000800 00000001 00000008";
    vec![
        exchange(StateProtection::None, None, "00000000 00000000"),
        exchange(
            StateProtection::MachineCredential(protected),
            Some(implementation),
            &format!(
                "00000001 {protected_bytes}
                 00000001 {NAME} {LONGER} ffffffff fffffffe 00000003"
            ),
        ),
        exchange(
            StateProtection::Secret(protected),
            None,
            &format!("00000002 {protected_bytes} 00000000 00000000 00000000 00000000 00000000"),
        ),
    ]
}

fn security() -> (List<'static, CallbackSecurity<'static>>, String) {
    let sys = AuthSys {
        stamp: 1,
        machine_name: b"name",
        uid: 2,
        gid: 3,
        groups: Groups::from_slice(&[4]),
    };
    let security_bytes = format!(
        "00000003 00000000
         00000001 00000001 {NAME} 00000002 00000003 00000001 00000004
         00000006 00000001 {NAME} {LONGER}"
    );
    let security: List<'static, CallbackSecurity<'static>> = view(&security_bytes);
    let mut elements = security.iter();
    assert_eq!(elements.next(), Some(CallbackSecurity::None));
    assert_eq!(elements.next(), Some(CallbackSecurity::Sys(sys)));
    assert_eq!(elements.next(), Some(CallbackSecurity::Gss(1, b"name", b"other")));
    assert_eq!(elements.next(), None);
    (security, security_bytes)
}

/// All operations about clients and sessions.
fn state_ops() -> Samples {
    let client = ClientOwner { verifier: VERF, id: b"other" };
    let client_bytes = format!("{VERIFIER} {LONGER}");
    let (security, security_bytes) = security();
    let setclientid = Op::Setclientid {
        owner: client,
        callback_program: 0x4000_0000,
        callback_address: NetAddress { netid: b"tcp\0", address: b"other" },
        callback_ident: 6,
    };
    let create_session = Op::CreateSession {
        client: CLIENT_ID,
        sequence: 1,
        flags: 2,
        fore: fore(),
        back: back(),
        callback_program: 0x4000_0000,
        security,
    };
    let sequence = Op::Sequence {
        session: SESSION_ID,
        sequence: 1,
        slot: 2,
        highest_slot: 3,
        cache_this: true,
    };
    vec![
        (setclientid, format!("{client_bytes} 40000000 00000004 74637000 {LONGER} 00000006")),
        (
            Op::SetclientidConfirm { client: CLIENT_ID, confirm: VERF },
            format!("{CLIENT} {VERIFIER}"),
        ),
        (
            Op::BackchannelCtl { callback_program: 5, security },
            format!("00000005 {security_bytes}"),
        ),
        (
            Op::BindConnToSession { session: SESSION_ID, direction: 3, rdma: false },
            format!("{SESSION} 00000003 00000000"),
        ),
        (
            create_session,
            format!("{CLIENT} 00000001 00000002 {FORE} {BACK} 40000000 {security_bytes}"),
        ),
        (Op::DestroySession { session: SESSION_ID }, SESSION.into()),
        (Op::FreeStateid { stateid: STATE }, STATEID.into()),
        (Op::SecinfoNoName { style: 1 }, "00000001".into()),
        (sequence, format!("{SESSION} 00000001 00000002 00000003 00000001")),
        (
            Op::TestStateid { stateids: view(&format!("00000002 {STATEID} {OTHER_STATEID}")) },
            format!("00000002 {STATEID} {OTHER_STATEID}"),
        ),
        (Op::DestroyClientid { client: CLIENT_ID }, CLIENT.into()),
        (Op::ReclaimComplete { one_fs: true }, "00000001".into()),
    ]
}

/// All operations of v4.2.
fn newer_ops() -> Samples {
    let offset = 0x1_0000_0002;
    let length = 0x3_0000_0004;
    let servers_bytes =
        format!("00000003 00000001 {NAME} 00000002 {LONGER} 00000003 {NAME} {LONGER}");
    let servers: List<'static, NetLocation<'static>> = view(&servers_bytes);
    let named: Vec<_> = servers.iter().collect();
    let expected = [
        NetLocation::Name(b"name"),
        NetLocation::Url(b"other"),
        NetLocation::Address(b"name", b"other"),
    ];
    assert_eq!(named, expected);
    let copy = Op::Copy {
        source: STATE,
        destination: OTHER,
        source_offset: offset,
        destination_offset: length,
        count: 5,
        consecutive: true,
        synchronous: false,
        servers,
    };
    let clone = Op::Clone {
        source: STATE,
        destination: OTHER,
        source_offset: offset,
        destination_offset: length,
        count: 5,
    };
    let ranged = format!("{STATEID} {RANGE}");
    vec![
        (Op::Allocate { stateid: STATE, offset, length }, ranged.clone()),
        (Op::Deallocate { stateid: STATE, offset, length }, ranged.clone()),
        (
            copy,
            format!(
                "{STATEID} {OTHER_STATEID} {RANGE} 00000000 00000005 00000001 00000000
                 {servers_bytes}"
            ),
        ),
        (
            Op::IoAdvise {
                stateid: STATE,
                offset,
                count: length,
                hints: Bitmap::from_numbers(&[1]),
            },
            format!("{ranged} 00000001 00000002"),
        ),
        (Op::OffloadCancel { stateid: STATE }, STATEID.into()),
        (Op::OffloadStatus { stateid: STATE }, STATEID.into()),
        (
            Op::ReadPlus { stateid: STATE, offset, count: 5 },
            format!("{STATEID} 00000001 00000002 00000005"),
        ),
        (
            Op::Seek { stateid: STATE, offset, what: 1 },
            format!("{STATEID} 00000001 00000002 00000001"),
        ),
        (clone, format!("{STATEID} {OTHER_STATEID} {RANGE} 00000000 00000005")),
    ]
}

/// The operations on extended attributes.
fn xattr_ops() -> Samples {
    let set = |option| Op::Setxattr { option, name: b"name", value: b"other" };
    vec![
        (Op::Getxattr { name: b"name" }, NAME.into()),
        (set(XattrOption::Either), format!("00000000 {NAME} {LONGER}")),
        (set(XattrOption::Create), format!("00000001 {NAME} {LONGER}")),
        (set(XattrOption::Replace), format!("00000002 {NAME} {LONGER}")),
        (
            Op::Listxattrs { cookie: 0x1_0000_0002, maxcount: 5 },
            "00000001 00000002 00000005".into(),
        ),
        (Op::Removexattr { name: b"other" }, LONGER.into()),
    ]
}

/// Every sample with all of its bytes.
pub fn ops() -> Vec<(Op<'static>, Vec<u8>)> {
    let tables = [creates(), locks(), opens(), names(), file_ops(), exchanges(), state_ops()];
    let all = tables.into_iter().flatten().chain(newer_ops()).chain(xattr_ops());
    let all = all.chain(super::layouts::layout_ops());
    all.map(|(op, text)| {
        let mut bytes = op.code().number().to_be_bytes().to_vec();
        bytes.extend(hex(&text));
        (op, bytes)
    })
    .collect()
}
