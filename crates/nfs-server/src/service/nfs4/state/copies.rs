//! Asynchronous copies: begun by a COPY, continued in the background, reported to the client.
//!
//! A [`BackgroundCopy`] belongs to its client and has a stateid of its own. It pins both files, so
//! it continues after they are closed or removed, and ends with the client's lease, a restart or
//! OFFLOAD_CANCEL. Once the data is copied, CB_OFFLOAD reports the result, and the client's answer
//! ends the stateid; until then OFFLOAD_STATUS returns the result, too.
//!
//! **Source:** RFC 7862 sections 4.8, 15.2, 15.8, 15.9 and 16.1.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::Status;
use nfs_proto::nfs3::Verifier;
use nfs_proto::nfs4::sequence_status::{CB_PATH_DOWN, CB_PATH_DOWN_SESSION};
use nfs_proto::nfs4::{CopiedData, FileHandle, OffloadResult, StableHow, Stateid};

use super::Tables;
use super::client::{Client, Requester};
use super::held_state::client_and_key;
use super::session::Session;
use crate::fs::{Charge, Context, InodeId, Pin};
use crate::limits::{NFS4_COPY_REPORTS_MAX, NFS4_STATE_BYTES};
use crate::sync;

/// Distinguishes the keys of copies from those of other states, whose generations don't get there.
const COPY_KEY: u64 = 1 << 63;
/// Generation of the stateid of a copy; 0 would not be valid.
const GENERATION: u32 = 1;

/// A range to copy, of at least one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRange {
    pub(crate) from: (InodeId, u64),
    pub(crate) to: (InodeId, u64),
    pub(crate) count: u64,
}

impl CopyRange {
    /// Returns up to `count` bytes after the first `done` ones.
    pub(crate) fn part(&self, done: u64, count: u64) -> Self {
        Self {
            from: (self.from.0, self.from.1 + done),
            to: (self.to.0, self.to.1 + done),
            count: count.min(self.count - done),
        }
    }
}

/// What a copy needs to continue after its COPY.
#[derive(Debug)]
pub(crate) struct CopyStart {
    pub(crate) range: CopyRange,
    /// Both files.
    pub(crate) pins: [Pin; 2],
    /// Handle of the destination.
    pub(crate) handle: FileHandle,
    pub(crate) context: Context,
    /// Stability and verifier to report.
    pub(crate) committed: StableHow,
    pub(crate) verifier: Verifier,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BackgroundCopy {
    key: u64,
    pub(crate) client: Arc<Client>,
    /// Key of the session that it was begun in.
    session: u64,
    pub(crate) range: CopyRange,
    pub(super) handle: FileHandle,
    pub(crate) context: Context,
    committed: StableHow,
    verifier: Verifier,
    copied_bytes: AtomicU64,
    /// Whether its stateid is valid.
    live: AtomicBool,
    reports: AtomicU8,
    progress: Mutex<Progress>,
    _charge: Charge,
}

/// The files while the copy is in progress, then its status.
#[derive(Debug)]
enum Progress {
    Running(#[expect(dead_code, reason = "held to keep the files")] [Pin; 2]),
    Ended(Status),
}

impl BackgroundCopy {
    /// Whether its stateid is valid: it was not cancelled, and its end was not confirmed.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    pub(crate) fn stateid(&self) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.client.number().to_be_bytes());
        other[4..].copy_from_slice(&(self.key | COPY_KEY).to_be_bytes());
        Stateid { seqid: GENERATION, other }
    }

    /// Number of bytes copied so far.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    /// Counts copied bytes; only the thread that copies does.
    pub(crate) fn add_copied(&self, bytes: u64) {
        self.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The status that it has ended with, or `None` while it is in progress.
    pub(crate) fn status(&self) -> Option<Status> {
        match &*sync::lock(&self.progress) {
            Progress::Running(_) => None,
            Progress::Ended(status) => Some(*status),
        }
    }

    /// The result to report.
    pub(super) fn result(&self) -> OffloadResult {
        let count = self.copied_bytes();
        match self.status() {
            Some(status) if status != Status::Ok => OffloadResult::Failed(status, count),
            _ => OffloadResult::Done(CopiedData {
                callback_id: None,
                count,
                committed: self.committed,
                verifier: self.verifier,
            }),
        }
    }

    /// Whether its end may be reported once more; a client that refuses all reports has to ask.
    pub(super) fn begin_report(&self) -> bool {
        self.is_live() && self.reports.fetch_add(1, Ordering::Relaxed) < NFS4_COPY_REPORTS_MAX
    }

    /// Records how it has ended, and releases the files; returns whether it was in progress.
    fn end(&self, status: Status) -> bool {
        let ended = std::mem::replace(&mut *sync::lock(&self.progress), Progress::Ended(status));
        matches!(ended, Progress::Running(_))
    }
}

impl Tables {
    /// Begins a copy in the background; `None` if the client can't be told its end, or if there are
    /// too many.
    pub(crate) fn begin_copy(
        &self,
        session: &Session,
        start: CopyStart,
    ) -> Option<Arc<BackgroundCopy>> {
        if !session.backchannel.is_alive() {
            return None;
        }
        let CopyStart { range, pins, handle, context, committed, verifier } = start;
        let mut holdings = session.client.lock();
        if holdings.dead {
            return None;
        }
        let charge = self.charge_state()?;
        let copy = self.copies.insert(|key| BackgroundCopy {
            key,
            client: Arc::clone(&session.client),
            session: session.key,
            range,
            handle,
            context,
            committed,
            verifier,
            copied_bytes: AtomicU64::new(0),
            live: AtomicBool::new(true),
            reports: AtomicU8::new(0),
            progress: Mutex::new(Progress::Running(pins)),
            _charge: charge,
        })?;
        holdings.copies.push(copy.key);
        holdings.running_copies += 1;
        Some(copy)
    }

    /// Finds a copy, and renews its client's lease.
    ///
    /// # Errors
    /// `BadStateid`, also for another client's copy and for one that is over.
    pub(crate) fn find_copy(
        &self,
        stateid: &Stateid,
        requester: Requester<'_>,
        now_ns: u64,
    ) -> Result<Arc<BackgroundCopy>, Status> {
        let Requester::Session(client) = requester else { return Err(Status::BadStateid) };
        let (number, key) = client_and_key(stateid);
        let is_valid = key & COPY_KEY != 0 && stateid.seqid == GENERATION;
        let found = self.copies.get(key & !COPY_KEY).filter(|copy| {
            is_valid && number == client.number() && Arc::ptr_eq(client, &copy.client)
        });
        client.renew(now_ns);
        found.filter(|copy| copy.is_live()).ok_or(Status::BadStateid)
    }

    /// Records that a copy has ended with this status; returns false if it was over before.
    #[expect(clippy::unused_self, reason = "it changes the tables' client")]
    pub(crate) fn end_copy(&self, copy: &BackgroundCopy, status: Status) -> bool {
        let mut holdings = copy.client.lock();
        let is_ended = !holdings.dead && copy.is_live() && copy.end(status);
        holdings.running_copies -= usize::from(is_ended);
        is_ended
    }

    /// Reports the end of a copy.
    pub(crate) fn report_copy(&self, copy: &Arc<BackgroundCopy>) {
        let sessions = copy.client.lock().sessions.clone();
        if let Some(session) = self.sessions.get(copy.session)
            && session.backchannel.report(copy)
        {
            return;
        }
        for key in sessions.into_iter().filter(|key| *key != copy.session) {
            if self.sessions.get(key).is_some_and(|session| session.backchannel.report(copy)) {
                return;
            }
        }
        // The first session reports it once the client has bound a connection again.
        copy.client.raise_flags(CB_PATH_DOWN | CB_PATH_DOWN_SESSION);
    }

    /// Reports the end of a copy again if the connection of the report is lost.
    pub(crate) fn check_report(&self, copy: &BackgroundCopy) {
        if let Some(session) = self.sessions.get(copy.session) {
            session.backchannel.check_in_flight();
        }
    }

    /// Forgets a copy that was cancelled, or whose end the client has confirmed.
    pub(crate) fn forget_copy(&self, copy: &BackgroundCopy) {
        let mut holdings = copy.client.lock();
        if holdings.dead {
            return;
        }
        holdings.copies.retain(|key| *key != copy.key);
        if copy.is_live() && copy.end(Status::Expired) {
            holdings.running_copies -= 1;
        }
        self.drop_copy(copy.key);
    }

    /// Removes a copy from the table; its client's holdings no longer have it.
    pub(super) fn drop_copy(&self, key: u64) {
        let Some(copy) = self.copies.remove(key) else { return };
        copy.live.store(false, Ordering::Release);
        copy.end(Status::Expired);
    }
}

const _: () = assert!(size_of::<BackgroundCopy>() + 4 * 48 <= NFS4_STATE_BYTES as usize);
