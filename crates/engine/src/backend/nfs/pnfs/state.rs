//! Ops in flight with pNFS, and the layouts of their files.
//!
//! An op goes through stages; each has as many calls as its data or the file's data servers need,
//! and the next one begins when all have ended. A call waits in the queue of its server until that
//! has a free slot. All tables are allocated before the start.
//!
//! | op | stages |
//! |---|---|
//! | Read, Write, Update | data in, data out |
//! | Sync | COMMIT at each server with unstable data, LAYOUTCOMMIT |
//! | return of a layout | the same, then LAYOUTRETURN |
//! | in the background | LAYOUTERROR, LAYOUTGET or LAYOUTSTATS, see [`super::background`] |
//!
//! A file whose layout is recalled, or refused by a data server, is accessed through the metadata
//! server from then on. Its layout is returned once no call uses it any more, and a new one is
//! requested later: see [`super::losses`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Completion, Histogram, Op, OpError, OpKind, Outcome, PathWork};
use nfs_client::pnfs::{FileLayout, KnownDevices, StripeFile};
use nfs_client::proto::nfs4::DeviceError;

use super::super::set::WorkerState;
use super::super::transfers::Stage as DataStage;
use super::super::uncommitted::Uncommitted;
use super::background::{Background, LayoutReports};
use super::recalls::RecallBoard;
use super::stages::{Call, METADATA, Stage, Task};
use super::usage::{DataUse, ServerAddress, Usage};
use crate::backend::{BackendCounts, PnfsCounts};

/// Calls that an op may have waiting or in flight, for each slot of a connection.
const CALLS_PER_SLOT: usize = 4;
/// Maximum number of errors of data servers to report.
pub(super) const ERRORS_MAX: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct OpSlot {
    pub(super) op: Op,
    pub(super) task: Task,
    sent_ns: u64,
    pub(super) stage: Stage,
    started_bytes: u32,
    /// Calls that have not ended.
    calls: u32,
    error: Option<OpError>,
    /// It needed a COMMIT.
    has_committed: bool,
}

/// The layout of a file.
pub(super) struct FileState {
    /// The layout until it is returned.
    pub(super) layout: Option<FileLayout>,
    /// New data may go to the data servers.
    pub(super) is_usable: bool,
    /// Calls to data servers that have not ended.
    pub(super) in_flight: u32,
    /// Written since the last LAYOUTCOMMIT.
    pub(super) is_changed: bool,
    /// End of what was written, in bytes.
    pub(super) end: u64,
    /// How much the data servers of this layout were used.
    pub(super) usage: Usage,
    /// The layout is being returned.
    pub(super) is_returning: bool,
    /// Layouts that were requested again so far; `None` if there is no point in it.
    pub(super) gets: Option<u32>,
}

/// A server that may have data of files.
pub(super) struct Side {
    /// Calls that wait for a slot.
    pub(super) queue: VecDeque<u32>,
    pub(super) uncommitted: Option<Uncommitted>,
    pub(super) rsize: u32,
    pub(super) wsize: u32,
    pub(super) used: DataUse,
    /// Response times of its READs and WRITEs.
    pub(super) times: Histogram,
    pub(super) address: ServerAddress,
}

/// What is known of a server when a pass starts.
#[derive(Clone, Copy)]
pub(super) struct ServerLimits {
    pub(super) address: SocketAddr,
    pub(super) rsize: u32,
    pub(super) wsize: u32,
}

/// Where a piece of data goes.
pub(super) struct Route {
    pub(super) side: u32,
    pub(super) mirror: u32,
    pub(super) stripe: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
}

pub(super) struct State {
    pub(super) ops: Vec<OpSlot>,
    free_ops: Vec<u32>,
    /// Ops with calls that could not be prepared yet.
    waiting: VecDeque<u32>,
    pub(super) calls: Vec<Call>,
    free_calls: Vec<u32>,
    pub(super) sides: Vec<Side>,
    pub(super) files: Vec<FileState>,
    pub(super) background: Background,
    finished: Vec<Completion>,
    pub(super) common: WorkerState,
    pub(super) counts: PnfsCounts,
    /// Errors of data servers that have not been reported, with the index of the file.
    pub(super) errors: Vec<(u32, DeviceError)>,
    pub(super) reports: LayoutReports,
    /// What is shared with other workers.
    pub(super) board: Arc<RecallBoard>,
    /// The devices whose servers are connected.
    pub(super) devices: KnownDevices,
    /// For each data server of these devices its number here, or 0.
    pub(super) numbers: Vec<u32>,
}

impl State {
    /// Allocates the tables. `servers` are the data servers behind the metadata server, `slots` is
    /// the number of calls that each connection may have in flight.
    pub(super) fn new(
        mut common: WorkerState,
        layouts: Vec<Option<FileLayout>>,
        servers: &[ServerLimits],
        slots: usize,
    ) -> Self {
        let depth = common.set.queue_depth;
        // One more op does the work in the background.
        let ops = vec![OpSlot::new(Task::Op, idle_op(), 0); depth + 1];
        let most_targets = layouts.iter().flatten().map(targets_of).max().unwrap_or(0);
        let count = CALLS_PER_SLOT * slots * servers.len() + most_targets;
        let (rsize, wsize) = (common.set.rsize, common.set.wsize);
        let tracks = common.uncommitted.take().is_some();
        let files = common.set.files.len();
        let side = |server: &ServerLimits| Side {
            queue: VecDeque::with_capacity(count),
            uncommitted: tracks.then(|| Uncommitted::without_blocks(files)),
            rsize: server.rsize.min(rsize),
            wsize: server.wsize.min(wsize),
            used: DataUse::default(),
            times: Histogram::new(),
            address: ServerAddress::new(server.address),
        };
        let without_layout = layouts.iter().filter(|layout| layout.is_none()).count() as u64;
        Self {
            free_ops: (0..depth as u32).rev().collect(),
            ops,
            waiting: VecDeque::with_capacity(depth + 1),
            calls: vec![Call::default(); count],
            free_calls: (0..count as u32).rev().collect(),
            sides: servers.iter().map(side).collect(),
            background: Background::new(&layouts, common.set.version, ERRORS_MAX),
            finished: Vec::with_capacity(depth + 1),
            counts: PnfsCounts {
                files: layouts.len() as u64,
                without_layout,
                ..PnfsCounts::default()
            },
            files: layouts.into_iter().map(FileState::new).collect(),
            errors: Vec::with_capacity(ERRORS_MAX),
            reports: LayoutReports::default(),
            board: Arc::default(),
            devices: KnownDevices::default(),
            numbers: Vec::new(),
            common,
        }
    }

    /// Returns the number of files.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the index of the op that does the work in the background.
    pub(super) fn background_slot(&self) -> u32 {
        self.ops.len() as u32 - 1
    }

    /// Accepts as many ops as there is room for.
    pub(super) fn accept(&mut self, batch: &[Op], now_ns: u64) -> usize {
        let accepted = batch.len().min(self.free_ops.len());
        for op in &batch[..accepted] {
            self.begin(Task::Op, *op, now_ns);
        }
        accepted
    }

    /// Accepts a task for each file from `next` on, as many as there is room for; returns the next
    /// file.
    pub(super) fn accept_tasks(&mut self, task: Task, mut next: usize) -> usize {
        while next < self.files.len() && !self.free_ops.is_empty() {
            let file = self.common.number(next);
            self.begin(task, Op { file, kind: OpKind::Sync, ..idle_op() }, 0);
            next += 1;
        }
        next
    }

    fn begin(&mut self, task: Task, op: Op, now_ns: u64) {
        let slot = self.free_ops.pop().expect("no more ops are accepted than slots are free");
        self.ops[slot as usize] = OpSlot::new(task, op, now_ns);
        self.waiting.push_back(slot);
    }

    /// Returns true if no op is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.free_ops.len() + 1 == self.ops.len() && !self.is_in_background()
    }

    /// Returns true if a task is executed in the background.
    pub(super) fn is_in_background(&self) -> bool {
        self.ops[self.background_slot() as usize].task != Task::Op
    }

    /// Returns true if a LAYOUTGET is being executed.
    pub(super) fn is_getting(&self) -> bool {
        self.ops[self.background_slot() as usize].task == Task::Get
    }

    /// Returns true if layouts are being requested or returned, or wait for that.
    pub(super) fn changes_layouts(&self) -> bool {
        self.is_in_background() || !self.background.to_return.is_empty()
    }

    pub(super) fn begin_in_background(&mut self, task: Task, op: Op) {
        let slot = self.background_slot();
        self.ops[slot as usize] = OpSlot::new(task, op, 0);
        self.waiting.push_back(slot);
    }

    /// Returns true if something could be started.
    pub(super) fn has_work(&self) -> bool {
        !self.waiting.is_empty() || self.sides.iter().any(|side| !side.queue.is_empty())
    }

    /// Appends the completed ops to `out`.
    pub(super) fn drain_into(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.finished);
    }

    /// Prepares calls of ops while there is room for them.
    pub(super) fn start_waiting(&mut self, now_ns: u64) {
        self.start_background(now_ns);
        while let Some(&slot) = self.waiting.front() {
            if !self.prepare(slot, now_ns) {
                return;
            }
            self.waiting.pop_front();
            self.advance(slot, now_ns);
        }
    }

    /// Prepares the calls of an op's stage. Returns false if there is no room for all of them.
    fn prepare(&mut self, slot: u32, now_ns: u64) -> bool {
        let OpSlot { op, stage, error, .. } = self.ops[slot as usize];
        let index = self.common.index(op.file);
        if error.is_some() && stage != Stage::LayoutReturn {
            return true;
        }
        match stage {
            Stage::Data(data) => self.prepare_data(slot, index, data),
            Stage::Commit => self.prepare_commits(slot, index),
            Stage::LayoutCommit => {
                let file = &self.files[index];
                let needs = file.layout.as_ref().is_some_and(|layout| layout.needs_layoutcommit);
                !(needs && file.is_changed) || file.is_returning || self.prepare_one(slot, op.file)
            }
            Stage::LayoutReturn => {
                if self.files[index].layout.is_none() || self.files[index].is_returning {
                    return true;
                }
                if self.free_calls.is_empty() {
                    return false;
                }
                !self.leave_layout(slot, index, now_ns) || self.prepare_one(slot, op.file)
            }
            Stage::LayoutError | Stage::LayoutStats => {
                !self.has_report(stage, index) || self.prepare_one(slot, op.file)
            }
            Stage::LayoutGet => {
                if self.free_calls.is_empty() {
                    return false;
                }
                !self.join_layout(index, now_ns) || self.prepare_one(slot, op.file)
            }
            Stage::Close => self.prepare_one(slot, op.file),
        }
    }

    /// Prepares a call to the metadata server.
    fn prepare_one(&mut self, slot: u32, file: u32) -> bool {
        self.push_call(Call { op: slot, file, ..Call::default() })
    }

    fn prepare_data(&mut self, slot: u32, index: usize, stage: DataStage) -> bool {
        loop {
            let OpSlot { op, started_bytes, .. } = self.ops[slot as usize];
            if started_bytes == op.len_bytes {
                return true;
            }
            let offset = op.offset_bytes + u64::from(started_bytes);
            let left = op.len_bytes - started_bytes;
            let copies = self.copies_of(index, stage);
            if self.free_calls.len() < copies {
                return false;
            }
            let len = self.prepare_piece(slot, index, stage, (offset, left), copies);
            self.ops[slot as usize].started_bytes += len;
        }
    }

    /// Returns the number of mirrors that a piece is written to.
    fn copies_of(&self, index: usize, stage: DataStage) -> usize {
        match &self.files[index] {
            FileState { layout: Some(layout), is_usable: true, .. }
                if stage == DataStage::Write =>
            {
                layout.written_mirrors
            }
            _ => 1,
        }
    }

    /// Prepares the calls of the first piece of a transfer, one for each copy; returns its length.
    fn prepare_piece(
        &mut self,
        slot: u32,
        index: usize,
        stage: DataStage,
        (offset, left): (u64, u32),
        copies: usize,
    ) -> u32 {
        let number = self.ops[slot as usize].op.file;
        let mut len = left;
        let mut is_direct = self.files[index].is_usable;
        // All mirrors get the same piece, which ends at the next boundary of any of them.
        for mirror in 0..copies {
            match self.route(index, stage, mirror, offset, len) {
                Some(route) => len = route.len,
                None => is_direct = false,
            }
        }
        let call = Call { op: slot, file: number, offset, left: len, ..Call::default() };
        if !is_direct {
            let side = &self.sides[METADATA];
            let most = if stage == DataStage::Read { side.rsize } else { side.wsize };
            let len = left.min(most);
            self.push_call(Call { left: len, server_offset: offset, ..call });
            return len;
        }
        for mirror in 0..copies {
            let Some(route) = self.route(index, stage, mirror, offset, len) else { continue };
            self.push_call(Call {
                side: route.side,
                mirror: route.mirror,
                stripe: route.stripe,
                server_offset: route.offset,
                is_extra: mirror > 0,
                ..call
            });
        }
        len
    }

    /// Returns where the first piece of a transfer goes: a WRITE to this mirror, a READ to the
    /// first one whose server can be reached.
    pub(super) fn route(
        &self,
        index: usize,
        stage: DataStage,
        mirror: usize,
        offset: u64,
        len: u32,
    ) -> Option<Route> {
        let FileState { layout: Some(layout), is_usable: true, .. } = &self.files[index] else {
            return None;
        };
        let is_read = stage == DataStage::Read;
        if is_read && !layout.allows_reads {
            return None;
        }
        let last = if is_read { layout.mirrors.len() } else { mirror + 1 };
        for number in mirror..last {
            let one = layout.mirrors.get(number)?;
            let Some(piece) = one.striping.first_piece(offset, len) else { continue };
            let side = one.stripes.get(piece.stripe as usize)?.server;
            let server = &self.sides[side as usize];
            if server.used.is_lost {
                continue;
            }
            let most = if is_read { server.rsize } else { server.wsize };
            return Some(Route {
                side,
                mirror: number as u32,
                stripe: piece.stripe,
                offset: piece.offset,
                len: piece.len.min(most),
            });
        }
        None
    }

    /// Prepares a COMMIT for each server that has unstable data of a file.
    fn prepare_commits(&mut self, slot: u32, index: usize) -> bool {
        let number = self.ops[slot as usize].op.file;
        let targets = self.files[index].layout.as_ref().map_or(0, targets_of);
        if self.free_calls.len() < targets + 1 {
            return false;
        }
        let commit = Call { op: slot, file: number, ..Call::default() };
        for side in 0..self.sides.len() {
            let is_dirty = match &self.sides[side].uncommitted {
                Some(uncommitted) => uncommitted.is_dirty(index),
                None => false,
            };
            if !is_dirty {
                continue;
            }
            self.ops[slot as usize].has_committed = true;
            if side == METADATA {
                self.push_call(commit);
                continue;
            }
            let mirrors = match &self.files[index].layout {
                Some(layout) => layout.mirrors.len(),
                None => 0,
            };
            if mirrors == 0 || self.sides[side].used.is_lost {
                if mirrors < 2 {
                    self.ops[slot as usize].error = Some(OpError::VERIFIER);
                } else if let Some(uncommitted) = &mut self.sides[side].uncommitted {
                    // Another mirror has the same data.
                    uncommitted.forget(index);
                }
                continue;
            }
            // A data server may have several stripes of a file, as files of its own.
            for mirror in 0..mirrors {
                for stripe in 0..self.stripes_of(index, mirror) {
                    if self.is_first_use(index, mirror, stripe, side) {
                        let (mirror, stripe) = (mirror as u32, stripe as u32);
                        self.push_call(Call { side: side as u32, mirror, stripe, ..commit });
                    }
                }
            }
        }
        true
    }

    fn stripes_of(&self, index: usize, mirror: usize) -> usize {
        match &self.files[index].layout {
            Some(layout) => layout.mirrors[mirror].stripes.len(),
            None => 0,
        }
    }

    /// Returns true if a stripe is on this server, and no earlier one is in the same file there.
    fn is_first_use(&self, index: usize, mirror: usize, stripe: usize, side: usize) -> bool {
        let Some(layout) = &self.files[index].layout else { return false };
        let stripes = &layout.mirrors[mirror].stripes;
        let one = &stripes[stripe];
        let is_same =
            |other: &StripeFile| other.server == one.server && other.file.handle == one.file.handle;
        one.server as usize == side && !stripes[..stripe].iter().any(is_same)
    }

    /// Queues a call. Returns false if there is no room for it.
    fn push_call(&mut self, call: Call) -> bool {
        let Some(tag) = self.free_calls.pop() else { return false };
        let index = self.common.index(call.file);
        self.files[index].in_flight += u32::from(call.side as usize != METADATA);
        self.ops[call.op as usize].calls += 1;
        self.sides[call.side as usize].queue.push_back(tag);
        self.calls[tag as usize] = Call { is_active: true, ..call };
        true
    }

    /// Sends a call's rest to the metadata server, which writes all mirrors.
    pub(super) fn reroute(&mut self, tag: u32) {
        let call = &mut self.calls[tag as usize];
        if call.side as usize != METADATA {
            let index = self.common.index(call.file);
            self.files[index].in_flight -= 1;
        }
        call.side = METADATA as u32;
        call.server_offset = call.offset;
        self.sides[METADATA].queue.push_back(tag);
    }

    /// Ends a call, and its op if this was the last one.
    pub(super) fn finish_call(&mut self, tag: u32, error: Option<OpError>, done_ns: u64) {
        let Call { op, side, file, .. } = self.calls[tag as usize];
        self.calls[tag as usize].is_active = false;
        self.free_calls.push(tag);
        if side as usize != METADATA {
            let index = self.common.index(file);
            self.files[index].in_flight -= 1;
        }
        let state = &mut self.ops[op as usize];
        state.calls -= 1;
        state.error = state.error.or(error);
        self.advance(op, done_ns);
    }

    /// Begins the next stage of an op whose calls have ended, or completes it.
    fn advance(&mut self, slot: u32, done_ns: u64) {
        let state = &mut self.ops[slot as usize];
        let is_moved = match state.stage {
            Stage::Data(_) => state.started_bytes == state.op.len_bytes,
            _ => true,
        };
        if state.calls > 0 || !(is_moved || state.error.is_some()) {
            return;
        }
        if !is_moved {
            // It failed while further pieces were waiting.
            self.waiting.retain(|waiting| *waiting != slot);
        }
        let background_slot = self.background_slot();
        let state = &mut self.ops[slot as usize];
        if let Some(stage) = next_stage(state) {
            state.stage = stage;
            state.started_bytes = 0;
            return self.waiting.push_back(slot);
        }
        let OpSlot { op, task, sent_ns, error, has_committed, .. } = *state;
        if slot == background_slot {
            // The file's next sync or op shows whether its data is safe.
            state.task = Task::Op;
            return;
        }
        if task == Task::Op && op.kind == OpKind::Sync {
            self.common.syncs_without_commit += u64::from(!has_committed && error.is_none());
        }
        let outcome = match error {
            None => Outcome::Done(op.len_bytes),
            Some(error) => Outcome::Failed(error),
        };
        self.finished.push(Completion { op, sent_ns, done_ns, outcome });
        self.free_ops.push(slot);
    }

    /// Returns what a server did, without its address and the counts of its connection.
    pub(super) fn work_of(&self, number: usize) -> PathWork {
        let Side { used, times, .. } = &self.sides[number];
        PathWork {
            connections: 1,
            ops: times.count(),
            bytes: used.bytes(),
            times: times.clone(),
            lost_connections: used.is_lost.into(),
            ..PathWork::default()
        }
    }

    /// Returns what was reported, and what happened to layouts.
    pub(super) fn layout_reports(&self) -> LayoutReports {
        let PnfsCounts { recalled, regained, .. } = self.counts;
        LayoutReports { recalled, regained, ..self.reports }
    }

    /// Sets the counts that a backend with a single server computes differently.
    pub(super) fn complete_counts(&self, counts: &mut BackendCounts) {
        let sides = || self.sides.iter().map(|side| &side.used);
        let data: u64 = sides().skip(1).map(DataUse::bytes).sum();
        let pnfs = PnfsCounts {
            data_bytes: data,
            metadata_bytes: self.sides[METADATA].used.bytes(),
            ..self.counts
        };
        counts.read_bytes = Some(sides().map(|used| used.read_bytes).sum());
        let written: u64 = sides().map(|used| used.write_bytes).sum();
        counts.write_bytes = Some(written - self.counts.mirrored_bytes);
        counts.pnfs = Some(pnfs);
    }
}

impl OpSlot {
    fn new(task: Task, op: Op, sent_ns: u64) -> Self {
        let stage = match (task, op.kind) {
            (Task::Publish, _) => Stage::LayoutCommit,
            (Task::Close, _) => Stage::Close,
            (Task::Get, _) => Stage::LayoutGet,
            (Task::ReportErrors, _) => Stage::LayoutError,
            (Task::ReportUse, _) => Stage::LayoutStats,
            (_, OpKind::Sync) => Stage::Commit,
            (_, OpKind::Write | OpKind::PutChars | OpKind::LogAppend) => {
                Stage::Data(DataStage::Write)
            }
            _ => Stage::Data(DataStage::Read),
        };
        Self {
            op,
            task,
            sent_ns,
            stage,
            started_bytes: 0,
            calls: 0,
            error: None,
            has_committed: false,
        }
    }
}

impl FileState {
    fn new(layout: Option<FileLayout>) -> Self {
        Self {
            is_usable: layout.is_some(),
            usage: Usage::new(layout.as_ref()),
            layout,
            in_flight: 0,
            is_changed: false,
            end: 0,
            is_returning: false,
            gets: Some(0),
        }
    }
}

/// Returns the stage after the current one. `None` completes the op.
fn next_stage(state: &OpSlot) -> Option<Stage> {
    // A layout is returned even if its data may be lost.
    let returns = matches!(state.task, Task::Return | Task::Publish);
    if state.error.is_some() {
        let is_returned = matches!(state.stage, Stage::LayoutReturn | Stage::Close);
        return (returns && !is_returned).then_some(Stage::LayoutReturn);
    }
    match state.stage {
        Stage::Data(DataStage::Read) if state.op.kind == OpKind::Update => {
            Some(Stage::Data(DataStage::Write))
        }
        Stage::Commit => Some(Stage::LayoutCommit),
        Stage::LayoutCommit if returns => Some(Stage::LayoutReturn),
        _ => None,
    }
}

/// Returns the number of files at data servers that a layout has.
pub(super) fn targets_of(layout: &FileLayout) -> usize {
    layout.mirrors.iter().map(|mirror| mirror.stripes.len()).sum()
}

pub(super) const fn idle_op() -> Op {
    Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read }
}
