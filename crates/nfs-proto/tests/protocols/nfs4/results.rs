//! One result of every operation and shape, next to its bytes as the RFCs define them.

use nfs_proto::nfs4::{
    Ace, Bitmap, ChangeInfo, ClientId, Delegation, Denied, Entries, FileHandle, GssInfo,
    Implementation, List, LockType, NetAddress, NoDelegation, OpCode, OpOk, OpResult, ProtectedOps,
    SecurityFlavor, Segment, SpaceLimit, StableHow, StateOwner, StateProtectionReply, Time,
};
use nfs_proto::status::Status;

use super::ops::{
    BACK, CLIENT, CLIENT_ID, FATTR, FORE, LONGER, NAME, OTHER, OTHER_STATEID, RANGE, SESSION,
    SESSION_ID, STATE, STATEID, VERF, VERIFIER, back, fattr, fore, view,
};
use crate::common::hex;

const CHANGE: &str = "00000001 00000001 00000002 00000003 00000004";

fn change() -> ChangeInfo {
    ChangeInfo { atomic: true, before: 0x1_0000_0002, after: 0x3_0000_0004 }
}

fn opened() -> Vec<(OpOk<'static>, String)> {
    let permissions = Ace { ace_type: 1, flags: 2, access: 3, who: b"name" };
    let ace = format!("00000001 00000002 00000003 {NAME}");
    let write = |limit| Delegation::Write { stateid: OTHER, recall: false, limit, permissions };
    let delegations = [
        (Delegation::None, "00000000".to_owned()),
        (
            Delegation::Read { stateid: OTHER, recall: true, permissions },
            format!("00000001 {OTHER_STATEID} 00000001 {ace}"),
        ),
        (
            write(SpaceLimit::Size(5)),
            format!("00000002 {OTHER_STATEID} 00000000 00000001 00000000 00000005 {ace}"),
        ),
        (
            write(SpaceLimit::Blocks(6, 7)),
            format!("00000002 {OTHER_STATEID} 00000000 00000002 00000006 00000007 {ace}"),
        ),
        (Delegation::NoneExt(NoDelegation::NotWanted, false), "00000003 00000000".into()),
        (Delegation::NoneExt(NoDelegation::Contention, true), "00000003 00000001 00000001".into()),
        (Delegation::NoneExt(NoDelegation::Resource, false), "00000003 00000002 00000000".into()),
    ];
    let set = Bitmap::from_numbers(&[4, 33]);
    delegations
        .into_iter()
        .map(|(delegation, bytes)| {
            let ok = OpOk::Open { stateid: STATE, change: change(), flags: 4, set, delegation };
            let set = "00000002 00000010 00000002";
            (ok, format!("{STATEID} {CHANGE} 00000004 {set} {bytes}"))
        })
        .collect()
}

fn file_results() -> Vec<(OpOk<'static>, String)> {
    let set = Bitmap::from_numbers(&[4, 33]);
    let set_bytes = "00000002 00000010 00000002";
    let entry = |cookie: u32, name: &str| format!("00000001 00000000 {cookie:08x} {name} {FATTR}");
    let chain = format!("{} {} 00000000", entry(3, NAME), entry(4, LONGER));
    let entries: Entries<'static> = view(&chain);
    let listed: Vec<_> = entries.iter().map(|entry| (entry.cookie, entry.name)).collect();
    assert_eq!(listed, [(3, &b"name"[..]), (4, b"other")]);
    let flavor_bytes = format!("00000002 00000001 00000006 {NAME} 00000005 00000002");
    let flavors: List<'static, SecurityFlavor<'static>> = view(&flavor_bytes);
    let gss = GssInfo { oid: b"name", quality: 5, service: 2 };
    let listed: Vec<_> = flavors.iter().collect();
    assert_eq!(listed, [SecurityFlavor::Plain(1), SecurityFlavor::Gss(gss)]);
    let file = FileHandle::from_slice(&[0xab; 5]).unwrap();
    vec![
        (OpOk::Access { supported: 0x3f, access: 0x1f }, "0000003f 0000001f".into()),
        (OpOk::Close { stateid: STATE }, STATEID.into()),
        (OpOk::Commit { verifier: VERF }, VERIFIER.into()),
        (OpOk::Create { change: change(), set }, format!("{CHANGE} {set_bytes}")),
        (OpOk::Delegpurge, String::new()),
        (OpOk::Delegreturn, String::new()),
        (OpOk::Getattr { attributes: fattr() }, FATTR.into()),
        (OpOk::Getfh { file }, "00000005 abababab ab000000".into()),
        (OpOk::Link { change: change() }, CHANGE.into()),
        (OpOk::Lock { stateid: STATE }, STATEID.into()),
        (OpOk::Lockt, String::new()),
        (OpOk::Locku { stateid: STATE }, STATEID.into()),
        (OpOk::Lookup, String::new()),
        (OpOk::Lookupp, String::new()),
        (OpOk::Nverify, String::new()),
        (OpOk::Openattr, String::new()),
        (OpOk::OpenConfirm { stateid: STATE }, STATEID.into()),
        (OpOk::OpenDowngrade { stateid: STATE }, STATEID.into()),
        (OpOk::Putfh, String::new()),
        (OpOk::Putpubfh, String::new()),
        (OpOk::Putrootfh, String::new()),
        (OpOk::Read { eof: true, data: b"payload" }, "00000001 00000007 7061796c 6f616400".into()),
        (
            OpOk::Readdir { verifier: VERF, entries, eof: true },
            format!("{VERIFIER} {chain} 00000001"),
        ),
        (OpOk::Readlink { target: b"other" }, LONGER.into()),
        (OpOk::Remove { change: change() }, CHANGE.into()),
        (
            OpOk::Rename { from: change(), to: ChangeInfo::default() },
            format!("{CHANGE} 00000000 00000000 00000000 00000000 00000000"),
        ),
        (OpOk::Renew, String::new()),
        (OpOk::Restorefh, String::new()),
        (OpOk::Savefh, String::new()),
        (OpOk::Secinfo { flavors }, flavor_bytes.clone()),
        (OpOk::Setattr { set }, set_bytes.into()),
        (OpOk::Setclientid { client: CLIENT_ID, confirm: VERF }, format!("{CLIENT} {VERIFIER}")),
        (OpOk::SetclientidConfirm, String::new()),
        (OpOk::Verify, String::new()),
        (
            OpOk::Write { count: 5, committed: StableHow::DataSync, verifier: VERF },
            format!("00000005 00000001 {VERIFIER}"),
        ),
        (OpOk::ReleaseLockowner, String::new()),
        (OpOk::SecinfoNoName { flavors }, flavor_bytes.clone()),
    ]
}

fn state_results() -> Vec<(OpOk<'static>, String)> {
    let exchange = |protection, implementation, bytes: &str| {
        let ok = OpOk::ExchangeId {
            client: CLIENT_ID,
            sequence: 5,
            flags: 0x8001_0000,
            protection,
            server_minor_id: 6,
            server_major_id: b"name",
            scope: b"other",
            implementation,
        };
        (ok, format!("{CLIENT} 00000005 80010000 {bytes}"))
    };
    let server = format!("00000000 00000006 {NAME} {LONGER}");
    let implementation =
        Implementation { domain: b"name", name: b"other", date: Time { seconds: 2, nanos: 3 } };
    let protected = ProtectedOps { enforce: Bitmap::from_numbers(&[43]), allow: Bitmap::EMPTY };
    let created = OpOk::CreateSession {
        session: SESSION_ID,
        sequence: 5,
        flags: 2,
        fore: fore(),
        back: back(),
    };
    let sequence = OpOk::Sequence {
        session: SESSION_ID,
        sequence: 1,
        slot: 2,
        highest_slot: 3,
        target_highest_slot: 4,
        flags: 5,
    };
    let statuses_bytes = "00000002 00000000 00002729";
    let statuses: List<'static, Status> = view(statuses_bytes);
    assert!(statuses.iter().eq([Status::Ok, Status::BadStateid]));
    vec![
        (OpOk::BackchannelCtl, String::new()),
        (
            OpOk::BindConnToSession { session: SESSION_ID, direction: 3, rdma: false },
            format!("{SESSION} 00000003 00000000"),
        ),
        exchange(StateProtectionReply::None, None, &format!("00000000 {server} 00000000")),
        exchange(
            StateProtectionReply::MachineCredential(protected),
            Some(implementation),
            &format!(
                "00000001 00000002 00000000 00000800 00000000 {server}
                 00000001 {NAME} {LONGER} 00000000 00000002 00000003"
            ),
        ),
        (created, format!("{SESSION} 00000005 00000002 {FORE} {BACK}")),
        (OpOk::DestroySession, String::new()),
        (OpOk::FreeStateid, String::new()),
        (sequence, format!("{SESSION} 00000001 00000002 00000003 00000004 00000005")),
        (OpOk::TestStateid { statuses }, statuses_bytes.into()),
        (OpOk::DestroyClientid, String::new()),
        (OpOk::ReclaimComplete, String::new()),
    ]
}

fn newer_results() -> Vec<(OpOk<'static>, String)> {
    let segment_bytes = format!("00000002 00000001 {RANGE} 00000000 00000000 00000009 {LONGER}");
    let segments: List<'static, Segment<'static>> = view(&segment_bytes);
    let found: Vec<_> = segments.iter().collect();
    assert_eq!(found, [Segment::Hole(0x1_0000_0002, 0x3_0000_0004), Segment::Data(9, b"other")]);
    let copied = |callback_id, bytes: &str| {
        let ok = OpOk::Copy {
            callback_id,
            count: 5,
            committed: StableHow::FileSync,
            verifier: VERF,
            consecutive: true,
            synchronous: false,
        };
        let rest = format!("00000000 00000005 00000002 {VERIFIER} 00000001 00000000");
        (ok, format!("{bytes} {rest}"))
    };
    let complete = Some(Status::NoSpc);
    vec![
        (OpOk::Allocate, String::new()),
        copied(None, "00000000"),
        copied(Some(STATE), &format!("00000001 {STATEID}")),
        (OpOk::Deallocate, String::new()),
        (OpOk::IoAdvise { hints: Bitmap::from_numbers(&[1]) }, "00000001 00000002".into()),
        (OpOk::OffloadCancel, String::new()),
        (OpOk::OffloadStatus { count: 5, complete }, "00000000 00000005 00000001 0000001c".into()),
        (OpOk::ReadPlus { eof: true, segments }, format!("00000001 {segment_bytes}")),
        (OpOk::Seek { eof: true, offset: 5 }, "00000001 00000000 00000005".into()),
        (OpOk::Clone, String::new()),
    ]
}

fn xattr_results() -> Vec<(OpOk<'static>, String)> {
    let names_bytes = format!("00000002 {NAME} {LONGER}");
    let names: List<'static, &'static [u8]> = view(&names_bytes);
    assert_eq!(names.iter().collect::<Vec<_>>(), [&b"name"[..], b"other"]);
    let none = List::default();
    vec![
        (OpOk::Getxattr { value: b"other" }, LONGER.into()),
        (OpOk::Getxattr { value: b"" }, "00000000".into()),
        (OpOk::Setxattr { change: change() }, CHANGE.into()),
        (
            OpOk::Listxattrs { cookie: 0x1_0000_0002, names, eof: false },
            format!("00000001 00000002 {names_bytes} 00000000"),
        ),
        (
            OpOk::Listxattrs { cookie: 5, names: none, eof: true },
            "00000000 00000005 00000000 00000001".into(),
        ),
        (OpOk::Removexattr { change: change() }, CHANGE.into()),
    ]
}

fn failures() -> Vec<(OpResult<'static>, String)> {
    let owner = StateOwner { client: ClientId(5), owner: b"name" };
    let denied =
        Denied { offset: 0x1_0000_0002, length: 0x3_0000_0004, lock_type: LockType::Write, owner };
    let denied_bytes = format!("0000271a {RANGE} 00000002 00000000 00000005 {NAME}");
    let set = Bitmap::from_numbers(&[4]);
    vec![
        (OpResult::Failed(OpCode::Illegal, Status::OpIllegal), "0000273c".into()),
        (OpResult::Failed(OpCode::Layoutget, Status::NotSupp), "00002714".into()),
        (OpResult::Failed(OpCode::Read, Status::Grace), "0000271d".into()),
        (OpResult::Failed(OpCode::Lock, Status::Deadlock), "0000273d".into()),
        (OpResult::Denied(OpCode::Lock, denied), denied_bytes.clone()),
        (OpResult::Denied(OpCode::Lockt, denied), denied_bytes),
        (OpResult::SetattrFailed(Status::NoSpc, set), "0000001c 00000001 00000010".into()),
        (
            OpResult::ClientInUse(NetAddress { netid: b"name", address: b"other" }),
            format!("00002721 {NAME} {LONGER}"),
        ),
        (
            OpResult::CopyRequirementsNotMet { consecutive: false, synchronous: true },
            "0000276e 00000000 00000001".into(),
        ),
        (OpResult::DeviceTooSmall(0x123), "00002715 00000123".into()),
        (OpResult::LayoutTryLater(true), "0000274a 00000001".into()),
    ]
}

/// Every sample with all of its bytes.
pub fn results() -> Vec<(OpResult<'static>, Vec<u8>)> {
    let successes = file_results()
        .into_iter()
        .chain(opened())
        .chain(state_results())
        .chain(newer_results())
        .chain(xattr_results())
        .chain(super::layouts::layout_results())
        .map(|(ok, text)| (OpResult::Ok(ok), format!("00000000 {text}")));
    successes
        .chain(failures())
        .map(|(result, text)| {
            let mut bytes = result.code().number().to_be_bytes().to_vec();
            bytes.extend(hex(&text));
            (result, bytes)
        })
        .collect()
}
