//! Heads of RPC messages: how the begin of a record is known without its predecessor.
//!
//! Joined in the middle, or behind a gap, a stream shows its next record by what can only be a mark
//! and the head of a call of NFS or MOUNT, or of a reply. At least five words have to fit.
//! **Source:** RFC 5531 sections 9 and 11, RFC 2203 section 5.

use nfs_proto::limits::MARK_BYTES;
use nfs_proto::record::Mark;

use crate::assembly::RECORD_BYTES_MAX;

// The words of an RPC message behind its record mark. **Source:** RFC 5531 section 9.
const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
/// The programs whose calls are looked for: NFS and MOUNT, and ACL, which shares the connection.
const PROGRAMS: [u32; 3] = [100_003, 100_005, 100_227];
/// The highest `accept_stat`.
const ACCEPT_STATE_MAX: u32 = 5;
/// The flavor of RPCSEC_GSS, whose verifiers have a body.
const FLAVOR_GSS: u32 = 6;

/// Finds the first offset at which a record with an RPC message begins.
pub fn find_message(bytes: &[u8]) -> Option<usize> {
    // Four bytes in a row that begin with the last-fragment bit are tested further; records have a
    // multiple of four bytes, but where the first one began is not known.
    (0..bytes.len().saturating_sub(MARK_BYTES + 12)).find(|at| is_record_head(&bytes[*at..]))
}

/// Tells whether bytes can only be a record mark and the head of a call or of a reply.
pub fn is_record_head(bytes: &[u8]) -> bool {
    let Some((mark, message)) = bytes.split_first_chunk::<MARK_BYTES>() else { return false };
    let mark = Mark::from_bytes(*mark);
    let is_sane = mark.last && mark.len <= RECORD_BYTES_MAX && mark.len.is_multiple_of(4);
    is_sane && mark.len >= 24 && is_message_head(message)
}

/// Tells whether bytes can only be the head of a call of NFS or MOUNT, or of a reply that was
/// accepted: at least five words have one value, or one of a few.
pub fn is_message_head(message: &[u8]) -> bool {
    match word(message, 1) {
        Some(CALL) => is_call_head(message),
        Some(REPLY) => {
            let (flavor, len) = (word(message, 3), word(message, 4));
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

/// Tells whether bytes can only be the head of a call of NFS or MOUNT.
pub fn is_call_head(message: &[u8]) -> bool {
    word(message, 1) == Some(CALL)
        && word(message, 2) == Some(RPC_VERSION)
        && word(message, 3).is_some_and(|program| PROGRAMS.contains(&program))
        && word(message, 4).is_some_and(|version| (1..=4).contains(&version))
        && word(message, 5).is_some_and(|procedure| procedure <= 21)
}

fn word(bytes: &[u8], number: usize) -> Option<u32> {
    bytes.get(4 * number..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
