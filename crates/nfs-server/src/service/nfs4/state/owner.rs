//! Owners of opens and locks, and in v4.0 their own sequence of calls.
//!
//! In v4.0 each owner numbers its calls and the server keeps the reply to the last one, so that a
//! retransmitted call is answered but not executed again. While a call is in progress, the same
//! call gets DELAY. v4.1 has sessions for that and uses only the map of states.
//!
//! **Source:** RFC 7530 section 9.1.7.

use std::collections::HashMap;
use std::sync::Arc;

use nfs_proto::Status;

use crate::fs::{Charge, InodeId};

/// An owner of opens or locks.
#[derive(Debug)]
pub(super) struct Owner {
    /// Its states by file, at most one each.
    pub(super) states: HashMap<InodeId, u64>,
    /// Whether OPEN_CONFIRM was received or is not needed.
    pub(super) confirmed: bool,
    /// A closed state, remembered for a retransmitted CLOSE.
    pub(super) closed: Option<u64>,
    /// Time of last use, to choose which owner to forget.
    pub(super) used_ns: u64,
    sequence: u32,
    busy: bool,
    last: Option<LastReply>,
    charge: Charge,
}

/// The reply to an owner's last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastReply {
    /// The results of the operation, exactly as sent.
    pub(crate) bytes: Arc<[u8]>,
    /// The current file handle after OPEN.
    pub(crate) file: Option<InodeId>,
}

/// How to treat a call, given its sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerTurn {
    /// Execute it, then call `finish`.
    New,
    /// Answer with this reply.
    Replay(LastReply),
}

impl Owner {
    /// Makes an owner; in v4.0 it expects `sequence` in its first call.
    pub(super) fn starting_at(sequence: u32, charge: Charge) -> Self {
        Self {
            states: HashMap::new(),
            confirmed: false,
            closed: None,
            used_ns: 0,
            sequence: sequence.wrapping_sub(1),
            busy: false,
            last: None,
            charge,
        }
    }

    /// Orders a call by its sequence number; a new one makes the owner busy.
    ///
    /// # Errors
    /// `BadSeqid`; `Jukebox` while the same call is in progress.
    pub(super) fn begin(&mut self, sequence: u32, now_ns: u64) -> Result<OwnerTurn, Status> {
        self.used_ns = now_ns;
        if sequence == self.sequence.wrapping_add(1) {
            if std::mem::replace(&mut self.busy, true) {
                return Err(Status::Jukebox);
            }
            return Ok(OwnerTurn::New);
        }
        match &self.last {
            Some(last) if sequence == self.sequence => Ok(OwnerTurn::Replay(last.clone())),
            _ => Err(Status::BadSeqid),
        }
    }

    /// Ends a call: with a reply it counts, without one the sequence does not advance.
    pub(super) fn finish(&mut self, sequence: u32, reply: Option<LastReply>) {
        self.busy = false;
        if reply.is_some() {
            let bytes = |last: &Option<LastReply>| last.as_ref().map_or(0, |it| it.bytes.len());
            let own = self.charge.bytes() - bytes(&self.last) as u64;
            self.charge.force_to(own + bytes(&reply) as u64);
            self.sequence = sequence;
            self.last = reply;
        }
    }

    /// Whether only the reply to the last call would be lost.
    pub(super) fn is_idle(&self) -> bool {
        self.states.is_empty() && !self.busy
    }

    /// Whether it has not had a reply yet.
    pub(super) fn is_new(&self) -> bool {
        self.last.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Budget;

    fn owner(sequence: u32) -> Owner {
        Owner::starting_at(sequence, Charge::force(&Budget::new(1000), 100))
    }

    fn reply(text: &[u8]) -> LastReply {
        LastReply { bytes: Arc::from(text), file: None }
    }

    #[test]
    fn repeats_missed_reply() {
        let mut owner = owner(7);
        assert_eq!(owner.begin(6, 0), Err(Status::BadSeqid), "no reply to replay yet");
        assert_eq!(owner.begin(7, 0), Ok(OwnerTurn::New));
        assert_eq!(owner.begin(7, 0), Err(Status::Jukebox), "the call is in flight");
        owner.finish(7, Some(reply(b"seven")));
        assert_eq!(owner.begin(7, 0), Ok(OwnerTurn::Replay(reply(b"seven"))));
        assert_eq!(owner.charge.bytes(), 105);
        assert_eq!(owner.begin(9, 0), Err(Status::BadSeqid));
        assert_eq!(owner.begin(8, 0), Ok(OwnerTurn::New));
        owner.finish(8, None);
        assert_eq!(owner.begin(8, 0), Ok(OwnerTurn::New), "uncounted calls can be repeated");
        assert_eq!(owner.begin(7, 0), Ok(OwnerTurn::Replay(reply(b"seven"))));
    }

    #[test]
    fn numbers_wrap_around() {
        let mut owner = owner(u32::MAX);
        assert_eq!(owner.begin(u32::MAX, 0), Ok(OwnerTurn::New));
        owner.finish(u32::MAX, Some(reply(b"last")));
        assert_eq!(owner.begin(0, 0), Ok(OwnerTurn::New));
    }
}
