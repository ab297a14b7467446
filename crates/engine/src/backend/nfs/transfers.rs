//! Ops in flight and the transfers they are cut into.
//!
//! [`Transfers`] is two tables with free lists: an op holds its calls' progress, a transfer is one
//! call of an op, and its index is the tag that comes back with the reply. There are as many
//! transfers as the connection has slots, so a free transfer means a free slot.

use std::collections::VecDeque;

use model::{Completion, Op, OpError, OpKind, Outcome};
use nfs_client::Connection;
use nfs_client::proto::CallError;
use nfs_client::proto::client::{self, Data, Event, File, Operation, PayloadRange};
use nfs_client::proto::nfs3::{CreateHow, Sattr, StableHow, Status, Verifier};
use workload::FileName;

use super::NfsFiles;

/// Tables of ops and transfers; an index into the latter is the tag of a call.
pub(super) struct Transfers {
    set: NfsFiles,
    ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    table: Vec<Transfer>,
    free: Vec<u32>,
    /// Ops with calls that could not be started yet.
    waiting: VecDeque<u32>,
    /// Transfers that came back short, to be continued.
    continued: Vec<u32>,
    finished: Vec<Completion>,
    /// Of the first WRITE; another one means that the server may have lost data since.
    verifier: Option<Verifier>,
    /// Payload that a server took only in part, and that goes out again.
    resent_bytes: u64,
}

#[derive(Clone, Copy)]
struct OpSlot {
    op: Op,
    sent_ns: u64,
    /// File that data moves to or from; of a create, once it is known.
    file: Option<File>,
    /// Bytes for which calls were started.
    started_bytes: u32,
    calls: u32,
    /// The call that acts on a name or commits has been started.
    acted: bool,
    error: Option<OpError>,
}

#[derive(Clone, Copy)]
struct Transfer {
    op: u32,
    /// Within the file.
    offset: u64,
    len: u32,
}

impl Transfers {
    pub(super) fn new(set: NfsFiles, calls: usize) -> Self {
        let idle_op = OpSlot {
            op: Op { due_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read },
            sent_ns: 0,
            file: None,
            started_bytes: 0,
            calls: 0,
            acted: false,
            error: None,
        };
        let depth = set.queue_depth;
        Self {
            ops: vec![idle_op; depth],
            free_ops: (0..depth as u32).rev().collect(),
            table: vec![Transfer { op: 0, offset: 0, len: 0 }; calls],
            free: (0..calls as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth + 1),
            continued: Vec::with_capacity(calls),
            finished: Vec::with_capacity(depth),
            verifier: None,
            resent_bytes: 0,
            set,
        }
    }

    /// Takes as many ops as there is room for.
    pub(super) fn accept(&mut self, batch: &[Op], sent_ns: u64) -> usize {
        let accepted = batch.len().min(self.free_ops.len());
        for op in &batch[..accepted] {
            let slot = self.free_ops.pop().expect("as many are free as were accepted");
            let file = match op.kind {
                OpKind::Read | OpKind::Write | OpKind::Sync => {
                    Some(self.set.files[(op.file / self.set.stride) as usize])
                }
                OpKind::Create | OpKind::Stat | OpKind::Remove => None,
            };
            self.ops[slot as usize] = OpSlot {
                op: *op,
                sent_ns,
                file,
                started_bytes: 0,
                calls: 0,
                acted: false,
                error: None,
            };
            self.waiting.push_back(slot);
        }
        accepted
    }

    /// Starts calls while there is something to start and room for it.
    pub(super) fn pump(&mut self, connection: &mut Connection, now_ns: u64) {
        while let Some(tag) = self.continued.pop() {
            self.start_transfer(connection, now_ns, tag);
        }
        while let Some(&slot) = self.waiting.front() {
            let Some(tag) = self.free.pop() else { return };
            if !self.start_next(connection, now_ns, slot, tag) {
                self.waiting.pop_front();
            }
        }
    }

    /// Starts one call of an op; says whether more calls of it can be started now.
    fn start_next(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
        slot: u32,
        tag: u32,
    ) -> bool {
        let at = slot as usize;
        let op = self.ops[at].op;
        self.ops[at].calls += 1;
        self.table[tag as usize] = Transfer { op: slot, offset: 0, len: 0 };
        if self.ops[at].file.is_none() || op.kind == OpKind::Sync {
            self.ops[at].acted = true;
            self.start_action(connection, now_ns, &op, tag);
            return false;
        }
        let step = if op.kind == OpKind::Read { self.set.rsize } else { self.set.wsize };
        let done = self.ops[at].started_bytes;
        let len = step.min(op.len_bytes - done);
        self.ops[at].started_bytes += len;
        let offset = op.offset_bytes + u64::from(done);
        self.table[tag as usize] = Transfer { op: slot, offset, len };
        self.start_transfer(connection, now_ns, tag);
        self.ops[at].started_bytes < op.len_bytes
    }

    /// Starts the call of an op that moves no data.
    fn start_action(&self, connection: &mut Connection, now_ns: u64, op: &Op, tag: u32) {
        let name = FileName::new(op.file);
        let (dir, name) = (&self.set.directory, name.as_bytes());
        let operation = match op.kind {
            OpKind::Create => {
                let attributes = Sattr { mode: Some(0o644), ..Sattr::default() };
                Operation::Create { dir, name, how: CreateHow::Guarded(attributes) }
            }
            OpKind::Stat => Operation::Lookup { dir, name },
            OpKind::Remove => Operation::Remove { dir, name },
            OpKind::Sync | OpKind::Read | OpKind::Write => {
                let file = &self.set.files[(op.file / self.set.stride) as usize];
                Operation::Commit { file, offset: 0, count: 0 }
            }
        };
        connection.start(now_ns, tag, &operation).expect("a transfer is free, so a slot is");
    }

    fn start_transfer(&self, connection: &mut Connection, now_ns: u64, tag: u32) {
        let Transfer { op, offset, len } = self.table[tag as usize];
        let OpSlot { op, file, .. } = &self.ops[op as usize];
        let file = file.as_ref().expect("data moves to and from files that are known");
        let started = if op.kind == OpKind::Read {
            connection.start(now_ns, tag, &Operation::Read { file, offset, count: len })
        } else {
            let is_create = op.kind == OpKind::Create;
            let stable = if is_create { StableHow::FileSync } else { StableHow::Unstable };
            let start = self.set.pattern.range(op.file, offset, len).start;
            let data = Data::Pool(PayloadRange { start, len });
            connection.start(now_ns, tag, &Operation::Write { file, offset, stable, data })
        };
        started.expect("a transfer is free, so a slot is");
    }

    /// Takes the end of a call.
    pub(super) fn ended(&mut self, event: &Event<'_>) {
        let tag = event.tag;
        let transfer = self.table[tag as usize];
        let at = transfer.op as usize;
        match self.judge(event, transfer) {
            Ok(moved) if moved < transfer.len => {
                if self.ops[at].op.kind != OpKind::Read {
                    self.resent_bytes += u64::from(transfer.len - moved);
                }
                let rest = &mut self.table[tag as usize];
                rest.offset += u64::from(moved);
                rest.len -= moved;
                self.continued.push(tag);
                return;
            }
            Ok(_) => {}
            Err(error) => {
                self.ops[at].error.get_or_insert(error);
            }
        }
        self.free.push(tag);
        self.ops[at].calls -= 1;
        if self.is_over(transfer.op) {
            self.finish(transfer.op, event.done_ns);
        }
    }

    /// Payload that went out more than once, because the server took only a part of it.
    pub(super) const fn resent_bytes(&self) -> u64 {
        self.resent_bytes
    }

    /// Hands over the ops that have ended.
    pub(super) fn drain_into(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.finished);
    }

    /// Looks at the result of a call and says how many bytes it moved.
    fn judge(&mut self, event: &Event<'_>, transfer: Transfer) -> Result<u32, OpError> {
        let op = self.ops[transfer.op as usize].op;
        match event.result.map_err(|error| error_of(&error))? {
            client::Outcome::Read { count, eof } => {
                if count > transfer.len || (count < transfer.len && (eof || count == 0)) {
                    return Err(OpError::SHORT);
                }
                let expected = self.set.pattern.slice(op.file, transfer.offset, count);
                if self.set.verify && event.payload != expected {
                    return Err(OpError::MISMATCH);
                }
                Ok(count)
            }
            client::Outcome::Written { count, verifier, .. } => {
                if count == 0 || count > transfer.len {
                    return Err(OpError::SHORT);
                }
                self.check(verifier)?;
                Ok(count)
            }
            client::Outcome::Committed { verifier } => self.check(verifier).map(|()| 0),
            client::Outcome::Object { file, .. } if op.kind == OpKind::Create => {
                self.ops[transfer.op as usize].file = file;
                if op.len_bytes > 0 {
                    file.ok_or(OpError(Status::NotSupp.number()))?;
                    self.waiting.push_back(transfer.op);
                }
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    /// A verifier that changed says that the server restarted and may have lost what was not
    /// committed.
    fn check(&mut self, verifier: Verifier) -> Result<(), OpError> {
        if *self.verifier.get_or_insert(verifier) == verifier {
            Ok(())
        } else {
            Err(OpError::VERIFIER)
        }
    }

    fn is_over(&self, slot: u32) -> bool {
        let state = &self.ops[slot as usize];
        let moves = state.file.is_some() && state.op.kind != OpKind::Sync;
        let all_started = !moves || state.started_bytes == state.op.len_bytes;
        state.calls == 0 && (state.error.is_some() || all_started)
    }

    fn finish(&mut self, slot: u32, done_ns: u64) {
        let OpSlot { op, sent_ns, error, .. } = self.ops[slot as usize];
        if error.is_some() {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        let outcome = error.map_or(Outcome::Done(op.len_bytes), Outcome::Failed);
        self.finished.push(Completion { op, sent_ns, done_ns, outcome });
        self.free_ops.push(slot);
    }
}

fn error_of(error: &CallError) -> OpError {
    match error {
        CallError::Status(spoken) => OpError(spoken.status.number()),
        CallError::Rpc(_) | CallError::Malformed(_) | CallError::Lost => OpError::RPC,
    }
}
