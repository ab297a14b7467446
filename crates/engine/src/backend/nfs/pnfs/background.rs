//! What is told to the metadata server while ops go on: errors of data servers (LAYOUTERROR), how
//! much they were used (LAYOUTSTATS), and layouts that are no longer used (LAYOUTRETURN).
//!
//! No op waits for it. One task is executed at a time, in an op slot of its own, and its calls need
//! a free slot of the connection like all others. LAYOUTERROR and LAYOUTSTATS exist since v4.2, and
//! a server need not support them: what they have not reported is part of LAYOUTRETURN.
//!
//! **Source:** RFC 7862 sections 15.6 and 15.7; RFC 8435 sections 9 to 11.

use std::collections::VecDeque;

use model::{Op, OpKind};
use nfs_client::pnfs::FileLayout;
use nfs_client::proto::client::{Event, ProtocolVersion};
use nfs_client::proto::nfs4::{
    DeviceError, FlexIoStats, LayoutUpdate, List, Op as NfsOp, OpCode, Wire as _, layout_type,
};
use nfs_client::proto::xdr::Writer;
use nfs_client::{Connection, proto::CallError};

use super::super::transfers::NotStarted;
use super::calls::no_layout;
use super::stages::{Stage, Task};
use super::state::{State, idle_op};
use crate::limits::LAYOUT_STATS_INTERVAL;

/// Stripes whose use is reported with one call, as in Linux.
const STATS_PER_CALL: usize = 4;
/// Bytes of the details of a stripe's use, at most.
const STATS_BYTES: usize = 512;
/// Stripes whose use is reported with LAYOUTRETURN, at most.
const RETURNED_STATS_MAX: usize = 64;

/// What was reported to the metadata server, and what happened to layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayoutReports {
    /// Errors of data servers, reported with LAYOUTERROR.
    pub(crate) errors: u64,
    /// Errors of data servers, reported with LAYOUTRETURN.
    pub(crate) returned_errors: u64,
    /// Uses of data servers, reported with LAYOUTSTATS.
    pub(crate) stats: u64,
    /// Uses of data servers, reported with LAYOUTRETURN.
    pub(crate) returned_stats: u64,
}

impl LayoutReports {
    /// Adds the reports of another worker.
    pub(super) const fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.returned_errors += other.returned_errors;
        self.stats += other.stats;
        self.returned_stats += other.returned_stats;
    }
}

/// The files with something to do.
#[derive(Debug)]
pub(super) struct Background {
    /// Files with errors of data servers that have not been reported.
    with_errors: VecDeque<u32>,
    /// Files whose layout is to be returned.
    to_return: VecDeque<u32>,
    /// Files whose use is to be reported.
    to_report: VecDeque<u32>,
    next_report_ns: u64,
    report_interval_ns: u64,
    /// Number of the next stripe to report, of the file that is being reported.
    next_stripe: usize,
    /// Number of errors or stripes in the call in flight.
    in_call: usize,
    takes_errors: bool,
    takes_stats: bool,
    body: Vec<u8>,
}

impl Background {
    /// Allocates everything for the files of a worker.
    pub(super) fn new(
        layouts: &[Option<FileLayout>],
        version: ProtocolVersion,
        errors_max: usize,
    ) -> Self {
        let flexible = || layouts.iter().flatten().filter(|one| is_flexible(one));
        let hints = flexible().map(|layout| layout.stats_interval_s).filter(|hint| *hint > 0);
        let interval_s = hints.min().map_or(LAYOUT_STATS_INTERVAL.as_secs(), u64::from);
        let reports = version == ProtocolVersion::V4_2 && flexible().next().is_some();
        Self {
            with_errors: VecDeque::with_capacity(errors_max),
            to_return: VecDeque::with_capacity(layouts.len()),
            to_report: VecDeque::with_capacity(layouts.len()),
            next_report_ns: if reports { 0 } else { u64::MAX },
            report_interval_ns: interval_s * 1_000_000_000,
            next_stripe: 0,
            in_call: 0,
            takes_errors: reports,
            takes_stats: reports,
            body: Vec::with_capacity(STATS_PER_CALL * STATS_BYTES),
        }
    }

    /// Plans the return of a file's layout.
    pub(super) fn plan_return(&mut self, index: usize) {
        self.to_return.push_back(index as u32);
    }

    /// Plans a report of a file's errors, unless LAYOUTRETURN has to report them.
    pub(super) fn plan_error_report(&mut self, index: usize) {
        let index = index as u32;
        if self.takes_errors && !self.with_errors.contains(&index) {
            self.with_errors.push_back(index);
        }
    }

    /// Ends reports at intervals: the last ones are part of LAYOUTRETURN.
    pub(super) fn stop(&mut self) {
        self.next_report_ns = u64::MAX;
        self.to_report.clear();
    }
}

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
        let with_news = |(index, file): (usize, &super::state::FileState)| {
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
                // Others may have joined those of the call.
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
                self.background.stop();
            }
            Err(_) => return false,
        }
        let from = self.background.next_stripe;
        self.background.takes_stats && self.files[index].usage.find_news(from).is_some()
    }

    /// Returns the reports of errors and use that a LAYOUTRETURN of a file contains.
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

fn is_flexible(layout: &FileLayout) -> bool {
    layout.layout_type == layout_type::FLEX_FILES
}
