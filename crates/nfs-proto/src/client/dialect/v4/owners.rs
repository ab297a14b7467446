//! The owners of opens, and their sequence numbers in v4.0.
//!
//! A server merges the opens that one owner has of one file, and in v4.0 processes an owner's opens
//! and closes one after the other. So that no open waits for another or ends with it, each has its
//! own owner, which is reused after the CLOSE. **Source:** RFC 7530 sections 9.1.5 and 9.1.7.

use crate::status::Status;

/// Length of an owner's name in bytes: the connection's base, and a number.
pub(super) const OWNER_BYTES: usize = 12;

/// The owners of one connection.
#[derive(Debug)]
pub(super) struct Owners {
    base: u64,
    /// The next sequence number of each owner.
    seqids: Vec<u32>,
    /// Owners without an open.
    idle: Vec<u32>,
}

impl Owners {
    pub(super) fn new(capacity: usize) -> Self {
        Self { base: 0, seqids: Vec::with_capacity(capacity), idle: Vec::with_capacity(capacity) }
    }

    /// Forgets all owners because the client is new; `base` differs between connections.
    pub(super) fn reset(&mut self, base: u64) {
        self.base = base;
        self.seqids.clear();
        self.idle.clear();
    }

    /// Returns the base that distinguishes these owners from those of other connections.
    pub(super) const fn base(&self) -> u64 {
        self.base
    }

    /// Takes an owner without an open.
    pub(super) fn take_idle(&mut self) -> u32 {
        self.idle.pop().unwrap_or_else(|| {
            self.seqids.push(1);
            self.seqids.len() as u32 - 1
        })
    }

    /// Makes an owner available again.
    pub(super) fn release(&mut self, owner: u32) {
        if (owner as usize) < self.seqids.len() {
            self.idle.push(owner);
        }
    }

    pub(super) fn seqid_of(&self, owner: u32) -> u32 {
        self.seqids.get(owner as usize).copied().unwrap_or_default()
    }

    pub(super) fn advance_seqid(&mut self, owner: u32) {
        if let Some(seqid) = self.seqids.get_mut(owner as usize) {
            *seqid = seqid.wrapping_add(1);
        }
    }

    /// Returns the name by which the server knows an owner.
    pub(super) fn name_of(&self, owner: u32) -> [u8; OWNER_BYTES] {
        // The base differs between connections of one client and the number within a connection;
        // the server only compares the bytes.
        let mut name = [0; OWNER_BYTES];
        name[..8].copy_from_slice(&self.base.to_be_bytes());
        name[8..].copy_from_slice(&owner.to_be_bytes());
        name
    }
}

/// Returns true if an answer advances the owner's sequence number. **Source:** RFC 7530 section
/// 9.1.7.
pub(super) const fn advances_seqid(status: Status) -> bool {
    // These errors are found before the server looks at the owner, so its sequence number is
    // unchanged on both sides. Advancing it would make every later call BAD_SEQID.
    !matches!(
        status,
        Status::StaleClientId
            | Status::StaleStateid
            | Status::BadStateid
            | Status::BadSeqid
            | Status::BadXdr
            | Status::Resource
            | Status::NoFileHandle
            | Status::Moved
    )
}
