//! Tells the metadata server about data servers while ops go on: their errors (LAYOUTERROR), and
//! how much they were used (LAYOUTSTATS).
//!
//! Both operations exist since v4.2, and a server need not support them: what they have not
//! reported is part of LAYOUTRETURN.
//!
//! **Source:** RFC 7862 sections 15.6 and 15.7; RFC 8435 sections 9 to 11.

use model::{Op, OpError, OpKind};
use nfs_client::Connection;
use nfs_client::proto::CallError;
use nfs_client::proto::client::Event;
use nfs_client::proto::nfs4::{
    DeviceError, FlexIoStats, LayoutUpdate, List, Op as NfsOp, OpCode, Wire as _,
};
use nfs_client::proto::status::Status;
use nfs_client::proto::xdr::Writer;

use super::super::transfers::NotStarted;
use super::background::STATS_PER_CALL;
use super::stages::{Stage, Task};
use super::state::{FileState, State, idle_op};

/// Stripes whose use is reported with LAYOUTRETURN, at most.
const RETURNED_STATS_MAX: usize = 64;

impl State {
    /// Starts the next task, if none is being executed.
    pub(super) fn start_background(&mut self, now_ns: u64) {
        if self.is_in_background() {
            return;
        }
        let Some((task, index)) = self.next_task(now_ns) else { return };
        let file = self.common.number(index as usize);
        self.begin_in_background(task, Op { file, kind: OpKind::Sync, ..idle_op() });
    }

    fn next_task(&mut self, now_ns: u64) -> Option<(Task, u32)> {
        if let Some(index) = self.background.with_errors.pop_front() {
            return Some((Task::ReportErrors, index));
        }
        if let Some(&index) = self.background.to_return.front()
            && self.files[index as usize].in_flight == 0
        {
            self.background.to_return.pop_front();
            return Some((Task::Return, index));
        }
        if let Some(index) = self.background.take_get(now_ns) {
            return Some((Task::Get, index));
        }
        if now_ns >= self.background.next_report_ns {
            self.plan_reports(now_ns);
        }
        let index = self.background.to_report.pop_front()?;
        self.background.next_stripe = 0;
        Some((Task::ReportUse, index))
    }

    /// Plans a report of all files that were used since the last one.
    #[cold]
    fn plan_reports(&mut self, now_ns: u64) {
        let Self { background, files, .. } = self;
        // The first time is the start of the pass.
        let is_first = background.next_report_ns == 0;
        background.next_report_ns = now_ns + background.report_interval_ns;
        if is_first || !background.to_report.is_empty() {
            return;
        }
        let with_news = |(index, file): (usize, &FileState)| {
            (file.layout.is_some() && file.usage.has_news()).then_some(index as u32)
        };
        background.to_report.extend(files.iter().enumerate().filter_map(with_news));
    }

    /// Returns true if a stage of a task in the background has something to report.
    pub(super) fn has_report(&self, stage: Stage, index: usize) -> bool {
        let file = &self.files[index];
        file.layout.is_some()
            && match stage {
                Stage::LayoutError => self.errors.iter().any(|(of, _)| *of as usize == index),
                _ => file.usage.has_news(),
            }
    }

    /// Starts a LAYOUTERROR.
    #[cold]
    pub(super) fn start_layouterror(
        &mut self,
        tag: u32,
        index: usize,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let Some(layout) = &self.files[index].layout else { return Err(no_layout()) };
        let errors = self.errors_of(index);
        self.background.in_call = errors.len();
        let errors = List::build(&mut self.background.body, errors);
        let stateid = layout.stateid;
        let report = NfsOp::Layouterror { offset: 0, length: u64::MAX, stateid, errors };
        let file = self.common.set.files[index].handle;
        Ok(link.start_compound(now_ns, tag, &[NfsOp::Putfh { file }, report])?)
    }

    /// Starts a LAYOUTSTATS operation for each of the next stripes with something to report.
    pub(super) fn start_layoutstats(
        &mut self,
        tag: u32,
        index: usize,
        link: &mut Connection,
        now_ns: u64,
    ) -> Result<(), NotStarted> {
        let Self { background, files, sides, common, .. } = self;
        let file = &mut files[index];
        let Some(layout) = &file.layout else { return Err(no_layout()) };
        background.body.clear();
        let mut parts: [Option<(FlexIoStats<'_>, usize)>; STATS_PER_CALL] = [None; STATS_PER_CALL];
        let mut count = 0;
        while count < STATS_PER_CALL
            && let Some(at) = file.usage.take_news(background.next_stripe)
        {
            background.next_stripe = at + 1;
            let address = &sides[file.usage.server_of(at, layout)].address;
            let stats = file.usage.describe(at, layout, address, now_ns);
            stats.update.encode(&mut Writer::new(&mut background.body));
            parts[count] = Some((stats, background.body.len()));
            count += 1;
        }
        background.in_call = count;
        let mut ops = [NfsOp::Putfh { file: common.set.files[index].handle }; STATS_PER_CALL + 1];
        let mut start = 0;
        for (op, (stats, end)) in ops[1..].iter_mut().zip(parts.iter().flatten()) {
            let FlexIoStats { offset, length, stateid, read, write, device, .. } = *stats;
            let body = &background.body[start..*end];
            let update = LayoutUpdate { layout_type: layout.layout_type, body };
            *op = NfsOp::Layoutstats { offset, length, stateid, read, write, device, update };
            start = *end;
        }
        Ok(link.start_compound(now_ns, tag, &ops[..=count])?)
    }

    /// Handles the reply to a LAYOUTERROR.
    pub(super) fn end_layouterror(&mut self, event: &Event<'_>, index: usize) {
        match event.result_of(OpCode::Layouterror) {
            Ok(_) => {
                // More errors may have been noted since the call was sent.
                let mut left = self.background.in_call;
                self.reports.errors += left as u64;
                self.errors.retain(|(of, _)| {
                    let is_reported = *of as usize == index && left > 0;
                    left -= usize::from(is_reported);
                    !is_reported
                });
            }
            Err(CallError::Status(_)) => self.background.takes_errors = false,
            Err(_) => {}
        }
    }

    /// Handles the reply to LAYOUTSTATS. Returns true if there is more to report.
    pub(super) fn end_layoutstats(&mut self, event: &Event<'_>, index: usize) -> bool {
        match event.result_of(OpCode::Layoutstats) {
            Ok(_) => self.reports.stats += self.background.in_call as u64,
            Err(CallError::Status(_)) => {
                self.background.takes_stats = false;
                self.background.stop_reports();
            }
            Err(_) => return false,
        }
        let from = self.background.next_stripe;
        self.background.takes_stats && self.files[index].usage.find_news(from).is_some()
    }

    /// Returns how much each stripe was used, as LAYOUTRETURN of a file reports it.
    pub(super) fn returned_stats(
        &self,
        index: usize,
        now_ns: u64,
    ) -> impl Iterator<Item = FlexIoStats<'_>> {
        let file = &self.files[index];
        let describe = move |at| {
            let layout = file.layout.as_ref()?;
            let address = &self.sides[file.usage.server_of(at, layout)].address;
            Some(file.usage.describe(at, layout, address, now_ns))
        };
        file.usage.used().take(RETURNED_STATS_MAX).filter_map(describe)
    }

    /// Returns the errors of a file's data servers that have not been reported.
    pub(super) fn errors_of(&self, index: usize) -> Vec<DeviceError> {
        let own = self.errors.iter().filter(|(file, _)| *file as usize == index);
        own.map(|(_, error)| *error).collect()
    }
}

/// Returns why a call for a layout that is gone is not started.
pub(super) const fn no_layout() -> NotStarted {
    NotStarted::Failed(OpError(Status::BadLayout.number()))
}
