//! How a session goes on after the server has forgotten it, its client, or both.
//!
//! Operations of version 4 that such a server refused are held back, and [`Session::is_unbound`]
//! tells that a new binding is needed. The caller has another one bound, over a
//! connection of its own, and [`Session::resume`] takes its binding over: what is harmless is made
//! again in the new session, all else ends as [`CallError::Lost`].
//! **Source:** RFC 8881 section 8.4.2, RFC 7530 section 9.6.2.

use super::event::Completed;
use super::operation::{Kind, OperationKind};
use super::session::{Session, XID_AT};
use super::slot::SlotState;
use crate::status::Status;

#[cfg(doc)]
use crate::status::CallError;

impl Session {
    /// Tells whether operations wait for a new binding; until then nothing should be sent.
    pub fn is_unbound(&self) -> bool {
        self.unbound > 0
    }

    /// Returns how many calls were sent and have no reply yet.
    pub fn awaited_calls(&self) -> usize {
        self.table.in_use().filter(|slot| slot.state == SlotState::Sent).count()
    }

    /// Goes on with the binding of another session of the same version, on its connection, which
    /// has no calls in flight.
    pub fn resume(&mut self, now_ns: u64, fresh: &Self) {
        self.counters.rebinds += 1;
        self.receiver.reset_stream();
        self.queue.clear();
        (self.queue_offset, self.unbound) = (0, 0);
        self.callbacks.clear();
        self.dialect.adopt_binding(&fresh.dialect);
        self.table.limit_to(fresh.table.limit_count());
        for index in self.table.indices() {
            if !self.is_answered(index) {
                self.resume_slot(index, now_ns);
            }
        }
    }

    /// Holds an operation back whose session or client the server does not know.
    pub(super) fn hold_if_refused(&mut self, completed: &Completed) -> bool {
        let Err(error) = completed.result else { return false };
        let Some(status) = error.status() else { return false };
        // Raw calls belong to set-up and recovery, which handle such a refusal themselves.
        let held = match self.table.get(completed.slot).kind {
            Kind::File(OperationKind::Open | OperationKind::Create) => refuses_opener(status),
            Kind::File(_) => is_unbound(status),
            Kind::Raw { .. } => false,
        };
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
        // Calls in flight may have been carried out by the server before it forgot the session;
        // only idempotent ones can be made again. Those that it has refused, or that were never
        // sent, have done nothing.
        let made_again = match slot.state {
            SlotState::Free | SlotState::Lost => return,
            SlotState::Sent => index < limit && slot.idempotent,
            SlotState::Queued | SlotState::Unbound | SlotState::Waiting => harmless,
        };
        if !made_again {
            self.lose_call(index, now_ns);
            return;
        }
        self.table.renew_xid(index);
        let slot = self.table.get_mut(index);
        // A call that was still queued has not been sent, so that its time begins with the write to
        // come.
        slot.resent = slot.state != SlotState::Queued || slot.resent;
        slot.header[XID_AT..XID_AT + 4].copy_from_slice(&slot.xid.to_be_bytes());
        self.dialect.rebind_call(index, &mut slot.header);
        if slot.state != SlotState::Waiting {
            self.counters.replays += u64::from(slot.resent);
            self.enqueue_call(index);
        }
    }
}

/// Tells whether a server refuses the client of an OPEN and not the open: since an OPEN names
/// nothing else that could have run out, `Expired` says so too.
///
/// **Source:** RFC 7530 sections 9.6.3.1 and 13.1.5.1.
pub(super) const fn refuses_opener(status: Status) -> bool {
    is_unbound(status) || matches!(status, Status::Expired)
}

/// Tells whether a server says that it does not know the session or the client.
pub const fn is_unbound(status: Status) -> bool {
    matches!(status, Status::BadSession | Status::DeadSession | Status::StaleClientId)
}
