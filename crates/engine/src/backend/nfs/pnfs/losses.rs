//! Layouts that can't be used any more, data servers that are lost, and layouts in their place.
//!
//! A layout that was returned because it was recalled, or because a data server refused a call or
//! died, is requested again after a while: see [`super::background`]. The reply is used if it names
//! data servers with which this worker has a connection; others would have to be connected, which
//! blocks. Replies are so rare that they may allocate.
//!
//! **Source:** RFC 8881 sections 12.5.5, 18.43 and 18.44.

use std::sync::Arc;

use model::OpError;
use nfs_client::Connection;
use nfs_client::pnfs::{FileLayout, layoutget_ops};
use nfs_client::proto::client::Event;
use nfs_client::proto::nfs4::{DeviceError, LayoutIoMode, LayoutRecall, OpCode};
use nfs_client::proto::status::Status;
use nfs_client::proto::{CallError, client::File};

use super::super::transfers::{NotStarted, Stage as DataStage};
use super::recalls::RecallBoard;
use super::reports::no_layout;
use super::stages::{Call, METADATA, Stage};
use super::state::{ERRORS_MAX, State, targets_of};
use super::usage::{EndedCall, Usage};

impl State {
    /// Stops using the layout of a file, and returns it later.
    pub(super) fn lose_layout(&mut self, index: usize) {
        let file = &mut self.files[index];
        if file.layout.is_some() && file.is_usable {
            file.is_usable = false;
            self.background.plan_return(index);
        }
    }

    /// Handles a recall.
    #[cold]
    pub(super) fn note_recall(&mut self, recall: &LayoutRecall) {
        for index in 0..self.files.len() {
            let is_meant = match recall {
                LayoutRecall::File(file) => self.common.set.files[index].handle == file.file,
                LayoutRecall::FileSystem(_) | LayoutRecall::All => true,
            };
            if is_meant && self.is_getting_layout_of(index) {
                self.background.recalled = Some(index as u32);
            }
            if is_meant && self.files[index].is_usable {
                self.counts.recalled += 1;
                self.lose_layout(index);
            }
        }
    }

    /// Records the failure of a call at a data server.
    #[cold]
    pub(super) fn note_failure(&mut self, index: usize, error: DeviceError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push((index as u32, error));
            self.background.plan_error_report(index);
        }
    }

    /// Gives up a data server: its calls go to the metadata server. Commits fail, since what was
    /// written may be lost.
    #[cold]
    pub(super) fn lose_server(&mut self, number: usize, now_ns: u64) {
        self.sides[number].used.is_lost = true;
        self.counts.lost_servers += 1;
        self.sides[number].queue.clear();
        for tag in 0..self.calls.len() as u32 {
            let call = self.calls[tag as usize];
            if !call.is_active || call.side as usize != number {
                continue;
            }
            let index = self.common.index(call.file);
            let stage = self.ops[call.op as usize].stage;
            if call.is_sent {
                let ended = EndedCall { moved: None, sent_ns: now_ns, done_ns: now_ns };
                self.files[index].usage.end(stage, &call, ended);
                self.calls[tag as usize].is_sent = false;
            }
            if let Some(device) = self.device_of(index, &call) {
                let code = stage.code();
                self.note_failure(index, DeviceError::new(device, Status::NxIo, code));
            }
            if stage == Stage::Data(DataStage::Read) && self.read_other_mirror(tag, index) {
                continue;
            }
            self.lose_layout(index);
            if let Stage::Data(_) = stage {
                self.counts.refused += 1;
                self.reroute(tag);
            } else {
                self.finish_call(tag, Some(OpError::LOST), now_ns);
            }
        }
    }

    /// Sends a READ to another mirror, whose server can be reached; returns true if there is one.
    /// A layout for writing has to be returned, so that the server brings the mirror up to date.
    fn read_other_mirror(&mut self, tag: u32, index: usize) -> bool {
        let call = self.calls[tag as usize];
        let layout = self.files[index].layout.as_ref();
        if layout.is_none_or(|layout| layout.iomode != LayoutIoMode::Read) {
            return false;
        }
        match self.route(index, DataStage::Read, 0, call.offset, call.left) {
            Some(route) if route.len == call.left => {
                let call = &mut self.calls[tag as usize];
                call.side = route.side;
                call.mirror = route.mirror;
                call.stripe = route.stripe;
                call.server_offset = route.offset;
                self.sides[route.side as usize].queue.push_back(tag);
                true
            }
            _ => false,
        }
    }

    /// Handles the reply to a LAYOUTRETURN.
    pub(super) fn end_layoutreturn(&mut self, event: &Event<'_>, call: Call, index: usize) {
        let is_own = |of: u32| of as usize == index;
        if event.result_of(OpCode::Layoutreturn).is_ok() {
            let errors = self.errors.iter().filter(|(of, _)| is_own(*of)).count();
            self.reports.returned_errors += errors as u64;
            self.reports.returned_stats += self.files[index].usage.used().count() as u64;
        }
        // A server that refuses has dropped it, or will when the lease expires.
        self.files[index].layout = None;
        self.files[index].is_returning = false;
        self.board.note_returned(self.common.number(index));
        self.errors.retain(|(of, _)| !is_own(*of));
        if call.op == self.background_slot() {
            self.plan_get(index, event.done_ns);
        }
    }

    /// Plans to get a new layout of a file.
    fn plan_get(&mut self, index: usize, now_ns: u64) {
        let file = &mut self.files[index];
        let Some(gets) = file.gets else { return };
        file.gets = Some(gets + 1);
        self.background.plan_get(index, gets, now_ns);
    }

    fn is_getting_layout_of(&self, index: usize) -> bool {
        let op = &self.ops[self.background_slot() as usize].op;
        self.is_getting() && self.common.index(op.file) == index
    }

    /// Uses the layouts that a worker starts with.
    pub(super) fn share_layouts(&mut self, board: Arc<RecallBoard>) {
        self.board = board;
        for index in 0..self.files.len() {
            if self.files[index].layout.is_some() {
                self.board.join(self.common.number(index));
            }
        }
    }

    /// Gives up a file's layout. Returns true if nobody else uses it, so that it is returned.
    pub(super) fn leave_layout(&mut self, slot: u32, index: usize, now_ns: u64) -> bool {
        let file = &mut self.files[index];
        let Some(layout) = &mut file.layout else { return false };
        let number = self.common.number(index);
        if let Some(latest) = self.board.leave(number, Some(layout.stateid), &mut file.usage) {
            layout.stateid = latest;
            file.is_returning = true;
            return true;
        }
        file.layout = None;
        if slot == self.background_slot() {
            self.plan_get(index, now_ns);
        }
        false
    }

    /// Becomes a user of a file's new layout, before it is requested. Returns false if that has to
    /// wait until other workers have given up the last one, or must not happen.
    pub(super) fn join_layout(&mut self, index: usize, now_ns: u64) -> bool {
        if !self.may_get(index) {
            return false;
        }
        let has_joined = self.board.join(self.common.number(index));
        if !has_joined {
            self.plan_get(index, now_ns);
        }
        has_joined
    }

    /// Returns true if a file may get a new layout. What its data servers have not committed could
    /// not be committed any more, and its loss would remain unnoticed.
    fn may_get(&self, index: usize) -> bool {
        let is_dirty = self.sides[METADATA + 1..]
            .iter()
            .any(|side| side.uncommitted.as_ref().is_some_and(|data| data.is_dirty(index)));
        self.files[index].layout.is_none() && !is_dirty
    }

    /// Starts a LAYOUTGET.
    #[cold]
    pub(super) fn start_layoutget(
        &mut self,
        tag: u32,
        index: usize,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let (layout_type, iomode) = self.background.wanted.ok_or(no_layout())?;
        let ops = layoutget_ops(&self.common.set.files[index], layout_type, iomode);
        Ok(link.start_compound(now_ns, tag, &ops)?)
    }

    /// Handles the reply to a LAYOUTGET.
    #[cold]
    pub(super) fn end_layoutget(&mut self, event: &Event<'_>, index: usize) {
        let file: File = self.common.set.files[index];
        let error = match self.devices.read_layout(event, &file) {
            Ok(layout) => return self.adopt_layout(index, layout),
            Err(error) => error,
        };
        let number = self.common.number(index);
        let state = &mut self.files[index];
        self.background.recalled = None;
        if !is_temporary(&error) {
            state.gets = None;
        }
        // The last user returned nothing, since this call was under way.
        if let Some(stateid) = self.board.leave(number, None, &mut state.usage)
            && let Some((layout_type, iomode)) = self.background.wanted
        {
            state.layout = Some(FileLayout::without_mirrors(stateid, layout_type, iomode));
            return self.background.plan_return(index);
        }
        self.plan_get(index, event.done_ns);
    }

    /// Uses a new layout, or returns it again.
    fn adopt_layout(&mut self, index: usize, mut layout: FileLayout) {
        let is_usable = self.connect_layout(&mut layout);
        let is_recalled = self.background.recalled.take().is_some();
        let file = &mut self.files[index];
        file.usage = Usage::new(Some(&layout));
        file.layout = Some(layout);
        file.is_changed = false;
        if !is_usable {
            file.gets = None;
        }
        if is_usable && !is_recalled && !self.background.is_ending {
            file.is_usable = true;
            self.counts.regained += 1;
        } else {
            self.background.plan_return(index);
        }
    }

    /// Makes a layout refer to our connections. Returns false if one is missing, or if there is no
    /// room for the calls.
    fn connect_layout(&self, layout: &mut FileLayout) -> bool {
        let mut is_connected = !layout.mirrors.is_empty();
        let mut reachable = Vec::with_capacity(layout.mirrors.len());
        for mirror in &mut layout.mirrors {
            let mut is_reachable = true;
            for stripe in &mut mirror.stripes {
                let number = self.numbers.get(stripe.server as usize).copied().unwrap_or(0);
                is_connected &= number as usize != METADATA;
                is_reachable &= !self.sides[number as usize].used.is_lost;
                stripe.server = number;
            }
            reachable.push(is_reachable);
        }
        let is_reachable = if layout.iomode == LayoutIoMode::Read {
            reachable.contains(&true)
        } else {
            reachable.iter().take(layout.written_mirrors).all(|is| *is)
        };
        is_connected && is_reachable && targets_of(layout) < self.calls.len()
    }
}

/// Returns true if a layout may be granted later.
fn is_temporary(error: &CallError) -> bool {
    let statuses = [Status::LayoutTryLater, Status::RecallConflict, Status::Jukebox, Status::Grace];
    error.status().is_some_and(|status| statuses.contains(&status))
}
