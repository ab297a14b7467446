//! From the stateid that came with a call to the state behind it.
//!
//! **Source:** RFC 7530 sections 9.1.4 and 9.1.5, RFC 8881 section 8.2.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::Tables;
use super::client::Client;
use super::held::{Share, State, WRITE, numbers};
use crate::fs::InodeId;

/// Who sends a stateid.
#[derive(Clone, Copy, Debug)]
pub(in crate::service) enum Speaker<'a> {
    /// Someone who speaks v4.0: the stateid alone tells.
    Plain,
    /// The client of a session.
    Session(&'a Arc<Client>),
}

impl Tables {
    /// Finds a state and starts its client's lease anew; the generation is not looked at.
    ///
    /// # Errors
    /// `BadStateid`, `StaleStateid` or `Expired`.
    pub(in crate::service) fn find(
        &self,
        stateid: &Stateid,
        speaker: Speaker<'_>,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        if stateid.is_special() {
            return Err(Status::BadStateid);
        }
        let (number, key) = numbers(stateid);
        let Some(state) = self.states.get(key) else {
            return Err(self.unknown(number, speaker, now_ns));
        };
        let is_own = match speaker {
            Speaker::Plain => !state.client.has_sessions,
            Speaker::Session(client) => Arc::ptr_eq(client, &state.client),
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

    /// Finds the state of a call on a file.
    ///
    /// # Errors
    /// As `find`; `OldStateid` or `BadStateid` for another generation, file, or what is closed.
    pub(in crate::service) fn find_on(
        &self,
        stateid: &Stateid,
        speaker: Speaker<'_>,
        file: InodeId,
        now_ns: u64,
    ) -> Result<Arc<State>, Status> {
        let state = self.find(stateid, speaker, now_ns)?;
        if state.file != file || !state.is_live() {
            return Err(Status::BadStateid);
        }
        state.check_generation(stateid.seqid, matches!(speaker, Speaker::Session(_)))?;
        Ok(state)
    }

    /// Whether reading or writing (`need`) is allowed under a state.
    ///
    /// # Errors
    /// As `find_on`; `OpenMode` where the file was not opened for it.
    pub(in crate::service) fn check_io(
        &self,
        stateid: &Stateid,
        speaker: Speaker<'_>,
        file: InodeId,
        need: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        let state = self.find_on(stateid, speaker, file, now_ns)?;
        // Who writes may read: a client has to fill the rest of its page.
        if need == WRITE && state.share().access & WRITE == 0 {
            return Err(Status::OpenMode);
        }
        Ok(())
    }

    /// Whether reading or writing (`need`) without a state is allowed.
    ///
    /// # Errors
    /// `Locked` where an open denies it.
    pub(in crate::service) fn check_anonymous(
        &self,
        file: InodeId,
        need: u32,
        now_ns: u64,
    ) -> Result<(), Status> {
        while self.files.has_deniers() {
            let holder = {
                let shard = self.files.lock(file);
                let share = Share { access: need, deny: 0 };
                let entry = shard.get(&file);
                entry.and_then(|entry| entry.conflict(share)).cloned()
            };
            match holder {
                None => break,
                Some(holder) => self.make_way(&holder, Status::Locked, now_ns)?,
            }
        }
        Ok(())
    }

    /// Returns TEST_STATEID's status of one stateid; nothing is changed.
    ///
    /// # Errors
    /// The status to tell.
    pub(in crate::service) fn test(
        &self,
        stateid: &Stateid,
        client: &Arc<Client>,
        now_ns: u64,
    ) -> Result<(), Status> {
        let state = self.find(stateid, Speaker::Session(client), now_ns)?;
        if !state.is_live() {
            return Err(Status::BadStateid);
        }
        state.check_generation(stateid.seqid, true)
    }

    /// Forgets the client of a state that is in the way, where its lease has run out.
    ///
    /// # Errors
    /// `status` where it has not.
    pub(super) fn make_way(
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
    fn unknown(&self, number: u32, speaker: Speaker<'_>, now_ns: u64) -> Status {
        if matches!(speaker, Speaker::Session(_)) {
            return Status::BadStateid;
        }
        if !self.was_given(number) {
            return Status::StaleStateid;
        }
        match self.client(self.new_start_id(number), now_ns) {
            Err(Status::Expired) => Status::Expired,
            _ => Status::BadStateid,
        }
    }
}
