//! The payload of a WRITE that is still being received.
//!
//! [`find`] looks for it in the first bytes of a call of NFS v3 or v4, so that the rest can be
//! received into memory that the payload can stay in. It is strict: whatever is unusual is left to
//! the decoder of complete calls.

use crate::limits::{TRANSFER_BYTES_MAX, V3_FILE_HANDLE_BYTES_MAX};
use crate::nfs3::{self, StableHow};
use crate::nfs4::{self, Compound, Op, OpCode, Stateid};
use crate::program::OfferedPrograms;
use crate::rpc::{CallHeader, RPC_VERSION};
use crate::wire::Wire;
use crate::xdr::Reader;

/// Maximum number of bytes after the payload in a call: operations that follow the WRITE.
const TAIL_BYTES_MAX: usize = 4096;
/// The procedure COMPOUND. **Source:** RFC 7530 section 15.2.
const COMPOUND: u32 = 1;

/// The payload of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePayload {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes, a multiple of four.
    pub len: usize,
}

/// A payload and its position in the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PayloadPosition {
    pub(super) payload: WritePayload,
    /// First byte of the payload in the call.
    pub(super) at: usize,
    /// Words of the call that contain the length.
    pub(super) lengths: [usize; 2],
}

/// Finds the payload of the first WRITE of a call of `record_len` bytes, of which `start` has been
/// received.
pub(super) fn find(
    start: &[u8],
    record_len: usize,
    offered: OfferedPrograms,
) -> Option<PayloadPosition> {
    let mut reader = Reader::new(start);
    let header = CallHeader::decode(&mut reader).ok()?;
    if header.rpc_version != RPC_VERSION || header.credential.is_err() {
        return None;
    }
    offered.check(header.program, header.version).ok()?;
    let write = nfs3::Procedure::Write.number();
    let (found, tail_max) = match (header.program, header.version, header.procedure) {
        (nfs3::PROGRAM, nfs3::VERSION, procedure) if procedure == write => {
            (find_v3(start, reader)?, 0)
        }
        (nfs4::PROGRAM, nfs4::VERSION, COMPOUND) => find_v4(start, reader)?,
        _ => return None,
    };
    let len = found.payload.len;
    let tail = record_len.checked_sub(found.at.checked_add(len)?)?;
    let is_usual = len <= TRANSFER_BYTES_MAX as usize && len.is_multiple_of(4) && tail <= tail_max;
    is_usual.then_some(found)
}

fn find_v3(start: &[u8], mut reader: Reader<'_>) -> Option<PayloadPosition> {
    reader.opaque(V3_FILE_HANDLE_BYTES_MAX as u32).ok()?;
    let offset = reader.u64().ok()?;
    let count_at = start.len() - reader.remaining();
    let count = reader.u32().ok()?;
    StableHow::decode(&mut reader).ok()?;
    let len_at = start.len() - reader.remaining();
    let len = reader.u32().ok()?;
    let payload = WritePayload { offset, len: len as usize };
    let position = PayloadPosition { payload, at: len_at + 4, lengths: [count_at, len_at] };
    (count == len).then_some(position)
}

/// Finds the payload in a compound, and returns how many bytes may follow it.
fn find_v4(start: &[u8], reader: Reader<'_>) -> Option<(PayloadPosition, usize)> {
    let compound = Compound::decode(reader).ok()?;
    let minor = compound.minor;
    let mut reader = compound.ops_reader();
    for _ in 0..compound.count() {
        let code = OpCode::in_minor(reader.u32().ok()?, minor)?;
        // Replies to some calls of v4.0 are kept under a checksum of the call, which must not
        // depend on how it was received.
        if code.is_obsolete_in(minor) || minor == 0 && code.is_once_only() {
            return None;
        }
        if code != OpCode::Write {
            Op::decode(code, &mut reader).ok()??;
            continue;
        }
        Stateid::decode(&mut reader).ok()?;
        let offset = reader.u64().ok()?;
        StableHow::decode(&mut reader).ok()?;
        let len_at = start.len() - reader.remaining();
        let len = reader.u32().ok()?;
        let payload = WritePayload { offset, len: len as usize };
        let position = PayloadPosition { payload, at: len_at + 4, lengths: [len_at, len_at] };
        // An operation after it may be such a call, too.
        return Some((position, if minor == 0 { 0 } else { TAIL_BYTES_MAX }));
    }
    None
}
