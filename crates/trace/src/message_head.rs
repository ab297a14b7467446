//! Detects RPC message heads, to find the start of a record without its predecessor.
//!
//! If a capture starts in the middle of a stream, or after a gap, the next record is recognized by
//! bytes that can only be a record mark and the head of an NFS or MOUNT call or of a reply. At
//! least five words have to match.
//! **Source:** RFC 5531 sections 9 and 11, RFC 2203 section 5.

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::record::Mark;

use crate::assembly::RECORD_BYTES_MAX;

// Message types. **Source:** RFC 5531 section 9.
const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
/// Programs whose calls are detected: NFS, MOUNT, and ACL, which shares the connection.
const PROGRAMS: [u32; 3] = [100_003, 100_005, 100_227];
/// Maximum value of `accept_stat`.
const ACCEPT_STATE_MAX: u32 = 5;
/// The flavor of RPCSEC_GSS, whose verifiers have a body.
const FLAVOR_GSS: u32 = 6;

/// Returns the first offset at which a record with an RPC message begins.
pub(crate) fn find_message(bytes: &[u8]) -> Option<usize> {
    // Four bytes that begin with the last-fragment bit are checked further. Record lengths are a
    // multiple of four bytes, but the start of the first one is unknown.
    (0..bytes.len().saturating_sub(MARK_BYTES + 12)).find(|at| is_record_head(&bytes[*at..]))
}

/// Returns true if bytes can only be a record mark and the head of a call or reply.
pub(crate) fn is_record_head(bytes: &[u8]) -> bool {
    let Some((mark, message)) = bytes.split_first_chunk::<MARK_BYTES>() else { return false };
    let mark = Mark::from_bytes(*mark);
    let is_sane = mark.last && mark.len <= RECORD_BYTES_MAX && mark.len.is_multiple_of(4);
    is_sane && mark.len >= 24 && is_message_head(message)
}

/// Returns true if bytes can only be the head of an NFS or MOUNT call, or of an accepted reply: at
/// least five words have one value, or one of a few.
pub(crate) fn is_message_head(message: &[u8]) -> bool {
    match word(message, 1) {
        Some(CALL) => is_call_head(message),
        Some(REPLY) => {
            let flavor = word(message, 3);
            let len = word(message, 4);
            let accept_state = match (flavor, len) {
                (Some(0), Some(0)) => word(message, 5),
                (Some(FLAVOR_GSS), Some(len)) if len <= 400 => return word(message, 2) == Some(0),
                _ => return false,
            };
            word(message, 2) == Some(0)
                && accept_state.is_some_and(|state| state <= ACCEPT_STATE_MAX)
        }
        _ => false,
    }
}

/// Returns true if bytes can only be the head of an NFS or MOUNT call.
pub(crate) fn is_call_head(message: &[u8]) -> bool {
    word(message, 1) == Some(CALL)
        && word(message, 2) == Some(RPC_VERSION)
        && word(message, 3).is_some_and(|program| PROGRAMS.contains(&program))
        && word(message, 4).is_some_and(|version| (1..=4).contains(&version))
        && word(message, 5).is_some_and(|procedure| procedure <= 21)
}

fn word(bytes: &[u8], number: usize) -> Option<u32> {
    bytes.get(4 * number..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
