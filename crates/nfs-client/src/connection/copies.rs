//! Asynchronous copies: followed until the server reports their end, or a query finds it.
//!
//! [`SharedCopies`] belongs to a v4.2 client, whose server may report the end of a copy on any of
//! its connections; a [`CopyUser`] is the part of one connection: its copies in progress. A
//! connection that receives the report of another one's copy wakes that one up. The table is locked
//! twice per copy, and only if asynchronous copies are wanted. **Source:** RFC 7862 sections 4,
//! 15.8, 15.9 and 16.1.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs_proto::client::{
    Copies, CopyBoard, CopyCounts, CopyReport, Event, Kind, Operation, OperationKind, Pending,
};
use nfs_proto::nfs3::FileHandle;
use nfs_proto::nfs4::Op;
use rustix::event::{EventfdFlags, eventfd};

use super::{CALLS_MAX, Connection};
use crate::scratch::Scratch;

/// The tag of a call that queries a copy.
pub(super) const QUERY: u32 = u32::MAX - 3;
/// The tag of a call that cancels a copy.
pub(super) const CANCEL: u32 = u32::MAX - 4;

/// How many timeouts a copy may last without any progress.
const TIMEOUTS_MAX: u64 = 6;
/// Longest wait for a message before the deadline is checked again.
const WAIT: Duration = Duration::from_millis(50);

/// The copies of all connections of a client; see the module.
#[derive(Debug, Default)]
pub(crate) struct SharedCopies {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    board: CopyBoard,
    /// The connections, by number.
    users: Vec<(u64, Arc<Wakeup>)>,
}

/// Wakes up a connection whose copy was reported on another one.
#[derive(Debug)]
struct Wakeup {
    descriptor: OwnedFd,
    has_mail: AtomicBool,
}

impl Wakeup {
    fn send(&self) {
        self.has_mail.store(true, Ordering::Release);
        // Fails only if the connection has been woken up already.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Returns true if there is mail, and resets the descriptor.
    fn take(&self) -> bool {
        if !self.has_mail.load(Ordering::Relaxed) {
            return false;
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
        self.has_mail.swap(false, Ordering::Acquire)
    }
}

impl SharedCopies {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of one connection in its client's copies.
#[derive(Debug)]
pub(crate) struct CopyUser {
    shared: Arc<SharedCopies>,
    /// Number of the connection.
    number: u64,
    copies: Copies,
    wakeup: Arc<Wakeup>,
    /// COPY calls in flight, with the files that they write.
    requests: Vec<(u32, FileHandle)>,
}

impl CopyUser {
    /// Adds a connection; `None` if the system has no descriptor left, and then no copy of it may
    /// be asynchronous.
    pub(super) fn new(shared: Arc<SharedCopies>, number: u64) -> Option<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()?;
        let wakeup = Arc::new(Wakeup { descriptor, has_mail: AtomicBool::new(false) });
        {
            let mut table = shared.lock();
            table.board.reserve(CALLS_MAX);
            table.users.push((number, Arc::clone(&wakeup)));
        }
        let copies = Copies::with_capacity(CALLS_MAX);
        Some(Self { shared, number, copies, wakeup, requests: Vec::with_capacity(CALLS_MAX) })
    }

    /// Records a COPY in flight.
    pub(super) fn note_start(&mut self, tag: u32, operation: &Operation<'_>) {
        if let Operation::Copy { to, synchronous: false, .. } = operation {
            self.requests.push((tag, to.handle));
        }
    }

    /// Takes the reply to a query or a COPY; returns false for an event of the caller's, such as
    /// the end of a copy that was synchronous after all.
    pub(super) fn take_event(&mut self, event: &Event<'_>) -> bool {
        if event.tag == QUERY {
            self.copies.note_status(event);
            return true;
        }
        if event.tag == CANCEL {
            return true;
        }
        if event.kind != Kind::File(OperationKind::Copy) {
            return false;
        }
        let index = self.requests.iter().position(|(tag, _)| *tag == event.tag);
        let Some((_, file)) = index.map(|index| self.requests.swap_remove(index)) else {
            return false;
        };
        let Some(stateid) = self.copies.note_reply(event, file) else { return false };
        let early = self.shared.lock().board.await_report(stateid, self.number);
        if let Some(early) = early {
            self.copies.end_reported(stateid, early);
        }
        true
    }

    /// Takes a report, perhaps of another connection's copy.
    fn take_report(&mut self, report: CopyReport, now_ns: u64) {
        let mut table = self.shared.lock();
        let stateid = report.stateid;
        let Some(number) = table.board.post_report(report, now_ns) else { return };
        if number == self.number {
            let result = table.board.take_report(stateid);
            drop(table);
            if let Some(result) = result {
                self.copies.end_reported(stateid, result);
            }
        } else if let Some((_, wakeup)) = table.users.iter().find(|(user, _)| *user == number) {
            wakeup.send();
        }
    }

    /// Takes the reports that arrived on other connections.
    fn take_mail(&mut self) {
        if !self.wakeup.take() {
            return;
        }
        let mut table = self.shared.lock();
        loop {
            let board = &mut table.board;
            let find = |(stateid, _)| board.take_report(stateid).map(|result| (stateid, result));
            let found = self.copies.running().find_map(find);
            let Some((stateid, result)) = found else { return };
            self.copies.end_reported(stateid, result);
        }
    }

    /// Ends the copies whose end was found by a query.
    fn end_found(&mut self, now_ns: u64) {
        while let Some(stateid) = self.copies.end_found(now_ns) {
            self.shared.lock().board.forget_copy(stateid);
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wakeup.descriptor.as_fd()
    }

    /// Iterates over the COPY calls whose copies are in progress.
    pub(super) fn pending(&self) -> impl Iterator<Item = Pending> {
        self.copies.pending()
    }

    pub(super) fn is_querying(&self) -> bool {
        self.copies.is_querying()
    }

    /// Returns true if a report is waiting to be taken.
    pub(super) fn has_mail(&self) -> bool {
        self.wakeup.has_mail.load(Ordering::Relaxed)
    }

    /// Forgets all copies: their replies or reports will never come.
    fn lose_all(&mut self, now_ns: u64) {
        let mut table = self.shared.lock();
        for (stateid, _) in self.copies.running() {
            table.board.forget_copy(stateid);
        }
        drop(table);
        self.copies.lose_all(now_ns);
    }
}

impl Drop for CopyUser {
    fn drop(&mut self) {
        self.lose_all(0);
        let number = self.number;
        self.shared.lock().users.retain(|(user, _)| *user != number);
    }
}

impl Connection {
    /// Returns how the asynchronous copies of this connection ended.
    pub fn copy_counts(&self) -> CopyCounts {
        self.copies.as_ref().map_or(CopyCounts::default(), |user| user.copies.counts())
    }

    /// Returns a descriptor that becomes readable if another connection has received something for
    /// this one: wait for it, too. [`Connection::wait`] does.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.copies.as_ref().map(CopyUser::descriptor)
    }

    /// Takes received reports of copies, and passes on the copies that have ended; returns their
    /// number.
    pub(super) fn end_copies(
        &mut self,
        clock: &dyn Fn() -> u64,
        events: &mut dyn FnMut(&Event<'_>),
    ) -> usize {
        let Some(user) = &mut self.copies else { return 0 };
        while let Some(report) = self.link.session.take_copy_report() {
            user.take_report(report, clock());
        }
        user.take_mail();
        let mut count = 0;
        while let Some(ended) = user.copies.pop_ended() {
            events(&ended.event());
            count += 1;
        }
        count
    }

    /// Returns when a copy has to be queried.
    pub(super) fn copy_query_ns(&self) -> Option<u64> {
        let user = self.copies.as_ref()?;
        let is_ready = self.link.session.free_slots() > 0 && !self.is_down() && !self.forgotten;
        if is_ready { user.copies.next_query_ns() } else { None }
    }

    /// Queries a copy whose report is due, and ends those whose report did not follow an earlier
    /// query.
    pub(super) fn query_copies(&mut self, now_ns: u64) {
        let Some(user) = &mut self.copies else { return };
        user.end_found(now_ns);
        let Some((stateid, file)) = user.copies.due_query(now_ns) else { return };
        let ops = [Op::Putfh { file }, Op::OffloadStatus { stateid }];
        if self.link.session.start_ops(now_ns, QUERY, &ops).is_ok() {
            user.copies.note_query(stateid);
        }
    }

    /// Returns how long a copy has had no progress, beyond what is tolerated.
    pub(super) fn stuck_copy_ns(&self, now_ns: u64, timeout_ns: u64) -> Option<u64> {
        let since_ns = self.copies.as_ref()?.copies.oldest_progress_ns()?;
        let waited_ns = now_ns.saturating_sub(since_ns);
        (waited_ns > TIMEOUTS_MAX.saturating_mul(timeout_ns)).then_some(waited_ns)
    }

    /// Forgets the copies in progress, since the server has forgotten their client.
    pub(super) fn lose_copies(&mut self, now_ns: u64) {
        if let Some(user) = &mut self.copies {
            user.lose_all(now_ns);
        }
    }

    /// Receives reports for other connections of the client until none of them waits for one, but
    /// not after `until_ns`: the server may send them all to this connection. Cancels copies of
    /// this connection that are still in progress. Blocks; the caller must have no call in flight.
    pub fn finish_copies(&mut self, scratch: &mut Scratch, clock: &dyn Fn() -> u64, until_ns: u64) {
        let Some(user) = &mut self.copies else { return };
        let abandoned: Vec<_> = user.copies.running().collect();
        user.lose_all(clock());
        let mut abandoned = abandoned.into_iter();
        while !self.is_down() && clock() < until_ns {
            if self.link.session.in_flight() == 0
                && let Some((stateid, file)) = abandoned.next()
            {
                let ops = [Op::Putfh { file }, Op::OffloadCancel { stateid }];
                // If there is no slot, the copy ends with the session.
                let _ = self.link.session.start_ops(clock(), CANCEL, &ops);
            }
            let Some(user) = &self.copies else { return };
            let is_idle = self.link.session.in_flight() == 0 && abandoned.len() == 0;
            if is_idle && !user.shared.lock().board.is_awaited() {
                return;
            }
            if self.wait(scratch, clock, WAIT, &mut |_| {}).is_err() {
                return;
            }
        }
    }
}
