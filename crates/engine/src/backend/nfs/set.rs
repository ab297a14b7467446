//! The state that all clients of a worker share: the files, and what they wrote and is not safe
//! yet.
//!
//! [`Common`] is the one place that knows which handles are current: a file that had to be opened
//! again is replaced here, for every op that follows.

use std::sync::Arc;

use model::units::Size;
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::version::ProtocolVersion;
use workload::{Mismatches, Pattern, Places};

use super::uncommitted::{Grid, Piece, Uncommitted};
use crate::backend::calls::CallCounts;
use crate::backend::{BadReply, Lost, ShortTransfers};
use crate::clients::ClientRecords;
use crate::limits::REWRITE_ROUNDS_MAX;

/// The call that is made to list names with their attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlusListing {
    /// READDIRPLUS, or READDIR with attributes in version 4.
    Readdirplus,
    /// READDIR, and no attributes: the version or the server has nothing else.
    Readdir,
}

/// The objects that the backend works on.
pub struct NfsFiles {
    /// Version that is spoken.
    pub version: ProtocolVersion,
    /// The working directory.
    pub directory: File,
    /// The directories below it, by their numbers.
    pub places: Arc<Places>,
    /// Handles of those places.
    pub place_files: Arc<[File]>,
    /// Symbolic links that were there before the pass, from number 0 on.
    pub links: Arc<[File]>,
    /// The call that lists names with their attributes.
    pub plus_listing: PlusListing,
    /// Every `stride`-th file of the set, from number `first` on; empty where a pass works by name.
    pub files: Vec<File>,
    /// Number of the first file that is known here.
    pub first: u32,
    /// Distance between the numbers of files that are known here.
    pub stride: u32,
    /// Unstable data may be written to the files.
    pub is_written: bool,
    /// The blocks that the files are written in, where they are not too many to track: what
    /// a server lost can be written again then.
    pub grid: Option<Grid>,
    /// How safe a WRITE is to be before it is answered.
    pub stable: StableHow,
    /// Largest payload of a READ.
    pub rsize: u32,
    /// Largest payload of a WRITE.
    pub wsize: u32,
    /// The content that is written, and must come back.
    pub pattern: Pattern,
    /// Compare what is read.
    pub verify: bool,
    /// Ops in flight.
    pub queue_depth: usize,
    /// A reply that takes longer is a failure.
    pub timeout_ns: u64,
    /// User ids of the clients that work on the files.
    pub client_uids: u32,
    /// The files can be closed over the first connection, and no other worker relies on these
    /// opens.
    pub closable: bool,
    /// How many connections, the first ones, are those of the client that opened the files; the
    /// others do without what it opened.
    pub own: usize,
    /// The record of the work of each client.
    pub clients: ClientRecords,
}

impl NfsFiles {
    /// Tells whether what is made is open to all: clients with other user ids work on it, too.
    pub(super) const fn is_open_to_all(&self) -> bool {
        self.client_uids > 1
    }

    /// Returns the mode of files that are made.
    pub(super) const fn file_mode(&self) -> u32 {
        if self.is_open_to_all() { 0o666 } else { 0o644 }
    }
}

/// See the module.
pub(super) struct Common {
    pub(super) set: NfsFiles,
    /// Calls that were started.
    pub(super) calls: CallCounts,
    /// Scratch memory in which the data of a WRITE is put together, if that has to be.
    pub(super) scratch: Vec<u8>,
    /// Only where WRITEs are unstable; elsewhere nothing is ever uncommitted.
    pub(super) uncommitted: Option<Uncommitted>,
    /// The rest of a block that is written again: no call was started for it yet.
    rest: Option<Piece>,
    /// WRITEs made again that have not ended.
    pub(super) again_out: usize,
    /// Payload that went out more than once, for whatever reason, in bytes.
    pub(super) resent_bytes: u64,
    /// That of it which a server may have lost, in bytes.
    pub(super) rewritten_bytes: u64,
    /// Calls that moved less data than they asked for.
    pub(super) short_transfers: ShortTransfers,
    /// Syncs that took no COMMIT.
    pub(super) syncs_without_commit: u64,
    /// Ops that read a file by a delegation, without an OPEN.
    pub(super) delegated_opens: u64,
    /// Data that was read and is not as it was written.
    pub(super) mismatches: Mismatches,
    /// The first reply that refused or misunderstood a call.
    pub(super) bad_reply: Option<BadReply>,
}

impl Common {
    pub(super) fn new(mut set: NfsFiles) -> Self {
        let unstable = set.stable == StableHow::Unstable && set.version != ProtocolVersion::V2;
        // Version 2 has no unstable WRITE: its server answers once data is on storage.
        let uncommitted = match set.grid.take() {
            _ if !unstable || !set.is_written => None,
            Some(grid) => Some(Uncommitted::new(grid)),
            None => Some(Uncommitted::without_blocks(set.files.len())),
        };
        Self {
            calls: CallCounts::default(),
            scratch: vec![0; set.wsize as usize],
            uncommitted,
            rest: None,
            again_out: 0,
            resent_bytes: 0,
            rewritten_bytes: 0,
            short_transfers: ShortTransfers::default(),
            syncs_without_commit: 0,
            delegated_opens: 0,
            mismatches: Mismatches::default(),
            bad_reply: None,
            set,
        }
    }

    /// Says whether a sync of the file with this number takes a COMMIT: a server may have answered
    /// all WRITEs as durable, whatever was requested, and then there is nothing to commit.
    pub(super) fn needs_commit(&self, number: u32) -> bool {
        match &self.uncommitted {
            // Nothing is known of files that are found by name.
            Some(data) => self.known(number).is_none() || data.is_dirty(self.index(number)),
            None => false,
        }
    }

    /// Says whether what a server lost can be written again.
    pub(super) fn can_rewrite(&self) -> bool {
        matches!(&self.uncommitted, Some(data) if data.knows_blocks())
    }

    /// Fails where the server changes its verifier so often that writing again leads nowhere.
    #[cold]
    pub(super) fn give_up_rewriting(&self) -> Result<(), Lost> {
        let rewritten = Size(self.rewritten_bytes);
        Err(Lost(format!(
            "the server changes its write verifier again and again: {rewritten} were written again \
             in more than {REWRITE_ROUNDS_MAX} rounds, and it still commits none of it (hint: it \
             restarts all the time, or loses what is written; stable = \"file_sync\" does without \
             COMMIT)"
        )))
    }

    /// Says whether writing again leads nowhere.
    #[inline]
    pub(super) fn rewrites_in_vain(&self) -> bool {
        matches!(&self.uncommitted, Some(data) if data.is_in_vain())
    }

    /// The place that a number stands in.
    #[inline]
    pub(super) fn place(&self, number: u32) -> &File {
        &self.set.place_files[self.set.places.of_number(number) as usize]
    }

    /// The place that a listing with this number is of.
    pub(super) fn listed(&self, number: u32) -> &File {
        &self.set.place_files[(number % self.set.places.count()) as usize]
    }

    /// The symbolic link with this number, where it was there before the pass.
    pub(super) fn link(&self, number: u32) -> Option<&File> {
        self.set.links.get(number as usize)
    }

    /// The file with this number, where it is open here.
    pub(super) fn known(&self, number: u32) -> Option<&File> {
        if number % self.set.stride != self.set.first % self.set.stride {
            return None;
        }
        self.set.files.get(self.index(number))
    }

    /// Returns the place in the set of the file with this number.
    pub(super) const fn index(&self, number: u32) -> usize {
        (number / self.set.stride) as usize
    }

    /// The file with this number.
    pub(super) fn file(&self, number: u32) -> &File {
        &self.set.files[self.index(number)]
    }

    /// Puts a file that was opened again in the place of the one with this number.
    pub(super) fn replace_file(&mut self, number: u32, file: File) {
        let index = self.index(number);
        self.set.files[index] = file;
    }

    /// The number of the file that stands here in the set.
    pub(super) const fn number(&self, index: usize) -> u32 {
        self.set.first + index as u32 * self.set.stride
    }

    /// Says whether something has to be written again, or is being.
    pub(super) fn is_rewriting(&self) -> bool {
        self.has_piece() || self.again_out > 0
    }

    /// Says whether a piece waits to be written again.
    pub(super) fn has_piece(&self) -> bool {
        self.rest.is_some() || matches!(&self.uncommitted, Some(data) if data.has_lost())
    }

    /// Takes the next piece that has to be written again, no larger than a WRITE may be.
    pub(super) fn take_piece(&mut self) -> Option<Piece> {
        let piece = match self.rest.take() {
            Some(rest) => rest,
            None => self.uncommitted.as_mut()?.take_lost()?,
        };
        let len = piece.len.min(self.set.wsize);
        if len < piece.len {
            let offset = piece.offset + u64::from(len);
            self.rest = Some(Piece { offset, len: piece.len - len, ..piece });
        }
        self.again_out += 1;
        self.resent_bytes += u64::from(len);
        self.rewritten_bytes += u64::from(len);
        Some(Piece { len, ..piece })
    }
}
