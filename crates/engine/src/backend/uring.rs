//! io_uring: many ops in flight from one thread, with registered files and buffers.
//!
//! Each op in flight has a slot: a piece of the aligned region for its data, its name, its stage.
//! Reads and writes are one ring entry; a create is up to three (open, write, close), one after
//! the other. Registration is tried and done without where the kernel refuses it, for example for
//! want of lockable memory. Every entry points into memory that this type owns and that outlives
//! the ring: `Drop` waits for what is in flight before the memory goes.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue, types};
use model::{Completion, Op, OpError, OpKind, Outcome};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use workload::Name;

use super::posix::Files;
use super::{Backend, Lost, NO_LIMIT, Tally, patience};
use crate::buffers::Buffers;
use crate::clock::Clock;

/// Executes ops through a ring of its own.
pub struct Uring {
    ring: IoUring,
    set: Files,
    clock: Arc<dyn Clock>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Results taken from the ring and not looked at yet: (slot, result).
    arrived: Vec<(u64, i32)>,
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
    name: Name,
    /// Descriptor of a file that is being created.
    fd: RawFd,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The entry is the op.
    Only,
    Open,
    Content,
    Close,
}

/// Flag of io_uring_enter(2): run pending work and take completions.
const GETEVENTS: u32 = 1;

/// Index of the pattern's pool among the registered buffers; the slots' region is 0.
const POOL: u16 = 1;

impl Uring {
    /// Makes a ring and registers the files and buffers of the set with it.
    ///
    /// # Errors
    /// When the kernel refuses a ring; `posix` can do the work then.
    pub fn new(set: Files, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let depth = set.queue_depth as u32;
        let ring = build_ring(depth)?;
        let fixed_files = !set.files.is_empty() && {
            let raw: Vec<RawFd> = set.files.iter().map(AsRawFd::as_raw_fd).collect();
            ring.submitter().register_files(&raw).is_ok()
        };
        let mut buffers = Buffers::new(set.queue_depth, set.io_size_bytes);
        let fixed_buffers = register_buffers(&ring, &mut buffers, &set);
        let idle = Slot {
            op: Op { due_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read },
            sent_ns: 0,
            stage: Stage::Only,
            name: Name::file(0),
            fd: -1,
            outcome: Outcome::Done(0),
        };
        Ok(Self {
            ring,
            clock,
            slots: vec![idle; set.queue_depth],
            free: (0..depth).rev().collect(),
            arrived: Vec::with_capacity(set.queue_depth),
            buffers,
            statx: (0..depth).map(|_| MaybeUninit::uninit()).collect(),
            fixed_files,
            fixed_buffers,
            set,
            ops: 0,
        })
    }

    fn start(&mut self, slot: u32) {
        let stage = match self.slots[slot as usize].op.kind {
            OpKind::Create => Stage::Open,
            _ => Stage::Only,
        };
        self.slots[slot as usize].stage = stage;
        let entry = match stage {
            Stage::Open => self.open_entry(slot),
            _ => self.only_entry(slot),
        };
        self.push(entry, slot);
    }

    fn push(&mut self, entry: squeue::Entry, slot: u32) {
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: the entry points into `buffers`, the pattern's pool, `slots` or `statx`. None of
        // them is moved or freed while the slot is in flight: they are allocated once, live as
        // long as the ring, and `Drop` waits until nothing is in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry for each slot");
    }

    fn only_entry(&mut self, slot: u32) -> squeue::Entry {
        let Slot { op, .. } = self.slots[slot as usize];
        match op.kind {
            OpKind::Read => self.read_entry(slot, &op),
            OpKind::Write => self.write_entry(slot, &op),
            OpKind::Sync => self.on_file(
                op.file,
                |fd| opcode::Fsync::new(fd).build(),
                |fd| opcode::Fsync::new(fd).build(),
            ),
            OpKind::Stat => {
                let at = self.statx[slot as usize].as_mut_ptr().cast::<types::statx>();
                opcode::Statx::new(self.directory(), self.name(slot), at)
                    .flags(AtFlags::SYMLINK_NOFOLLOW.bits().cast_signed())
                    .mask(StatxFlags::BASIC_STATS.bits())
                    .build()
            }
            OpKind::Remove => opcode::UnlinkAt::new(self.directory(), self.name(slot)).build(),
            _ => unreachable!("no plan asks for {} yet", op.kind),
        }
    }

    fn read_entry(&mut self, slot: u32, op: &Op) -> squeue::Entry {
        let at = self.buffers.slot(slot as usize).as_mut_ptr();
        let (len, offset) = (op.len_bytes, op.offset_bytes);
        if self.fixed_buffers {
            self.on_file(
                op.file,
                |fd| opcode::ReadFixed::new(fd, at, len, 0).offset(offset).build(),
                |fd| opcode::ReadFixed::new(fd, at, len, 0).offset(offset).build(),
            )
        } else {
            self.on_file(
                op.file,
                |fd| opcode::Read::new(fd, at, len).offset(offset).build(),
                |fd| opcode::Read::new(fd, at, len).offset(offset).build(),
            )
        }
    }

    fn write_entry(&mut self, slot: u32, op: &Op) -> squeue::Entry {
        let (at, buffer) = self.content(slot, op);
        let (len, offset) = (op.len_bytes, op.offset_bytes);
        if self.fixed_buffers {
            self.on_file(
                op.file,
                |fd| opcode::WriteFixed::new(fd, at, len, buffer).offset(offset).build(),
                |fd| opcode::WriteFixed::new(fd, at, len, buffer).offset(offset).build(),
            )
        } else {
            self.on_file(
                op.file,
                |fd| opcode::Write::new(fd, at, len).offset(offset).build(),
                |fd| opcode::Write::new(fd, at, len).offset(offset).build(),
            )
        }
    }

    /// Where the bytes to write stand, and in which registered buffer.
    fn content(&mut self, slot: u32, op: &Op) -> (*const u8, u16) {
        let data = self.set.pattern.slice(op.file, op.offset_bytes, op.len_bytes);
        if self.set.direct {
            let aligned = &mut self.buffers.slot(slot as usize)[..data.len()];
            aligned.copy_from_slice(data);
            return (aligned.as_ptr(), 0);
        }
        (data.as_ptr(), POOL)
    }

    fn open_entry(&mut self, slot: u32) -> squeue::Entry {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        opcode::OpenAt::new(self.directory(), self.name(slot))
            .flags(flags.bits().cast_signed())
            .mode(Mode::from_raw_mode(0o644).bits())
            .build()
    }

    fn on_file(
        &self,
        file: u32,
        registered: impl FnOnce(Fixed) -> squeue::Entry,
        plain: impl FnOnce(Fd) -> squeue::Entry,
    ) -> squeue::Entry {
        if self.fixed_files {
            registered(Fixed(self.set.index(file) as u32))
        } else {
            plain(Fd(self.set.files[self.set.index(file)].as_raw_fd()))
        }
    }

    fn directory(&self) -> Fd {
        Fd(self.set.directory.as_raw_fd())
    }

    fn name(&mut self, slot: u32) -> *const std::ffi::c_char {
        let slot = &mut self.slots[slot as usize];
        slot.name = Name::file(slot.op.file);
        slot.name.as_c_str().as_ptr()
    }

    /// Takes the result of a ring entry; says whether the op has ended.
    fn advance(&mut self, slot: u32, result: i32) -> bool {
        let at = slot as usize;
        let op = self.slots[at].op;
        match self.slots[at].stage {
            Stage::Only => {
                self.slots[at].outcome = self.judge(slot, &op, result);
                true
            }
            Stage::Open if result < 0 => {
                self.slots[at].outcome = Outcome::Failed(OpError(-result as u32));
                true
            }
            Stage::Open => {
                self.slots[at].fd = result;
                self.slots[at].outcome = Outcome::Done(0);
                if op.len_bytes == 0 {
                    self.close(slot);
                } else {
                    self.write_content(slot, &op);
                }
                false
            }
            Stage::Content => {
                self.slots[at].outcome = moved(&op, result);
                self.close(slot);
                false
            }
            Stage::Close => {
                if result < 0 {
                    self.slots[at].outcome = Outcome::Failed(OpError(-result as u32));
                }
                true
            }
        }
    }

    fn write_content(&mut self, slot: u32, op: &Op) {
        self.slots[slot as usize].stage = Stage::Content;
        let fd = Fd(self.slots[slot as usize].fd);
        let data = self.set.pattern.slice(op.file, 0, op.len_bytes).as_ptr();
        self.push(opcode::Write::new(fd, data, op.len_bytes).build(), slot);
    }

    fn close(&mut self, slot: u32) {
        self.slots[slot as usize].stage = Stage::Close;
        let fd = Fd(self.slots[slot as usize].fd);
        self.push(opcode::Close::new(fd).build(), slot);
    }

    fn judge(&mut self, slot: u32, op: &Op, result: i32) -> Outcome {
        let outcome = moved(op, result);
        if self.set.verify && op.kind == OpKind::Read && matches!(outcome, Outcome::Done(_)) {
            let expected = self.set.pattern.slice(op.file, op.offset_bytes, op.len_bytes);
            if self.buffers.slot(slot as usize)[..expected.len()] != *expected {
                return Outcome::Failed(OpError::MISMATCH);
            }
        }
        outcome
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Submits what was pushed and waits for `min` completions, at most until an instant or a tick.
    ///
    /// It looks before it sleeps: completions that are there already are taken without a wake-up,
    /// and a device is kept busy with larger batches.
    fn enter(&mut self, min: usize, until_ns: u64) -> io::Result<()> {
        let pushed = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and the entries keep what `push` promises.
        let looked = unsafe { self.ring.submitter().enter::<()>(pushed, 0, GETEVENTS, None) };
        forgive(looked)?;
        if min == 0 || !self.ring.completion().is_empty() {
            return Ok(());
        }
        let patience = patience(self.clock.as_ref(), until_ns);
        if patience.is_zero() {
            return Ok(());
        }
        let timeout = Timespec::from(patience);
        let arguments = SubmitArgs::new().timespec(&timeout);
        forgive(self.ring.submitter().submit_with_args(min, &arguments))
    }

    fn collect(&mut self, out: &mut Vec<Completion>) {
        let done_ns = self.clock.now_ns();
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (slot, result) in arrived.drain(..) {
            let slot = slot as u32;
            if self.advance(slot, result) {
                let Slot { op, sent_ns, outcome, .. } = self.slots[slot as usize];
                out.push(Completion { op, sent_ns, done_ns, outcome });
                self.free.push(slot);
                self.ops += 1;
            }
        }
        self.arrived = arrived;
    }
}

impl Backend for Uring {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.free.len());
        let sent_ns = self.clock.now_ns();
        for op in &batch[..accepted] {
            let slot = self.free.pop().expect("as many are free as were accepted");
            self.slots[slot as usize].op = *op;
            self.slots[slot as usize].sent_ns = sent_ns;
            self.start(slot);
            if self.set.direct {
                // A device works on this op while the next is put together. Buffered ops would be
                // done on the spot: one call for all of them is cheaper. What can't be handed over
                // now goes with the next `enter`.
                let _ = self.ring.submit();
            }
        }
        accepted
    }

    fn reap(&mut self, min: usize, until_ns: u64, out: &mut Vec<Completion>) -> Result<(), Lost> {
        let before = out.len();
        self.enter(min, until_ns)
            .map_err(|error| Lost(format!("io_uring_enter failed: {error}")))?;
        self.collect(out);
        // Opens that have ended pushed writes and closes; hand them over before waiting again.
        if out.len() == before && !self.ring.submission().is_empty() {
            self.enter(1, until_ns)
                .map_err(|error| Lost(format!("io_uring_enter failed: {error}")))?;
            self.collect(out);
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally { ops: Some(self.ops), ..Tally::default() }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::with_capacity(self.slots.len());
        while self.in_flight() > 0 {
            if self.enter(1, NO_LIMIT).is_err() {
                // The kernel may still write into the slots: leak them rather than free them.
                std::mem::forget(std::mem::replace(&mut self.buffers, Buffers::new(0, 0)));
                std::mem::forget(std::mem::take(&mut self.slots));
                std::mem::forget(std::mem::take(&mut self.statx));
                std::mem::forget(self.set.pattern.clone());
                return;
            }
            self.collect(&mut ended);
        }
    }
}

/// Takes the results that only say "not now" for success: the caller comes again.
fn forgive(result: io::Result<usize>) -> io::Result<()> {
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
    modern.or_else(|_| IoUring::new(depth))
}

fn register_buffers(ring: &IoUring, buffers: &mut Buffers, set: &Files) -> bool {
    if set.files.is_empty() {
        return false;
    }
    let pool = set.pattern.pool();
    let region = buffers.region();
    let of = |base: *const u8, len: usize| libc::iovec {
        iov_base: base as *mut std::ffi::c_void,
        iov_len: len,
    };
    let vectors = [of(region.as_ptr(), region.len()), of(pool.as_ptr(), pool.len())];
    // SAFETY: both regions live as long as the ring (see `push`), and the kernel only reads from
    // the pool, because only writes name it.
    unsafe { ring.submitter().register_buffers(&vectors).is_ok() }
}

fn moved(op: &Op, result: i32) -> Outcome {
    let moves_data = matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::Create);
    match u32::try_from(result) {
        Err(_) => Outcome::Failed(OpError(-result as u32)),
        Ok(bytes) if moves_data && bytes != op.len_bytes => Outcome::Failed(OpError::SHORT),
        Ok(bytes) => Outcome::Done(if moves_data { bytes } else { 0 }),
    }
}
