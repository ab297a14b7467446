//! How a session goes on after the server has forgotten it, its client, or both.
//!
//! Operations of version 4 that such a server refused are held back, and [`Session::is_unbound`]
//! tells that a new binding is needed. The caller has another one bound, over a
//! connection of its own, and [`Session::resume`] takes its binding over: what is harmless is made
//! again in the new session, all else ends as [`CallError::Lost`].
//! **Source:** RFC 8881 section 8.4.2, RFC 7530 section 9.6.2.

use super::event::{Completed, Kind};
use super::operation::OperationKind;
use super::session::{Session, XID_AT};
use super::slot::SlotState;
use crate::status::Status;

#[cfg(doc)]
use crate::error::CallError;

impl Session {
    /// Tells whether operations wait for a new binding; until then nothing should be sent.
    pub fn is_unbound(&self) -> bool {
        self.unbound > 0
    }

    /// Returns how many calls were sent and have no reply yet.
    pub fn awaited(&self) -> usize {
        self.table.in_use().filter(|slot| slot.state == SlotState::Sent).count()
    }

    /// Goes on with the binding of another session of the same version, on its connection, which
    /// has no calls in flight.
    pub fn resume(&mut self, now_ns: u64, fresh: &Self) {
        self.counters.rebinds += 1;
        self.receiver.reset();
        self.queue.clear();
        (self.queue_offset, self.unbound) = (0, 0);
        self.callbacks.clear();
        self.dialect.resume(&fresh.dialect);
        self.table.limit(fresh.table.limit_count());
        for index in self.table.indices() {
            if !self.is_answered(index) {
                self.resume_slot(index, now_ns);
            }
        }
    }

    /// Holds an operation back whose session or client the server does not know.
    pub(super) fn holds(&mut self, completed: &Completed) -> bool {
        let slot = self.table.get_mut(completed.slot);
        let is_operation = matches!(slot.kind, Kind::File(_));
        let status = completed.result.err().and_then(|error| error.status());
        let opens = matches!(slot.kind, Kind::File(OperationKind::Open | OperationKind::Create));
        let held = is_operation && status.is_some_and(|status| refuses_client(status, opens));
        if held {
            self.table.set_state(completed.slot, SlotState::Unbound);
            self.unbound += 1;
        }
        held
    }

    fn resume_slot(&mut self, index: u32, now_ns: u64) {
        let limit = self.table.limit_count();
        let slot = self.table.get(index);
        // A call that was refused for its session was not made, unless an earlier copy of it was.
        let harmless = index < limit && (slot.idempotent || !slot.resent);
        let made_again = match slot.state {
            SlotState::Free | SlotState::Lost => return,
            SlotState::Sent => index < limit && slot.idempotent,
            SlotState::Queued | SlotState::Unbound | SlotState::Waiting => harmless,
        };
        if !made_again {
            self.lose(index, now_ns);
            return;
        }
        self.table.renew_xid(index);
        let slot = self.table.get_mut(index);
        slot.resent = slot.state != SlotState::Queued || slot.resent;
        slot.header[XID_AT..XID_AT + 4].copy_from_slice(&slot.xid.to_be_bytes());
        self.dialect.rebound(index, &mut slot.header);
        if slot.state != SlotState::Waiting {
            self.counters.replays += u64::from(slot.resent);
            self.enqueue(index);
        }
    }
}

/// Tells whether a server refuses the client and not what it asks for: of an OPEN, which names
/// nothing else that could have run out, `Expired` says so too.
///
/// **Source:** RFC 7530 sections 9.6.3.1 and 13.1.5.1.
pub(super) const fn refuses_client(status: Status, opens: bool) -> bool {
    is_unbound(status) || opens && matches!(status, Status::Expired)
}

/// Tells whether a server says that it does not know the session or the client.
pub const fn is_unbound(status: Status) -> bool {
    matches!(status, Status::BadSession | Status::DeadSession | Status::StaleClientId)
}
