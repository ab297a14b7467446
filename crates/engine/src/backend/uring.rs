//! io_uring: many ops in flight on one thread, with registered files and buffers.
//!
//! Each op in flight has a slot with a part of the aligned region for its data, its paths and its
//! stage. Most ops take one ring entry (`entries`). Those that open a file by name take several,
//! one after the other (`stages`). If the kernel has no ring entry for an op, `posix` executes it
//! at submission, and `calls_instead` reports that. If the kernel doesn't allow registration, for
//! example because of the limit on locked memory, we do without. All entries point into memory that
//! is owned by this type and outlives the ring: `Drop` waits for everything in flight before the
//! memory is freed.
#![allow(unsafe_code)]

mod entries;
mod stages;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};
use model::{Caveat, CaveatCode, Completion, Op, OpKind, Outcome, Pass};
use rustix::fs::Statx;
use rustix::io::Errno;
use workload::places::PathName;

use super::files::Files;
use super::posix::{names, ranges};
use super::{Backend, BackendCounts, LostTarget, NO_LIMIT, wait_time};
use crate::buffers::Buffers;
use crate::clock::Clock;
use stages::Stage;

/// Executes ops through its own ring.
pub struct Uring {
    ring: IoUring,
    set: Files,
    clock: Arc<dyn Clock>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Results taken from the ring but not processed yet: (slot, result).
    arrived: Vec<(u64, i32)>,
    /// Ops executed with a system call at submission.
    called: Vec<u32>,
    /// Data of the slots. Must stay at the same address until the ring is gone.
    buffers: Buffers,
    statx: Box<[MaybeUninit<Statx>]>,
    fixed_files: bool,
    fixed_buffers: bool,
    ops: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    op: Op,
    sent_ns: u64,
    stage: Stage,
    /// The path of the op's object, and the new name or target.
    path: PathName,
    other: PathName,
    /// Descriptor of a file opened by name.
    fd: RawFd,
    /// Bytes of the op transferred so far.
    moved: u32,
    outcome: Outcome,
}

/// Flag of io_uring_enter(2): run pending work and collect completions.
const GETEVENTS: u32 = 1;

/// Index of the pattern's pool among the registered buffers. The slots' region is 0.
const POOL: u16 = 1;

/// Returns true for kinds of ops without a ring entry, which need a system call.
const fn is_call(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Setattr
            | OpKind::Access
            | OpKind::Readlink
            | OpKind::Readdir
            | OpKind::ReaddirPlus
            | OpKind::Fsstat
            | OpKind::Fsinfo
            | OpKind::Pathconf
            | OpKind::SetXattr
            | OpKind::GetXattr
            | OpKind::Copy
            | OpKind::Clone
            | OpKind::Seek
            | OpKind::List
            | OpKind::ListStat
            | OpKind::Find
            | OpKind::Execute
    )
}

/// Returns a caveat if some of a pass's ops are executed one at a time because `io_uring` doesn't
/// support them.
pub(crate) fn calls_instead(pass: Pass) -> Option<Caveat> {
    let names: Vec<_> = pass
        .kinds()
        .iter()
        .filter(|&kind| is_call(*kind) && *kind != OpKind::Execute)
        .map(|kind| kind.name())
        .collect();
    if names.is_empty() {
        return None;
    }
    Some(CaveatCode::BackendFallback.because(format!(
        "io_uring does not support {}: synchronous calls were used, one at a time",
        names.join(", ")
    )))
}

impl Uring {
    /// Creates a ring and registers the set's files and buffers with it.
    ///
    /// # Errors
    /// If the kernel doesn't allow a ring. `posix` can be used instead.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let depth = set.queue_depth as u32;
        let ring = build_ring(depth)?;
        let fixed_files = !set.files.is_empty() && {
            // Registered files spare the kernel the descriptor lookup and reference count for each
            // op.
            let raw: Vec<RawFd> = set.files.iter().map(AsRawFd::as_raw_fd).collect();
            ring.submitter().register_files(&raw).is_ok()
        };
        let mut buffers = Buffers::new(set.queue_depth, set.io_size_bytes);
        let fixed_buffers = register_buffers(&ring, &mut buffers, &set);
        let nowhere = set.places.path_of(0);
        let idle = Slot {
            op: Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read },
            sent_ns: 0,
            stage: Stage::Only,
            path: nowhere,
            other: nowhere,
            fd: -1,
            moved: 0,
            outcome: Outcome::Done(0),
        };
        Ok(Self {
            ring,
            clock,
            slots: vec![idle; set.queue_depth],
            free: (0..depth).rev().collect(),
            arrived: Vec::with_capacity(set.queue_depth),
            called: Vec::with_capacity(set.queue_depth),
            buffers,
            statx: (0..depth).map(|_| MaybeUninit::uninit()).collect(),
            fixed_files,
            fixed_buffers,
            set,
            ops: 0,
        })
    }

    /// Adds an entry to the submission queue, where the kernel finds it on the next enter.
    ///
    /// The queue has an entry for each slot, and each slot has at most one entry in flight, since
    /// its next stage is pushed only after the previous one has completed. So the queue is never
    /// full, and the completion queue, which is twice as long, cannot overflow. `user_data` comes
    /// back with the completion and identifies the slot.
    fn push_entry(&mut self, entry: &squeue::Entry, slot: u32) {
        let entry = entry.clone().user_data(u64::from(slot));
        // SAFETY: the entry points into `buffers`, the pattern's pool, `slots` or `statx`. None of
        // them is moved or freed while the slot is in flight: they are allocated once, live as long
        // as the ring, and `Drop` waits until nothing is in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has as many entries as slots");
    }

    /// Executes an op without a ring entry immediately.
    fn call_system(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        let called = match state.op.kind {
            OpKind::Copy | OpKind::Clone | OpKind::Seek => ranges::execute(&self.set, &state.op),
            _ => names::execute(&self.set, &state.op),
        };
        state.outcome = match called {
            Ok(bytes) => Outcome::Done(bytes),
            Err(error) => Outcome::Failed(error),
        };
        self.called.push(slot);
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Submits pushed entries and waits for `min` completions, at most until `until_ns` or for one
    /// tick.
    ///
    /// It checks for completions before sleeping. Available ones are then taken without a wakeup,
    /// and larger batches keep a device busy.
    fn enter_kernel(&mut self, min: usize, until_ns: u64) -> io::Result<()> {
        let pushed = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and the entries fulfill the conditions in `push_entry`.
        let looked = unsafe { self.ring.submitter().enter::<()>(pushed, 0, GETEVENTS, None) };
        allow_retry(looked)?;
        if min == 0 || !self.called.is_empty() || !self.ring.completion().is_empty() {
            return Ok(());
        }
        // With deferred task work (see `build_ring`), completions are only posted while this thread
        // is in the kernel with GETEVENTS, so even checking without waiting has to enter it.
        let wait = wait_time(self.clock.as_ref(), until_ns);
        if wait.is_zero() {
            return Ok(());
        }
        let timeout = Timespec::from(wait);
        let arguments = SubmitArgs::new().timespec(&timeout);
        allow_retry(self.ring.submitter().submit_with_args(min, &arguments))
    }

    fn collect_completions(&mut self, out: &mut Vec<Completion>) {
        let done_ns = self.clock.now_ns();
        while let Some(slot) = self.called.pop() {
            self.end_op(slot, done_ns, out);
        }
        // Copy the results first: the completion queue borrows the ring, but the next stage of an
        // op has to be pushed to it. Dropping the iterator returns the entries to the kernel.
        let mut arrived = std::mem::take(&mut self.arrived);
        for entry in self.ring.completion() {
            arrived.push((entry.user_data(), entry.result()));
        }
        for (slot, result) in arrived.drain(..) {
            let slot = slot as u32;
            if self.advance_op(slot, result) {
                self.end_op(slot, done_ns, out);
            }
        }
        self.arrived = arrived;
    }

    fn end_op(&mut self, slot: u32, done_ns: u64, out: &mut Vec<Completion>) {
        let Slot { op, sent_ns, outcome, .. } = self.slots[slot as usize];
        out.push(Completion { op, sent_ns, done_ns, outcome });
        self.free.push(slot);
        self.ops += 1;
    }
}

impl Backend for Uring {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.free.len());
        let mut sent_ns = self.clock.now_ns();
        for op in &batch[..accepted] {
            let slot = self.free.pop().expect("no more ops are accepted than slots are free");
            let state = &mut self.slots[slot as usize];
            state.op = *op;
            state.sent_ns = sent_ns;
            state.moved = 0;
            if is_call(op.kind) {
                self.call_system(slot);
                // This op has delayed the following ones.
                sent_ns = self.clock.now_ns();
                continue;
            }
            self.start_op(slot);
            if self.set.direct {
                // Lets the device work on this op while the next one is prepared. Buffered ops
                // would complete immediately, so a single call for all of them is cheaper. If this
                // fails, the next `enter_kernel` submits it.
                let _ = self.ring.submit();
            }
        }
        accepted
    }

    fn reap(
        &mut self,
        min: usize,
        until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let before = out.len();
        self.enter_kernel(min, until_ns).map_err(|error| enter_failed(&error))?;
        self.collect_completions(out);
        // Completed stages have pushed the next ones; submit those before waiting again.
        if out.len() == before && !self.ring.submission().is_empty() {
            self.enter_kernel(1, until_ns).map_err(|error| enter_failed(&error))?;
            self.collect_completions(out);
        }
        Ok(())
    }

    fn close(&mut self, _stop: &AtomicBool) -> Result<(), LostTarget> {
        if self.fixed_files {
            // The ring keeps registered files open, and only the last reference closes them.
            if let Err(error) = self.ring.submitter().unregister_files() {
                return Err(LostTarget(format!("io_uring_register failed: {error}")));
            }
            self.fixed_files = false;
        }
        self.set.close()
    }

    fn tally(&self) -> BackendCounts {
        BackendCounts {
            ops: Some(self.ops),
            mismatches: self.set.mismatches.get(),
            ranges: self.set.ranges.get(),
            ..BackendCounts::default()
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::with_capacity(self.slots.len());
        while self.in_flight() > 0 {
            if self.enter_kernel(1, NO_LIMIT).is_err() {
                // The kernel may still write to the slots, so leak the memory instead of freeing
                // it.
                std::mem::forget(std::mem::replace(&mut self.buffers, Buffers::new(0, 0)));
                std::mem::forget(std::mem::take(&mut self.slots));
                std::mem::forget(std::mem::take(&mut self.statx));
                std::mem::forget(self.set.pattern.clone());
                return;
            }
            self.collect_completions(&mut ended);
        }
    }
}

fn enter_failed(error: &io::Error) -> LostTarget {
    LostTarget(format!("io_uring_enter failed: {error}"))
}

/// Treats results that mean "not now" as success, since the caller will try again.
fn allow_retry(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

fn build_ring(depth: u32) -> io::Result<IoUring> {
    // A single thread submits and reaps, so the kernel doesn't have to interrupt it or use locks.
    // Kernels before 6.1 don't know these flags.
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .build(depth);
    match modern {
        Ok(ring) => Ok(ring),
        Err(_) => IoUring::new(depth),
    }
}

fn register_buffers(ring: &IoUring, buffers: &mut Buffers, set: &Files) -> bool {
    if set.files.is_empty() {
        return false;
    }
    let pool = set.pattern.pool();
    let region = buffers.region();
    // Registered memory is pinned once instead of for every op, which mostly benefits O_DIRECT.
    let vectors = [io_vector(region), io_vector(&pool)];
    // SAFETY: both regions live as long as the ring (see `push_entry`). The kernel only reads from
    // the pool, because it is used for writes only.
    unsafe { ring.submitter().register_buffers(&vectors).is_ok() }
}

const fn io_vector(memory: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: memory.as_ptr() as *mut std::ffi::c_void, iov_len: memory.len() }
}
