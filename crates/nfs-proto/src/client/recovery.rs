//! Calls that are sent again, and when.
//!
//! Datagrams without a reply are retransmitted with growing waits. After a connection is lost its
//! calls are sent again if that does no harm: all calls of a v4.1 session, whose slots make them
//! exactly-once, otherwise the idempotent ones; the others end as [`CallError::Lost`]. If a server
//! answers "try later", the call is made again, within the session's patience. All of this is
//! counted. **Source:** RFC 8881 section 2.10.6, RFC 1813 section 4.3, nfs(5).

use super::dialect::{AfterReply, Delivery};
use super::event::Completed;
use super::operation::Kind;
use super::session::{ANSWERS, Session, XID_AT};
use super::slot::SlotState;
use super::types::Framing;
use crate::limits::{DELAY_NS_MAX, DELAY_NS_MIN, RETRANSMIT_NS_MAX};
use crate::status::{CallError, Status};

impl Session {
    /// Returns the earliest time at which [`Session::handle_timeout`] has something to do.
    pub fn next_timeout_ns(&self) -> Option<u64> {
        (self.timer_ns != u64::MAX).then_some(self.timer_ns)
    }

    /// Queues the calls whose retransmission time has passed. Free if there are none.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if now_ns < self.timer_ns {
            return;
        }
        self.timer_ns = u64::MAX;
        // One timer for all slots: the earliest of theirs, recomputed by scanning them. That
        // happens at most once per timeout and never for a reply.
        for index in self.table.indices() {
            let slot = self.table.get(index);
            let timed = match slot.state {
                SlotState::Waiting => true,
                SlotState::Sent => self.framing == Framing::Datagram && !self.is_answered(index),
                _ => false,
            };
            if !timed {
                continue;
            }
            if slot.retry_at_ns > now_ns {
                self.timer_ns = self.timer_ns.min(slot.retry_at_ns);
            } else if slot.state == SlotState::Sent {
                self.retransmit_call(index, now_ns);
            } else {
                self.ask_again(index);
            }
        }
    }

    /// Starts over on a new connection: calls in flight are queued again, or end as
    /// [`CallError::Lost`] if they must not be executed twice.
    pub fn reconnected(&mut self, now_ns: u64) {
        self.counters.reconnects += 1;
        self.receiver.reset_stream();
        self.queue_offset = 0;
        self.queue.retain(|index| *index != ANSWERS);
        self.callbacks.clear();
        for index in self.table.indices() {
            if self.table.get(index).state != SlotState::Sent || self.is_answered(index) {
                continue;
            }
            // The server caches the reply of each slot of a session and answers a repeated sequence
            // number from there (RFC 8881 section 2.10.6.1), so any call may be sent again. Without
            // sessions, a call executed before the loss would be executed twice.
            let exactly_once = self.dialect.is_exactly_once(index);
            let slot = self.table.get_mut(index);
            if slot.idempotent || exactly_once {
                slot.resent = true;
                self.table.set_state(index, SlotState::Queued);
                // Ahead of calls that were never sent, so that the oldest ones are not the last to
                // be answered.
                self.queue.push_front(index);
                self.counters.replays += 1;
            } else {
                self.lose_call(index, now_ns);
            }
        }
    }

    /// Sets the time at which a call that was just sent is sent again.
    pub(super) fn set_timer(&mut self, index: u32, now_ns: u64) {
        if self.framing == Framing::Datagram {
            let slot = self.table.get_mut(index);
            let first_ns = self.congestion.timeout_ns(slot.kind, self.retry.timeo_ns);
            // Each retransmission waits twice as long as the one before (nfs(5), `timeo`), since
            // more calls don't help an overloaded server.
            let wait_ns = first_ns.saturating_mul(1 << slot.retransmissions.min(16));
            slot.last_sent_ns = now_ns;
            slot.retry_at_ns = now_ns.saturating_add(wait_ns.min(RETRANSMIT_NS_MAX));
            self.timer_ns = self.timer_ns.min(slot.retry_at_ns);
        }
    }

    /// Handles a reply: it completes its call, defers it, or leads to another one.
    pub(super) fn handle_reply(&mut self, completed: &Completed) {
        let index = completed.slot;
        self.withdraw_from_queue(index);
        let slot = self.table.get(index);
        // Karn's rule: the reply to a call that was sent twice may belong to either copy, so its
        // time says nothing about the round trip. RFC 6298 section 3.
        if self.framing == Framing::Datagram && !slot.resent {
            let round_trip_ns = completed.done_ns.saturating_sub(slot.last_sent_ns);
            self.congestion.note_reply(slot.kind, round_trip_ns);
        }
        if let Kind::File(_) | Kind::COMPOUND = self.table.get(index).kind {
            let body = self.receiver.body_from(completed.body_at);
            let slot = self.table.get_mut(index);
            if self.dialect.note_reply(index, slot, body) == AfterReply::Again {
                self.counters.follow_ups += 1;
                self.ask_again(index);
                return;
            }
        }
        if self.hold_if_refused(completed) {
            return;
        }
        let slot = self.table.get_mut(index);
        slot.answered_xid = Some(slot.xid);
        // JUKEBOX and DELAY mean that the server is fetching the data, GRACE that it is waiting for
        // reclaims after a restart. The call is made again later, within the user's patience, and
        // counted.
        let wait_ns = (DELAY_NS_MIN << slot.delays.min(16)).min(DELAY_NS_MAX);
        let retry_at_ns = completed.done_ns.saturating_add(wait_ns);
        let patient = retry_at_ns <= slot.started_ns.saturating_add(self.retry.patience_ns);
        if is_later(completed) && patient {
            slot.delays += 1;
            slot.retry_at_ns = retry_at_ns;
            self.table.set_state(index, SlotState::Waiting);
            self.timer_ns = self.timer_ns.min(retry_at_ns);
            self.counters.delays += 1;
        } else {
            self.completed = Some(*completed);
        }
    }

    /// Ends a call whose reply will never come.
    pub(super) fn lose_call(&mut self, index: u32, now_ns: u64) {
        let slot = self.table.get_mut(index);
        slot.retry_at_ns = now_ns;
        self.table.set_state(index, SlotState::Lost);
        self.lost += 1;
        self.counters.lost_calls += 1;
        self.dialect.abandon_call(index, Delivery::Sent);
    }

    /// Returns the next call that was lost, as an event.
    pub(super) fn take_lost(&mut self) -> Option<Completed> {
        if self.lost == 0 {
            return None;
        }
        let is_lost = |index: &u32| self.table.get(*index).state == SlotState::Lost;
        let slot = self.table.indices().find(is_lost)?;
        self.lost -= 1;
        let done_ns = self.table.get(slot).retry_at_ns;
        let result = Err(CallError::Lost);
        Some(Completed { slot, done_ns, result, body_at: usize::MAX, payload_bytes: 0 })
    }

    /// Sends a datagram again unchanged: the server may recognize its xid.
    fn retransmit_call(&mut self, index: u32, now_ns: u64) {
        let slot = self.table.get_mut(index);
        self.congestion.timed_out(slot.last_sent_ns, now_ns);
        // A major timeout: after `retrans` retransmissions the waits start over from the first one,
        // as for a hard mount.
        if slot.retransmissions >= self.retry.retrans {
            slot.retransmissions = 0;
            self.counters.major_timeouts += 1;
        } else {
            slot.retransmissions += 1;
        }
        slot.resent = true;
        self.table.set_state(index, SlotState::Queued);
        self.counters.retransmissions += 1;
        // Ahead of calls that were never sent: the window may hold those back for long.
        self.queue.push_front(index);
    }

    /// Makes an answered call again: with another xid, or a server would return the cached reply.
    fn ask_again(&mut self, index: u32) {
        // A retransmission keeps its xid, so that the server's reply cache recognizes it. This call
        // was answered: with the same xid we would get that answer again.
        self.table.renew_xid(index);
        let slot = self.table.get_mut(index);
        slot.resent = true;
        slot.retransmissions = 0;
        slot.header[XID_AT..XID_AT + 4].copy_from_slice(&slot.xid.to_be_bytes());
        self.dialect.prepare_resend(index, &mut slot.header);
        self.enqueue_call(index);
    }

    /// Removes a call from the queue because its reply arrived before its retransmission was sent.
    fn withdraw_from_queue(&mut self, index: u32) {
        if self.table.get(index).state == SlotState::Queued {
            self.queue.retain(|queued| *queued != index);
            self.table.set_state(index, SlotState::Sent);
        }
    }

    /// Returns true if the reply of this slot is waiting to be taken.
    pub(super) fn is_answered(&self, index: u32) -> bool {
        self.completed.is_some_and(|completed| completed.slot == index)
    }
}

/// Returns true if the server asks to try again later.
fn is_later(completed: &Completed) -> bool {
    let Err(error) = &completed.result else { return false };
    matches!(error.status(), Some(Status::Jukebox | Status::Grace))
}
