//! Opens: share reservations, and the numbered calls of v4.0's owners.
//!
//! **Source:** RFC 7530 sections 9.7 to 9.9 and 16.18 to 16.20, RFC 8881 section 9.7.

use std::collections::HashMap;
use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::Stateid;

use super::Tables;
use super::client::{Client, ClientState, OwnerKind};
use super::files::FileEntry;
use super::held_state::{READ, Share, State, WRITE};
use super::owner::{LastReply, Owner, OwnerTurn};
use crate::fs::{Charge, Pin};
use crate::limits::{NFS4_OWNER_BYTES, NFS4_OWNERS_MAX, NFS4_STATE_BYTES};

/// The result of an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenResult {
    /// The stateid of the open.
    pub(crate) stateid: Stateid,
    /// Whether OPEN_CONFIRM is required.
    pub(crate) confirm: bool,
}

/// Why an open could be neither granted nor refused yet: another open, or delegations of other
/// clients.
enum OpenAttempt {
    Done(OpenResult),
    InTheWay(Arc<State>),
    Delegated(Vec<Arc<State>>),
}

impl Tables {
    /// Orders a numbered call of an open owner; the first one creates the owner.
    ///
    /// # Errors
    /// `BadSeqid`, `Jukebox`, `Expired`; `Resource` if the client has too many owners.
    pub(crate) fn begin_open(
        &self,
        client: &Client,
        name: &[u8],
        sequence: u32,
        now_ns: u64,
    ) -> Result<OwnerTurn, Status> {
        client.renew(now_ns);
        let mut holdings = client.lock();
        let holdings = live_state(&mut holdings)?;
        // An owner that was never confirmed may come from an old OPEN that the network delivered
        // late. It starts over with the new call: OPEN_CONFIRM proves that the client knows about
        // it (RFC 7530 section 16.18.5).
        if let Some(owner) = holdings.open_owners.get(name)
            && !owner.confirmed
            && !owner.is_new()
        {
            match self.begin_call(holdings, OwnerKind::Open, name, sequence, now_ns) {
                Ok(OwnerTurn::New) | Err(Status::BadSeqid) => {}
                other => return other,
            }
            if let Some(owner) = holdings.open_owners.remove(name) {
                for key in owner.states.into_values().chain(owner.closed) {
                    self.end_state(key);
                }
            }
        }
        if !holdings.open_owners.contains_key(name) {
            self.forget_idle_owners(holdings, OwnerKind::Open, now_ns)?;
            self.add_owner(&mut holdings.open_owners, name, sequence)?;
        }
        self.begin_call(holdings, OwnerKind::Open, name, sequence, now_ns)
    }

    /// Orders a numbered call of a state's owner.
    ///
    /// # Errors
    /// `BadSeqid`, `Jukebox`, `Expired`; `BadStateid` if the owner is gone.
    pub(crate) fn begin_on(
        &self,
        state: &State,
        sequence: u32,
        now_ns: u64,
    ) -> Result<OwnerTurn, Status> {
        let mut holdings = state.client.lock();
        let holdings = live_state(&mut holdings)?;
        self.begin_call(holdings, state.kind(), &state.owner, sequence, now_ns)
    }

    fn begin_call(
        &self,
        holdings: &mut ClientState,
        kind: OwnerKind,
        name: &[u8],
        sequence: u32,
        now_ns: u64,
    ) -> Result<OwnerTurn, Status> {
        let owner = holdings.owners_of(kind).get_mut(name).ok_or(Status::BadStateid)?;
        let turn = owner.begin(sequence, now_ns)?;
        if turn == OwnerTurn::New
            && let Some(closed) = owner.closed.take()
        {
            self.states.remove(closed);
        }
        Ok(turn)
    }

    /// Ends a numbered call; without a reply it does not count.
    pub(crate) fn finish_call(
        client: &Client,
        kind: OwnerKind,
        name: &[u8],
        sequence: u32,
        reply: Option<LastReply>,
    ) {
        if let Some(owner) = client.lock().owners_of(kind).get_mut(name) {
            owner.finish(sequence, reply);
        }
    }

    /// Opens a file for an owner, or widens an existing open.
    ///
    /// # Errors
    /// `ShareDenied`; `Jukebox` while another client has to return its delegation; `Expired` for a
    /// client that has been forgotten; `Resource` at the limit.
    pub(crate) fn open_file(
        &self,
        client: &Arc<Client>,
        name: &[u8],
        pin: Pin,
        share: Share,
        now_ns: u64,
    ) -> Result<OpenResult, Status> {
        let mut pin = Some(pin);
        loop {
            match self.try_open(client, name, &mut pin, share)? {
                OpenAttempt::Done(opened) => return Ok(opened),
                OpenAttempt::InTheWay(holder) => {
                    self.expire_holder(&holder, Status::ShareDenied, now_ns)?;
                }
                OpenAttempt::Delegated(holders) => self.recall_all(&holders, now_ns)?,
            }
        }
    }

    fn try_open(
        &self,
        client: &Arc<Client>,
        name: &[u8],
        pin: &mut Option<Pin>,
        share: Share,
    ) -> Result<OpenAttempt, Status> {
        let file = pin.as_ref().expect("it is taken only once, at the end").id();
        let mut holdings = client.lock();
        let holdings = live_state(&mut holdings)?;
        let own = holdings.state_of(OwnerKind::Open, name, file);
        let mut shard = self.files.lock(file);
        let entry = shard.entry(file).or_default();
        if let Some(holder) = entry.find_conflict(share) {
            return Ok(OpenAttempt::InTheWay(Arc::clone(holder)));
        }
        // A read delegation lets its client open for reading without contacting us, so an open that
        // writes, or denies reading, has to wait until it is returned.
        if share.access & WRITE != 0 || share.deny & READ != 0 {
            let holders = entry.delegations_of_others(Some(client));
            if !holders.is_empty() {
                return Ok(OpenAttempt::Delegated(holders));
            }
        }
        // An owner has one open per file: opening the file again widens it, and one CLOSE ends it
        // (RFC 7530 section 9.11).
        if let Some(state) = own.and_then(|own| self.states.get(own)) {
            let confirm = !holdings.open_owners.get(name).is_some_and(|owner| owner.confirmed);
            self.files
                .change_share(entry, &state, |it| it.set_share(it.share().union(share), share));
            return Ok(OpenAttempt::Done(OpenResult {
                stateid: state.advance_generation(),
                confirm,
            }));
        }
        let made = self.open_owner(holdings, client, name).and_then(|(owner_name, owner)| {
            let charge = self.charge_state().ok_or(Status::Resource)?;
            let make = |key| {
                let pin = pin.take().expect("it is taken only once");
                State::open(key, client, &owner_name, pin, share, charge)
            };
            Ok((self.states.insert(make).ok_or(Status::Resource)?, owner))
        });
        let (state, owner) = match made {
            Ok(made) => made,
            Err(status) => {
                FileEntry::drop_if_unused(&mut shard, file);
                return Err(status);
            }
        };
        self.files.add(entry, &state);
        owner.states.insert(file, state.key);
        Ok(OpenAttempt::Done(OpenResult { stateid: state.stateid(), confirm: !owner.confirmed }))
    }

    /// Confirms the owner of an open.
    ///
    /// # Errors
    /// `BadStateid` if it is already confirmed or gone.
    pub(crate) fn confirm_open(state: &State) -> Result<Stateid, Status> {
        let mut holdings = state.client.lock();
        match live_state(&mut holdings)?.open_owners.get_mut(&state.owner) {
            Some(owner) if !owner.confirmed => owner.confirmed = true,
            _ => return Err(Status::BadStateid),
        }
        Ok(state.advance_generation())
    }

    /// Narrows the share of an open.
    ///
    /// # Errors
    /// `Inval` if no OPEN requested exactly that; `BadStateid` for locks and closed opens.
    pub(crate) fn downgrade_open(&self, state: &State, share: Share) -> Result<Stateid, Status> {
        let mut shard = self.files.lock(state.file);
        let entry = shard.get_mut(&state.file).ok_or(Status::BadStateid)?;
        if !state.is_open() || !state.is_live() {
            return Err(Status::BadStateid);
        }
        if !state.was_requested(share) {
            return Err(Status::Inval);
        }
        self.files.change_share(entry, state, |state| state.downgrade(share));
        Ok(state.advance_generation())
    }

    /// Closes an open together with its locks.
    ///
    /// # Errors
    /// `BadStateid` for locks and closed opens.
    pub(crate) fn close_open(&self, state: &State) -> Result<Stateid, Status> {
        let stateid = self.close_open_of(state)?;
        if self.files.layouts() > 0 {
            self.return_layouts_on_close(&state.client, state.file);
        }
        Ok(stateid)
    }

    fn close_open_of(&self, state: &State) -> Result<Stateid, Status> {
        let mut holdings = state.client.lock();
        let holdings = live_state(&mut holdings)?;
        if !state.is_open() || !state.is_live() {
            return Err(Status::BadStateid);
        }
        for locker in self.remove_open(state) {
            self.states.remove(locker.key);
            forget_locker(holdings, &locker);
        }
        state.end();
        let numbered = !state.client.has_sessions();
        if let Some(owner) = holdings.open_owners.get_mut(&state.owner) {
            owner.states.remove(&state.file);
            if numbered {
                // A retransmitted CLOSE still has to find the state and its cached reply.
                if let Some(before) = owner.closed.replace(state.key) {
                    self.states.remove(before);
                }
            } else if owner.states.is_empty() {
                holdings.open_owners.remove(&state.owner);
            }
        }
        if !numbered {
            self.states.remove(state.key);
        }
        Ok(state.advance_generation())
    }

    /// Charges the memory of a state.
    pub(super) fn charge_state(&self) -> Option<Charge> {
        self.memory.take_for_client(NFS4_STATE_BYTES)
    }

    /// Adds an owner; in v4.0 its first call has `sequence`.
    ///
    /// # Errors
    /// `Resource` if there is no memory.
    pub(super) fn add_owner(
        &self,
        owners: &mut HashMap<Arc<[u8]>, Owner>,
        name: &[u8],
        sequence: u32,
    ) -> Result<(), Status> {
        let bytes = NFS4_OWNER_BYTES + name.len() as u64;
        let charge = self.memory.take_for_client(bytes).ok_or(Status::Resource)?;
        owners.insert(Arc::from(name), Owner::starting_at(sequence, charge));
        Ok(())
    }

    /// Finds the owner and its shared name; with sessions the first OPEN creates it, already
    /// confirmed.
    fn open_owner<'h>(
        &self,
        holdings: &'h mut ClientState,
        client: &Client,
        name: &[u8],
    ) -> Result<(Arc<[u8]>, &'h mut Owner), Status> {
        let owners = &mut holdings.open_owners;
        if !owners.contains_key(name) {
            self.add_owner(owners, name, 0)?;
        }
        let shared = shared_name(owners, name);
        let owner = owners.get_mut(name).expect("it was just inserted");
        owner.confirmed |= client.has_sessions();
        Ok((shared, owner))
    }

    /// Forgets idle owners if a client has too many.
    pub(super) fn forget_idle_owners(
        &self,
        holdings: &mut ClientState,
        kind: OwnerKind,
        now_ns: u64,
    ) -> Result<(), Status> {
        let owners = holdings.owners_of(kind);
        if owners.len() < NFS4_OWNERS_MAX {
            return Ok(());
        }
        // An owner without opens is kept for its last reply. If it was idle for a whole lease
        // period, the client can't be waiting for that any more; younger ones are dropped only if
        // that is not enough.
        for age_ns in [self.lease_ns, 0] {
            owners.retain(|_, owner| {
                let old = now_ns.saturating_sub(owner.used_ns) >= age_ns;
                if !owner.is_idle() || !old {
                    return true;
                }
                if let Some(closed) = owner.closed.take() {
                    self.end_state(closed);
                }
                false
            });
            if owners.len() < NFS4_OWNERS_MAX {
                return Ok(());
            }
        }
        Err(Status::Resource)
    }
}

/// Returns the name of an owner, shared with its entry if it already has one.
pub(super) fn shared_name(owners: &HashMap<Arc<[u8]>, Owner>, name: &[u8]) -> Arc<[u8]> {
    match owners.get_key_value(name) {
        Some((known, _)) => Arc::clone(known),
        None => Arc::from(name),
    }
}

/// The holdings of a client that has not been forgotten.
///
/// # Errors
/// `Expired`.
pub(super) fn live_state(holdings: &mut ClientState) -> Result<&mut ClientState, Status> {
    if holdings.dead { Err(Status::Expired) } else { Ok(holdings) }
}

/// Removes a lock state from its owner; without sessions the owner is kept for its sequence.
pub(super) fn forget_locker(holdings: &mut ClientState, locker: &State) {
    let Some(owner) = holdings.lock_owners.get_mut(&locker.owner) else { return };
    if owner.states.get(&locker.file) == Some(&locker.key) {
        owner.states.remove(&locker.file);
    }
    if locker.client.has_sessions() && owner.states.is_empty() {
        holdings.lock_owners.remove(&locker.owner);
    }
}
