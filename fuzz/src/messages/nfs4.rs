//! Compounds of NFS v4 in both directions, callbacks, attributes, and the search for a payload.
//!
//! The selector is a [`DecodedPart`]. A compound is checked operation by operation, as it would be
//! executed: the first bad one ends it. Views that are decoded on demand are decoded here.

use nfs_proto::nfs4::{
    Attributes, CallbackCompound, CallbackOp, CallbackResult, Compound, CompoundReply, Fattr,
    FilesDevice, FilesLayout, FlexDevice, FlexLayout, FlexLayoutReturn, FlexLayoutUpdate, Op,
    OpCode, OpOk, OpResult, Wire, decode_body, decode_callback_reply, read_prefix,
};
use nfs_proto::xdr::Reader;

use super::{encoded, whole_words};
use crate::memory::without_allocation;

/// The part to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedPart {
    /// A call of COMPOUND.
    Compound,
    /// The arguments of one operation, with its number.
    Op,
    CompoundReply,
    /// One result, with its number.
    Result,
    /// Attributes of a file.
    Attributes,
    /// A call from the server.
    Callback,
    /// The client's reply to it.
    CallbackReply,
    /// The body of a layout, a device or a report, of every type.
    LayoutBody,
}

impl DecodedPart {
    /// All parts; the index is the selector.
    pub const ALL: [Self; 8] = [
        Self::Compound,
        Self::Op,
        Self::CompoundReply,
        Self::Result,
        Self::Attributes,
        Self::Callback,
        Self::CallbackReply,
        Self::LayoutBody,
    ];
}

/// Checks one message.
pub fn check_nfs4(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else { return };
    match DecodedPart::ALL[usize::from(*selector) % DecodedPart::ALL.len()] {
        DecodedPart::Compound => check_compound(bytes),
        DecodedPart::Op => check_op(bytes),
        DecodedPart::CompoundReply => check_reply(bytes),
        DecodedPart::Result => drop(check_result(&mut Reader::new(bytes))),
        DecodedPart::Attributes => check_attributes(bytes),
        DecodedPart::Callback => check_callback(bytes),
        DecodedPart::CallbackReply => callback_reply(bytes),
        DecodedPart::LayoutBody => check_layout_body(bytes),
    }
}

fn check_compound(bytes: &[u8]) {
    let decoded = without_allocation(|| Compound::decode(Reader::new(bytes)));
    let Ok(compound) = decoded else { return };
    comes_back!(whole_words(bytes), Compound::decode);
    let mut seen = 0;
    let mut ops = compound.ops();
    while let Some(op) = without_allocation(|| ops.next()) {
        seen += 1;
        match op {
            Ok(op) => op_comes_back(&op),
            Err(_) => assert_eq!(ops.left(), 0, "a bad operation is the last"),
        }
    }
    assert!(seen <= compound.count(), "{seen} operations of {}", compound.count());
}

fn check_op(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Some(code) = reader.u32().ok().and_then(OpCode::from_number) else { return };
    if let Ok(Some(op)) = without_allocation(|| Op::decode(code, &mut reader)) {
        assert_eq!(op.code(), code);
        op_comes_back(&op);
    }
}

fn op_comes_back(op: &Op<'_>) {
    let again = encoded(|writer| op.encode(writer));
    let mut reader = Reader::new(&again);
    assert_eq!(reader.u32(), Ok(op.code() as u32));
    assert_eq!(Op::decode(op.code(), &mut reader), Ok(Some(*op)));
    assert_eq!(reader.remaining(), 0, "{op:?}");
}

/// Checks a reply; a payload that is found early must be the one that it contains.
fn check_reply(bytes: &[u8]) {
    comes_back!(whole_words(bytes), CompoundReply::decode);
    let prefix = without_allocation(|| read_prefix(&mut Reader::new(bytes)));
    let Ok(reply) = CompoundReply::decode(Reader::new(bytes)) else { return };
    let mut results = reply.results();
    let mut read = None;
    while let Ok(Some(result)) = without_allocation(|| results.next_result()) {
        look_into(&result);
        if let (None, OpResult::Ok(OpOk::Read { eof, data })) = (read, &result) {
            read = Some((*eof, data.len()));
        }
    }
    if let (Ok(Some(prefix)), Some(read)) = (prefix, read) {
        assert_eq!((prefix.eof, prefix.len as usize), read);
    }
}

/// Checks one result and returns it, if it is one.
fn check_result<'a>(reader: &mut Reader<'a>) -> Option<OpResult<'a>> {
    let result = without_allocation(|| OpResult::decode(reader)).ok()?;
    look_into(&result);
    Some(result)
}

fn look_into(result: &OpResult<'_>) {
    let again = encoded(|writer| result.encode(writer));
    let mut reader = Reader::new(&again);
    assert_eq!(OpResult::decode(&mut reader), Ok(*result));
    assert_eq!(reader.remaining(), 0, "{result:?}");
    match result {
        OpResult::Ok(OpOk::Getattr { attributes }) => check_values(attributes),
        OpResult::Ok(OpOk::Readdir { entries, .. }) => {
            let count = without_allocation(|| entries.iter().count());
            assert!(count <= again.len() / 16, "{count} entries in {} bytes", again.len());
            entries.iter().for_each(|entry| check_values(&entry.attributes));
        }
        _ => {}
    }
}

fn check_attributes(bytes: &[u8]) {
    let decoded = without_allocation(|| Fattr::decode(&mut Reader::new(bytes)));
    if let Ok(attributes) = decoded {
        check_values(&attributes);
    }
}

/// Attributes that are understood are the same after encoding them again.
fn check_values(fattr: &Fattr<'_>) {
    let Ok(values) = without_allocation(|| fattr.decode_values()) else { return };
    let again = encoded(|writer| values.encode(Attributes::UNDERSTOOD, writer));
    let fattr = Fattr::decode(&mut Reader::new(&again)).expect("our own attributes");
    assert_eq!(fattr.decode_values(), Ok(values));
}

fn check_callback(bytes: &[u8]) {
    let decoded = without_allocation(|| CallbackCompound::decode(Reader::new(bytes)));
    let Ok(compound) = decoded else { return };
    let mut ops = compound.ops();
    while let Some(op) = without_allocation(|| ops.next()) {
        if let Ok(op) = op {
            encoded(|writer| op.encode(writer));
        }
        if let Ok(CallbackOp::NotifyDeviceid { notices }) = op {
            for notice in notices.iter() {
                let _ = without_allocation(|| notice.changes());
            }
        }
    }
}

/// Decodes a body as every type; a body that is accepted comes back.
fn check_layout_body(bytes: &[u8]) {
    fn check<'a, T: Wire<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8]) -> Option<T> {
        let value = without_allocation(|| decode_body::<T>(bytes)).ok()?;
        // Padding is not kept, so the encoded value is compared with itself.
        let again = encoded(|writer| value.encode(writer));
        assert_eq!(again.len(), bytes.len(), "{value:?}");
        Some(value)
    }
    if let Some(layout) = check::<FlexLayout<'_>>(bytes) {
        let servers = layout.mirrors.iter().map(|mirror| mirror.servers.iter().count());
        assert!(without_allocation(|| servers.sum::<usize>()) <= bytes.len() / 48);
    }
    if let Some(device) = check::<FilesDevice<'_>>(bytes) {
        let addresses = device.servers.iter().map(|server| server.iter().count());
        assert!(without_allocation(|| addresses.sum::<usize>()) <= bytes.len() / 8);
    }
    check::<FilesLayout<'_>>(bytes);
    check::<FlexDevice<'_>>(bytes);
    check::<FlexLayoutReturn<'_>>(bytes);
    check::<FlexLayoutUpdate<'_>>(bytes);
}

fn callback_reply(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let head = without_allocation(|| decode_callback_reply(&mut reader));
    let Ok((_, count)) = head else { return };
    for _ in 0..count {
        let result = without_allocation(|| CallbackResult::decode(&mut reader));
        let Ok(result) = result else { return };
        let again = encoded(|writer| result.encode(writer));
        assert_eq!(CallbackResult::decode(&mut Reader::new(&again)), Ok(result));
    }
}
