//! Permissions: what mode bits, owner, group and the sticky bit allow a caller.
//!
//! [`Caller`] is who asks, with [`Rights`] for how strictly it is checked; [`Protection`] is the
//! object's side. Every operation makes its own check, under a lock of the object. Nothing here
//! allocates: supplementary groups are stored inline.
//!
//! **Source:** POSIX.1-2017 section 4.5 (file access permissions), chmod(2), chown(2),
//! utimensat(2); Linux fs/namei.c (`may_delete`), fs/attr.c (`setattr_prepare`), fs/nfsd/vfs.c
//! (owner override).

use nfs_proto::rpc::Groups;

use super::types::{Attributes, FileKind, FsError, SetAttributes, SetTime};

/// Right to read data, or to list a directory; the value is that of the bit in one class of a mode.
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
/// Default mode of a new directory or file.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Whether the server enforces permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Mode bits, owner, group and the sticky bit are checked; user 0 may do everything.
    #[default]
    Enforced,
    /// Every caller may do everything; the caller only determines the owner of new objects.
    Off,
}

/// How strictly a caller is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// No checks and no side effects: the server itself, or any caller if permissions are off.
    #[default]
    All,
    /// User 0: everything is allowed, but a change of owner clears set-uid and set-gid.
    Superuser,
    /// Modes and owners are checked.
    Checked,
}

/// The caller of an operation, and the owner of objects it creates. The default is the server
/// itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups, equivalent to the group.
    pub groups: Groups,
    /// How strictly it is checked.
    pub rights: Rights,
}

/// The attributes of an object that decide on access to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Low 12 bits of the mode.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Caller {
    /// Makes a caller whose rights follow from its user id and the server's setting.
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

    /// Returns the bits of the one class that applies: owner, else group, else others. If that
    /// class grants less than the next one, the next one does not make up for it (POSIX section
    /// 4.5).
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

    /// Returns the rights on an object as READ, WRITE and EXECUTE; user 0 may execute only if
    /// somebody may.
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

    /// Checks that the caller has all rights in `need`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check(&self, object: Protection, need: u32) -> Result<(), FsError> {
        if self.is_checked() && need & !self.class_bits(object) != 0 {
            return Err(FsError::AccessDenied);
        }
        Ok(())
    }

    /// Checks access for OPEN: the right to execute implies the right to read, or no client could
    /// run the file.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check_open(&self, object: Protection, need: u32) -> Result<(), FsError> {
        if need == READ && self.is_checked() && self.class_bits(object) & EXECUTE != 0 {
            return Ok(());
        }
        self.check(object, need)
    }

    /// Checks a READ or WRITE, in every version: a v4 stateid shows that its client has opened the
    /// file, not that this user may access it. The owner passes whatever the mode is, or a program
    /// could not use a file that it opened before a chmod (Linux `nfs4_check_file`,
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
    /// directories have any. Everyone may write to a directory like `/tmp`, so if the sticky bit is
    /// set, only the owner may change the attributes (Linux fs/xattr.c, `xattr_permission`).
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

    /// Checks whether an object may lose its name in `directory`; with the sticky bit, only the
    /// owner of the object or of the directory may remove it.
    ///
    /// # Errors
    /// `AccessDenied`; `NotPermitted` if the sticky bit forbids it.
    pub fn check_removal(&self, directory: Protection, removed: Protection) -> Result<(), FsError> {
        self.check(directory, WRITE | EXECUTE)?;
        let is_sticky = self.is_checked() && directory.mode & STICKY != 0;
        if is_sticky && self.uid != directory.uid && self.uid != removed.uid {
            return Err(FsError::NotPermitted);
        }
        Ok(())
    }

    /// Checks whether an object of this kind may be created in `directory`, and returns the
    /// attributes it gets: only user 0 may choose an owner (Linux `nfsd_create_setattr`), and a
    /// directory with the set-gid bit passes its group on.
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
            set.uid = None;
            set.gid = None;
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

    /// Checks a SETATTR and returns the attributes to apply: set-uid and set-gid may have to be
    /// cleared.
    ///
    /// # Errors
    /// `AccessDenied` without the right to write; `NotPermitted` if only the owner, or only user 0,
    /// may do it.
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
        // A program keeps set-uid and set-gid only as long as its owner, group and data stay the
        // same: a new owner clears them even if user 0 sets it (Linux `nfsd_sanitize_attrs`).
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
        // The owner may give the file to one of its own groups, and "change" the owner to the
        // current one.
        let keeps_owner = set.uid.is_none_or(|uid| is_owner && uid == object.uid);
        let may_set_group =
            set.gid.is_none_or(|gid| is_owner && (gid == object.gid || self.is_member(gid)));
        let chooses_time =
            matches!(set.atime, SetTime::To(_)) || matches!(set.mtime, SetTime::To(_));
        if !keeps_owner || !may_set_group || !is_owner && (set.mode.is_some() || chooses_time) {
            return Err(FsError::NotPermitted);
        }
        // Writing would set the server's time, too, so whoever may write may set it.
        let touches = set.atime == SetTime::Now || set.mtime == SetTime::Now;
        if touches && !is_owner { self.check(object, WRITE) } else { Ok(()) }
    }

    /// Returns the mode of a file that this caller has written to: without set-uid and set-gid.
    pub fn mode_after_write(&self, mode: u32) -> u32 {
        if self.is_checked() { without_identity(mode) } else { mode }
    }
}

/// The mode without set-uid and set-gid; set-gid without group execute means mandatory locking and
/// stays.
fn without_identity(mode: u32) -> u32 {
    let mode = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTE == 0 { mode } else { mode & !SET_GROUP_ID }
}

impl Attributes {
    /// The attributes that decide on access.
    pub fn protection(&self) -> Protection {
        Protection { mode: self.mode, uid: self.uid, gid: self.gid }
    }
}
