//! The session of a v4.1 client, and how its connections share the slots.
//!
//! A slot belongs to one connection at a time, so its sequence number is the state of one thread
//! and a call takes no lock. [`SharedSession`] hands out slots to connections when they are opened
//! and gets them back when they are closed; a slot whose last call had no reply is not reused,
//! since its next sequence number is unknown. Each session has its own pool, so that slots of an
//! earlier one go where no connection takes them. **Source:** RFC 8881 sections 2.10.3 and
//! 2.10.6.1.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs_proto::client::{SessionSlot, SlotShare};
use nfs_proto::limits::RECORD_OVERHEAD_BYTES;
use nfs_proto::nfs4::{ChannelAttributes, SessionId};

use super::recovery::RENEWAL_SLOTS;
use crate::options::SessionPlan;

/// How many slots a client requests for its session, and for how many connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionSize {
    /// Connections that share the slots not used by the mount's own.
    connections: u32,
    /// Slots of the mount's own connection.
    reserved: u32,
    /// Total number of slots.
    pub(super) slots: u32,
}

impl SessionSize {
    /// The session of a mount, whose own connection makes one call at a time.
    pub(crate) fn for_mount(plan: SessionPlan) -> Self {
        Self::from_plan(plan, 1)
    }

    /// The session of a client with one connection.
    pub(crate) fn for_one_connection(slots: usize) -> Self {
        Self::from_plan(SessionPlan { connections: 1, slots: slots as u32 }, 0)
    }

    fn from_plan(plan: SessionPlan, reserved: u32) -> Self {
        let SessionPlan { connections, slots } = plan;
        let each = slots.saturating_add(RENEWAL_SLOTS as u32);
        let slots = each.saturating_mul(connections).saturating_add(reserved);
        Self { connections: connections.max(1), reserved, slots }
    }
}

/// The limits that the server granted a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantedLimits {
    pub(crate) read_bytes: u32,
    pub(crate) write_bytes: u32,
}

impl GrantedLimits {
    pub(super) fn from_channel(channel: &ChannelAttributes) -> Self {
        Self {
            read_bytes: payload_bytes(channel.response_bytes_max),
            write_bytes: payload_bytes(channel.request_bytes_max),
        }
    }
}

/// Returns the largest payload of a channel's messages; at least what any server supports.
fn payload_bytes(message_bytes: u32) -> u32 {
    message_bytes.saturating_sub(RECORD_OVERHEAD_BYTES as u32).max(4096)
}

/// The session shared by a client's connections.
#[derive(Debug)]
pub(super) struct SharedSession {
    pub(super) id: SessionId,
    pub(super) granted: GrantedLimits,
    slots: u32,
    pool: Arc<Mutex<Pool>>,
}

/// The state that changes when connections are opened and closed.
#[derive(Debug)]
struct Pool {
    /// Number of connections that have slots of the session.
    users: u32,
    /// Slots that no connection uses.
    free: Vec<SessionSlot>,
}

impl SharedSession {
    pub(super) fn new(id: SessionId, channel: &ChannelAttributes) -> Self {
        let slots = channel.requests_max;
        let free = (0..slots).rev().map(SessionSlot::unused).collect();
        let pool = Arc::new(Mutex::new(Pool { users: 0, free }));
        Self { id, granted: GrantedLimits::from_channel(channel), slots, pool }
    }

    /// Returns the number of connections that have slots of the session.
    pub(super) fn users(&self) -> u32 {
        lock_pool(&self.pool).users
    }

    /// Makes a connection a user of the session.
    pub(super) fn add_user(&self) -> SessionUser {
        lock_pool(&self.pool).users += 1;
        SessionUser { shared: Some(Arc::clone(&self.pool)) }
    }

    /// Hands out `wanted` slots to a connection, or fewer if the server granted fewer than
    /// requested; then each connection gets the same number. `None` if not enough are left.
    pub(super) fn take_slots(&self, wanted: u32, size: SessionSize) -> Option<Vec<SessionSlot>> {
        // If the server granted fewer slots than the plan needs, the first connections would take
        // all and the last would have none. Each gets the same share instead, at least one.
        let mut count = wanted;
        if self.slots < size.slots {
            let share = self.slots.saturating_sub(size.reserved) / size.connections;
            count = wanted.min(share.max(1));
        }
        let mut pool = lock_pool(&self.pool);
        let kept = pool.free.len().checked_sub(count as usize)?;
        // The pool is a stack with the lowest slot on top. Low slots are used first, because a
        // server that lowers its limit (`sr_target_highest_slotid`) retires the high ones: RFC 8881
        // section 2.10.6.1. A connection's slots are in ascending order, as its table requires.
        let mut slots = pool.free.split_off(kept);
        slots.reverse();
        Some(slots)
    }

    /// Returns slots in the form used for binding a connection to them.
    pub(super) fn share<'a>(&self, slots: &'a [SessionSlot]) -> SlotShare<'a> {
        // SEQUENCE contains the highest slot of the whole session, not of this share: a server may
        // free the reply cache of slots above that number.
        SlotShare { slots, highest_slot: self.slots - 1 }
    }
}

/// Marks a connection as a user of a session until it is dropped.
#[derive(Debug)]
pub(crate) struct SessionUser {
    /// The pool of a session that other connections also use.
    shared: Option<Arc<Mutex<Pool>>>,
}

impl SessionUser {
    /// Makes the only user of a session.
    pub(super) const fn of_own() -> Self {
        Self { shared: None }
    }

    /// Returns slots to the session, for the next connection that is opened.
    pub(super) fn return_slots(&self, slots: impl Iterator<Item = SessionSlot>) {
        if let Some(pool) = &self.shared {
            // Each slot comes with its sequence number: the next connection continues from there,
            // or the server would take its first call for a retry of the last one.
            lock_pool(pool).free.extend(slots);
        }
    }
}

impl Drop for SessionUser {
    fn drop(&mut self) {
        if let Some(pool) = &self.shared {
            lock_pool(pool).users -= 1;
        }
    }
}

fn lock_pool(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}
