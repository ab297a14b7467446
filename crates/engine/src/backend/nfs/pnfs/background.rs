//! Work on layouts that no op waits for: which files have some, and when.
//!
//! Errors of data servers are reported at once (LAYOUTERROR), layouts that are no longer used are
//! returned (LAYOUTRETURN), new ones are requested some time later (LAYOUTGET), and the use of data
//! servers is reported at intervals (LAYOUTSTATS). [`super::reports`] and [`super::losses`] make
//! the calls, one task at a time, in an op slot of its own. Queues are allocated before the start.
//!
//! **Source:** RFC 8881 section 18.43; RFC 7862 sections 15.6 and 15.7; RFC 8435 sections 9 to 11.

use std::collections::VecDeque;

use nfs_client::pnfs::FileLayout;
use nfs_client::proto::client::ProtocolVersion;
use nfs_client::proto::nfs4::{LayoutIoMode, layout_type};

use crate::limits::{LAYOUT_STATS_INTERVAL, LAYOUTGET_WAIT_MAX, LAYOUTGET_WAIT_MIN};

/// Stripes whose use is reported with one call, as in Linux.
pub(super) const STATS_PER_CALL: usize = 4;
/// Bytes of the details of a stripe's use, at most.
const STATS_BYTES: usize = 512;

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
    /// Layouts that the server recalled.
    pub(crate) recalled: u64,
    /// Layouts that were requested again, and granted.
    pub(crate) regained: u64,
}

impl LayoutReports {
    /// Adds the reports of another worker.
    pub(super) const fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.returned_errors += other.returned_errors;
        self.stats += other.stats;
        self.returned_stats += other.returned_stats;
        self.recalled += other.recalled;
        self.regained += other.regained;
    }
}

/// A LAYOUTGET for later.
#[derive(Clone, Copy, Debug)]
struct PlannedGet {
    index: u32,
    due_ns: u64,
}

/// The files with something to do.
#[derive(Debug)]
pub(super) struct Background {
    /// Files with errors of data servers that have not been reported.
    pub(super) with_errors: VecDeque<u32>,
    /// Files whose layout is to be returned.
    pub(super) to_return: VecDeque<u32>,
    /// Files that get a new layout, and when.
    to_get: VecDeque<PlannedGet>,
    next_get_ns: u64,
    /// The file that is getting a layout, if its recall arrived first.
    pub(super) recalled: Option<u32>,
    /// The type and mode of all layouts.
    pub(super) wanted: Option<(u32, LayoutIoMode)>,
    /// The pass ends: only returns are left.
    pub(super) is_ending: bool,
    /// Files whose use is to be reported.
    pub(super) to_report: VecDeque<u32>,
    pub(super) next_report_ns: u64,
    pub(super) report_interval_ns: u64,
    /// Number of the next stripe to report, of the file that is being reported.
    pub(super) next_stripe: usize,
    /// Number of errors or stripes in the call in flight.
    pub(super) in_call: usize,
    pub(super) takes_errors: bool,
    pub(super) takes_stats: bool,
    pub(super) body: Vec<u8>,
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
            to_get: VecDeque::with_capacity(layouts.len()),
            next_get_ns: u64::MAX,
            recalled: None,
            wanted: layouts.iter().flatten().map(|one| (one.layout_type, one.iomode)).next(),
            is_ending: false,
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

    /// Plans a LAYOUTGET for a file that had `earlier` ones. The wait doubles each time, so that
    /// whoever caused a recall gets its turn.
    pub(super) fn plan_get(&mut self, index: usize, earlier: u32, now_ns: u64) {
        if self.is_ending {
            return;
        }
        let wait = LAYOUTGET_WAIT_MIN.saturating_mul(1 << earlier.min(16)).min(LAYOUTGET_WAIT_MAX);
        let due_ns = now_ns + wait.as_nanos() as u64;
        self.to_get.push_back(PlannedGet { index: index as u32, due_ns });
        self.next_get_ns = self.next_get_ns.min(due_ns);
    }

    /// Returns the next file whose time for a LAYOUTGET has come.
    pub(super) fn take_get(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns < self.next_get_ns {
            return None;
        }
        let at = self.to_get.iter().position(|get| get.due_ns <= now_ns);
        let get = at.and_then(|at| self.to_get.remove(at));
        self.next_get_ns = self.to_get.iter().map(|get| get.due_ns).min().unwrap_or(u64::MAX);
        get.map(|get| get.index)
    }

    /// Ends reports at intervals: the last ones are part of LAYOUTRETURN.
    pub(super) fn stop_reports(&mut self) {
        self.next_report_ns = u64::MAX;
        self.to_report.clear();
    }

    /// Requests and reports nothing more.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        self.to_get.clear();
        self.next_get_ns = u64::MAX;
        self.stop_reports();
    }
}

fn is_flexible(layout: &FileLayout) -> bool {
    layout.layout_type == layout_type::FLEX_FILES
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn waits_longer_each_time() {
        let mut background = Background::new(&[], ProtocolVersion::V4_2, 1);
        let waits = (0..9).map(|earlier| {
            background.plan_get(3, earlier, 7);
            let due_ns = background.next_get_ns;
            assert_eq!(background.take_get(due_ns - 1), None);
            assert_eq!(background.take_get(due_ns), Some(3));
            due_ns - 7
        });
        let expected = [1, 2, 4, 8, 16, 32, 64, 64, 64].map(|halves| halves * SECOND_NS / 2);
        assert_eq!(waits.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn gets_layouts_in_due_order() {
        let mut background = Background::new(&[], ProtocolVersion::V4_2, 1);
        background.plan_get(1, 3, 0);
        background.plan_get(2, 0, 0);
        assert_eq!(background.take_get(SECOND_NS), Some(2));
        assert_eq!((background.take_get(SECOND_NS), background.next_get_ns), (None, 4 * SECOND_NS));
        background.end();
        background.plan_get(2, 0, 0);
        assert_eq!(background.take_get(u64::MAX - 1), None);
    }
}
