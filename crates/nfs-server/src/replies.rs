//! Duplicate request cache: replies kept for calls that are sent again.
//!
//! A client that gets no reply repeats its call, and executing REMOVE twice would return NOENT. So
//! the replies to non-idempotent calls are kept for repeats. A call is identified by its sender,
//! xid, procedure and a checksum of its first bytes, since some clients restart their xids on the
//! same port. A repeat of a call that is still in progress, or whose reply is held back by a
//! planned fault, is ignored.
//!
//! Bounded in entries, oldest evicted first, and in bytes: a reply that is too large, or for which
//! there is no memory, is not kept, and its call is executed again. v4.1 has sessions for that.
//!
//! **Source:** RFC 1813 section 4.4; Juszczak, "Improving the Performance and Correctness of an NFS
//! Server", USENIX 1989.

use nfs_proto::rpc::ProcedureId;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::fs::{Budget, Charge};
use crate::limits::{CACHED_REPLY_BYTES, CACHED_REPLY_BYTES_MAX};
use crate::sync;

/// Number of parts with their own lock, so that threads seldom meet.
const SHARDS: usize = 16;

/// The properties that distinguish a call from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub(crate) peer: SocketAddr,
    pub(crate) xid: u32,
    pub(crate) procedure: ProcedureId,
    /// Checksum of the first bytes of the call.
    pub(crate) sum: u32,
}

/// The result of looking up a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallLookup {
    /// Not known: execute it, then call [`Replies::keep`] or [`Replies::forget`].
    New,
    /// It is in progress.
    Busy,
    /// It was answered with this reply.
    Answered(Vec<u8>),
}

#[derive(Debug)]
struct CachedReply {
    /// Empty while the call is in progress.
    reply: Vec<u8>,
    /// Time until which the reply is held back, on the monotonic clock.
    held_until_ns: u64,
    /// The charge for the reply's memory.
    charge: Option<Charge>,
}

#[derive(Debug, Default)]
struct Shard {
    kept: HashMap<CallKey, CachedReply>,
    /// Keys in order of arrival; those of forgotten calls remain until they are the oldest.
    order: VecDeque<CallKey>,
}

/// All replies kept; see the module.
#[derive(Debug)]
pub(crate) struct Replies {
    shards: Vec<Mutex<Shard>>,
    shard_entries_max: usize,
    hasher: RandomState,
    budget: Arc<Budget>,
}

impl Replies {
    /// Creates an empty cache for about `entries_max` replies, or fewer if a quarter of the budget
    /// holds fewer; 0 keeps nothing.
    pub(crate) fn new(entries_max: usize, budget: &Arc<Budget>) -> Self {
        let affordable = (budget.limit_bytes() / 4 / CACHED_REPLY_BYTES) as usize;
        let entries_max = entries_max.min(affordable.max(SHARDS));
        Self {
            budget: Arc::clone(budget),
            // Keys are hashed with a secret of this process, so no client can aim at one shard.
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_entries_max: entries_max.div_ceil(SHARDS),
            hasher: RandomState::new(),
        }
    }

    /// Whether it keeps any replies at all.
    pub(crate) fn is_on(&self) -> bool {
        self.shard_entries_max > 0
    }

    /// Looks up a call, and records a new one as in progress.
    pub(crate) fn begin(&self, key: CallKey, now_ns: u64) -> CallLookup {
        let mut shard = self.lock(&key);
        // While the first call is in progress, or its reply is held back, a repeat is dropped: the
        // client will get that reply. Answering the repeat would mean a second reply with the same
        // xid.
        if let Some(kept) = shard.kept.get(&key) {
            if kept.reply.is_empty() || now_ns < kept.held_until_ns {
                return CallLookup::Busy;
            }
            return CallLookup::Answered(kept.reply.clone());
        }
        // `order`, not `kept`, is bounded: a key whose reply was too large to keep stays in `order`
        // until its turn, and both have to stay within the limit.
        if shard.order.len() >= self.shard_entries_max
            && let Some(oldest) = shard.order.pop_front()
        {
            shard.kept.remove(&oldest);
        }
        shard.order.push_back(key);
        shard.kept.insert(key, CachedReply { reply: Vec::new(), held_until_ns: 0, charge: None });
        CallLookup::New
    }

    /// Keeps the reply of a new call, unless it is too large.
    pub(crate) fn keep(&self, key: CallKey, reply: Vec<u8>) {
        let bytes = CACHED_REPLY_BYTES + reply.capacity() as u64;
        let charge = Charge::take(&self.budget, bytes).ok();
        let mut shard = self.lock(&key);
        if reply.len() > CACHED_REPLY_BYTES_MAX || charge.is_none() {
            shard.kept.remove(&key);
        } else if let Some(kept) = shard.kept.get_mut(&key) {
            kept.reply = reply;
            kept.charge = charge;
        }
    }

    /// Records until when a reply is held back.
    pub(crate) fn hold(&self, key: CallKey, until_ns: u64) {
        if let Some(kept) = self.lock(&key).kept.get_mut(&key) {
            kept.held_until_ns = until_ns;
        }
    }

    /// Forgets all replies.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *sync::lock(shard) = Shard::default();
        }
    }

    fn lock(&self, key: &CallKey) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        sync::lock(&self.shards[shard])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(xid: u32) -> CallKey {
        let peer = SocketAddr::from(([127, 0, 0, 1], 700));
        CallKey { peer, xid, procedure: ProcedureId::new(100_003, 3, 12), sum: 5 }
    }

    #[test]
    fn a_repeat_gets_the_first_reply() {
        let replies = Replies::new(64, &Budget::new(1 << 20));
        assert_eq!(replies.begin(key(1), 0), CallLookup::New);
        assert_eq!(replies.begin(key(1), 0), CallLookup::Busy);
        replies.keep(key(1), b"done".to_vec());
        assert_eq!(replies.begin(key(1), 0), CallLookup::Answered(b"done".to_vec()));
        let others = [
            CallKey { sum: 6, ..key(1) },
            CallKey { procedure: ProcedureId::new(100_003, 3, 13), ..key(1) },
            CallKey { peer: SocketAddr::from(([127, 0, 0, 1], 701)), ..key(1) },
            key(2),
        ];
        assert!(others.iter().all(|other| replies.begin(*other, 0) == CallLookup::New));
        replies.clear();
        assert_eq!(replies.begin(key(1), 0), CallLookup::New);
    }

    #[test]
    fn ignores_repeat_while_reply_is_held() {
        let replies = Replies::new(64, &Budget::new(1 << 20));
        replies.begin(key(1), 0);
        replies.keep(key(1), b"done".to_vec());
        replies.hold(key(1), 100);
        assert_eq!(replies.begin(key(1), 99), CallLookup::Busy);
        assert_eq!(replies.begin(key(1), 100), CallLookup::Answered(b"done".to_vec()));
    }

    #[test]
    fn charges_kept_replies() {
        let budget = Budget::new(64 << 10);
        let replies = Replies::new(4096, &budget);
        for xid in 0..10_000 {
            replies.begin(key(xid), 0);
            replies.keep(key(xid), vec![1; 4000]);
            assert!(budget.used_bytes() <= 64 << 10);
        }
        assert!(budget.used_bytes() > 0);
        // A reply for which there is no memory is not kept, and its call is executed again.
        let _full = Charge::force(&budget, 64 << 10);
        replies.begin(key(20_000), 0);
        replies.keep(key(20_000), vec![1]);
        assert_eq!(replies.begin(key(20_000), 0), CallLookup::New);
        replies.clear();
        assert_eq!(budget.used_bytes(), 64 << 10);
    }

    #[test]
    fn evicts_oldest_and_large_replies_first() {
        let replies = Replies::new(4 * SHARDS, &Budget::new(1 << 20));
        for xid in 0..10_000 {
            replies.begin(key(xid), 0);
            replies.keep(key(xid), vec![1]);
        }
        assert_eq!(replies.begin(key(9_999), 0), CallLookup::Answered(vec![1]));
        assert_eq!(replies.begin(key(0), 0), CallLookup::New);
        replies.keep(key(0), vec![0; CACHED_REPLY_BYTES_MAX + 1]);
        assert_eq!(replies.begin(key(0), 0), CallLookup::New);
        let bounded = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap();
            shard.order.len() <= 4 && shard.kept.len() <= 4
        };
        assert!(replies.shards.iter().all(bounded));
    }
}
