//! Ops in flight and the transfers they are cut into.
//!
//! [`Transfers`] is two tables with free lists: an op holds its calls' progress, a transfer is one
//! call of an op, and its index is the tag that comes back with the reply. There are as many
//! transfers as the connection has slots, so a free transfer means a free slot. Recovery lives
//! here too: blocks that a restarted server lost are written again before anything is committed,
//! and calls whose open was forgotten wait until their file is open anew.
//!
//! **Source:** RFC 1813, 3.3.7 (write verifiers); RFC 8881, 8.4 (lost state).

use std::collections::VecDeque;

use model::{Completion, Op, OpError, OpKind, Outcome};
use nfs_client::Connection;
use nfs_client::proto::client::{Data, Event, File, OpenAccess, Operation, PayloadRange};
use nfs_client::proto::nfs3::{CreateHow, Sattr, StableHow};
use nfs_client::proto::status::Status;
use workload::Name;

use super::judge::{Judged, is_state_lost, judge, opened};
use super::set::Common;
use super::uncommitted::Piece;
use crate::limits::{COMMITS_MAX, REOPENS_MAX};

/// The tag of the call that opens a file anew: the largest that is ours, far above all transfers.
const REOPEN: u32 = u32::MAX - 1;

/// Tables of ops and transfers; an index into the latter is the tag of a call.
pub(super) struct Transfers {
    ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    table: Vec<Transfer>,
    free: Vec<u32>,
    /// Ops with calls that could not be started yet.
    waiting: VecDeque<u32>,
    /// Transfers that came back short or were held back, to be started.
    continued: Vec<u32>,
    finished: Vec<Completion>,
    /// Transfers that wait until their file is open again.
    parked: Vec<u32>,
    /// Number of the file that is being opened anew.
    reopening: Option<u32>,
    /// Of a WRITE made again; the next sync fails with it.
    again_error: Option<OpError>,
    /// Data moves under the anonymous stateid: the opens are another client's.
    is_guest: bool,
}

#[derive(Clone, Copy)]
struct OpSlot {
    op: Op,
    sent_ns: u64,
    /// What a create made.
    created: Option<File>,
    /// Bytes for which calls were started.
    started_bytes: u32,
    calls: u32,
    commits: u32,
    /// The call that closes what a create made has been started.
    closing: bool,
    error: Option<OpError>,
}

/// One call of an op, or one that writes again what a server may have lost.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    /// The op it belongs to; `None` where it writes again.
    op: Option<u32>,
    /// What it does.
    pub(super) kind: OpKind,
    /// Number of the file.
    pub(super) file: u32,
    /// Within the file.
    pub(super) offset: u64,
    /// In bytes; 0 where no data moves.
    pub(super) len: u32,
    reopens: u32,
}

impl OpSlot {
    const fn new(op: Op, sent_ns: u64) -> Self {
        Self {
            op,
            sent_ns,
            created: None,
            started_bytes: 0,
            calls: 0,
            commits: 0,
            closing: false,
            error: None,
        }
    }

    /// Says whether data moves in transfers of their own now.
    fn moves_data(&self) -> bool {
        match self.op.kind {
            OpKind::Read | OpKind::Write => true,
            OpKind::Create => self.created.is_some() && !self.closing,
            _ => false,
        }
    }
}

impl Transfers {
    /// Makes room for so many ops and calls. A guest's client did not open the files.
    pub(super) fn new(depth: usize, calls: usize, is_guest: bool) -> Self {
        let op = Op { due_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read };
        let idle =
            Transfer { op: None, kind: OpKind::Read, file: 0, offset: 0, len: 0, reopens: 0 };
        Self {
            ops: vec![OpSlot::new(op, 0); depth],
            free_ops: (0..depth as u32).rev().collect(),
            table: vec![idle; calls],
            free: (0..calls as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth + 1),
            continued: Vec::with_capacity(calls),
            finished: Vec::with_capacity(depth),
            parked: Vec::with_capacity(calls),
            reopening: None,
            again_error: None,
            is_guest,
        }
    }

    /// Takes as many ops as there is room for.
    pub(super) fn accept(&mut self, batch: &[Op], sent_ns: u64) -> usize {
        let accepted = batch.len().min(self.free_ops.len());
        for op in &batch[..accepted] {
            let slot = self.free_ops.pop().expect("as many are free as were accepted");
            self.ops[slot as usize] = OpSlot::new(*op, sent_ns);
            self.waiting.push_back(slot);
        }
        accepted
    }

    /// Starts calls while there is something to start and room for it.
    pub(super) fn pump(&mut self, link: &mut Connection, now_ns: u64, common: &mut Common) {
        self.reopen(link, now_ns, common);
        while let Some(tag) = self.continued.pop() {
            self.start_transfer(link, now_ns, tag, common);
        }
        while common.has_piece() {
            let Some(tag) = self.free.pop() else { return };
            let Piece { file, offset, len } = common.take_piece().expect("there is one");
            let (file, kind) = (common.number(file), OpKind::Write);
            self.table[tag as usize] = Transfer { op: None, kind, file, offset, len, reopens: 0 };
            self.start_transfer(link, now_ns, tag, common);
        }
        while let Some(&slot) = self.waiting.front() {
            let syncs = self.ops[slot as usize].op.kind == OpKind::Sync;
            // Nothing is safe before all of it has been taken under one verifier.
            if syncs && common.is_rewriting() {
                return;
            }
            if syncs && (common.books.is_none() || self.again_error.is_some()) {
                self.waiting.pop_front();
                self.ops[slot as usize].error = self.again_error.take();
                self.finish(slot, now_ns);
                continue;
            }
            let Some(tag) = self.free.pop() else { return };
            if !self.start_next(link, now_ns, (slot, tag), common) {
                self.waiting.pop_front();
            }
        }
    }

    /// Starts one call of an op; says whether more calls of it can be started now.
    fn start_next(
        &mut self,
        link: &mut Connection,
        now_ns: u64,
        (slot, tag): (u32, u32),
        common: &Common,
    ) -> bool {
        let state = &mut self.ops[slot as usize];
        let op = state.op;
        state.calls += 1;
        let mut transfer = Transfer {
            op: Some(slot),
            kind: op.kind,
            file: op.file,
            offset: 0,
            len: 0,
            reopens: 0,
        };
        if !state.moves_data() {
            self.table[tag as usize] = transfer;
            self.start_action(link, now_ns, tag, common);
            return false;
        }
        let step = if op.kind == OpKind::Read { common.set.rsize } else { common.set.wsize };
        transfer.offset = op.offset_bytes + u64::from(state.started_bytes);
        transfer.len = step.min(op.len_bytes - state.started_bytes);
        state.started_bytes += transfer.len;
        let more = state.started_bytes < op.len_bytes;
        self.table[tag as usize] = transfer;
        self.start_transfer(link, now_ns, tag, common);
        more
    }

    /// Starts the call of an op that moves no data.
    fn start_action(&self, link: &mut Connection, now_ns: u64, tag: u32, common: &Common) {
        let Transfer { op, kind, file, .. } = self.table[tag as usize];
        let made = op.and_then(|slot| self.ops[slot as usize].created.as_ref());
        let name = Name::file(file);
        let (dir, name) = (&common.set.directory, name.as_bytes());
        let operation = match (kind, made) {
            (OpKind::Create, Some(file)) => Operation::Close { file },
            (OpKind::Create, None) => {
                let attributes = Sattr { mode: Some(0o644), ..Sattr::default() };
                Operation::Create { dir, name, how: CreateHow::Guarded(attributes) }
            }
            (OpKind::Stat, _) => Operation::Lookup { dir, name },
            (OpKind::Remove, _) => Operation::Remove { dir, name },
            _ => Operation::Commit { file: common.file(file), offset: 0, count: 0 },
        };
        link.start(now_ns, tag, &operation).expect("a transfer is free, so a slot is");
    }

    /// Starts the call that a transfer stands for.
    fn start_transfer(&self, link: &mut Connection, now_ns: u64, tag: u32, common: &Common) {
        let Transfer { op, kind, file: number, offset, len, .. } = self.table[tag as usize];
        if len == 0 {
            return self.start_action(link, now_ns, tag, common);
        }
        let made = op.and_then(|slot| self.ops[slot as usize].created.as_ref());
        let mut file = made.unwrap_or_else(|| common.file(number));
        let anonymous;
        if self.is_guest && made.is_none() {
            anonymous = File::from(file.handle);
            file = &anonymous;
        }
        let started = if kind == OpKind::Read {
            link.start(now_ns, tag, &Operation::Read { file, offset, count: len })
        } else {
            let is_create = kind == OpKind::Create;
            let stable = if is_create { StableHow::FileSync } else { common.set.stable };
            let start = common.set.pattern.range(number, offset, len).start;
            let data = Data::Pool(PayloadRange { start, len });
            link.start(now_ns, tag, &Operation::Write { file, offset, stable, data })
        };
        started.expect("a transfer is free, so a slot is");
    }

    /// Takes the end of a call.
    pub(super) fn ended(&mut self, event: &Event<'_>, common: &mut Common) {
        let tag = event.tag;
        if tag == REOPEN {
            return self.reopened(event, common);
        }
        let transfer = self.table[tag as usize];
        let is_ours = transfer.kind != OpKind::Create && transfer.len > 0 && !self.is_guest;
        if is_ours && is_state_lost(event) && transfer.reopens < REOPENS_MAX {
            self.table[tag as usize].reopens += 1;
            return self.parked.push(tag);
        }
        match judge(event, &transfer, common) {
            Ok(Judged::Moved(moved)) if moved < transfer.len => {
                if transfer.kind != OpKind::Read {
                    common.resent_bytes += u64::from(transfer.len - moved);
                }
                let rest = &mut self.table[tag as usize];
                rest.offset += u64::from(moved);
                rest.len -= moved;
                self.continued.push(tag);
            }
            judged => self.settle(tag, judged, event.done_ns, common),
        }
    }

    /// Says whether an op waits that could not be started.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands over the ops that have ended.
    pub(super) fn drain_into(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.finished);
    }

    /// Frees a transfer that has ended, and ends its op with its last one.
    fn settle(
        &mut self,
        tag: u32,
        judged: Result<Judged, OpError>,
        done_ns: u64,
        common: &mut Common,
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
            Ok(Judged::Unsafe) if state.commits < COMMITS_MAX => {
                state.commits += 1;
                return self.waiting.push_front(slot);
            }
            Ok(Judged::Unsafe) => state.error = Some(OpError::VERIFIER),
            Ok(Judged::Made(file)) => {
                state.created = file;
                match file {
                    Some(_) if state.op.len_bytes > 0 => return self.waiting.push_back(slot),
                    // There is nothing to write its content to.
                    None if state.op.len_bytes > 0 => {
                        state.error = Some(OpError(Status::NotSupp.number()));
                    }
                    _ => {}
                }
            }
            Ok(Judged::Moved(_)) => {}
            Err(error) => state.error = state.error.or(Some(error)),
        }
        self.advance(slot, done_ns, common);
    }

    /// Goes on with an op whose calls have ended: it is over, or what it made is to be closed.
    fn advance(&mut self, slot: u32, done_ns: u64, common: &Common) {
        let state = &mut self.ops[slot as usize];
        let all_started = !state.moves_data() || state.started_bytes == state.op.len_bytes;
        if state.calls > 0 || !(all_started || state.error.is_some()) {
            return;
        }
        if state.error.is_some() {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        if state.created.is_some() && !state.closing && common.set.version.is_stateful() {
            state.closing = true;
            self.waiting.push_back(slot);
        } else {
            self.finish(slot, done_ns);
        }
    }

    fn finish(&mut self, slot: u32, done_ns: u64) {
        let OpSlot { op, sent_ns, error, .. } = self.ops[slot as usize];
        let outcome = error.map_or(Outcome::Done(op.len_bytes), Outcome::Failed);
        self.finished.push(Completion { op, sent_ns, done_ns, outcome });
        self.free_ops.push(slot);
    }

    /// Opens the file of the first transfer that waits for that.
    fn reopen(&mut self, link: &mut Connection, now_ns: u64, common: &Common) {
        let Some(&tag) = self.parked.first().filter(|_| self.reopening.is_none()) else { return };
        let number = self.table[tag as usize].file;
        let name = Name::file(number);
        let (dir, name) = (&common.set.directory, name.as_bytes());
        let operation = Operation::Open { dir, name, access: OpenAccess::Both };
        // What is parked holds no slot.
        link.start(now_ns, REOPEN, &operation).expect("a parked transfer left its slot");
        self.reopening = Some(number);
    }

    /// Lets the transfers go on that waited for their file, or fail.
    fn reopened(&mut self, event: &Event<'_>, common: &mut Common) {
        let Some(number) = self.reopening.take() else { return };
        let opened = opened(event);
        if let Ok(file) = opened {
            common.replace(number, file);
        }
        let mut index = 0;
        while let Some(&tag) = self.parked.get(index) {
            if self.table[tag as usize].file != number {
                index += 1;
                continue;
            }
            self.parked.remove(index);
            match opened {
                Ok(_) => self.continued.push(tag),
                Err(error) => self.settle(tag, Err(error), event.done_ns, common),
            }
        }
    }
}
