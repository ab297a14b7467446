//! Damage to replies on their way out: another xid, a missing half, a mark that lies.
//!
//! [`damage`] works on a reply that is encoded whole, as one record, so it is the same for every
//! program and version. At most one kind strikes a reply.
//!
//! **Source:** RFC 5531 sections 9 (xid) and 11 (record marks).

use nfs_proto::limits::MARK_BYTES;

use super::{FaultKind, FaultState, PartsPerMillion};
use crate::origin::Transport;
use crate::outbox::Outbox;

/// How often replies are damaged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// A reply bears the xid of no call.
    pub wrong_xid: PartsPerMillion,
    /// The second half of a reply is missing.
    pub cut: PartsPerMillion,
    /// The connection is closed in the middle of a reply that is cut; else the reply is a whole
    /// record that is too short.
    pub cut_closes: bool,
    /// The mark of a reply announces a record of 2 GiB; over streams only.
    pub oversized: PartsPerMillion,
}

/// The mark of the last fragment of a record, of the greatest length that there is.
const GREATEST_MARK: [u8; MARK_BYTES] = [0xff; MARK_BYTES];
/// The bit of a mark that says that no other fragment follows.
const LAST_FRAGMENT: u32 = 1 << 31;
/// Change of an xid: far from any that a client has in use at the same time.
const XID_CHANGE: u8 = 0x55;

impl Damage {
    /// Whether replies leave as they are.
    pub(super) fn is_none(&self) -> bool {
        self.wrong_xid.0 == 0 && self.cut.0 == 0 && self.oversized.0 == 0
    }
}

/// A reply after what became of it.
pub(crate) struct Damaged {
    pub(crate) reply: Outbox,
    /// The fault that struck it.
    pub(crate) struck: Option<FaultKind>,
    /// The connection ends with it.
    pub(crate) closes: bool,
}

/// Damages a reply, where that is planned.
pub(crate) fn damage(
    plan: &Damage,
    state: &mut FaultState,
    mut reply: Outbox,
    transport: Transport,
) -> Damaged {
    let is_stream = transport != Transport::Udp;
    if plan.is_none() {
        return Damaged { reply, struck: None, closes: false };
    }
    if state.draw_strike(plan.wrong_xid) {
        reply.head()[MARK_BYTES] ^= XID_CHANGE;
        return Damaged { reply, struck: Some(FaultKind::WrongXid), closes: false };
    }
    if state.draw_strike(plan.cut) {
        let closes = plan.cut_closes && is_stream;
        let mut reply = first_half(&reply);
        if !closes {
            // The half is a whole record of its own, so that the client finds the next one.
            let length = reply.head().len() - MARK_BYTES;
            let mark = (LAST_FRAGMENT | length as u32).to_be_bytes();
            reply.head()[..MARK_BYTES].copy_from_slice(&mark);
        }
        return Damaged { reply, struck: Some(FaultKind::Cut), closes };
    }
    if is_stream && state.draw_strike(plan.oversized) {
        reply.head()[..MARK_BYTES].copy_from_slice(&GREATEST_MARK);
        return Damaged { reply, struck: Some(FaultKind::Oversized), closes: false };
    }
    Damaged { reply, struck: None, closes: false }
}

/// The first half of a record under the mark of the whole.
fn first_half(reply: &Outbox) -> Outbox {
    let mut bytes = reply.to_vec();
    let body = (bytes.len() - MARK_BYTES) / 2;
    bytes.truncate(MARK_BYTES + body);
    let mut half = Outbox::default();
    half.head().extend_from_slice(&bytes);
    half.seal();
    half
}
