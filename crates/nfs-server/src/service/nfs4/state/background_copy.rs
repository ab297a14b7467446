//! One asynchronous copy: what it copies, how far it got, and whether its stateid is valid.
//!
//! A [`BackgroundCopy`] pins both files while it is in progress. One thread copies; the others only
//! read its progress, or end it.
//!
//! **Source:** RFC 7862 sections 4.8 and 15.9.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::Status;
use nfs_proto::nfs3::Verifier;
use nfs_proto::nfs4::{CopiedData, FileHandle, OffloadResult, StableHow, Stateid};

use super::client::Client;
use crate::fs::{Charge, Context, InodeId, Pin};
use crate::limits::{NFS4_COPY_REPORTS_MAX, NFS4_STATE_BYTES};
use crate::sync;

/// Distinguishes the keys of copies from those of other states, whose generations don't get there.
pub(super) const COPY_KEY: u64 = 1 << 63;
/// Generation of the stateid of a copy; 0 would not be valid.
pub(super) const GENERATION: u32 = 1;

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
    pub(super) key: u64,
    pub(crate) client: Arc<Client>,
    /// Key of the session that it was begun in.
    pub(super) session: u64,
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
    /// Begins a copy in the session with this key.
    pub(super) fn new(
        key: u64,
        client: &Arc<Client>,
        session: u64,
        start: CopyStart,
        charge: Charge,
    ) -> Self {
        let CopyStart { range, pins, handle, context, committed, verifier } = start;
        Self {
            key,
            client: Arc::clone(client),
            session,
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
        }
    }

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

    /// Ends it together with its stateid.
    pub(super) fn end_stateid(&self) {
        self.live.store(false, Ordering::Release);
        self.end(Status::Expired);
    }

    /// Records how it has ended, and releases the files; returns whether it was in progress.
    pub(super) fn end(&self, status: Status) -> bool {
        let ended = std::mem::replace(&mut *sync::lock(&self.progress), Progress::Ended(status));
        matches!(ended, Progress::Running(_))
    }
}

const _: () = assert!(size_of::<BackgroundCopy>() + 4 * 48 <= NFS4_STATE_BYTES as usize);
