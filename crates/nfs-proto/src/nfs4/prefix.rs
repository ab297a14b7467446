//! Finds the payload of a READ in an incomplete reply.
//!
//! [`read_prefix`] walks the results that may precede the READ of a client's compound, so that the
//! payload can be received bypassing the session. It returns `None` for replies without a payload,
//! which are decoded as a whole. **Source:** RFC 7530 section 16.23.

use super::opcode::OpCode;
use crate::error::DecodeError;
use crate::limits::COMPOUND_TAG_BYTES_MAX;
use crate::status::Status;
use crate::xdr::Reader;

/// Bytes of a successful SEQUENCE after its status.
const SEQUENCE_BYTES: usize = 16 + 5 * 4;

/// The results of a READ before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPrefix {
    /// Bytes of payload.
    pub len: u32,
    /// Whether the file ends here.
    pub eof: bool,
}

/// Decodes a compound's reply up to the payload of its READ, which only SEQUENCE and PUTFH may
/// precede. `None` means that no payload can be found this way.
///
/// # Errors
/// [`DecodeError::Truncated`] if more bytes are needed to decide; at least `needed - left`.
pub fn read_prefix(reader: &mut Reader<'_>) -> Result<Option<ReadPrefix>, DecodeError> {
    if reader.u32()? != Status::Ok.number() {
        return Ok(None);
    }
    reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
    // A client's READ is SEQUENCE, PUTFH, READ or just the last two. Anything else, and any failure
    // on the way, has no payload that could be found early.
    for _ in 0..reader.u32()? {
        let code = OpCode::from_number(reader.u32()?);
        if reader.u32()? != Status::Ok.number() {
            return Ok(None);
        }
        match code {
            Some(OpCode::Sequence) => {
                reader.array::<SEQUENCE_BYTES>()?;
            }
            Some(OpCode::Putfh) => {}
            Some(OpCode::Read) => {
                let eof = reader.bool("eof")?;
                return Ok(Some(ReadPrefix { len: reader.u32()?, eof }));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}
