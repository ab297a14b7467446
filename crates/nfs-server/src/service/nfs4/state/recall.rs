//! Progress of the recall of one delegation, or of the layouts of a file.
//!
//! Everything is atomic: a recall starts under whatever locks its cause holds, is sent by one
//! thread and answered in another. It starts once, and that time decides when the state is revoked;
//! it is sent until the client has confirmed that it knows the state.
//!
//! **Source:** RFC 8881 sections 10.2.1, 10.4.5 and 12.5.5.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use nfs_proto::nfs4::FileHandle;

const TO_SEND: u8 = 0;
const SENT: u8 = 1;
const CONFIRMED: u8 = 2;

/// The part of a state that only what can be recalled has; see the module.
#[derive(Debug)]
pub(crate) struct Recall {
    /// The file handle given to the client.
    pub(super) handle: FileHandle,
    /// When it was recalled; 0 if it was not.
    recalled_ns: AtomicU64,
    progress: AtomicU8,
    revoked: AtomicBool,
}

impl Recall {
    pub(super) fn new(handle: FileHandle) -> Self {
        Self {
            handle,
            recalled_ns: AtomicU64::new(0),
            progress: AtomicU8::new(TO_SEND),
            revoked: AtomicBool::new(false),
        }
    }

    /// Starts the recall unless it has started; returns when it did, and whether it was now.
    pub(super) fn begin_recall(&self, now_ns: u64) -> (u64, bool) {
        let order = Ordering::Relaxed;
        match self.recalled_ns.compare_exchange(0, now_ns.max(1), order, order) {
            Ok(_) => (now_ns, true),
            Err(began_ns) => (began_ns, false),
        }
    }

    /// Returns true if the caller should send the recall now.
    pub(super) fn begin_sending(&self) -> bool {
        let order = Ordering::Relaxed;
        self.progress.compare_exchange(TO_SEND, SENT, order, order).is_ok()
    }

    /// Records that the client has confirmed the recall.
    pub(super) fn confirm_recall(&self) {
        self.progress.store(CONFIRMED, Ordering::Relaxed);
    }

    /// Returns true if the recall has started.
    pub(super) fn has_begun(&self) -> bool {
        self.recalled_ns.load(Ordering::Relaxed) != 0
    }

    /// Makes the recall be sent again: the client does not know the state yet, since the
    /// recall may have overtaken its OPEN, or the connection was lost.
    pub(super) fn repeat_recall(&self) {
        self.progress.store(TO_SEND, Ordering::Relaxed);
    }

    pub(super) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }
}
