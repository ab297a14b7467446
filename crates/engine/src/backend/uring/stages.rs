//! What happens when a ring entry completes: either the op is done, or its next entry is pushed.
//!
//! An update is a read followed by a write, an append to a log a write followed by a sync. An op
//! that opens a file by name consists of an open, the pieces of its data, a sync if each file must
//! be durable, and a close even if a piece failed.

use std::hint::black_box;
use std::os::fd::AsRawFd as _;

use io_uring::opcode;
use io_uring::types::Fd;
use model::{Op, OpError, OpKind, Outcome};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use workload::names::Sort;

use super::Uring;
use crate::backend::files::failed;
use crate::backend::posix::get_each;

/// The op's entry that is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The whole op, or the first half of an update.
    Only,
    /// The second half of an update.
    WriteBack,
    /// The sync after an append to a log.
    LogSync,
    Open,
    Piece,
    Sync,
    Close,
}

/// Returns the flags for kinds of ops that open a file by name.
fn open_flags(kind: OpKind, durable: OFlags) -> Option<OFlags> {
    match kind {
        OpKind::Create => Some(OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | durable),
        OpKind::Append => Some(OFlags::WRONLY | durable),
        OpKind::ReadFile => Some(OFlags::RDONLY),
        _ => None,
    }
}

impl Uring {
    /// Pushes the first entry of an op.
    pub(super) fn start_op(&mut self, slot: u32) {
        let op = self.slots[slot as usize].op;
        if let Some(flags) = open_flags(op.kind, self.set.durable) {
            self.slots[slot as usize].stage = Stage::Open;
            let path = self.path(slot, Sort::File);
            let directory = Fd(self.set.root(op.file).as_raw_fd());
            let open = opcode::OpenAt::new(directory, path)
                .flags((flags | OFlags::CLOEXEC | self.set.direct_flag()).bits().cast_signed())
                .mode(Mode::from_raw_mode(0o644).bits());
            return self.push_entry(&open.build(), slot);
        }
        self.slots[slot as usize].stage = Stage::Only;
        let entry = match self.data_entry(slot) {
            Some(entry) => entry,
            None => self.name_entry(slot),
        };
        self.push_entry(&entry, slot);
    }

    /// Processes the result of a ring entry. Returns true if the op is done.
    pub(super) fn advance_op(&mut self, slot: u32, result: i32) -> bool {
        let at = slot as usize;
        let op = self.slots[at].op;
        match self.slots[at].stage {
            Stage::Only => {
                self.slots[at].outcome = self.judge_result(slot, &op, result);
                let is_done = matches!(self.slots[at].outcome, Outcome::Done(_));
                let entry = match op.kind {
                    OpKind::Update if is_done => {
                        self.slots[at].stage = Stage::WriteBack;
                        black_box(self.buffers.slot(at));
                        self.write_entry(slot, &op)
                    }
                    OpKind::LogAppend if is_done && self.set.syncs_log => {
                        self.slots[at].stage = Stage::LogSync;
                        self.sync_entry(&op)
                    }
                    _ => return true,
                };
                self.push_entry(&entry, slot);
                false
            }
            Stage::WriteBack => {
                self.slots[at].outcome = moved_outcome(&op, result);
                true
            }
            Stage::Open if result < 0 => {
                self.slots[at].outcome = failure(result);
                true
            }
            Stage::Open => {
                self.slots[at].fd = result;
                self.slots[at].outcome = Outcome::Done(op.len_bytes);
                self.next_piece(slot, &op);
                false
            }
            Stage::Piece => {
                self.piece_ended(slot, &op, result);
                false
            }
            Stage::Sync => {
                if result < 0 {
                    self.slots[at].outcome = failure(result);
                }
                self.close_file(slot);
                false
            }
            Stage::LogSync | Stage::Close => {
                if result < 0 {
                    self.slots[at].outcome = failure(result);
                }
                true
            }
        }
    }

    /// Returns the length of the next piece of data for a file opened by name, in bytes.
    fn piece_len(&self, slot: u32) -> u32 {
        let state = &self.slots[slot as usize];
        (state.op.len_bytes - state.moved).min(self.set.io_size_bytes as u32)
    }

    /// Pushes the next piece of data, or what follows the last one.
    fn next_piece(&mut self, slot: u32, op: &Op) {
        let len = self.piece_len(slot);
        let state = &mut self.slots[slot as usize];
        let fd = Fd(state.fd);
        if len == 0 {
            if self.set.sync_each && op.kind != OpKind::ReadFile {
                state.stage = Stage::Sync;
                return self.push_entry(&opcode::Fsync::new(fd).build(), slot);
            }
            return self.close_file(slot);
        }
        state.stage = Stage::Piece;
        let offset = op.offset_bytes + u64::from(state.moved);
        let buffer = self.buffers.slot(slot as usize);
        let entry = if op.kind == OpKind::ReadFile {
            opcode::Read::new(fd, buffer.as_mut_ptr(), len).offset(offset).build()
        } else {
            let data = self.set.outgoing_bytes(buffer, op.file, offset, len);
            opcode::Write::new(fd, data.as_ptr(), len).offset(offset).build()
        };
        self.push_entry(&entry, slot);
    }

    fn piece_ended(&mut self, slot: u32, op: &Op, result: i32) {
        let len = self.piece_len(slot);
        let state = &mut self.slots[slot as usize];
        let offset = op.offset_bytes + u64::from(state.moved);
        // A short piece isn't continued: the files contain everything that ops read, so it is an
        // error of the target. `posix` reports the same error.
        if result != len.cast_signed() {
            state.outcome = if result < 0 { failure(result) } else { SHORT };
            return self.close_file(slot);
        }
        state.moved += len;
        if op.kind == OpKind::ReadFile {
            let data = &self.buffers.slot(slot as usize)[..len as usize];
            if let Err(mismatch) = self.set.check_read(op.file, offset, data) {
                self.slots[slot as usize].outcome = Outcome::Failed(mismatch);
                return self.close_file(slot);
            }
        }
        self.next_piece(slot, op);
    }

    /// Closes the file of an op, even if a piece failed, so that its descriptor doesn't leak.
    fn close_file(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.stage = Stage::Close;
        let close = opcode::Close::new(Fd(state.fd)).build();
        self.push_entry(&close, slot);
    }

    /// Interprets the result of an op's only entry: bytes transferred, or a negative error number.
    fn judge_result(&mut self, slot: u32, op: &Op, result: i32) -> Outcome {
        if op.kind == OpKind::LookupMissing {
            return match failure(result) {
                _ if result >= 0 => Outcome::Failed(failed(Errno::EXIST)),
                Outcome::Failed(error) if error == failed(Errno::NOENT) => Outcome::Done(0),
                outcome => outcome,
            };
        }
        let outcome = moved_outcome(op, result);
        if op.kind.reads_data() && matches!(outcome, Outcome::Done(_)) {
            let data = &self.buffers.slot(slot as usize)[..op.len_bytes as usize];
            if op.kind == OpKind::GetChars {
                get_each(data);
            }
            let checked = if op.kind == OpKind::ReadPlus {
                self.set.check_read_sparse(op.file, op.offset_bytes, data)
            } else {
                self.set.check_read(op.file, op.offset_bytes, data)
            };
            if let Err(mismatch) = checked {
                return Outcome::Failed(mismatch);
            }
        }
        outcome
    }
}

const SHORT: Outcome = Outcome::Failed(OpError::SHORT);

const fn failure(result: i32) -> Outcome {
    Outcome::Failed(OpError(result.unsigned_abs()))
}

fn moved_outcome(op: &Op, result: i32) -> Outcome {
    match u32::try_from(result) {
        Err(_) => failure(result),
        // These return 0, not a number of bytes.
        Ok(_) if op.kind.changes_range() => Outcome::Done(op.len_bytes),
        Ok(bytes) if op.kind.moves_data() && bytes != op.len_bytes => SHORT,
        Ok(bytes) => Outcome::Done(if op.kind.moves_data() { bytes } else { 0 }),
    }
}
