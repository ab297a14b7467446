//! State shared by all clients of a worker: the files, and unstable data that a server may lose.
//!
//! [`WorkerState`] is the only place for current file handles: a reopened file is replaced here for
//! every op that follows.

use std::sync::Arc;

use model::OpKind;
use model::units::Size;
use model::{ConnectionPolicy, PathWork, WireBytes};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::version::ProtocolVersion;
use workload::{Mismatches, Pattern, Places};

use super::uncommitted::{Grid, Piece, Uncommitted};
use crate::backend::calls::CallCounts;
use crate::backend::find::{FindRule, Listed};
use crate::backend::sparse::SparseLayout;
use crate::backend::{BadReply, LostTarget, RangeCounts, ShortTransfers};
use crate::clients::ClientRecords;
use crate::limits::REWRITE_ROUNDS_MAX;

/// The call used to list names with their attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlusListing {
    /// READDIRPLUS, or READDIR with attributes in version 4.
    Readdirplus,
    /// READDIR without attributes, because the version or the server supports nothing else.
    Readdir,
}

/// The objects that the backend works on.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct NfsFiles {
    pub version: ProtocolVersion,
    /// The working directory.
    pub directory: File,
    /// Its subdirectories, by number.
    pub places: Arc<Places>,
    /// Handles of these directories.
    pub(crate) place_files: Arc<[File]>,
    /// Symbolic links that existed before the pass, starting with number 0.
    pub links: Arc<[File]>,
    /// The call used to list names with their attributes.
    pub(crate) plus_listing: PlusListing,
    /// The kind of op of a pass that lists whole directories.
    pub(crate) lists: Option<OpKind>,
    /// Maximum size of a reply in such a pass.
    pub(crate) listing_bytes: u32,
    /// Which files `find` matches.
    pub(crate) find: FindRule,
    /// Every `stride`-th file of the set, starting with number `first`. Empty if a pass works by
    /// name.
    pub files: Vec<File>,
    /// The twins of these files, which are written. Empty unless a pass has them.
    pub twins: Vec<File>,
    /// Where sparse files have data and holes.
    pub sparse: SparseLayout,
    /// Number of the first file known here.
    pub first: u32,
    /// Distance between the numbers of the files known here.
    pub stride: u32,
    /// Whether unstable data may be written to the files.
    pub is_written: bool,
    /// The blocks in which files are written, unless there are too many to track. They allow data
    /// lost by a server to be rewritten.
    pub grid: Option<Grid>,
    /// How durable a WRITE must be before it is acknowledged.
    pub stable: StableHow,
    /// How durable an append to a log must be before it is acknowledged.
    pub log_stable: StableHow,
    /// Maximum payload of a READ.
    pub rsize: u32,
    /// Maximum payload of a WRITE.
    pub wsize: u32,
    /// The content to write, which must be read back unchanged.
    pub pattern: Pattern,
    /// Whether to compare the data that is read.
    pub verify: bool,
    /// Maximum number of ops in flight.
    pub queue_depth: usize,
    /// Whether the server may continue copies after its reply.
    pub async_copy: bool,
    /// A call without a reply for this long has failed.
    pub timeout_ns: u64,
    /// Number of different user IDs of the clients that work on the files.
    pub client_uids: u32,
    /// Whether the files can be closed over the first connection, and no other worker relies on
    /// their opens.
    pub(crate) closable: bool,
    /// Number of connections, counted from the first, that belong to the client that opened the
    /// files. The others cannot use its opens.
    pub own: usize,
    /// Number of consecutive connections that belong to each client.
    pub connections_per_client: usize,
    /// How a client chooses one of them for an op.
    pub policy: ConnectionPolicy,
    /// Records of each client's work.
    pub clients: ClientRecords,
    /// Records of each of the server's addresses; empty unless there are several.
    pub paths: Vec<PathWork>,
}

impl NfsFiles {
    /// Returns true if new objects must be accessible to all, because clients with other user IDs
    /// work on them.
    pub(super) const fn is_open_to_all(&self) -> bool {
        self.client_uids > 1
    }

    /// Returns how durable a WRITE of an op must be. No COMMIT follows for a file that is opened by
    /// name and closed right away.
    pub(super) const fn stability_of(&self, kind: OpKind, by_name: bool) -> StableHow {
        match kind {
            _ if by_name => StableHow::FileSync,
            OpKind::LogAppend => self.log_stable,
            _ => self.stable,
        }
    }

    /// Returns the mode of new files.
    pub(super) const fn file_mode(&self) -> u32 {
        if self.is_open_to_all() { 0o666 } else { 0o644 }
    }
}

/// State shared by all clients of a worker; see the module.
pub(super) struct WorkerState {
    pub(super) set: NfsFiles,
    /// Calls started so far.
    pub(super) calls: CallCounts,
    /// Memory in which the data of a WRITE is assembled if necessary.
    pub(super) scratch: Vec<u8>,
    /// `None` unless WRITEs are unstable, since nothing is ever uncommitted otherwise.
    pub(super) uncommitted: Option<Uncommitted>,
    /// The rest of a block to rewrite, for which no call was started yet.
    rest: Option<Piece>,
    /// Rewriting WRITEs in flight.
    pub(super) again_out: usize,
    /// Payload sent more than once for any reason, in bytes.
    pub(super) resent_bytes: u64,
    /// The part of it that a server may have lost, in bytes.
    pub(super) rewritten_bytes: u64,
    /// Calls that transferred less data than requested.
    pub(super) short_transfers: ShortTransfers,
    /// Syncs that needed no COMMIT.
    pub(super) syncs_without_commit: u64,
    /// Ops that read a file under a delegation, without an OPEN.
    pub(super) delegated_opens: u64,
    /// What was listed.
    pub(super) listed: Listed,
    /// Data that was read and differs from what was written.
    pub(super) mismatches: Mismatches,
    /// Work on ranges so far.
    pub(super) ranges: RangeCounts,
    /// Bytes that the connections had sent and received before the pass.
    pub(super) wire_before: WireBytes,
    /// The first reply that rejected a call or was malformed.
    pub(super) bad_reply: Option<BadReply>,
}

impl WorkerState {
    pub(super) fn new(mut set: NfsFiles) -> Self {
        let unstable = set.stable == StableHow::Unstable && set.version != ProtocolVersion::V2;
        // Version 2 has no unstable WRITE: the server replies once data is on storage.
        let uncommitted = match set.grid.take() {
            // How durable a copy is depends only on the server, which can't be sent it again.
            _ if !set.twins.is_empty() => Some(Uncommitted::without_blocks(set.files.len())),
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
            listed: Listed::default(),
            mismatches: Mismatches::default(),
            ranges: RangeCounts::default(),
            wire_before: WireBytes::default(),
            bad_reply: None,
            set,
        }
    }

    /// Returns true if a sync of the file with this number needs a COMMIT. It doesn't if the server
    /// has acknowledged all WRITEs as durable, no matter what was requested.
    pub(super) fn needs_commit(&self, number: u32) -> bool {
        match &self.uncommitted {
            // Files found by name aren't tracked, so assume that they need one.
            Some(data) => self.open_file(number).is_none() || data.is_dirty(self.index(number)),
            None => false,
        }
    }

    /// Returns true if data lost by a server can be rewritten.
    pub(super) fn can_rewrite(&self) -> bool {
        matches!(&self.uncommitted, Some(data) if data.knows_blocks())
    }

    /// Fails because the server changes its verifier so often that rewriting leads nowhere.
    #[cold]
    pub(super) fn give_up_rewriting(&self) -> Result<(), LostTarget> {
        let rewritten = Size(self.rewritten_bytes);
        Err(LostTarget(format!(
            "the server keeps changing its write verifier: after rewriting {rewritten} in more \
             than {REWRITE_ROUNDS_MAX} rounds, none of it is committed (hint: the server keeps \
             restarting or losing data; stable = \"file_sync\" does not need COMMIT)"
        )))
    }

    /// Returns true if rewriting leads nowhere.
    #[inline]
    pub(super) fn rewrites_in_vain(&self) -> bool {
        matches!(&self.uncommitted, Some(data) if data.is_in_vain())
    }

    /// Returns the directory that contains a number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> &File {
        &self.set.place_files[self.set.places.of_number(number) as usize]
    }

    /// Returns the directory that contains a place.
    pub(super) fn parent_of(&self, place: u32) -> &File {
        match self.set.places.parent(place) {
            Some(parent) => &self.set.place_files[parent as usize],
            None => &self.set.directory,
        }
    }

    /// Remembers the handle of a place that was created. Passes that create places have a list of
    /// handles of their own.
    pub(super) fn note_place(&mut self, place: u32, made: File) {
        if let Some(files) = Arc::get_mut(&mut self.set.place_files) {
            files[place as usize] = made;
        }
    }

    /// Returns the directory to list for a number.
    pub(super) fn listed(&self, number: u32) -> &File {
        &self.set.place_files[(number % self.set.places.count()) as usize]
    }

    /// Returns the symbolic link with this number, if it existed before the pass.
    pub(super) fn link(&self, number: u32) -> Option<&File> {
        self.set.links.get(number as usize)
    }

    /// Returns the file with this number, if it is open here.
    pub(super) fn open_file(&self, number: u32) -> Option<&File> {
        if number % self.set.stride != self.set.first % self.set.stride {
            return None;
        }
        self.set.files.get(self.index(number))
    }

    /// Returns the index in the set of the file with this number.
    pub(super) const fn index(&self, number: u32) -> usize {
        (number / self.set.stride) as usize
    }

    /// Returns the file with this number.
    pub(super) fn file(&self, number: u32) -> &File {
        &self.set.files[self.index(number)]
    }

    /// Returns the file that ops with this number write: the twin, if there is one.
    pub(super) fn written_file(&self, number: u32) -> &File {
        match self.set.twins.get(self.index(number)) {
            Some(twin) => twin,
            None => self.file(number),
        }
    }

    /// Replaces the file with this number after it was reopened.
    pub(super) fn replace_file(&mut self, number: u32, file: File) {
        let index = self.index(number);
        self.set.files[index] = file;
    }

    /// Returns the number of the file at an index of the set.
    pub(super) const fn number(&self, index: usize) -> u32 {
        self.set.first + index as u32 * self.set.stride
    }

    /// Returns true if something is waiting to be rewritten, or is being rewritten.
    pub(super) fn is_rewriting(&self) -> bool {
        self.has_piece() || self.again_out > 0
    }

    /// Returns true if a piece is waiting to be rewritten.
    pub(super) fn has_piece(&self) -> bool {
        self.rest.is_some() || matches!(&self.uncommitted, Some(data) if data.has_lost())
    }

    /// Takes the next piece to rewrite, limited to the size of a WRITE.
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
