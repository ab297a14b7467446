//! The calls of ops with pNFS: sends them, and interprets their replies.

use model::OpError;
use nfs_client::Connection;
use nfs_client::pnfs::{commit_ops, return_ops, write_return_body};
use nfs_client::proto::CallError;
use nfs_client::proto::client::{Event, File, Operation, OperationKind, Outcome};
use nfs_client::proto::nfs4::{DeviceError, DeviceId, List, OpCode};
use nfs_client::proto::status::Status;

use super::super::transfers::{
    CallResult, NotStarted, Stage as DataStage, Transfer, judge, note_error, payload_of,
};
use super::reports::no_layout;
use super::stages::{Call, METADATA, Stage};
use super::state::{Side, State};
use super::usage::EndedCall;

/// The uid and gid of a call; `None` for those of the connection.
type User = Option<(u32, u32)>;

impl State {
    /// Starts the calls that wait for a server, while it has free slots.
    pub(super) fn start_calls(&mut self, side: usize, link: &mut Connection, now_ns: u64) {
        while link.free_slots() > 0 {
            let Some(tag) = self.sides[side].queue.pop_front() else { return };
            match self.start_call(tag, link, now_ns) {
                Ok(()) => {}
                Err(NotStarted::NoSlot) => return self.sides[side].queue.push_front(tag),
                Err(NotStarted::Failed(error)) => self.finish_call(tag, Some(error), now_ns),
            }
        }
    }

    fn start_call(
        &mut self,
        tag: u32,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let call = self.calls[tag as usize];
        let index = self.common.index(call.file);
        let stage = self.ops[call.op as usize].stage;
        let (file, user) = self.file_of(index, &call);
        let file = &file;
        let operation = match stage {
            Stage::Data(data) => return self.start_data(tag, link, now_ns, (file, user), data),
            Stage::Commit => Operation::Commit { file, offset: 0, count: 0 },
            Stage::Close => Operation::Close { file },
            Stage::LayoutCommit => return self.start_layoutcommit(tag, index, link, now_ns),
            Stage::LayoutReturn => return self.start_layoutreturn(tag, index, link, now_ns),
            Stage::LayoutGet => return self.start_layoutget(tag, index, link, now_ns),
            Stage::LayoutError => return self.start_layouterror(tag, index, link, now_ns),
            Stage::LayoutStats => return self.start_layoutstats(tag, index, link, now_ns),
        };
        link.start_as(now_ns, tag, &operation, user)?;
        self.common.calls.add(operation.kind());
        self.note_sent(tag, index, stage, 0, now_ns);
        Ok(())
    }

    /// Counts a call as the use of a data server, if it was sent to one.
    fn note_sent(&mut self, tag: u32, index: usize, stage: Stage, bytes: u32, now_ns: u64) {
        let call = &mut self.calls[tag as usize];
        if call.side as usize != METADATA {
            call.is_sent = true;
            self.files[index].usage.begin(stage, call, bytes, now_ns);
        }
    }

    fn start_data(
        &mut self,
        tag: u32,
        link: &mut Connection,
        now_ns: u64,
        (file, user): (&File, User),
        stage: DataStage,
    ) -> Result<(), NotStarted> {
        let call = self.calls[tag as usize];
        let side = &self.sides[call.side as usize];
        let offset = call.server_offset;
        let most = if stage == DataStage::Read { side.rsize } else { side.wsize };
        let len = call.left.min(most);
        self.calls[tag as usize].len = len;
        if stage == DataStage::Read {
            link.start_as(now_ns, tag, &Operation::Read { file, offset, count: len }, user)?;
            self.common.calls.add(OperationKind::Read);
            self.note_sent(tag, self.common.index(call.file), Stage::Data(stage), len, now_ns);
            return Ok(());
        }
        let kind = self.ops[call.op as usize].op.kind;
        let stable = self.common.set.stability_of(kind, false);
        let mut scratch = std::mem::take(&mut self.common.scratch);
        let data = payload_of(&self.common, &mut scratch, kind, call.file, call.offset, len);
        let write = Operation::Write { file, offset, stable, data };
        let started = link.start_as(now_ns, tag, &write, user);
        self.common.scratch = scratch;
        started?;
        self.common.calls.add(OperationKind::Write);
        self.note_sent(tag, self.common.index(call.file), Stage::Data(stage), len, now_ns);
        Ok(())
    }

    fn start_layoutcommit(
        &mut self,
        tag: u32,
        index: usize,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let state = &self.files[index];
        let layout = state.layout.as_ref().ok_or(no_layout())?;
        let ops = commit_ops(&self.common.set.files[index], layout, state.end);
        Ok(link.start_compound(now_ns, tag, &ops)?)
    }

    fn start_layoutreturn(
        &mut self,
        tag: u32,
        index: usize,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let layout = self.files[index].layout.as_ref().ok_or(no_layout())?;
        let (errors, mut used) = (self.errors_of(index), Vec::new());
        let stats = List::build(&mut used, self.returned_stats(index, now_ns));
        let mut body = Vec::new();
        write_return_body(&mut body, layout.layout_type, layout.stateid, &errors, stats);
        let file = &self.common.set.files[index];
        let ops = return_ops(file, layout.layout_type, layout.stateid, &body);
        Ok(link.start_compound(now_ns, tag, &ops)?)
    }

    /// Returns the file of a call as its server knows it, and the user that may access it.
    fn file_of(&self, index: usize, call: &Call) -> (File, User) {
        if call.side as usize != METADATA
            && let Some(layout) = &self.files[index].layout
        {
            let stripe = &layout.mirrors[call.mirror as usize].stripes[call.stripe as usize];
            return (stripe.file, stripe.user);
        }
        (self.common.set.files[index], None)
    }

    /// Returns the device that a call goes to.
    pub(super) fn device_of(&self, index: usize, call: &Call) -> Option<DeviceId> {
        let layout = self.files[index].layout.as_ref()?;
        Some(layout.mirrors[call.mirror as usize].stripes[call.stripe as usize].device)
    }

    /// Handles the completion of a call.
    pub(super) fn end_call(&mut self, event: &Event<'_>) {
        let tag = event.tag;
        let call = self.calls[tag as usize];
        let index = self.common.index(call.file);
        let stage = self.ops[call.op as usize].stage;
        let error = match stage {
            Stage::Data(data) => return self.end_data(event, call, index, data),
            Stage::Commit => self.end_commit(event, call, index),
            Stage::LayoutCommit => match event.result_of(OpCode::Layoutcommit) {
                Ok(_) => {
                    self.files[index].is_changed = false;
                    None
                }
                Err(error) => Some(note_error(event, error, &mut self.common)),
            },
            Stage::LayoutReturn => {
                self.end_layoutreturn(event, call, index);
                None
            }
            Stage::LayoutGet => {
                self.end_layoutget(event, index);
                None
            }
            Stage::LayoutError => {
                self.end_layouterror(event, index);
                None
            }
            Stage::LayoutStats => {
                if self.end_layoutstats(event, index) {
                    return self.sides[METADATA].queue.push_back(tag);
                }
                None
            }
            Stage::Close => {
                event.result.err().map(|error| note_error(event, error, &mut self.common))
            }
        };
        self.finish_call(tag, error, event.done_ns);
    }

    fn end_data(&mut self, event: &Event<'_>, call: Call, index: usize, stage: DataStage) {
        let tag = event.tag;
        let is_direct = call.side as usize != METADATA;
        if is_direct {
            let moved = match event.result {
                Ok(Outcome::Read { count, .. } | Outcome::Written { count, .. }) => Some(count),
                _ => None,
            };
            self.note_ended(event, &call, index, Stage::Data(stage), moved);
        }
        if is_direct
            && let Err(error) = &event.result
            && !is_final(error)
        {
            return self.retry_elsewhere(tag, call, index, error);
        }
        let kind = self.ops[call.op as usize].op.kind;
        let piece = (call.file, call.offset, call.len);
        let transfer = Transfer::of_piece(call.op, kind, stage, piece);
        // Unstable data is tracked for the server that commits it.
        let layout = self.files[index].layout.as_ref();
        let through_mds = layout.is_some_and(|layout| layout.commits_through_mds);
        let keeper = if through_mds { METADATA } else { call.side as usize };
        std::mem::swap(&mut self.common.uncommitted, &mut self.sides[keeper].uncommitted);
        let judged = judge(event, &transfer, &mut self.common);
        std::mem::swap(&mut self.common.uncommitted, &mut self.sides[keeper].uncommitted);
        let moved = match judged {
            Ok(CallResult::Moved(moved)) => moved,
            Ok(_) => return self.finish_call(tag, Some(OpError::MALFORMED), event.done_ns),
            Err(error) => return self.finish_call(tag, Some(error), event.done_ns),
        };
        self.note_moved(event, &call, index, stage, moved);
        let state = &mut self.calls[tag as usize];
        state.left -= moved;
        state.offset += u64::from(moved);
        state.server_offset += u64::from(moved);
        if state.left == 0 {
            return self.finish_call(tag, None, event.done_ns);
        }
        self.sides[call.side as usize].queue.push_back(tag);
    }

    /// Counts the end of a call to a data server.
    fn note_ended(
        &mut self,
        event: &Event<'_>,
        call: &Call,
        index: usize,
        stage: Stage,
        moved: Option<u32>,
    ) {
        self.calls[event.tag as usize].is_sent = false;
        let ended = EndedCall { moved, sent_ns: event.sent_ns, done_ns: event.done_ns };
        self.files[index].usage.end(stage, call, ended);
    }

    fn note_moved(
        &mut self,
        event: &Event<'_>,
        call: &Call,
        index: usize,
        stage: DataStage,
        moved: u32,
    ) {
        let Side { used, times, .. } = &mut self.sides[call.side as usize];
        times.record(event.done_ns.saturating_sub(event.sent_ns));
        let bytes = u64::from(moved);
        if stage == DataStage::Read {
            used.read_bytes += bytes;
            return;
        }
        used.write_bytes += bytes;
        self.counts.mirrored_bytes += if call.is_extra { bytes } else { 0 };
        let file = &mut self.files[index];
        file.end = file.end.max(call.offset + bytes);
        file.is_changed |= call.side as usize != METADATA;
    }

    /// Sends data that a data server refused through the metadata server.
    #[cold]
    fn retry_elsewhere(&mut self, tag: u32, call: Call, index: usize, error: &CallError) {
        let status = error.status().unwrap_or(Status::NxIo);
        if let Some(device) = self.device_of(index, &call) {
            let code = self.ops[call.op as usize].stage.code();
            self.note_failure(index, DeviceError::new(device, status, code));
        }
        self.counts.refused += 1;
        self.lose_layout(index);
        self.reroute(tag);
    }

    fn end_commit(&mut self, event: &Event<'_>, call: Call, index: usize) -> Option<OpError> {
        if call.side as usize != METADATA {
            let moved = event.result.is_ok().then_some(0);
            self.note_ended(event, &call, index, Stage::Commit, moved);
        }
        let verifier = match event.result {
            Ok(Outcome::Committed { verifier }) => verifier,
            Ok(_) => return Some(OpError::MALFORMED),
            Err(error) => return Some(note_error(event, error, &mut self.common)),
        };
        let uncommitted = self.sides[call.side as usize].uncommitted.as_mut()?;
        let is_safe = uncommitted.note_committed(index, verifier);
        (!is_safe).then_some(OpError::VERIFIER)
    }
}

/// Returns true if the metadata server would give the same answer.
fn is_final(error: &CallError) -> bool {
    matches!(
        error.status(),
        Some(Status::NoSpc | Status::DQuot | Status::FBig | Status::Inval | Status::RoFs)
    )
}
