//! From the stateid in a call to the state behind it.
//!
//! **Source:** RFC 7530 sections 9.1.4 and 9.1.5, RFC 8881 section 8.2.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::Tables;
use super::client::{Client, Requester};
use super::held_state::{Share, State, WRITE, client_and_key};
use crate::fs::InodeId;

impl Tables {
    /// Finds a state and renews its client's lease; the generation is not checked.
    ///
    /// # Errors
    /// `BadStateid`, `StaleStateid` or `Expired`.
    pub(crate) fn find_state(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        if stateid.is_special() {
            return Err(Status::BadStateid);
        }
        // A stateid contains the client and the state as numbers that are never reused, so a
        // stateid of an ended state, of another client or of another start is recognized without a
        // list of old ones (RFC 7530 section 9.1.4.2, RFC 8881 section 8.2.4).
        let (number, key) = client_and_key(stateid);
        let Some(state) = self.states.get(key) else {
            return Err(self.unknown_stateid_status(number, requester, now_ns));
        };
        let is_own = match requester {
            Requester::WithoutSession => !state.client.has_sessions(),
            Requester::Session(client) => Arc::ptr_eq(client, &state.client),
        };
        if state.client.number() != number || !is_own {
            return Err(Status::BadStateid);
        }
        if state.client.is_expired(now_ns, self.lease_ns) {
            self.forget(&state.client);
            return Err(Status::Expired);
        }
        state.client.renew(now_ns);
        Ok(state)
    }

    /// Finds the state for a call on a file.
    ///
    /// # Errors
    /// Those of `find_state`; `OldStateid` or `BadStateid` for another generation or file, or if it
    /// is closed.
    pub(crate) fn find_on(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        file: InodeId,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        let state = self.find_state(stateid, requester, now_ns)?;
        if !state.is_live() {
            return Err(state.ended_status());
        }
        if state.file != file {
            return Err(Status::BadStateid);
        }
        state.check_generation(stateid.seqid, requester)?;
        Ok(state)
    }

    /// Checks whether reading or writing (`need`) is allowed under a state.
    ///
    /// # Errors
    /// Those of `find_on`; `OpenMode` if the file was not opened for it.
    pub(crate) fn check_io(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        file: InodeId,
        need: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        let state = self.find_on(stateid, requester, file, now_ns)?;
        if state.layout.is_some() {
            return Err(Status::BadStateid);
        }
        // READ is allowed under an open for writing: a client that writes part of a page has to
        // read the rest (RFC 7530 section 9.1.6).
        if need == WRITE && state.share().access & WRITE == 0 {
            return Err(Status::OpenMode);
        }
        Ok(())
    }

    /// Checks whether reading or writing (`need`) is allowed without a state.
    ///
    /// # Errors
    /// `Locked` if an open denies it.
    pub(crate) fn check_anonymous(
        &self,
        file: InodeId,
        need: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        // A denying open blocks only until its client's lease expires. Each turn of the loop either
        // returns or forgets one client, so it terminates.
        while self.files.has_deniers() {
            let holder = {
                let shard = self.files.lock(file);
                let share = Share { access: need, deny: 0 };
                shard.get(&file).and_then(|entry| entry.find_conflict(share)).cloned()
            };
            match holder {
                None => break,
                Some(holder) => self.expire_holder(&holder, Status::Locked, now_ns)?,
            }
        }
        Ok(())
    }

    /// Returns TEST_STATEID's status for one stateid; changes nothing.
    ///
    /// # Errors
    /// The status to report.
    pub(crate) fn test_stateid(
        &self,
        stateid: &Stateid,
        client: &Arc<Client>,
        now_ns: u64,
    ) -> Result<(), Status> {
        let requester = Requester::Session(client);
        let state = self.find_state(stateid, requester, now_ns)?;
        if !state.is_live() {
            return Err(state.ended_status());
        }
        state.check_generation(stateid.seqid, requester)
    }

    /// Forgets the client of a conflicting state if its lease has expired.
    ///
    /// # Errors
    /// `status` if it has not.
    pub(super) fn expire_holder(
        &self,
        holder: &State,
        status: Status,
        now_ns: u64,
    ) -> Result<(), Status> {
        if !holder.client.is_expired(now_ns, self.lease_ns) {
            return Err(status);
        }
        self.forget(&holder.client);
        Ok(())
    }

    /// Returns the status of a stateid that is in no table.
    fn unknown_stateid_status(&self, number: u32, requester: Requester<'_>, now_ns: u64) -> Status {
        if matches!(requester, Requester::Session(_)) {
            return Status::BadStateid;
        }
        // v4.0 distinguishes these: a stateid from an earlier start has to be reclaimed, one of an
        // expired lease is lost, and anything else is the client's mistake.
        if !self.was_assigned(number) {
            return Status::StaleStateid;
        }
        match self.client(self.new_start_id(number), now_ns) {
            Err(Status::Expired) => Status::Expired,
            _ => Status::BadStateid,
        }
    }
}
