//! Permissions: what mode bits, owner, group and the sticky bit allow a caller.
//!
//! [`Caller`] says who asks and [`Rights`] how far that is checked; [`Protection`] is what an
//! object says about it. Every check is made by the operation itself, under a lock of the object.
//! Nothing here allocates: supplementary groups are held inline.
//!
//! **Source:** POSIX.1-2017 section 4.5 (file access permissions), chmod(2), chown(2),
//! utimensat(2); Linux fs/namei.c (`may_delete`), fs/attr.c (`setattr_prepare`), fs/nfsd/vfs.c
//! (owner override).

use nfs_proto::rpc::Groups;

use super::types::{Attributes, FileKind, FsError, SetAttributes, SetTime};

/// Right to read data, or to list a directory; the bits are those of one class of a mode.
pub const READ: u32 = 4;
/// Right to write data, or to change the names of a directory.
pub const WRITE: u32 = 2;
/// Right to execute a file, or to search a directory.
pub const EXECUTE: u32 = 1;

const ALL: u32 = READ | WRITE | EXECUTE;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXECUTE: u32 = 0o010;
const ANY_EXECUTE: u32 = 0o111;
/// Modes of what is made without one.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Whether the server enforces permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Mode bits, owner, group and the sticky bit decide; user 0 may do everything.
    #[default]
    Enforced,
    /// Every caller may do everything, and only ownership of new objects follows the caller.
    Off,
}

/// How far a caller is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// No check and no consequence: the server itself, or any caller where permissions are off.
    #[default]
    All,
    /// User 0: everything is allowed, but a change of owner clears set-uid and set-gid.
    Superuser,
    /// Modes and owners decide.
    Checked,
}

/// Who asks: the owner of what is made. The default is the server itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Supplementary groups, which count as the group does.
    pub groups: Groups,
    /// How far it is checked.
    pub rights: Rights,
}

/// The parts of an object that decide on access to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Low 12 bits of the mode.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl Caller {
    /// Makes a caller whose rights follow its user number and the setting of the server.
    pub const fn new(uid: u32, gid: u32, groups: Groups, permissions: Permissions) -> Self {
        let rights = match (permissions, uid) {
            (Permissions::Off, _) => Rights::All,
            (Permissions::Enforced, 0) => Rights::Superuser,
            (Permissions::Enforced, _) => Rights::Checked,
        };
        Self { uid, gid, groups, rights }
    }

    fn is_checked(&self) -> bool {
        self.rights == Rights::Checked
    }

    fn is_member(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.as_slice().contains(&gid)
    }

    /// Returns the bits of the one class that applies: owner, else group, else others. A class
    /// that has less than the next one is not made up for by that (POSIX section 4.5).
    fn class_bits(&self, object: Protection) -> u32 {
        let shift = if self.uid == object.uid {
            6
        } else if self.is_member(object.gid) {
            3
        } else {
            0
        };
        object.mode >> shift & ALL
    }

    /// Returns the rights on an object as READ, WRITE and EXECUTE; user 0 executes only what
    /// anyone may execute.
    pub fn rights_on(&self, found: &Attributes) -> u32 {
        match self.rights {
            Rights::All => ALL,
            Rights::Superuser => {
                let is_directory = found.kind == FileKind::Directory;
                let executable = is_directory || found.mode & ANY_EXECUTE != 0;
                if executable { ALL } else { READ | WRITE }
            }
            Rights::Checked => self.class_bits(found.protection()),
        }
    }

    /// Checks for all of the rights in `need`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check(&self, object: Protection, need: u32) -> Result<(), FsError> {
        if self.is_checked() && need & !self.class_bits(object) != 0 {
            return Err(FsError::AccessDenied);
        }
        Ok(())
    }

    /// Checks as OPEN does: what may be executed may be read, or no client could run it.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check_open(&self, object: Protection, need: u32) -> Result<(), FsError> {
        if need == READ && self.is_checked() && self.class_bits(object) & EXECUTE != 0 {
            return Ok(());
        }
        self.check(object, need)
    }

    /// Checks a READ or WRITE, in every version: a stateid of v4 shows that its client has opened
    /// the file, and not that this user may use it. The owner passes whatever the mode is, or a
    /// program could not use a file that it opened before a chmod (Linux `nfs4_check_file`,
    /// `NFSD_MAY_OWNER_OVERRIDE`).
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check_data(&self, object: Protection, need: u32) -> Result<(), FsError> {
        if self.uid == object.uid {
            return Ok(());
        }
        self.check_open(object, need)
    }

    /// Checks for the right to read (READ) or change (WRITE) extended attributes. Only files and
    /// directories have any. All users may write to a directory like `/tmp`, so the attributes of
    /// one with the sticky bit are its owner's alone (Linux fs/xattr.c, `xattr_permission`).
    ///
    /// # Errors
    /// `AccessDenied`; `NoXattr` or `NotPermitted` on other kinds; `NotPermitted` in a directory
    /// with the sticky bit.
    pub fn check_xattrs(
        &self,
        kind: FileKind,
        object: Protection,
        need: u32,
    ) -> Result<(), FsError> {
        let is_write = need == WRITE;
        if !kind.has_xattrs() {
            return Err(if is_write { FsError::NotPermitted } else { FsError::NoXattr });
        }
        let is_sticky = kind == FileKind::Directory && object.mode & STICKY != 0;
        if is_write && is_sticky && self.is_checked() && self.uid != object.uid {
            return Err(FsError::NotPermitted);
        }
        self.check(object, need)
    }

    /// Checks whether an object may lose its name in `directory`, whose sticky bit allows it only
    /// to the owners of the two.
    ///
    /// # Errors
    /// `AccessDenied`; `NotPermitted` where the sticky bit forbids it.
    pub fn check_removal(&self, directory: Protection, removed: Protection) -> Result<(), FsError> {
        self.check(directory, WRITE | EXECUTE)?;
        let is_sticky = self.is_checked() && directory.mode & STICKY != 0;
        if is_sticky && self.uid != directory.uid && self.uid != removed.uid {
            return Err(FsError::NotPermitted);
        }
        Ok(())
    }

    /// Checks whether an object of this kind may be made in `directory`, and returns the
    /// attributes that it gets: only user 0 chooses an owner (Linux `nfsd_create_setattr`), and a
    /// directory with the set-gid bit hands its group on.
    ///
    /// # Errors
    /// `AccessDenied`; `NotPermitted` for a device.
    pub fn check_creation(
        &self,
        directory: Protection,
        kind: FileKind,
        set: &SetAttributes,
    ) -> Result<SetAttributes, FsError> {
        let mut set = *set;
        if self.rights == Rights::All {
            return Ok(set);
        }
        self.check(directory, WRITE | EXECUTE)?;
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice);
        if self.is_checked() {
            if is_device {
                return Err(FsError::NotPermitted);
            }
            (set.uid, set.gid) = (None, None);
        }
        if directory.mode & SET_GROUP_ID != 0 {
            set.gid = set.gid.or(Some(directory.gid));
            if kind == FileKind::Directory {
                set.mode = Some(set.mode.unwrap_or(DIRECTORY_MODE) | SET_GROUP_ID);
            } else if self.is_checked() && !self.is_member(directory.gid) {
                let mode = set.mode.unwrap_or(FILE_MODE);
                set.mode =
                    Some(if mode & GROUP_EXECUTE == 0 { mode } else { mode & !SET_GROUP_ID });
            }
        }
        Ok(set)
    }

    /// Checks a SETATTR, and returns what it comes to: set-uid and set-gid may have to go.
    ///
    /// # Errors
    /// `AccessDenied` where the right to write lacks; `NotPermitted` where only the owner, or
    /// only user 0, may do it.
    pub fn check_set(
        &self,
        kind: FileKind,
        object: Protection,
        set: &SetAttributes,
    ) -> Result<SetAttributes, FsError> {
        let mut set = *set;
        if self.rights == Rights::All {
            return Ok(set);
        }
        if self.is_checked() {
            self.check_settable(object, &set)?;
        }
        let group = set.gid.unwrap_or(object.gid);
        if let Some(mode) = set.mode
            && self.is_checked()
            && !self.is_member(group)
        {
            set.mode = Some(mode & !SET_GROUP_ID);
        }
        // A program keeps the identity that it lends only as long as its owner, group and data
        // stay: those of user 0 lose it with a new owner too (Linux `nfsd_sanitize_attrs`).
        let is_new_owner = set.uid.is_some() || set.gid.is_some();
        let is_new_data = set.size.is_some() && self.is_checked();
        if kind != FileKind::Directory && (is_new_owner || is_new_data) {
            let mode = set.mode.unwrap_or(object.mode);
            let left = without_identity(mode);
            if left != mode {
                set.mode = Some(left);
            }
        }
        Ok(set)
    }

    fn check_settable(&self, object: Protection, set: &SetAttributes) -> Result<(), FsError> {
        if set.size.is_some() {
            self.check_data(object, WRITE)?;
        }
        let is_owner = self.uid == object.uid;
        // The owner may give the file to one of its groups, and "change" it to what it has.
        let keeps_owner = set.uid.is_none_or(|uid| is_owner && uid == object.uid);
        let may_set_group = match set.gid {
            None => true,
            Some(gid) => is_owner && (gid == object.gid || self.is_member(gid)),
        };
        let chooses_time =
            matches!(set.atime, SetTime::To(_)) || matches!(set.mtime, SetTime::To(_));
        if !keeps_owner || !may_set_group || !is_owner && (set.mode.is_some() || chooses_time) {
            return Err(FsError::NotPermitted);
        }
        // The time of the server is what writing would set, too: who may write may set it.
        let touches = set.atime == SetTime::Now || set.mtime == SetTime::Now;
        if touches && !is_owner { self.check(object, WRITE) } else { Ok(()) }
    }

    /// Returns the mode of a file that this caller has written to: without set-uid and set-gid.
    pub fn mode_after_write(&self, mode: u32) -> u32 {
        if self.is_checked() { without_identity(mode) } else { mode }
    }
}

/// The mode without the identity that running the file lends; set-gid without the right of the
/// group to execute means mandatory locking and stays.
fn without_identity(mode: u32) -> u32 {
    let mode = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTE == 0 { mode } else { mode & !SET_GROUP_ID }
}

impl Attributes {
    /// The parts that decide on access.
    pub fn protection(&self) -> Protection {
        Protection { mode: self.mode, uid: self.uid, gid: self.gid }
    }
}
