//! Lists whole directories with system calls.
//!
//! | op | calls for each directory |
//! |---|---|
//! | List | `openat`, `getdents64`, `close` |
//! | ListStat | the same, and `statx` of each entry |
//! | Find | the same, and `statx` of each file whose name fits |
//!
//! A directory may take minutes on a network file system, so [`Lister`] interrupts it every tick
//! for its worker to see a stop request. The names of one buffer are kept for that.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::{Completion, Op, OpError, OpKind, Outcome};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, openat, statx};
use rustix::io::Errno;
use workload::has_find_text;

use super::super::files::{Files, failed, retry};
use super::super::find::{FindRule, Listed};
use super::super::{Backend, BackendCounts, LostTarget};
use crate::clock::Clock;
use crate::limits::{LIST_BYTES, LIST_STAT_BYTES, TICK};

/// Number of names examined between two looks at the clock.
const NAMES_PER_LOOK: usize = 16;

/// Executes ops that list whole directories.
pub struct Lister {
    set: Files,
    /// The rule of `find` for each working directory.
    rules: Vec<FindRule>,
    clock: Arc<dyn Clock>,
    waiting: Vec<Op>,
    open: Option<OpenDirectory>,
    buffer: Vec<MaybeUninit<u8>>,
    /// Names to examine, each followed by a zero, and the position of the next one.
    names: Vec<u8>,
    next_name: usize,
    sent_ns: u64,
    listed: Listed,
}

/// The directory that is being listed.
struct OpenDirectory {
    fd: OwnedFd,
    is_read: bool,
    entries: u32,
    matches: u64,
}

impl Lister {
    /// Creates a backend for ops of one kind.
    pub fn new(set: Files, kind: OpKind, rules: Vec<FindRule>, clock: Arc<dyn Clock>) -> Self {
        let bytes = if kind == OpKind::List { LIST_BYTES } else { LIST_STAT_BYTES };
        // Fill it with a value, since untouched pages would fault in the first measured calls.
        let buffer = vec![MaybeUninit::new(0xa5); bytes];
        let waiting = Vec::with_capacity(set.queue_depth);
        let names = Vec::with_capacity(bytes);
        Self {
            set,
            rules,
            clock,
            waiting,
            open: None,
            buffer,
            names,
            next_name: 0,
            sent_ns: 0,
            listed: Listed::default(),
        }
    }

    /// Continues an op until an instant. Returns the number of entries once the directory has been
    /// listed completely, and `None` until then.
    fn advance(&mut self, op: &Op, until_ns: u64) -> Result<Option<u32>, OpError> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                none => none.insert(open_directory(&self.set, op.file)?),
            };
            let rule = &self.rules[op.file as usize % self.rules.len()];
            let mut looked = 0;
            while let Some(name) = next_name(&self.names, self.next_name) {
                self.next_name += name.to_bytes_with_nul().len();
                open.matches += u64::from(examine(&open.fd, name, op.kind, rule)?);
                looked += 1;
                if looked % NAMES_PER_LOOK == 0 && self.clock.now_ns() >= until_ns {
                    return Ok(None);
                }
            }
            if open.is_read {
                let OpenDirectory { entries, matches, .. } = *open;
                self.open = None;
                self.listed.note_directory(entries, matches, op.offset_bytes);
                return Ok(Some(entries));
            }
            self.names.clear();
            self.next_name = 0;
            read_entries(open, &mut self.buffer, &mut self.names, op.kind)?;
            if self.clock.now_ns() >= until_ns {
                return Ok(None);
            }
        }
    }
}

impl Backend for Lister {
    fn submit(&mut self, batch: &[Op]) -> usize {
        let accepted = batch.len().min(self.waiting.capacity() - self.waiting.len());
        if self.waiting.is_empty() {
            self.sent_ns = self.clock.now_ns();
        }
        // The next op is taken from the end.
        self.waiting.splice(0..0, batch[..accepted].iter().rev().copied());
        accepted
    }

    fn reap(
        &mut self,
        _min: usize,
        _until_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<(), LostTarget> {
        let until_ns = self.clock.now_ns().saturating_add(TICK.as_nanos() as u64);
        while let Some(&op) = self.waiting.last() {
            let outcome = match self.advance(&op, until_ns) {
                Ok(None) => break,
                Ok(Some(entries)) => Outcome::Done(entries),
                Err(error) => {
                    self.open = None;
                    self.names.clear();
                    self.next_name = 0;
                    Outcome::Failed(error)
                }
            };
            self.waiting.pop();
            let done_ns = self.clock.now_ns();
            out.push(Completion { op, sent_ns: self.sent_ns, done_ns, outcome });
            self.sent_ns = done_ns;
            if done_ns >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn entries_in_progress(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.entries.into())
    }

    fn tally(&self) -> BackendCounts {
        BackendCounts { listed: Some(self.listed), ..BackendCounts::default() }
    }
}

fn open_directory(set: &Files, number: u32) -> Result<OpenDirectory, OpError> {
    let place = set.places.path_of(number / set.roots.len() as u32);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = retry(|| openat(set.root(number), place.as_c_str(), flags, Mode::empty()))?;
    Ok(OpenDirectory { fd, is_read: false, entries: 0, matches: 0 })
}

/// Counts the entries of one getdents64, and keeps the names that have to be examined.
fn read_entries(
    open: &mut OpenDirectory,
    buffer: &mut [MaybeUninit<u8>],
    names: &mut Vec<u8>,
    kind: OpKind,
) -> Result<(), OpError> {
    let mut entries = RawDir::new(open.fd.as_fd(), buffer);
    loop {
        let entry = match entries.next() {
            None => {
                open.is_read = true;
                return Ok(());
            }
            Some(Err(Errno::INTR)) => continue,
            Some(entry) => entry.map_err(failed)?,
        };
        let name = entry.file_name().to_bytes_with_nul();
        let is_dot = matches!(name, b".\0" | b"..\0");
        if !is_dot {
            open.entries += 1;
            let is_examined = match kind {
                OpKind::ListStat => true,
                OpKind::Find => entry.file_type() != FileType::Directory && has_find_text(name),
                _ => false,
            };
            // Names take less room than the entries that contain them.
            if is_examined {
                names.extend_from_slice(name);
            }
        }
        if entries.is_buffer_empty() {
            return Ok(());
        }
    }
}

fn next_name(names: &[u8], at: usize) -> Option<&CStr> {
    CStr::from_bytes_until_nul(names.get(at..)?).ok()
}

/// Reads the attributes of a name. Returns true if a find looks for this file.
fn examine(
    directory: &OwnedFd,
    name: &CStr,
    kind: OpKind,
    rule: &FindRule,
) -> Result<bool, OpError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = match retry(|| statx(directory, name, flags, StatxFlags::BASIC_STATS)) {
        Ok(found) => found,
        // It was removed after it had been listed.
        Err(error) if error == failed(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    Ok(kind == OpKind::Find
        && is_file
        && rule.matches_attributes(found.stx_size, found.stx_mtime.tv_sec))
}
