//! io_uring: many ops in flight from one thread, with registered files and buffers.
//!
//! Each op in flight has a slot: a piece of the aligned region for its data, its names, its stage.
//! Most ops are one ring entry (`entries`); those that open a file by name are several, one after
//! the other (`stages`). What the kernel has no entry for is done by the calls of `posix` when it
//! is submitted, and reported by [`calls_instead`]. Registration is tried and done without where
//! the kernel refuses it, for example for want of lockable memory. Every entry points into memory
//! that this type owns and that outlives the ring: `Drop` waits for what is in flight before the
//! memory goes.
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
use super::posix::names;
use super::{Backend, Lost, NO_LIMIT, Tally, wait_time};
use crate::buffers::Buffers;
use crate::clock::Clock;
use stages::Stage;

/// Executes ops through a ring of its own.
pub struct Uring {
    ring: IoUring,
    set: Files,
    clock: Arc<dyn Clock>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Results taken from the ring and not looked at yet: (slot, result).
    arrived: Vec<(u64, i32)>,
    /// Ops that a system call did when they were submitted.
    called: Vec<u32>,
    /// Data of the slots; pinned by address until the ring is gone.
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
    /// The path of what the op works on, and where it leads to.
    path: PathName,
    other: PathName,
    /// Descriptor of a file that was opened by name.
    fd: RawFd,
    /// Bytes of the op that have moved.
    moved: u32,
    outcome: Outcome,
}

/// Flag of io_uring_enter(2): run pending work and take completions.
const GETEVENTS: u32 = 1;

/// Index of the pattern's pool among the registered buffers; the slots' region is 0.
const POOL: u16 = 1;

/// Says which kinds of op the kernel has no ring entry for, so that a call does them.
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
            | OpKind::Execute
    )
}

/// Raises a caveat about the ops of a pass that are done one at a time, because `io_uring` can't.
pub fn calls_instead(pass: Pass) -> Option<Caveat> {
    let mut names = Vec::new();
    for kind in pass.kinds() {
        if is_call(*kind) && *kind != OpKind::Execute {
            names.push(kind.name());
        }
    }
    if names.is_empty() {
        return None;
    }
    Some(CaveatCode::BackendFallback.because(format!(
        "io_uring has no entry for {}: synchronous calls did them, one at a time",
        names.join(", ")
    )))
}

impl Uring {
    /// Makes a ring and registers the files and buffers of the set with it.
    ///
    /// # Errors
    /// When the kernel refuses a ring; `posix` can do the work then.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let depth = set.queue_depth as u32;
        let ring = build_ring(depth)?;
        let fixed_files = !set.files.is_empty() && {
            // An op on a registered file spares the kernel the look-up and count of its descriptor.
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

    /// Puts an entry into the submission queue, where the kernel finds it at the next enter.
    ///
    /// The queue has an entry for each slot, and a slot has at most one entry in flight (the next
    /// stage is pushed when the one before has completed), so it is never full; the completion
    /// queue has twice as many and can't overflow. `user_data` comes back with the completion and
    /// says whose it is.
    fn push_entry(&mut self, entry: &squeue::Entry, slot: u32) {
        let entry = entry.clone().user_data(u64::from(slot));
        // SAFETY: the entry points into `buffers`, the pattern's pool, `slots` or `statx`. None of
        // them is moved or freed while the slot is in flight: they are allocated once, live as
        // long as the ring, and `Drop` waits until nothing is in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for each slot");
    }

    /// Does at once what there is no entry for.
    fn call_system(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.outcome = match names::execute(&self.set, &state.op) {
            Ok(bytes) => Outcome::Done(bytes),
            Err(error) => Outcome::Failed(error),
        };
        self.called.push(slot);
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Submits what was pushed and waits for `min` completions, at most until an instant or a tick.
    ///
    /// It looks before it sleeps: completions that are there already are taken without a wake-up,
    /// and a device is kept busy with larger batches.
    fn enter_kernel(&mut self, min: usize, until_ns: u64) -> io::Result<()> {
        let pushed = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and the entries keep what `push_entry` promises.
        let looked = unsafe { self.ring.submitter().enter::<()>(pushed, 0, GETEVENTS, None) };
        allow_retry(looked)?;
        if min == 0 || !self.called.is_empty() || !self.ring.completion().is_empty() {
            return Ok(());
        }
        // With deferred task work (`build_ring`) completions are posted only while this thread is
        // in the kernel with GETEVENTS; so a look without waiting has to enter, too.
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
        // Copied out first: the completion queue borrows the ring, and the next stage of an op is
        // pushed to it. Dropping the view hands the entries back to the kernel.
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
            let slot = self.free.pop().expect("as many are free as were accepted");
            let state = &mut self.slots[slot as usize];
            (state.op, state.sent_ns, state.moved) = (*op, sent_ns, 0);
            if is_call(op.kind) {
                self.call_system(slot);
                // The ops that follow were held up by it.
                sent_ns = self.clock.now_ns();
                continue;
            }
            self.start_op(slot);
            if self.set.direct {
                // A device works on this op while the next is put together. Buffered ops would be
                // done at once: one call for all of them is cheaper. What can't be handed over
                // now goes with the next `enter_kernel`.
                let _ = self.ring.submit();
            }
        }
        accepted
    }

    fn reap(&mut self, min: usize, until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let before = out.len();
        self.enter_kernel(min, until_ns).map_err(|error| enter_failed(&error))?;
        self.collect_completions(out);
        // Stages that have ended pushed the next ones; hand them over before waiting again.
        if out.len() == before && !self.ring.submission().is_empty() {
            self.enter_kernel(1, until_ns).map_err(|error| enter_failed(&error))?;
            self.collect_completions(out);
        }
        Ok(())
    }

    fn close(&mut self, _stop: &AtomicBool) -> Result<(), Lost> {
        if self.fixed_files {
            // The ring holds on to files that are registered, and the last holder closes.
            if let Err(error) = self.ring.submitter().unregister_files() {
                return Err(Lost(format!("io_uring_register failed: {error}")));
            }
            self.fixed_files = false;
        }
        self.set.close()
    }

    fn tally(&self) -> Tally {
        let mismatches = self.set.mismatches.get();
        Tally { ops: Some(self.ops), mismatches, ..Tally::default() }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::with_capacity(self.slots.len());
        while self.in_flight() > 0 {
            if self.enter_kernel(1, NO_LIMIT).is_err() {
                // The kernel may still write into the slots: leak them rather than free them.
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

fn enter_failed(error: &io::Error) -> Lost {
    Lost(format!("io_uring_enter failed: {error}"))
}

/// Takes the results that only say "not now" for success: the caller comes again.
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
    // One thread submits and reaps, so the kernel need neither interrupt it nor lock for others;
    // kernels before 6.1 do not know these flags.
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
    // Registered memory is pinned once, and not for each op: O_DIRECT transfers gain most by it.
    let vectors = [io_vector(region), io_vector(&pool)];
    // SAFETY: both regions live as long as the ring (see `push_entry`), and the kernel only reads
    // from the pool, because only writes name it.
    unsafe { ring.submitter().register_buffers(&vectors).is_ok() }
}

const fn io_vector(memory: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: memory.as_ptr() as *mut std::ffi::c_void, iov_len: memory.len() }
}
