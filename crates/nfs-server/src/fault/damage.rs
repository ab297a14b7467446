//! Damage to replies on their way out: a wrong xid, a missing half, a false record mark.
//!
//! [`damage`] works on a fully encoded reply in one record, so it is the same for every program and
//! version. At most one kind of damage strikes a reply.
//!
//! **Source:** RFC 5531 sections 9 (xid) and 11 (record marks).

use nfs_proto::limits::MARK_BYTES;

use super::{FaultKind, FaultState, PartsPerMillion};
use crate::origin::Transport;
use crate::outbox::Outbox;

/// How often replies are damaged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// A reply has an xid that belongs to no call.
    pub wrong_xid: PartsPerMillion,
    /// The second half of a reply is missing.
    pub cut: PartsPerMillion,
    /// Close the connection in the middle of a cut reply; otherwise the reply is a complete record
    /// that is too short.
    pub cut_closes: bool,
    /// A reply's mark announces a record of 2 GiB; streams only.
    pub oversized: PartsPerMillion,
}

/// The mark of a last fragment with the greatest possible length.
const GREATEST_MARK: [u8; MARK_BYTES] = [0xff; MARK_BYTES];
/// The bit of a mark that flags the last fragment.
const LAST_FRAGMENT: u32 = 1 << 31;
/// Change applied to an xid: far from any that a client has in use at the same time.
const XID_CHANGE: u8 = 0x55;

impl Damage {
    /// Whether no damage is planned.
    pub(super) fn is_none(&self) -> bool {
        self.wrong_xid.0 == 0 && self.cut.0 == 0 && self.oversized.0 == 0
    }
}

/// A reply after damage was applied.
pub(crate) struct DamagedReply {
    pub(crate) reply: Outbox,
    /// The fault that struck it, if any.
    pub(crate) struck: Option<FaultKind>,
    /// Whether the connection ends with it.
    pub(crate) closes: bool,
}

/// Damages a reply if the plan says so.
pub(crate) fn damage(
    plan: &Damage,
    state: &mut FaultState,
    mut reply: Outbox,
    transport: Transport,
) -> DamagedReply {
    let is_stream = transport != Transport::Udp;
    if plan.is_none() {
        return DamagedReply { reply, struck: None, closes: false };
    }
    if state.draw_strike(plan.wrong_xid) {
        reply.head()[MARK_BYTES] ^= XID_CHANGE;
        return DamagedReply { reply, struck: Some(FaultKind::WrongXid), closes: false };
    }
    if state.draw_strike(plan.cut) {
        let closes = plan.cut_closes && is_stream;
        let mut reply = first_half(&reply);
        if !closes {
            // The half is a complete record, so the client finds the next one.
            let length = reply.head().len() - MARK_BYTES;
            let mark = (LAST_FRAGMENT | length as u32).to_be_bytes();
            reply.head()[..MARK_BYTES].copy_from_slice(&mark);
        }
        return DamagedReply { reply, struck: Some(FaultKind::Cut), closes };
    }
    if is_stream && state.draw_strike(plan.oversized) {
        reply.head()[..MARK_BYTES].copy_from_slice(&GREATEST_MARK);
        return DamagedReply { reply, struck: Some(FaultKind::Oversized), closes: false };
    }
    DamagedReply { reply, struck: None, closes: false }
}

/// The first half of a record, with the mark of the whole.
fn first_half(reply: &Outbox) -> Outbox {
    let mut bytes = reply.to_vec();
    let body = (bytes.len() - MARK_BYTES) / 2;
    bytes.truncate(MARK_BYTES + body);
    let mut half = Outbox::default();
    half.head().extend_from_slice(&bytes);
    half.seal();
    half
}
