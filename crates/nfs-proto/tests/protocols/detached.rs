//! Payload of a WRITE that is received apart from its call: the call is the same without it, at
//! whatever byte it was taken out, and calls of any other shape are left alone.

use nfs_proto::nfs3::{self, StableHow};
use nfs_proto::nfs4::{self, Bitmap, CompoundBuilder, FileHandle, Op, SessionId, Stateid};
use nfs_proto::program::OfferedPrograms;
use nfs_proto::record::{self, append_fragmented};
use nfs_proto::rpc::{CallHeader, Credential, ProcedureId, RPC_VERSION};
use nfs_proto::server::{Session, WritePayload};
use nfs_proto::xdr::Writer;

const OFFSET: u64 = 1 << 33;

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8 + 1).collect()
}

fn framed(id: ProcedureId, arguments: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let ProcedureId { program, version, procedure } = id;
    let credential = Ok(Credential::None);
    let header =
        CallHeader { xid: 7, rpc_version: RPC_VERSION, program, version, procedure, credential };
    let mut out = Vec::new();
    record::begin(&mut out);
    header.encode(&mut Writer::new(&mut out));
    arguments(&mut out);
    record::end(&mut out, 0, 0);
    out
}

fn v3(data: &[u8]) -> Vec<u8> {
    let call =
        nfs3::Call::Write { file: &[9; 32], offset: OFFSET, stable: StableHow::DataSync, data };
    let id = ProcedureId::new(nfs3::PROGRAM, nfs3::VERSION, nfs3::Procedure::Write.number());
    framed(id, |out| call.encode(&mut Writer::new(out)))
}

fn v4(minor: u32, ops: &[Op<'_>]) -> Vec<u8> {
    framed(ProcedureId::new(nfs4::PROGRAM, nfs4::VERSION, 1), |out| {
        let mut builder = CompoundBuilder::new(out, b"tag", minor);
        for op in ops {
            builder.push(op);
        }
        builder.finish();
    })
}

fn sequence() -> Op<'static> {
    let session = SessionId([3; 16]);
    Op::Sequence { session, sequence: 1, slot: 0, highest_slot: 0, cache_this: false }
}

fn putfh() -> Op<'static> {
    Op::Putfh { file: FileHandle::from_slice(&[9; 32]).unwrap() }
}

fn write(data: &[u8]) -> Op<'_> {
    Op::Write { stateid: Stateid::ANONYMOUS, offset: OFFSET, stable: StableHow::FileSync, data }
}

fn getattr() -> Op<'static> {
    Op::Getattr { request: Bitmap::from_numbers(&[3, 4]) }
}

/// Feeds `call` up to `cut`, detaches the payload, and feeds the rest and then `next`. Returns the
/// two requests' records, or `None` if the payload was left in its call.
fn detach(call: &[u8], cut: usize, data: &[u8], next: &[u8]) -> Option<[Vec<u8>; 2]> {
    let mut session = Session::new(OfferedPrograms::ALL);
    session.handle_input(&call[..cut]);
    let mut out = Vec::new();
    assert_eq!(session.next_request(&mut out), Ok(None));
    let arrived = session.detach_payload(|write, arrived| {
        assert_eq!(write, WritePayload { offset: OFFSET, len: data.len() });
        assert_eq!(arrived, &data[..arrived.len()]);
        Some(arrived.len())
    })?;
    assert!(session.is_partial(), "the call is not complete without its payload");
    session.handle_input(&call[cut + data.len() - arrived..]);
    let taken = session.next_request(&mut out).unwrap().unwrap();
    assert!(taken.body.is_ok());
    let first = taken.record.to_vec();
    session.handle_input(next);
    let second = session.next_request(&mut out).unwrap().unwrap().record.to_vec();
    assert!(out.is_empty() && !session.is_partial());
    Some([first, second])
}

/// Detaches at every cut, and returns at how many it was possible.
fn detach_anywhere(with: &dyn Fn(&[u8]) -> Vec<u8>, data: &[u8]) -> usize {
    let call = with(data);
    let without = with(&[]);
    let next = v3(b"next");
    let mut detached = 0;
    for cut in 0..call.len() {
        if let Some([first, second]) = detach(&call, cut, data, &next) {
            assert_eq!((&first[..], &second[..]), (&without[4..], &next[4..]), "cut at {cut}");
            detached += 1;
        }
    }
    detached
}

#[test]
fn detaches_at_any_byte() {
    let data = payload(1000);
    // From the first byte of the payload until its last byte has arrived.
    assert_eq!(detach_anywhere(&v3, &data), data.len());
    let with = |data: &[u8]| v4(1, &[sequence(), putfh(), write(data), getattr()]);
    assert_eq!(detach_anywhere(&with, &data), data.len());
    let with = |data: &[u8]| v4(2, &[sequence(), putfh(), write(data), putfh(), write(b"more")]);
    assert_eq!(detach_anywhere(&with, &data), data.len());
    let with = |data: &[u8]| v4(0, &[putfh(), write(data)]);
    assert_eq!(detach_anywhere(&with, &data), data.len());
}

#[test]
fn leaves_other_calls_alone() {
    let data = payload(1000);
    let odd = payload(1001);
    // A checksum of such calls of v4.0 may be kept.
    let link = Op::Link { name: b"name" };
    let setattr = Op::Setattr { stateid: Stateid::ANONYMOUS, attributes: nfs4::Fattr::default() };
    assert_eq!(detach_anywhere(&|data| v4(0, &[putfh(), write(data), getattr()]), &data), 0);
    assert_eq!(detach_anywhere(&|data| v4(0, &[link, putfh(), write(data)]), &data), 0);
    assert_eq!(detach_anywhere(&|data| v4(0, &[setattr, putfh(), write(data)]), &data), 0);
    assert_eq!(detach_anywhere(&v3, &odd), 0, "with padding");
    let tail = vec![putfh(); 200];
    let long = |data: &[u8]| v4(1, &[&[sequence(), putfh(), write(data)], &tail[..]].concat());
    assert_eq!(detach_anywhere(&long, &data), 0, "with a long tail");
    // Two lengths that differ, a longer opaque than its record, and fragments.
    let whole = v3(&data);
    let count_at = whole.len() - data.len() - 12;
    for at in [count_at, count_at + 8] {
        let mut call = whole.clone();
        call[at + 1] = 1;
        assert_eq!(detach(&call, 500, &data, &[]), None);
    }
    let mut fragments = Vec::new();
    append_fragmented(&mut fragments, &whole[4..], 800);
    assert_eq!(detach(&fragments, 500, &data, &[]), None);
    assert_eq!(detach(&fragments, 900, &data, &[]), None);
}

#[test]
fn keeps_payload_that_is_not_wanted() {
    let call = v3(&payload(1000));
    let mut session = Session::new(OfferedPrograms::ALL);
    session.handle_input(&call[..500]);
    assert_eq!(session.detach_payload(|_, _| None::<()>), None);
    session.handle_input(&call[500..]);
    let mut out = Vec::new();
    let request = session.next_request(&mut out).unwrap().unwrap();
    assert_eq!(request.record, &call[4..]);
    // Programs that are not offered are refused as ever.
    let mut session = Session::new(OfferedPrograms { nfs3: false, ..OfferedPrograms::ALL });
    session.handle_input(&call[..500]);
    assert_eq!(session.detach_payload(|_, _| Some(())), None);
}
