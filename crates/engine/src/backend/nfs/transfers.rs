//! Ops in flight and the calls that they consist of.
//!
//! [`Transfers`] has two tables with free lists. An op tracks the progress of its calls. A transfer
//! is one call of an op, and its index is the tag that comes back with the reply. A server may
//! grant fewer slots later than when the connection was opened, so each start checks for a free
//! slot; a transfer that finds none is continued when there is one. An op goes through stages
//! ([`steps`]), each with one call, or with as many as its data requires ([`calls`]). Recovery is
//! handled here, too: blocks lost by a restarted server are rewritten before anything is committed,
//! and calls whose open was forgotten wait until the file has been reopened.
//!
//! **Source:** RFC 1813, 3.3.7 (write verifiers); RFC 8881, 8.4 (lost state).

mod calls;
mod judge;
mod listing;
mod ranges;
mod steps;

use std::collections::VecDeque;

use model::{Completion, Op, OpError, OpKind, Outcome};
use nfs_client::Connection;
use nfs_client::proto::client::{Event, File, OpenAccess, Operation, StartError};
use nfs_client::proto::status::Status;
use workload::Name;

use super::set::{NfsFiles, WorkerState};
use super::uncommitted::Piece;
use crate::limits::{COMMITS_MAX, REOPENS_MAX};
pub(super) use calls::payload_of;
pub(super) use judge::{CallResult, judge, note_error};
use judge::{is_delegation_lost, is_state_lost, opened_file};
use listing::Listing;
pub(super) use steps::Stage;

/// Tag of the call that reopens a file: our largest tag, far above those of transfers.
const REOPEN: u32 = u32::MAX - 1;

/// The client whose opens apply to the files of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    /// The connection's own client.
    Own,
    /// Another client, so data is transferred under the anonymous stateid.
    OfAnother,
}

/// Why a call was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotStarted {
    /// All slots are taken for now: by a lease renewal, or because the server granted fewer.
    NoSlot,
    /// It can never succeed, because an earlier answer of the server doesn't fit the protocol
    /// version.
    Failed(OpError),
}

/// A file size or a handle may exceed the limits of a version. In that case, the op fails.
impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        let status = match error {
            StartError::Busy => return Self::NoSlot,
            StartError::TooLarge { .. } => Status::Inval,
            StartError::Unsupported { .. } => Status::NotSupp,
            StartError::FileTooLarge { .. } => Status::FBig,
            StartError::Handle { .. } => Status::BadHandle,
        };
        Self::Failed(OpError(status.number()))
    }
}

/// Tables of ops and transfers. The index of a transfer is the tag of its call.
pub(super) struct Transfers {
    ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    table: Vec<Transfer>,
    free: Vec<u32>,
    /// Ops with calls that could not be started yet.
    waiting: VecDeque<u32>,
    /// Transfers to start again because they were short or held back.
    continued: Vec<u32>,
    finished: Vec<Completion>,
    /// Transfers waiting for their file to be reopened.
    parked: Vec<u32>,
    /// Number of the file that is being reopened.
    reopening: Option<u32>,
    /// Error of a rewriting WRITE, with which the next sync or commit will fail.
    again_error: Option<OpError>,
    opens: Opens,
    /// The directories being listed by ops, by their slots. Empty if a pass doesn't list any.
    listings: Vec<Listing>,
}

/// Whether an op reads a file under a delegation, without an open of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DelegationUse {
    /// It has found, or will find, the file by other means.
    No,
    /// It relies on a delegation.
    Yes,
    /// The server no longer knows the delegation: the op starts over with an OPEN.
    Lost,
}

#[derive(Clone, Copy)]
struct OpSlot {
    op: Op,
    sent_ns: u64,
    stage: Stage,
    /// The object that the op found, opened or created.
    object: Option<File>,
    /// The op has opened it and must close it.
    is_open: bool,
    delegated: DelegationUse,
    /// Bytes for which calls of this stage were started.
    started_bytes: u32,
    calls: u32,
    commits: u32,
    error: Option<OpError>,
    /// The next stage of an op that lists a directory.
    more: Option<Stage>,
}

/// One call of an op, or one that rewrites data that a server may have lost.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    /// The op it belongs to; `None` for a rewrite.
    op: Option<u32>,
    pub(super) kind: OpKind,
    /// The stage of its op.
    pub(super) stage: Stage,
    /// Number of the file.
    pub(super) file: u32,
    /// Offset within the file.
    pub(super) offset: u64,
    /// Length in bytes; 0 if no data is transferred.
    pub(super) len: u32,
    reopens: u32,
}

impl Transfer {
    /// Returns a call of an op that transfers a piece of data.
    pub(super) const fn of_piece(
        op: u32,
        kind: OpKind,
        stage: Stage,
        piece: (u32, u64, u32),
    ) -> Self {
        let (file, offset, len) = piece;
        Self { op: Some(op), kind, stage, file, offset, len, reopens: 0 }
    }

    /// Returns true if it rewrites data that the server may have lost.
    pub(super) const fn writes_again(&self) -> bool {
        self.op.is_none()
    }
}

impl OpSlot {
    const fn new(op: Op, sent_ns: u64, stage: Stage) -> Self {
        Self {
            op,
            sent_ns,
            stage,
            object: None,
            is_open: false,
            delegated: DelegationUse::No,
            started_bytes: 0,
            calls: 0,
            commits: 0,
            error: None,
            more: None,
        }
    }

    /// Returns true if all calls of the stage have been started.
    const fn is_started(&self) -> bool {
        !self.stage.moves_data() || self.started_bytes == self.op.len_bytes
    }
}

impl Transfers {
    /// Allocates the tables for `depth` ops and `calls` calls.
    pub(super) fn new(depth: usize, calls: usize, opens: Opens) -> Self {
        let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read };
        let idle = Transfer {
            op: None,
            kind: OpKind::Read,
            stage: Stage::Act,
            file: 0,
            offset: 0,
            len: 0,
            reopens: 0,
        };
        Self {
            ops: vec![OpSlot::new(op, 0, Stage::Act); depth],
            free_ops: (0..depth as u32).rev().collect(),
            table: vec![idle; calls],
            free: (0..calls as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth + 1),
            continued: Vec::with_capacity(calls),
            finished: Vec::with_capacity(depth),
            parked: Vec::with_capacity(calls),
            reopening: None,
            again_error: None,
            opens,
            listings: Vec::new(),
        }
    }

    /// Allocates what ops need that list whole directories, if there are any.
    #[must_use]
    pub(super) fn with_listings(mut self, set: &NfsFiles) -> Self {
        if let Some(kind) = set.lists {
            // The names without attributes fit into a reply.
            let bytes = if kind == OpKind::List { 0 } else { set.listing_bytes as usize };
            self.listings.resize_with(self.ops.len(), || Listing::with_names(bytes));
        }
        self
    }

    /// Accepts as many ops as there is room for.
    pub(super) fn accept(&mut self, batch: &[Op], sent_ns: u64, common: &WorkerState) -> usize {
        let accepted = batch.len().min(self.free_ops.len());
        for op in &batch[..accepted] {
            let slot = self.free_ops.pop().expect("no more ops are accepted than slots are free");
            self.ops[slot as usize] = OpSlot::new(*op, sent_ns, steps::first(op, common));
            if let Some(listing) = self.listings.get_mut(slot as usize) {
                listing.begin();
            }
            self.waiting.push_back(slot);
        }
        accepted
    }

    /// Accepts an op that commits a file of the set. Returns true if there was room for it.
    pub(super) fn accept_sync(&mut self, number: u32, common: &WorkerState) -> bool {
        self.accept(&[steps::sync_of(number)], 0, common) == 1
    }

    /// Accepts an op that closes a file of the set. Returns true if there was room for it.
    pub(super) fn accept_close(&mut self, number: u32, common: &WorkerState) -> bool {
        let Some(slot) = self.free_ops.pop() else { return false };
        let mut state = OpSlot::new(steps::sync_of(number), 0, Stage::Close);
        state.object = common.open_file(number).map(|_| *common.written_file(number));
        self.ops[slot as usize] = state;
        self.waiting.push_back(slot);
        true
    }

    /// Returns the number of ops in flight.
    pub(super) const fn in_flight(&self) -> usize {
        self.ops.len() - self.free_ops.len()
    }

    /// Returns true if no op is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.free_ops.len() == self.ops.len()
    }

    /// Starts calls while there are any to start and slots for them.
    pub(super) fn start_calls(
        &mut self,
        link: &mut Connection,
        now_ns: u64,
        common: &mut WorkerState,
    ) {
        self.reopen_file(link, now_ns, common);
        // The order matters: first the rest of ops that have begun, then what a server has lost,
        // and new ops last. So an op that has begun never waits for one that hasn't.
        while link.free_slots() > 0
            && let Some(tag) = self.continued.pop()
        {
            self.start_call(link, now_ns, tag, common);
        }
        while link.free_slots() > 0 && common.has_piece() {
            let Some(tag) = self.free.pop() else { return };
            let Some(Piece { file, offset, len }) = common.take_piece() else {
                self.free.push(tag);
                break;
            };
            self.table[tag as usize] = Transfer {
                op: None,
                kind: OpKind::Write,
                stage: Stage::Write,
                file: common.number(file),
                offset,
                len,
                reopens: 0,
            };
            self.start_call(link, now_ns, tag, common);
        }
        while let Some(&slot) = self.waiting.front() {
            self.use_delegation(slot, link, common);
            let state = &mut self.ops[slot as usize];
            let acts = state.stage == Stage::Act;
            let syncs = acts && state.op.kind == OpKind::Sync;
            let commits = syncs || (acts && state.op.kind == OpKind::Commit);
            // Nothing is safe until all of it has been accepted under a single verifier.
            if commits && common.is_rewriting() {
                return;
            }
            let is_vain = commits && self.again_error.is_some();
            let is_clean = syncs && !common.needs_commit(state.op.file);
            if is_vain || is_clean {
                common.syncs_without_commit += u64::from(is_clean);
                self.waiting.pop_front();
                state.error = self.again_error.take();
                self.finish_op(slot, now_ns);
                continue;
            }
            let is_foreign = state.op.kind == OpKind::Execute;
            if is_foreign || (state.stage.moves_data() && state.op.len_bytes == 0) {
                self.waiting.pop_front();
                state.error = is_foreign.then_some(OpError(Status::NotSupp.number()));
                self.finish_op(slot, now_ns);
                continue;
            }
            if link.free_slots() == 0 {
                return;
            }
            let Some(tag) = self.free.pop() else { return };
            // Remove it from the queue first: a call that fails immediately advances its op by
            // itself.
            self.waiting.pop_front();
            if self.start_next(link, now_ns, slot, tag, common) {
                self.waiting.push_front(slot);
            }
        }
    }

    /// Lets an op that reads a delegated file start with its data, without calling the server.
    /// Kernels do the same.
    #[inline]
    fn use_delegation(&mut self, slot: u32, link: &mut Connection, common: &mut WorkerState) {
        let state = &mut self.ops[slot as usize];
        if state.stage != Stage::Find || state.op.kind != OpKind::ReadFile {
            return;
        }
        let dir = common.place(state.op.file);
        let name = Name::file(state.op.file);
        if state.delegated == DelegationUse::Lost {
            link.give_up_delegation(dir, name.as_bytes());
            state.delegated = DelegationUse::No;
            return;
        }
        // For a file without data, open and close are all there is, so keep them.
        if state.op.len_bytes > 0
            && let Some(file) = link.delegated(dir, name.as_bytes())
        {
            state.object = Some(file);
            state.stage = Stage::Read;
            state.delegated = DelegationUse::Yes;
            common.delegated_opens += 1;
        }
    }

    /// Handles the completion of a call.
    pub(super) fn end_call(&mut self, event: &Event<'_>, common: &mut WorkerState) {
        let tag = event.tag;
        if tag == REOPEN {
            return self.end_reopen(event, common);
        }
        let transfer = self.table[tag as usize];
        if transfer.kind.counts_entries()
            && let Some(slot) = transfer.op
        {
            return self.end_listing_call(event, slot, common);
        }
        let has_object = match transfer.op {
            Some(slot) => self.ops[slot as usize].object.is_some(),
            None => false,
        };
        let is_ours = transfer.stage.moves_data() && !has_object && self.opens == Opens::Own;
        if is_ours && is_state_lost(event) && transfer.reopens < REOPENS_MAX {
            self.table[tag as usize].reopens += 1;
            if transfer.stage == Stage::Write {
                common.resent_bytes += u64::from(transfer.len);
            }
            return self.parked.push(tag);
        }
        if let Some(slot) = transfer.op
            && self.ops[slot as usize].delegated != DelegationUse::No
            && is_delegation_lost(event)
        {
            // Several calls of the same op may notice this.
            let delegated = &mut self.ops[slot as usize].delegated;
            common.delegated_opens -= u64::from(*delegated == DelegationUse::Yes);
            *delegated = DelegationUse::Lost;
            return self.end_transfer(tag, Ok(CallResult::Moved(0)), event.done_ns, common);
        }
        match judge(event, &transfer, common) {
            // RFC 1813, 3.3.6 and 3.3.7: a server may transfer less than requested. The client
            // continues from there, and the op completes when everything has been transferred.
            Ok(CallResult::Moved(moved)) if moved < transfer.len => {
                if transfer.stage == Stage::Write {
                    common.resent_bytes += u64::from(transfer.len - moved);
                }
                let rest = &mut self.table[tag as usize];
                rest.offset += u64::from(moved);
                rest.len -= moved;
                self.continued.push(tag);
            }
            judged => self.end_transfer(tag, judged, event.done_ns, common),
        }
    }

    /// Returns true if an op or a call is waiting to be started.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.continued.is_empty()
    }

    /// Appends the completed ops to `out`.
    pub(super) fn drain_into(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.finished);
    }

    /// Frees a completed transfer. Completes its op if this was the last one.
    fn end_transfer(
        &mut self,
        tag: u32,
        judged: Result<CallResult, OpError>,
        done_ns: u64,
        common: &mut WorkerState,
    ) {
        self.free.push(tag);
        let Some(slot) = self.table[tag as usize].op else {
            common.again_out -= 1;
            self.again_error = self.again_error.or(judged.err());
            return;
        };
        let state = &mut self.ops[slot as usize];
        state.calls -= 1;
        match judged {
            // The verifier of the COMMIT differs from that of the WRITEs, so the server has
            // restarted in between. Rewrite what it lost first (`start_calls` holds commits back
            // until then) and repeat the COMMIT, a limited number of times.
            Ok(CallResult::Unsafe) if state.commits < COMMITS_MAX && common.can_rewrite() => {
                state.commits += 1;
                return self.waiting.push_front(slot);
            }
            Ok(CallResult::Unsafe) => state.error = Some(OpError::VERIFIER),
            Ok(CallResult::Created(file)) => {
                state.object = file;
                state.is_open = file.is_some() && steps::opens(&state.op, common);
                if file.is_none() && steps::needs_object(&state.op) {
                    // Without a handle, the content cannot be written.
                    state.error = Some(OpError(Status::NotSupp.number()));
                }
            }
            Ok(CallResult::Moved(_)) => {}
            Err(error) => state.error = state.error.or(Some(error)),
        }
        self.advance_op(slot, done_ns);
    }

    /// Advances an op whose calls have completed: either it is done, or its next stage begins.
    fn advance_op(&mut self, slot: u32, done_ns: u64) {
        let state = &mut self.ops[slot as usize];
        let is_lost = state.delegated == DelegationUse::Lost;
        if state.calls > 0 || !(state.is_started() || state.error.is_some() || is_lost) {
            return;
        }
        // An op that failed while transferring data starts no further calls.
        if !state.is_started() {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        let state = &mut self.ops[slot as usize];
        if is_lost && state.error.is_none() {
            // Read everything again, since the data so far may belong to an older version of the
            // file.
            state.stage = Stage::Find;
            state.started_bytes = 0;
            state.object = None;
            self.waiting.push_back(slot);
            return;
        }
        match steps::next(state) {
            Some(stage) => {
                state.stage = stage;
                state.started_bytes = 0;
                self.waiting.push_back(slot);
            }
            None => self.finish_op(slot, done_ns),
        }
    }

    fn finish_op(&mut self, slot: u32, done_ns: u64) {
        let OpSlot { op, sent_ns, error, .. } = self.ops[slot as usize];
        let moved = match self.listings.get_mut(slot as usize) {
            None => op.len_bytes,
            Some(listing) => std::mem::take(&mut listing.entries),
        };
        let outcome = match error {
            None => Outcome::Done(moved),
            Some(error) => Outcome::Failed(error),
        };
        self.finished.push(Completion { op, sent_ns, done_ns, outcome });
        self.free_ops.push(slot);
    }

    /// Reopens the file of the first transfer that waits for it.
    fn reopen_file(&mut self, link: &mut Connection, now_ns: u64, common: &mut WorkerState) {
        let Some(&tag) = self.parked.first() else { return };
        // One file at a time. All transfers waiting for this file continue after the same OPEN.
        if self.reopening.is_some() || link.free_slots() == 0 {
            return;
        }
        let number = self.table[tag as usize].file;
        let name = Name::file(number);
        let dir = *common.place(number);
        let operation =
            Operation::Open { dir: &dir, name: name.as_bytes(), access: OpenAccess::Both };
        match link.start(now_ns, REOPEN, &operation).map_err(NotStarted::from) {
            Ok(()) => {
                common.calls.add(operation.kind());
                self.reopening = Some(number);
            }
            Err(NotStarted::NoSlot) => {}
            Err(NotStarted::Failed(error)) => {
                self.resume_parked(number, Err(error), now_ns, common);
            }
        }
    }

    /// Continues the transfers waiting for their file, or lets them fail.
    fn end_reopen(&mut self, event: &Event<'_>, common: &mut WorkerState) {
        let Some(number) = self.reopening.take() else { return };
        let opened = opened_file(event);
        if let Ok(file) = opened {
            common.replace_file(number, file);
        }
        self.resume_parked(number, opened.map(drop), event.done_ns, common);
    }

    /// Continues the transfers waiting for a file, or completes them with its error.
    fn resume_parked(
        &mut self,
        number: u32,
        opened: Result<(), OpError>,
        done_ns: u64,
        common: &mut WorkerState,
    ) {
        let mut index = 0;
        while let Some(&tag) = self.parked.get(index) {
            if self.table[tag as usize].file != number {
                index += 1;
                continue;
            }
            self.parked.remove(index);
            match opened {
                Ok(()) => self.continued.push(tag),
                Err(error) => self.end_transfer(tag, Err(error), done_ns, common),
            }
        }
    }
}
