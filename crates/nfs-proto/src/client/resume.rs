//! Continues a session after the server has forgotten it, its client, or both.
//!
//! v4 operations refused by such a server are held back, and [`Session::is_unbound`] reports that a
//! new binding is needed. The caller binds another session on its own connection, and
//! [`Session::resume`] takes over that binding: harmless calls are made again in the new session,
//! all others end as [`CallError::Lost`]. **Source:** RFC 8881 section 8.4.2, RFC 7530 section
//! 9.6.2.

use super::event::Completed;
use super::operation::{Kind, OperationKind};
use super::session::{Session, XID_AT};
use super::slot::SlotState;
use crate::status::Status;

#[cfg(doc)]
use crate::status::CallError;

impl Session {
    /// Returns true if operations are waiting for a new binding; until then nothing should be sent.
    pub fn is_unbound(&self) -> bool {
        self.unbound > 0
    }

    /// Returns the number of calls sent that have no reply yet.
    pub fn awaited_calls(&self) -> usize {
        self.table.in_use().filter(|slot| slot.state == SlotState::Sent).count()
    }

    /// Continues with the binding of another session of the same version, on its connection, which
    /// has no calls in flight.
    pub fn resume(&mut self, now_ns: u64, fresh: &Self) {
        self.counters.rebinds += 1;
        self.receiver.reset_stream();
        self.queue.clear();
        self.queue_offset = 0;
        self.unbound = 0;
        self.callbacks.clear();
        self.dialect.adopt_binding(&fresh.dialect);
        self.table.limit_to(fresh.table.limit_count());
        for index in self.table.indices() {
            if !self.is_answered(index) {
                self.resume_slot(index, now_ns);
            }
        }
    }

    /// Holds back an operation if the server does not know its session or client.
    pub(super) fn hold_if_refused(&mut self, completed: &Completed) -> bool {
        let Err(error) = completed.result else { return false };
        let Some(status) = error.status() else { return false };
        // Raw calls are for setup and recovery, which handle such a refusal themselves.
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
        // A call refused because of its session was not executed, unless an earlier copy of it was.
        let harmless = index < limit && (slot.idempotent || !slot.resent);
        // Calls in flight may have been executed before the server forgot the session; only
        // idempotent ones can be made again. Those that it refused, or that were never sent, have
        // had no effect.
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
        // A call that was still queued has not been sent, so its time starts with the coming write.
        slot.resent = slot.state != SlotState::Queued || slot.resent;
        slot.header[XID_AT..XID_AT + 4].copy_from_slice(&slot.xid.to_be_bytes());
        self.dialect.rebind_call(index, &mut slot.header);
        if slot.state != SlotState::Waiting {
            self.counters.replays += u64::from(slot.resent);
            self.enqueue_call(index);
        }
    }
}

/// Returns true if a server refuses the client of an OPEN rather than the open: an OPEN refers to
/// nothing else that could have expired, so `Expired` also means that.
///
/// **Source:** RFC 7530 sections 9.6.3.1 and 13.1.5.1.
pub(super) const fn refuses_opener(status: Status) -> bool {
    is_unbound(status) || matches!(status, Status::Expired)
}

/// Returns true if the status means that the server does not know the session or the client.
pub const fn is_unbound(status: Status) -> bool {
    matches!(status, Status::BadSession | Status::DeadSession | Status::StaleClientId)
}
