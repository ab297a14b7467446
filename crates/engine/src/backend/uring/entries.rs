//! Ring entries of ops: opcode, file and data.
//!
//! Each entry uses the opcode that corresponds to the system call in `posix`. There is one
//! difference: for character I/O, the slot's buffer replaces that of stdio, and a single entry
//! transfers all of it.

use std::ffi::{CStr, c_char};
use std::os::fd::AsRawFd as _;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue, types};
use model::{Op, OpKind};
use rustix::fs::{AtFlags, FallocateFlags, Mode, StatxFlags};
use workload::Name;
use workload::names::Sort;

use super::{POOL, Uring};
use crate::backend::files::there_and_back;
use crate::backend::posix::put_each;
use crate::backend::posix::ranges::PUNCH;

impl Uring {
    /// Returns the entry of an op on an open file's data, or `None` for other ops.
    pub(super) fn data_entry(&mut self, slot: u32) -> Option<squeue::Entry> {
        let op = self.slots[slot as usize].op;
        Some(match op.kind {
            OpKind::Read | OpKind::GetChars | OpKind::Update | OpKind::ReadPlus => {
                self.read_entry(slot, &op)
            }
            OpKind::Allocate | OpKind::Punch => self.fallocate_entry(&op),
            OpKind::Write | OpKind::PutChars | OpKind::LogAppend => self.write_entry(slot, &op),
            OpKind::Sync | OpKind::Commit => self.sync_entry(&op),
            OpKind::Getattr => {
                let at = self.statx[slot as usize].as_mut_ptr().cast::<types::statx>();
                let file = Fd(self.set.files[self.set.index(op.file)].as_raw_fd());
                opcode::Statx::new(file, c"".as_ptr(), at)
                    .flags(AtFlags::EMPTY_PATH.bits().cast_signed())
                    .mask(StatxFlags::BASIC_STATS.bits())
                    .build()
            }
            OpKind::Null => opcode::Nop::new().build(),
            _ => return None,
        })
    }

    fn read_entry(&mut self, slot: u32, op: &Op) -> squeue::Entry {
        // The slot's own buffer, which is aligned as required by O_DIRECT. It is part of registered
        // buffer 0.
        let at = self.buffers.slot(slot as usize).as_mut_ptr();
        let (fd, flags) = self.data_file(op.file);
        let entry = if self.fixed_buffers {
            opcode::ReadFixed::new(fd, at, op.len_bytes, 0).offset(op.offset_bytes).build()
        } else {
            opcode::Read::new(fd, at, op.len_bytes).offset(op.offset_bytes).build()
        };
        entry.flags(flags)
    }

    fn fallocate_entry(&self, op: &Op) -> squeue::Entry {
        let (fd, flags) = self.written_file(op.file);
        let mode = if op.kind == OpKind::Punch { PUNCH } else { FallocateFlags::empty() };
        opcode::Fallocate::new(fd, op.len_bytes.into())
            .offset(op.offset_bytes)
            .mode(mode.bits().cast_signed())
            .build()
            .flags(flags)
    }

    /// Returns the entry of `fsync`, or of `fdatasync` for commits.
    pub(super) fn sync_entry(&self, op: &Op) -> squeue::Entry {
        let mut sync = FsyncFlags::empty();
        sync.set(FsyncFlags::DATASYNC, op.kind != OpKind::Sync);
        let (fd, flags) = self.written_file(op.file);
        opcode::Fsync::new(fd).flags(sync).build().flags(flags)
    }

    pub(super) fn write_entry(&mut self, slot: u32, op: &Op) -> squeue::Entry {
        let (at, buffer) = self.outgoing(slot, op);
        let (fd, flags) = self.data_file(op.file);
        let entry = if self.fixed_buffers {
            opcode::WriteFixed::new(fd, at, op.len_bytes, buffer).offset(op.offset_bytes).build()
        } else {
            opcode::Write::new(fd, at, op.len_bytes).offset(op.offset_bytes).build()
        };
        entry.flags(flags)
    }

    /// Returns the address of the bytes to write and the index of the registered buffer they are
    /// in.
    fn outgoing(&mut self, slot: u32, op: &Op) -> (*const u8, u16) {
        let buffer = self.buffers.slot(slot as usize);
        let place = buffer.as_ptr();
        if op.kind == OpKind::PutChars {
            let room = &mut buffer[..op.len_bytes as usize];
            put_each(&self.set.pattern, op.file, op.offset_bytes, room);
            return (place, 0);
        }
        let data = match op.kind {
            OpKind::Update => self.set.bytes_to_return(buffer, op),
            _ => self.set.outgoing_bytes(buffer, op.file, op.offset_bytes, op.len_bytes),
        };
        let data = data.as_ptr();
        (data, if data == place { 0 } else { POOL })
    }

    /// Returns the entry of an op on a name.
    ///
    /// # Panics
    /// If it is a different kind of op, which is a bug.
    pub(super) fn name_entry(&mut self, slot: u32) -> squeue::Entry {
        let op = self.slots[slot as usize].op;
        let directory = Fd(self.set.root(op.file).as_raw_fd());
        match op.kind {
            OpKind::Stat | OpKind::StatDir => {
                let sort = if op.kind == OpKind::Stat { Sort::File } else { Sort::Directory };
                self.statx_entry(slot, sort, StatxFlags::BASIC_STATS)
            }
            OpKind::Lookup => self.statx_entry(slot, Sort::File, StatxFlags::empty()),
            OpKind::LookupMissing => self.statx_entry(slot, Sort::Missing, StatxFlags::empty()),
            OpKind::Remove => self.unlink_entry(slot, Sort::File),
            OpKind::Unlink => self.unlink_entry(slot, Sort::Link),
            OpKind::Rmdir => opcode::UnlinkAt::new(directory, self.directory_path(slot))
                .flags(AtFlags::REMOVEDIR.bits().cast_signed())
                .build(),
            OpKind::Mkdir => opcode::MkDirAt::new(directory, self.directory_path(slot))
                .mode(Mode::from_raw_mode(0o755).bits())
                .build(),
            OpKind::Rename => self.rename_entry(slot, Sort::File, Sort::OtherFile),
            OpKind::RenameDir => self.rename_entry(slot, Sort::Directory, Sort::OtherDirectory),
            OpKind::Link => {
                let from = self.path(slot, Sort::File);
                let state = &mut self.slots[slot as usize];
                state.other = self.set.second_path(&op);
                let to = c_path(state.other.as_c_str());
                opcode::LinkAt::new(directory, from, directory, to).build()
            }
            OpKind::Symlink => {
                let link = self.path(slot, Sort::Link);
                let state = &mut self.slots[slot as usize];
                state.other = Name::file(op.file).into();
                opcode::SymlinkAt::new(directory, c_path(state.other.as_c_str()), link).build()
            }
            kind => unreachable!("{kind} does not take a name"),
        }
    }

    fn statx_entry(&mut self, slot: u32, sort: Sort, wanted: StatxFlags) -> squeue::Entry {
        let path = self.path(slot, sort);
        let directory = Fd(self.set.root(self.slots[slot as usize].op.file).as_raw_fd());
        let at = self.statx[slot as usize].as_mut_ptr().cast::<types::statx>();
        // A lookup needs no attributes, so a network file system may answer from its cache.
        let mut flags = AtFlags::SYMLINK_NOFOLLOW;
        flags.set(AtFlags::STATX_DONT_SYNC, wanted.is_empty());
        opcode::Statx::new(directory, path, at)
            .flags(flags.bits().cast_signed())
            .mask(wanted.bits())
            .build()
    }

    fn unlink_entry(&mut self, slot: u32, sort: Sort) -> squeue::Entry {
        let path = self.path(slot, sort);
        let directory = Fd(self.set.root(self.slots[slot as usize].op.file).as_raw_fd());
        opcode::UnlinkAt::new(directory, path).build()
    }

    /// Renames to the other type of name, or back, depending on the op.
    fn rename_entry(&mut self, slot: u32, sort: Sort, other: Sort) -> squeue::Entry {
        let (from, to) = there_and_back(&self.slots[slot as usize].op, sort, other);
        let (from, to) = self.paths(slot, from, to);
        let directory = Fd(self.set.root(self.slots[slot as usize].op.file).as_raw_fd());
        opcode::RenameAt::new(directory, from, directory, to).build()
    }

    /// Stores the path of an op's object in its slot, whose memory outlives the entry. The kernel
    /// may read the path even after the call that submitted it has returned.
    pub(super) fn path(&mut self, slot: u32, sort: Sort) -> *const c_char {
        let state = &mut self.slots[slot as usize];
        state.path = self.set.path(sort, state.op.file);
        c_path(state.path.as_c_str())
    }

    /// Stores the path of the directory that an op creates or removes.
    fn directory_path(&mut self, slot: u32) -> *const c_char {
        let state = &mut self.slots[slot as usize];
        state.path = self.set.directory_path(&state.op);
        c_path(state.path.as_c_str())
    }

    fn paths(&mut self, slot: u32, sort: Sort, other: Sort) -> (*const c_char, *const c_char) {
        let path = self.path(slot, sort);
        let state = &mut self.slots[slot as usize];
        state.other = self.set.path(other, state.op.file);
        (path, c_path(state.other.as_c_str()))
    }

    /// Like [`Self::data_file`], for the file that ops write: its twin, if there is one. Twins are
    /// not registered.
    fn written_file(&self, file: u32) -> (Fd, squeue::Flags) {
        match self.set.twins.get(self.set.index(file)) {
            Some(twin) => (Fd(twin.as_raw_fd()), squeue::Flags::empty()),
            None => self.data_file(file),
        }
    }

    /// Returns how an entry refers to a file of the set: by its index among the registered files,
    /// with the corresponding flag, or else by its descriptor.
    fn data_file(&self, file: u32) -> (Fd, squeue::Flags) {
        let index = self.set.index(file);
        if self.fixed_files {
            (Fd((index as u32).cast_signed()), squeue::Flags::FIXED_FILE)
        } else {
            (Fd(self.set.files[index].as_raw_fd()), squeue::Flags::empty())
        }
    }
}

const fn c_path(path: &CStr) -> *const c_char {
    path.as_ptr()
}
