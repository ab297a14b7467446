//! Asynchronous copies: started by a COPY, continued by the server, ended by a report or a query.
//!
//! A server may send the report (CB_OFFLOAD) on any connection of the client, more than once, and
//! before the reply to the COPY. So [`CopyBoard`] belongs to the client: it brings reports and
//! copies together, whichever comes first. [`Copies`] are those of one connection. A copy without a
//! report is queried (OFFLOAD_STATUS) until it has ended, so a lost report only costs time.
//! **Source:** RFC 7862 sections 4.8, 15.2, 15.9 and 16.1.

use std::collections::VecDeque;

use super::event::{Event, Outcome};
use super::operation::{Kind, OperationKind};
use super::resume::is_unbound;
use super::types::{CopyReport, Pending};
use crate::limits::{COPY_QUERY_NS, EARLY_COPY_REPORTS_MAX};
use crate::nfs3::{FileHandle, StableHow, Verifier};
use crate::nfs4::{CopiedData, OffloadResult, OpCode, OpOk, Stateid};
use crate::status::{CallError, Status};
use crate::version::ProtocolVersion;

/// A report, and when it arrived.
pub type TimedResult = (OffloadResult, u64);

/// The copies in progress of all connections of a client, and reports without a copy.
#[derive(Debug, Default)]
pub struct CopyBoard {
    /// Copies in progress, with the connection that waits for each.
    awaited: Vec<(Stateid, u64)>,
    /// Reports that their connections have not taken yet.
    arrived: Vec<(Stateid, TimedResult)>,
    /// Reports that overtook the reply to their COPY, or that came twice; the oldest are dropped.
    early: VecDeque<(Stateid, TimedResult)>,
}

impl CopyBoard {
    /// Reserves room for `copies` copies in progress.
    pub fn reserve(&mut self, copies: usize) {
        self.awaited.reserve(copies);
        self.arrived.reserve(copies);
        self.early.reserve(EARLY_COPY_REPORTS_MAX);
    }

    /// Records that a connection waits for the report of a copy, or returns the report that came
    /// before.
    pub fn await_report(&mut self, stateid: Stateid, connection: u64) -> Option<TimedResult> {
        if let Some(index) = self.early.iter().position(|(early, _)| *early == stateid) {
            return Some(self.early.remove(index)?.1);
        }
        self.awaited.push((stateid, connection));
        None
    }

    /// Keeps a report; returns the connection that waits for it.
    pub fn post_report(&mut self, report: CopyReport, now_ns: u64) -> Option<u64> {
        let CopyReport { stateid, result } = report;
        let index = self.awaited.iter().position(|(awaited, _)| *awaited == stateid);
        let Some(index) = index else {
            if self.early.len() == EARLY_COPY_REPORTS_MAX {
                self.early.pop_front();
            }
            self.early.push_back((stateid, (result, now_ns)));
            return None;
        };
        self.arrived.push((stateid, (result, now_ns)));
        Some(self.awaited.swap_remove(index).1)
    }

    /// Returns true if a connection waits for a report, or has not taken one.
    pub fn is_awaited(&self) -> bool {
        !self.awaited.is_empty() || !self.arrived.is_empty()
    }

    /// Takes the report of a copy that was awaited.
    pub fn take_report(&mut self, stateid: Stateid) -> Option<TimedResult> {
        let index = self.arrived.iter().position(|(arrived, _)| *arrived == stateid)?;
        Some(self.arrived.swap_remove(index).1)
    }

    /// Forgets a copy that ended without a report.
    pub fn forget_copy(&mut self, stateid: Stateid) {
        self.awaited.retain(|(awaited, _)| *awaited != stateid);
        self.arrived.retain(|(arrived, _)| *arrived != stateid);
    }
}

/// How the copies of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyCounts {
    /// Copies that the server completed before its reply, although it was not asked to.
    pub synchronous: u64,
    /// Copies that ended with a report of the server.
    pub reported: u64,
    /// Copies whose end was found by a query.
    pub queried: u64,
    /// Queries.
    pub queries: u64,
}

impl CopyCounts {
    /// Adds the counts of another connection.
    pub const fn add(&mut self, other: &Self) {
        self.synchronous += other.synchronous;
        self.reported += other.reported;
        self.queried += other.queried;
        self.queries += other.queries;
    }
}

/// A copy that the server has accepted and not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunningCopy {
    stateid: Stateid,
    /// The file that is written.
    file: FileHandle,
    verifier: Verifier,
    tag: u32,
    started_ns: u64,
    sent_ns: u64,
    /// When to query it next.
    query_ns: u64,
    /// When it was started, or a query found more copied bytes than the one before.
    progress_ns: u64,
    copied_bytes: u64,
    /// How it has ended according to a query, and when that was answered: the report may still be
    /// on its way.
    found: Option<(Result<Outcome, CallError>, u64)>,
}

/// A copy that has ended; becomes the event of its COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedCopy {
    tag: u32,
    started_ns: u64,
    sent_ns: u64,
    done_ns: u64,
    result: Result<Outcome, CallError>,
}

impl EndedCopy {
    /// Returns the event that completes the COPY.
    pub const fn event(&self) -> Event<'static> {
        Event {
            tag: self.tag,
            kind: Kind::File(OperationKind::Copy),
            version: ProtocolVersion::V4_2,
            started_ns: self.started_ns,
            sent_ns: self.sent_ns,
            done_ns: self.done_ns,
            result: self.result,
            body: &[],
            payload: &[],
            file: None,
            delegation: None,
        }
    }
}

/// The copies in progress of one connection; see the module.
#[derive(Debug, Default)]
pub struct Copies {
    running: Vec<RunningCopy>,
    ended: VecDeque<EndedCopy>,
    /// The copy whose query is in flight.
    queried: Option<Stateid>,
    counts: CopyCounts,
}

impl Copies {
    /// Creates the copies of a connection with at most `calls` calls in flight.
    pub fn with_capacity(calls: usize) -> Self {
        Self {
            running: Vec::with_capacity(calls),
            ended: VecDeque::with_capacity(calls),
            ..Self::default()
        }
    }

    /// Takes the reply to a COPY to `file`, and returns the stateid if the server continues it:
    /// then the copy completes with [`Copies::pop_ended`] rather than with this event.
    pub fn note_reply(&mut self, event: &Event<'_>, file: FileHandle) -> Option<Stateid> {
        let Ok(Outcome::Copying { stateid, verifier }) = event.result else {
            self.counts.synchronous += u64::from(event.result.is_ok());
            return None;
        };
        self.running.push(RunningCopy {
            stateid,
            file,
            verifier,
            tag: event.tag,
            started_ns: event.started_ns,
            sent_ns: event.sent_ns,
            query_ns: event.done_ns + COPY_QUERY_NS,
            progress_ns: event.done_ns,
            copied_bytes: 0,
            found: None,
        });
        Some(stateid)
    }

    /// Ends a copy that the server has reported.
    pub fn end_reported(&mut self, stateid: Stateid, (result, done_ns): TimedResult) {
        let result = match result {
            OffloadResult::Done(CopiedData { count, committed, verifier, .. }) => {
                Ok(Outcome::Copied { count, committed, verifier })
            }
            OffloadResult::Failed(status, _) => Err(failed(status)),
        };
        let is_known = self.end(stateid, result, done_ns);
        self.counts.reported += u64::from(is_known);
    }

    /// Takes the reply to a query, unless the copy has ended meanwhile. A copy that the server does
    /// not know any more has failed, unless its report follows.
    pub fn note_status(&mut self, event: &Event<'_>) {
        let Some(stateid) = self.queried.take() else { return };
        let Some(copy) = self.running.iter_mut().find(|copy| copy.stateid == stateid) else {
            return;
        };
        copy.query_ns = event.done_ns + COPY_QUERY_NS;
        let result = match event.result_of(OpCode::OffloadStatus) {
            Ok(OpOk::OffloadStatus { count, complete: None }) => {
                if count > copy.copied_bytes {
                    copy.copied_bytes = count;
                    copy.progress_ns = event.done_ns;
                }
                return;
            }
            // The answer has no verifier. The server that knows the copy is the one that replied to
            // the COPY, so its verifier still applies; how durable the data is remains unknown.
            Ok(OpOk::OffloadStatus { count, complete: Some(Status::Ok) }) => Ok(Outcome::Copied {
                count,
                committed: StableHow::Unstable,
                verifier: copy.verifier,
            }),
            Ok(OpOk::OffloadStatus { complete: Some(status), .. }) => Err(failed(status)),
            // The query was put off, or lost with its connection or session: the copy goes on,
            // unless the client turns out to be forgotten.
            Err(CallError::Lost) => return,
            Err(CallError::Status(spoken))
                if spoken.status == Status::Jukebox || is_unbound(spoken.status) =>
            {
                return;
            }
            Err(error) => Err(error),
            Ok(_) => Err(crate::DecodeError::BadValue { what: "the result", value: 0 }.into()),
        };
        copy.found = Some((result, event.done_ns));
    }

    /// Ends a copy that has ended according to a query, and whose report did not follow in time.
    /// Returns its stateid.
    pub fn end_found(&mut self, now_ns: u64) -> Option<Stateid> {
        let is_over = |copy: &&RunningCopy| copy.found.is_some() && copy.query_ns <= now_ns;
        let RunningCopy { stateid, found, .. } = *self.running.iter().find(is_over)?;
        let (result, done_ns) = found?;
        self.end(stateid, result, done_ns);
        self.counts.queried += 1;
        Some(stateid)
    }

    /// Ends all copies, since the server has forgotten the client. Returns how many there were.
    pub fn lose_all(&mut self, now_ns: u64) -> usize {
        let count = self.running.len();
        self.queried = None;
        while let Some(copy) = self.running.last().copied() {
            self.end(copy.stateid, Err(CallError::Lost), now_ns);
        }
        count
    }

    fn end(&mut self, stateid: Stateid, result: Result<Outcome, CallError>, done_ns: u64) -> bool {
        let Some(index) = self.running.iter().position(|copy| copy.stateid == stateid) else {
            return false;
        };
        let RunningCopy { tag, started_ns, sent_ns, .. } = self.running.swap_remove(index);
        self.ended.push_back(EndedCopy { tag, started_ns, sent_ns, done_ns, result });
        true
    }

    /// Returns the next copy that has ended.
    pub fn pop_ended(&mut self) -> Option<EndedCopy> {
        self.ended.pop_front()
    }

    /// Iterates over the copies in progress, with the files that are written.
    pub fn running(&self) -> impl Iterator<Item = (Stateid, FileHandle)> {
        self.running.iter().map(|copy| (copy.stateid, copy.file))
    }

    /// Iterates over the COPY calls in progress, for messages.
    pub fn pending(&self) -> impl Iterator<Item = Pending> {
        self.running.iter().map(|copy| Pending {
            tag: copy.tag,
            kind: Kind::File(OperationKind::Copy),
            started_ns: copy.started_ns,
        })
    }

    /// Returns true if a copy is in progress.
    pub fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns true if a query is in flight.
    pub const fn is_querying(&self) -> bool {
        self.queried.is_some()
    }

    /// Returns the earliest time of [`Copies::due_query`] or [`Copies::end_found`].
    pub fn next_query_ns(&self) -> Option<u64> {
        if self.is_querying() {
            return None;
        }
        self.running.iter().map(|copy| copy.query_ns).min()
    }

    /// Returns the copy to query now and its file, if there is one.
    pub fn due_query(&self, now_ns: u64) -> Option<(Stateid, FileHandle)> {
        let unknown = self.running.iter().filter(|copy| copy.found.is_none());
        let first = unknown.min_by_key(|copy| copy.query_ns)?;
        (!self.is_querying() && first.query_ns <= now_ns).then_some((first.stateid, first.file))
    }

    /// Records that a query was started.
    pub fn note_query(&mut self, stateid: Stateid) {
        self.queried = Some(stateid);
        self.counts.queries += 1;
    }

    /// Returns when the copy without progress for the longest time had some.
    pub fn oldest_progress_ns(&self) -> Option<u64> {
        self.running.iter().map(|copy| copy.progress_ns).min()
    }

    /// Returns how copies have ended so far.
    pub const fn counts(&self) -> CopyCounts {
        self.counts
    }
}

fn failed(status: Status) -> CallError {
    CallError::Status(status.in_version(ProtocolVersion::V4_2))
}
