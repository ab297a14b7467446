//! Asynchronous copies: begun by a COPY, continued in the background, reported to the client.
//!
//! A [`BackgroundCopy`] belongs to its client and has a stateid of its own. It pins both files, so
//! it continues after they are closed or removed, and ends with the client's lease, a restart or
//! OFFLOAD_CANCEL. Once the data is copied, CB_OFFLOAD reports the result, and the client's answer
//! ends the stateid; until then OFFLOAD_STATUS returns the result, too.
//!
//! **Source:** RFC 7862 sections 4.8, 15.2, 15.8, 15.9 and 16.1.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;
use nfs_proto::nfs4::sequence_status::{CB_PATH_DOWN, CB_PATH_DOWN_SESSION};

use super::Tables;
use super::background_copy::{BackgroundCopy, COPY_KEY, CopyStart, GENERATION};
use super::client::Requester;
use super::held_state::client_and_key;
use super::session::Session;

impl Tables {
    /// Begins a copy in the background; `None` if the client can't be told its end, or if there are
    /// too many.
    pub(crate) fn begin_copy(
        &self,
        session: &Session,
        start: CopyStart,
    ) -> Option<Arc<BackgroundCopy>> {
        if !session.backchannel.is_alive() {
            return None;
        }
        let mut holdings = session.client.lock();
        if holdings.dead {
            return None;
        }
        let charge = self.charge_state()?;
        let begin = |key| BackgroundCopy::new(key, &session.client, session.key, start, charge);
        let copy = self.copies.insert(begin)?;
        holdings.copies.push(copy.key);
        holdings.running_copies += 1;
        Some(copy)
    }

    /// Finds a copy, and renews its client's lease.
    ///
    /// # Errors
    /// `BadStateid`, also for another client's copy and for one that is over.
    pub(crate) fn find_copy(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        now_ns: u64,
    ) -> Result<Arc<BackgroundCopy>, Status> {
        let Requester::Session(client) = requester else { return Err(Status::BadStateid) };
        let (number, key) = client_and_key(stateid);
        let is_valid = key & COPY_KEY != 0 && stateid.seqid == GENERATION;
        let found = self.copies.get(key & !COPY_KEY).filter(|copy| {
            is_valid && number == client.number() && Arc::ptr_eq(client, &copy.client)
        });
        client.renew(now_ns);
        found.filter(|copy| copy.is_live()).ok_or(Status::BadStateid)
    }

    /// Records that a copy has ended with this status; returns false if it was over before.
    #[expect(clippy::unused_self, reason = "it changes the tables' client")]
    pub(crate) fn end_copy(&self, copy: &BackgroundCopy, status: Status) -> bool {
        let mut holdings = copy.client.lock();
        let is_ended = !holdings.dead && copy.is_live() && copy.end(status);
        holdings.running_copies -= usize::from(is_ended);
        is_ended
    }

    /// Reports the end of a copy.
    pub(crate) fn report_copy(&self, copy: &Arc<BackgroundCopy>) {
        let sessions = copy.client.lock().sessions.clone();
        if let Some(session) = self.sessions.get(copy.session)
            && session.backchannel.report(copy)
        {
            return;
        }
        for key in sessions.into_iter().filter(|key| *key != copy.session) {
            if self.sessions.get(key).is_some_and(|session| session.backchannel.report(copy)) {
                return;
            }
        }
        // The first session reports it once the client has bound a connection again.
        copy.client.raise_flags(CB_PATH_DOWN | CB_PATH_DOWN_SESSION);
    }

    /// Reports the end of a copy again if the connection of the report is lost.
    pub(crate) fn check_report(&self, copy: &BackgroundCopy) {
        if let Some(session) = self.sessions.get(copy.session) {
            session.backchannel.check_in_flight();
        }
    }

    /// Forgets a copy that was cancelled, or whose end the client has confirmed.
    pub(crate) fn forget_copy(&self, copy: &BackgroundCopy) {
        let mut holdings = copy.client.lock();
        if holdings.dead {
            return;
        }
        holdings.copies.retain(|key| *key != copy.key);
        if copy.is_live() && copy.end(Status::Expired) {
            holdings.running_copies -= 1;
        }
        self.drop_copy(copy.key);
    }

    /// Removes a copy from the table; its client's holdings no longer have it.
    pub(super) fn drop_copy(&self, key: u64) {
        let Some(copy) = self.copies.remove(key) else { return };
        copy.end_stateid();
    }
}
