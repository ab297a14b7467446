//! One inode: its attributes and content, under one lock.
//!
//! The time of the last read is kept outside the lock, so reading needs only the read lock. Each
//! change sets ctime to the caller's time, or to one nanosecond past the old ctime if the clock has
//! not moved: two changes never show the same ctime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Context;
use super::budget::Charge;
use super::content::FileContent;
use super::directory::Directory;
use super::handle::InodeId;
use super::permission::{Caller, Protection};
use super::types::{
    Attributes, AttributesBefore, Change, FileKind, FileTime, FsError, SetAttributes, SetTime,
};
use super::xattr::Xattrs;
use crate::sync;

/// Memory charged for each inode besides its data: state, table slot and locks, rounded up.
pub const INODE_BYTES: u64 = 384;
const MODE_BITS: u32 = 0o7777;

/// The content of an inode, by kind.
#[derive(Debug)]
pub enum Body {
    /// Data of a regular file.
    Regular(FileContent),
    /// Entries of a directory.
    Directory(Directory),
    /// Target of a symbolic link.
    Symlink(Arc<[u8]>),
    /// No content: devices, sockets, pipes.
    Special,
}

/// The part of an inode that changes.
#[derive(Debug)]
pub struct State {
    /// Low 12 bits of the mode.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Number of links; a directory also counts `.` and its subdirectories' `..`.
    pub nlink: u32,
    /// Number of opens that keep it alive after its last name is gone.
    pub pins: u32,
    /// Last change of the data.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: FileTime,
    /// Data, entries or target.
    pub body: Body,
    /// Extended attributes, once there has been one.
    pub xattrs: Option<Box<Xattrs>>,
}

/// One object of the file system.
#[derive(Debug)]
pub struct Inode {
    /// Its slot in the table.
    pub id: InodeId,
    /// The kind of the object, which never changes.
    pub kind: FileKind,
    rdev: (u32, u32),
    /// Verifier of the exclusive CREATE that created it.
    pub create_verifier: Option<[u8; 8]>,
    atime: AtomicU64,
    state: RwLock<State>,
    _charge: Charge,
}

/// The properties of an inode that has no slot yet.
pub struct NewInode {
    /// The kind of the object.
    pub kind: FileKind,
    /// Content of the object.
    pub body: Body,
    /// Major and minor number, zero if meaningless.
    pub rdev: (u32, u32),
    /// Verifier of an exclusive CREATE.
    pub create_verifier: Option<[u8; 8]>,
    /// Owner unless the attributes set one.
    pub caller: Caller,
    /// Memory of the inode and of a symbolic link's target.
    pub charge: Charge,
}

impl Inode {
    /// Creates an inode with one name (for a directory: two links), all times `now`.
    pub fn new(id: InodeId, new: NewInode, set: &SetAttributes, now: FileTime) -> Self {
        let directory = new.kind == FileKind::Directory;
        let default_mode = if directory { 0o755 } else { 0o644 };
        let state = State {
            mode: set.mode.unwrap_or(default_mode) & MODE_BITS,
            uid: set.uid.unwrap_or(new.caller.uid),
            gid: set.gid.unwrap_or(new.caller.gid),
            nlink: if directory { 2 } else { 1 },
            pins: 0,
            mtime: initial_time(set.mtime, now),
            ctime: now,
            body: new.body,
            xattrs: None,
        };
        Self {
            id,
            kind: new.kind,
            rdev: new.rdev,
            create_verifier: new.create_verifier,
            atime: AtomicU64::new(initial_time(set.atime, now).0),
            state: RwLock::new(state),
            _charge: new.charge,
        }
    }

    /// Locks for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        sync::read(&self.state)
    }

    /// Locks for changing.
    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        sync::write(&self.state)
    }

    /// Records a read.
    pub fn set_atime(&self, time: FileTime) {
        self.atime.store(time.0, Ordering::Relaxed);
    }

    /// All attributes, given the locked state.
    pub fn attributes_of(&self, state: &State) -> Attributes {
        let (size, used) = state.body.sizes();
        Attributes {
            kind: self.kind,
            mode: state.mode,
            nlink: state.nlink,
            uid: state.uid,
            gid: state.gid,
            size,
            used,
            rdev: self.rdev,
            fileid: self.id.fileid(),
            atime: FileTime(self.atime.load(Ordering::Relaxed)),
            mtime: state.mtime,
            ctime: state.ctime,
        }
    }

    /// Returns all attributes.
    pub fn attributes(&self) -> Attributes {
        self.attributes_of(&self.read())
    }

    /// Runs `change` under the write lock and returns the attributes before and after.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Result<(Change, T), FsError> {
        let mut state = self.write();
        let before = state.before();
        let value = change(&mut state)?;
        Ok((Change { before, after: self.attributes_of(&state) }, value))
    }

    /// Applies a SETATTR, given the locked state. After the permission check the size comes first,
    /// being the only part that can fail.
    ///
    /// # Errors
    /// `AccessDenied`, `NotPermitted`; `IsDirectory` or `Invalid` for the size of an object without
    /// data, `FileTooBig`.
    pub fn apply(
        &self,
        state: &mut State,
        set: &SetAttributes,
        context: &Context,
    ) -> Result<(), FsError> {
        let Context { caller, now } = *context;
        let set = &caller.check_set(self.kind, state.protection(), set)?;
        if let Some(size) = set.size {
            state.file()?.resize(size)?;
            state.touch_data(now);
        }
        state.mode = set.mode.unwrap_or(state.mode) & MODE_BITS;
        state.uid = set.uid.unwrap_or(state.uid);
        state.gid = set.gid.unwrap_or(state.gid);
        match set.atime {
            SetTime::Keep => {}
            SetTime::Now => self.set_atime(now),
            SetTime::To(time) => self.set_atime(time),
        }
        // ctime moves even if a value is set to what it was, unless only the size was given: that
        // has already touched it above. An explicit mtime comes last, or it would be overwritten.
        if *set != (SetAttributes { size: set.size, ..SetAttributes::default() }) {
            state.touch(now);
        }
        match set.mtime {
            SetTime::Keep => {}
            SetTime::Now => state.mtime = now,
            SetTime::To(time) => state.mtime = time,
        }
        Ok(())
    }
}

fn initial_time(set: SetTime, now: FileTime) -> FileTime {
    match set {
        SetTime::To(time) => time,
        SetTime::Keep | SetTime::Now => now,
    }
}

impl State {
    // The change attribute of v4 is this time, and v3 clients compare it for cache consistency, so
    // two changes must never show the same value, even if the clock is coarse or set back (RFC 7530
    // section 5.8.1.4, RFC 1813 section 2.6).
    /// Records a change of attributes.
    pub fn touch(&mut self, now: FileTime) {
        self.ctime = now.max(FileTime(self.ctime.0 + 1));
    }

    /// Records a change of data or entries.
    pub fn touch_data(&mut self, now: FileTime) {
        self.touch(now);
        self.mtime = self.ctime;
    }

    /// The attributes that decide on access.
    pub fn protection(&self) -> Protection {
        Protection { mode: self.mode, uid: self.uid, gid: self.gid }
    }

    /// The data of a regular file.
    ///
    /// # Errors
    /// `IsDirectory`, or `Invalid` for anything else.
    pub fn file(&mut self) -> Result<&mut FileContent, FsError> {
        match &mut self.body {
            Body::Regular(content) => Ok(content),
            Body::Directory(_) => Err(FsError::IsDirectory),
            Body::Symlink(_) | Body::Special => Err(FsError::Invalid),
        }
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub fn directory(&self) -> Result<&Directory, FsError> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// The entries of a directory, for changing.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub fn directory_mut(&mut self) -> Result<&mut Directory, FsError> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory),
        }
    }

    fn before(&self) -> AttributesBefore {
        AttributesBefore { size: self.body.sizes().0, mtime: self.mtime, ctime: self.ctime }
    }
}

impl Body {
    /// The data of a regular file, for reading.
    ///
    /// # Errors
    /// `IsDirectory`, or `Invalid` for anything else.
    pub fn file(&self) -> Result<&FileContent, FsError> {
        match self {
            Self::Regular(content) => Ok(content),
            Self::Directory(_) => Err(FsError::IsDirectory),
            Self::Symlink(_) | Self::Special => Err(FsError::Invalid),
        }
    }

    /// Size reported and memory held, both in bytes.
    fn sizes(&self) -> (u64, u64) {
        match self {
            Self::Regular(content) => (content.size(), content.used_bytes()),
            Self::Directory(directory) => (directory.reported_bytes(), directory.used_bytes()),
            Self::Symlink(target) => (target.len() as u64, target.len() as u64),
            Self::Special => (0, 0),
        }
    }
}
