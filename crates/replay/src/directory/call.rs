//! System calls for steps, made by the threads of a replay on a directory.
//!
//! [`Caller::perform`] executes a [`Job`]. It opens the file if necessary, and keeps it open if the
//! job provides a [`Handle`] for that. Nothing here allocates. Statuses are those of NFS, so that
//! they can be compared with those in the trace.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use engine::backend::files::clone_range;
use nfs_client::proto::Status;
use nfs_client::proto::client::OpenAccess;
use nfs_client::proto::nfs3::StableHow;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Timespec,
    Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags,
};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::{fs, io};

use super::places::PathText;
use crate::action::{Action, Creation};
use crate::lanes::Start;
use crate::operation::{LINK_TARGET, POOL_SPARE_BYTES};

/// An open file shared between threads, or an empty slot for one.
pub(crate) type Handle = Arc<Option<OwnedFd>>;

/// Maximum length of an attribute's name with its prefix and terminator. **Source:** XATTR_NAME_MAX
/// of linux/limits.h.
const XATTR_NAME_BYTES: usize = 256;
/// Maximum size of a value in bytes. **Source:** XATTR_SIZE_MAX of linux/limits.h.
pub(crate) const XATTR_VALUE_BYTES: usize = 65_536;

/// Work for a thread.
#[derive(Debug)]
pub(crate) struct Job {
    /// The step and its scheduled start; `None` if the job only closes a file.
    pub start: Option<Start>,
    pub action: Action,
    pub path: PathText,
    /// The second path of a rename, link or copy.
    pub other: PathText,
    /// The open file that it uses.
    pub open: Option<Handle>,
    /// An empty slot to keep an open file in.
    pub fresh: Option<Handle>,
    /// An open file to close, which nothing else uses.
    pub close: Option<Handle>,
    /// Position at which to continue a listing.
    pub cookie: u64,
    /// Number of renames started or finished when its path was written.
    pub renames: u64,
    /// Name of an extended attribute.
    pub attribute: [u8; XATTR_NAME_BYTES],
}

impl Job {
    /// Creates an empty job, to be filled in for each step.
    pub(crate) fn new() -> Self {
        Self {
            start: None,
            action: Action::Null,
            path: PathText::new(),
            other: PathText::new(),
            open: None,
            fresh: None,
            close: None,
            cookie: 0,
            renames: 0,
            attribute: [0; XATTR_NAME_BYTES],
        }
    }

    /// Sets the name of an extended attribute. Returns `None` if it is too long.
    pub(crate) fn set_attribute(&mut self, name: &str) -> Option<()> {
        let end = 5 + name.len();
        self.attribute.get_mut(..5)?.copy_from_slice(b"user.");
        self.attribute.get_mut(5..end)?.copy_from_slice(name.as_bytes());
        *self.attribute.get_mut(end)? = 0;
        Some(())
    }

    fn attribute_name(&self) -> &[u8] {
        let end = self.attribute.iter().position(|byte| *byte == 0);
        &self.attribute[..end.unwrap_or(0)]
    }
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct JobDone {
    pub worker: usize,
    pub job: Box<Job>,
    pub started_ns: u64,
    pub done_ns: u64,
    /// The NFS status that corresponds to the result.
    pub status: u32,
    pub bytes: u32,
    /// Number of system calls made.
    pub calls: u64,
}

/// A thread's buffers and directory.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub top: BorrowedFd<'a>,
    /// Data to write.
    pub pool: &'a [u8],
    /// Buffer for data that is read.
    pub buffer: Vec<u8>,
    /// Buffer for directory entries.
    pub entries: Vec<MaybeUninit<u8>>,
    /// Number of system calls made so far.
    pub calls: u64,
}

impl Caller<'_> {
    /// Executes a job. Returns the number of bytes transferred.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn perform(&mut self, job: &mut Job) -> Result<u32, Errno> {
        let top = self.top;
        let path = job.path.as_c_str();
        self.calls += 1;
        match job.action {
            Action::Getattr | Action::Lookup => {
                fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Action::SetTime => {
                let times = Timestamps {
                    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
                };
                fs::utimensat(top, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            // A denied permission is a valid answer.
            Action::Access(_) => match fs::accessat(top, path, Access::READ_OK, AtFlags::empty()) {
                Err(Errno::ACCESS) | Ok(()) => {}
                // Targets of symbolic links are made up and don't exist.
                Err(Errno::NOENT) => {
                    self.calls += 1;
                    fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Err(error) => return Err(error),
            },
            Action::Readlink => {
                fs::readlinkat_raw(top, path, &mut self.buffer[..])?;
            }
            Action::Mkdir => fs::mkdirat(top, path, Mode::from_raw_mode(0o755))?,
            Action::Symlink { target_bytes } => {
                let len = (target_bytes as usize).clamp(1, LINK_TARGET.len());
                fs::symlinkat(&LINK_TARGET[..len], top, path)?;
            }
            Action::Mknod => {
                fs::mknodat(top, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
            }
            Action::Remove => fs::unlinkat(top, path, AtFlags::empty())?,
            Action::Rmdir => fs::unlinkat(top, path, AtFlags::REMOVEDIR)?,
            Action::Rename => fs::renameat(top, path, top, job.other.as_c_str())?,
            Action::Link => fs::linkat(top, path, top, job.other.as_c_str(), AtFlags::empty())?,
            Action::Fsstat | Action::Fsinfo | Action::Pathconf => {
                fs::fstatvfs(top)?;
            }
            // The thread closes the file, as for all jobs.
            Action::Close | Action::Null => {}
            Action::Create { how, size } => self.create(job, how, size)?,
            Action::Open(access) | Action::OpenHandle(access) => {
                let flags = match access {
                    OpenAccess::Read => OFlags::RDONLY,
                    OpenAccess::Write => OFlags::WRONLY,
                    OpenAccess::Both => OFlags::RDWR,
                };
                self.keep(job, fs::openat(top, path, flags | OPENED, Mode::empty())?);
            }
            Action::Readdir { .. } | Action::ReaddirPlus { .. } => self.list(job)?,
            Action::Getxattr
            | Action::Setxattr { .. }
            | Action::Listxattrs { .. }
            | Action::Removexattr => self.use_attribute(job)?,
            _ => return self.use_data(job),
        }
        Ok(0)
    }

    fn create(&mut self, job: &mut Job, how: Creation, size: Option<u64>) -> Result<(), Errno> {
        let flags = match how {
            Creation::Unchecked => OFlags::CREATE,
            Creation::Guarded | Creation::Exclusive => OFlags::CREATE | OFlags::EXCL,
        };
        let mode = Mode::from_raw_mode(0o644);
        let flags = flags | OFlags::RDWR | OPENED;
        let file = fs::openat(self.top, job.path.as_c_str(), flags, mode)?;
        if let Some(size) = size {
            self.calls += 1;
            fs::ftruncate(&file, size)?;
        }
        self.keep(job, file);
        Ok(())
    }

    /// Keeps a file open if the job wants that; otherwise, closes it.
    fn keep(&mut self, job: &mut Job, file: OwnedFd) {
        match job.fresh.as_mut().and_then(Arc::get_mut) {
            Some(place) => *place = Some(file),
            None => self.calls += 1,
        }
    }

    /// Works on the data of a file, opening it if necessary.
    fn use_data(&mut self, job: &mut Job) -> Result<u32, Errno> {
        if let Some(Some(file)) = job.open.as_deref() {
            return self.move_data(job, file.as_fd());
        }
        let path = job.path.as_c_str();
        let file = match fs::openat(self.top, path, OFlags::RDWR | OPENED, Mode::empty()) {
            Err(Errno::ACCESS | Errno::ROFS) => {
                self.calls += 1;
                fs::openat(self.top, path, OFlags::RDONLY | OPENED, Mode::empty())?
            }
            opened => opened?,
        };
        self.calls += 1;
        let moved = self.move_data(job, file.as_fd());
        self.keep(job, file);
        moved
    }

    fn move_data(&mut self, job: &Job, file: BorrowedFd<'_>) -> Result<u32, Errno> {
        match job.action {
            Action::SetSize(size) => fs::ftruncate(file, size)?,
            Action::Read { offset, count } | Action::ReadPlus { offset, count } => {
                let room = (count as usize).min(self.buffer.len());
                return Ok(io::pread(file, &mut self.buffer[..room], offset)? as u32);
            }
            Action::Write { offset, count, stable } => {
                let number = job.start.map_or(0, |start| start.step);
                let from = number as usize * 512 % POOL_SPARE_BYTES;
                let data = &self.pool[from..from + count as usize];
                let flags = match stable {
                    StableHow::Unstable => ReadWriteFlags::empty(),
                    StableHow::DataSync => ReadWriteFlags::DSYNC,
                    StableHow::FileSync => ReadWriteFlags::SYNC,
                };
                let mut done = 0;
                while done < data.len() {
                    let left = [IoSlice::new(&data[done..])];
                    done += io::pwritev2(file, &left, offset + done as u64, flags)?;
                }
                return Ok(count);
            }
            Action::Commit { .. } => fs::fdatasync(file)?,
            Action::Allocate { offset, len } => {
                fs::fallocate(file, FallocateFlags::empty(), offset, len)?;
            }
            Action::Deallocate { offset, len } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fs::fallocate(file, flags, offset, len)?;
            }
            Action::Seek { offset } => {
                fs::seek(file, SeekFrom::Data(offset))?;
            }
            Action::Copy { from_offset, to_offset, len } => {
                let flags = OFlags::RDONLY | OPENED;
                let from = fs::openat(self.top, job.other.as_c_str(), flags, Mode::empty())?;
                self.calls += 2;
                let mut from_offset = from_offset;
                let mut to_offset = to_offset;
                // A length of 0 means everything up to the end.
                let mut left = if len == 0 { u64::MAX } else { len };
                while left > 0 {
                    let part = left.min(1 << 30) as usize;
                    let from_at = Some(&mut from_offset);
                    let to_at = Some(&mut to_offset);
                    let copied = fs::copy_file_range(&from, from_at, file, to_at, part)?;
                    if copied == 0 {
                        break;
                    }
                    left -= copied as u64;
                }
            }
            Action::Clone { from_offset, to_offset, len } => {
                let flags = OFlags::RDONLY | OPENED;
                let from = fs::openat(self.top, job.other.as_c_str(), flags, Mode::empty())?;
                self.calls += 2;
                clone_range(from.as_fd(), from_offset, file, to_offset, len)?;
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        Ok(0)
    }

    /// Reads a page of a directory, with attributes if requested.
    fn list(&mut self, job: &mut Job) -> Result<(), Errno> {
        let (bytes, wants_attributes) = match job.action {
            Action::ReaddirPlus { bytes, .. } => (bytes, true),
            Action::Readdir { bytes, .. } => (bytes, false),
            _ => return Ok(()),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OPENED;
        let dir = fs::openat(self.top, job.path.as_c_str(), flags, Mode::empty())?;
        self.calls += 2;
        if job.cookie != 0 {
            self.calls += 1;
            fs::seek(&dir, SeekFrom::Start(job.cookie))?;
        }
        let room = (bytes as usize).clamp(1024, self.entries.len());
        self.calls += 1;
        let mut page = RawDir::new(&dir, &mut self.entries[..room]);
        while let Some(entry) = page.next() {
            let entry = entry?;
            job.cookie = entry.next_entry_cookie();
            if wants_attributes {
                self.calls += 1;
                match fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    // Removed since it was listed.
                    Ok(_) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
            }
            if page.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    fn use_attribute(&mut self, job: &Job) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OPENED;
        let file = fs::openat(self.top, job.path.as_c_str(), flags, Mode::empty())?;
        self.calls += 2;
        let name = job.attribute_name();
        match job.action {
            Action::Getxattr => {
                fs::fgetxattr(&file, name, &mut self.buffer[..])?;
            }
            Action::Setxattr { value_bytes } => {
                let len = (value_bytes as usize).min(XATTR_VALUE_BYTES).min(self.pool.len());
                fs::fsetxattr(&file, name, &self.pool[..len], XattrFlags::empty())?;
            }
            Action::Removexattr => fs::fremovexattr(&file, name)?,
            _ => {
                fs::flistxattr(&file, &mut self.buffer[..])?;
            }
        }
        Ok(())
    }
}

/// Flags of every open: symbolic links have made-up targets, and pipes have no other end.
const OPENED: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Returns the NFS status with which a server reports an error.
pub(crate) fn status_of(error: Errno) -> u32 {
    let status = match error {
        Errno::PERM => Status::Perm,
        Errno::NOENT => Status::NoEnt,
        Errno::NXIO => Status::NxIo,
        Errno::ACCESS => Status::Access,
        Errno::EXIST => Status::Exist,
        Errno::XDEV => Status::XDev,
        Errno::NODEV => Status::NoDev,
        Errno::NOTDIR => Status::NotDir,
        Errno::ISDIR => Status::IsDir,
        Errno::INVAL | Errno::LOOP => Status::Inval,
        Errno::FBIG => Status::FBig,
        Errno::NOSPC => Status::NoSpc,
        Errno::ROFS => Status::RoFs,
        Errno::MLINK => Status::MLink,
        Errno::NAMETOOLONG => Status::NameTooLong,
        Errno::NOTEMPTY => Status::NotEmpty,
        Errno::DQUOT => Status::DQuot,
        Errno::STALE => Status::Stale,
        Errno::NODATA => Status::NoXattr,
        Errno::OPNOTSUPP => Status::NotSupp,
        _ => Status::Io,
    };
    status.number()
}

/// Opens a local directory.
pub(crate) fn open_directory(path: &std::path::Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(CWD, path, flags, Mode::empty())
}
