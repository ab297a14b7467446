//! Headers of RPC, requests as a server sees them, and the small programs around NFS.
//!
//! The selector is a [`RpcMessage`]; calls take a second byte for the procedure. Lists are returned
//! one element at a time, and an element takes at least one word of the message.

use nfs_proto::program::{Call, OfferedPrograms};
use nfs_proto::rpc::{CallHeader, Credential, ProcedureId, ReplyHeader};
use nfs_proto::xdr::Reader;
use nfs_proto::{mount1, mount3, portmap, rpcbind, server};

use super::{encoded, whole_words};
use crate::memory::without_allocation;

/// The message to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcMessage {
    CallHeader,
    ReplyHeader,
    /// A whole call, as a server decodes it.
    Request,
    /// The arguments of a program's procedure: the second byte selects the row of
    /// [`OfferedPrograms::table`], the third is the procedure.
    Arguments,
    /// MOUNT v1, results of MNT.
    Mnt1,
    /// MOUNT v3, results of MNT.
    Mnt3,
    /// MOUNT, results of EXPORT.
    Exports,
    /// MOUNT, results of DUMP.
    Mounts,
    /// Portmap, results of GETPORT.
    Port,
    /// Portmap, results of DUMP.
    Mappings,
    /// Rpcbind, results of SET.
    Done,
    /// Rpcbind, results of GETADDR.
    Address,
    /// Rpcbind, results of GETTIME.
    Time,
    /// Rpcbind, results of UADDR2TADDR.
    Binary,
    /// Rpcbind, results of DUMP.
    Registrations,
    /// Rpcbind, results of GETADDRLIST.
    Addresses,
}

impl RpcMessage {
    /// All messages; the index is the selector.
    pub const ALL: [Self; 16] = [
        Self::CallHeader,
        Self::ReplyHeader,
        Self::Request,
        Self::Arguments,
        Self::Mnt1,
        Self::Mnt3,
        Self::Exports,
        Self::Mounts,
        Self::Port,
        Self::Mappings,
        Self::Done,
        Self::Address,
        Self::Time,
        Self::Binary,
        Self::Registrations,
        Self::Addresses,
    ];
}

/// Checks one message.
pub fn check_rpc(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else { return };
    match RpcMessage::ALL[usize::from(*selector) % RpcMessage::ALL.len()] {
        RpcMessage::CallHeader => call_header(bytes),
        RpcMessage::ReplyHeader => {
            comes_back!(bytes, |mut reader: Reader<'_>| ReplyHeader::decode(&mut reader));
        }
        RpcMessage::Request => check_request(bytes),
        RpcMessage::Arguments => check_arguments(bytes),
        list => check_results(list, bytes),
    }
}

fn call_header(bytes: &[u8]) {
    let header = without_allocation(|| CallHeader::decode(&mut Reader::new(bytes)));
    let Ok(header) = header else { return };
    // A flavor that isn't understood loses its body; an unreadable one loses everything.
    if matches!(header.credential, Ok(Credential::None | Credential::Sys(_))) {
        let again = encoded(|writer| header.encode(writer));
        assert_eq!(CallHeader::decode(&mut Reader::new(&again)), Ok(header));
    }
}

/// A refusal is always answered, with the same transaction id.
fn check_request(bytes: &[u8]) {
    let request = without_allocation(|| server::decode_request(bytes, OfferedPrograms::ALL));
    let Ok(request) = request else { return };
    let Err(refusal) = request.body else { return };
    let mut reply = Vec::new();
    server::encode_refusal(&mut reply, request.xid, refusal);
    let header = ReplyHeader::decode(&mut Reader::new(&reply[4..])).expect("our own refusal");
    assert_eq!((header.xid, header.result), (request.xid, Err(refusal)));
}

fn check_arguments(bytes: &[u8]) {
    let Some(([program, procedure], bytes)) = bytes.split_first_chunk() else { return };
    let table = OfferedPrograms::ALL.table();
    let (program, version, _) = table[usize::from(*program) % table.len()];
    let id = ProcedureId::new(program, version, u32::from(*procedure));
    let decode = |reader| Call::decode(OfferedPrograms::ALL, id, reader);
    if let Ok(call) = without_allocation(|| decode(Reader::new(bytes))) {
        assert_eq!(call.procedure_id(), id);
    }
    comes_back!(whole_words(bytes), decode);
}

fn check_results(which: RpcMessage, bytes: &[u8]) {
    let mut count = 0;
    let reader = Reader::new(bytes);
    without_allocation(|| match which {
        RpcMessage::Mnt1 => drop(mount1::Reply::decode_mnt(reader)),
        RpcMessage::Mnt3 => drop(mount3::Reply::decode_mnt(reader)),
        RpcMessage::Exports => drop(mount3::Reply::decode_export(reader, |_, groups| {
            count += 1 + groups.count();
        })),
        RpcMessage::Mounts => drop(mount3::Reply::decode_dump(reader, |_| count += 1)),
        RpcMessage::Port => drop(portmap::Reply::decode_getport(reader)),
        RpcMessage::Mappings => drop(portmap::Reply::decode_dump(reader, |_| count += 1)),
        RpcMessage::Done => drop(rpcbind::Reply::decode_done(reader)),
        RpcMessage::Address => {
            if let Ok(text) = rpcbind::Reply::decode_address(reader) {
                rpcbind::UniversalAddress::parse(text);
            }
        }
        RpcMessage::Time => drop(rpcbind::Reply::decode_time(reader)),
        RpcMessage::Binary => drop(rpcbind::Reply::decode_binary(reader)),
        RpcMessage::Registrations => drop(rpcbind::Reply::decode_dump(reader, |_| count += 1)),
        _ => drop(rpcbind::Reply::decode_addresses(reader, |_| count += 1)),
    });
    assert!(count <= bytes.len() / 4, "{count} elements in {} bytes", bytes.len());
}
