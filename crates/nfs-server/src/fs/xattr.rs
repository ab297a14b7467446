//! Extended attributes: named values that users attach to a file or directory.
//!
//! [`Xattrs`] holds those of one inode and is protected by its lock, so changing one changes the
//! inode, and they are freed with it. Names are those of Linux without the prefix `user.`, the only
//! namespace in NFS. Each attribute keeps its cookie for life and numbers are never reused: a
//! listing that continues after a cookie neither repeats nor skips an attribute that stayed.
//!
//! **Source:** RFC 8276; limits and permissions of Linux (xattr(7), fs/xattr.c).

use std::sync::Arc;

use super::budget::{Budget, Charge};
use super::handle::InodeId;
use super::permission::{Caller, READ, WRITE};
use super::types::{
    Change, FsError, Name, XATTR_LIST_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_PREFIX_BYTES,
    XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX,
};
use super::{Context, FileSystem};

/// Memory charged for one attribute besides its name and value: entry and two allocations.
const ENTRY_BYTES: u64 = 96;

/// How setting an attribute treats an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create it or replace its value.
    Either,
    /// Create it; it is an error if it exists.
    Create,
    /// Replace its value; it is an error if it does not exist.
    Replace,
}

/// A page of an object's list of attributes.
#[derive(Debug)]
pub struct XattrListing {
    /// Names in the order of their cookies.
    pub names: Vec<Name>,
    /// Cookie to resume from for the next page.
    pub cookie: u64,
    /// Whether no names follow.
    pub eof: bool,
}

/// The attributes of one inode.
#[derive(Debug)]
pub struct Xattrs {
    /// In cookie order. Objects have few, so a search by name scans all of them; the limit on the
    /// list's length bounds their number.
    entries: Vec<Xattr>,
    last_cookie: u64,
    charge: Charge,
}

#[derive(Debug)]
struct Xattr {
    cookie: u64,
    name: Name,
    value: Arc<[u8]>,
}

impl Xattr {
    fn stored_bytes(&self) -> u64 {
        (self.name.len() + self.value.len()) as u64
    }

    /// Length of the list that listxattr(2) returns, in bytes.
    fn listed_bytes(&self) -> usize {
        listed_bytes(&self.name)
    }
}

fn listed_bytes(name: &[u8]) -> usize {
    XATTR_PREFIX_BYTES + name.len() + 1
}

impl Xattrs {
    fn new(budget: &Arc<Budget>) -> Self {
        Self { entries: Vec::new(), last_cookie: 0, charge: Charge::force(budget, 0) }
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| *entry.name == *name)
    }

    fn find(&self, name: &[u8]) -> Option<&Xattr> {
        self.entries.iter().find(|entry| *entry.name == *name)
    }

    /// Sets a value; on failure nothing changes.
    fn set(&mut self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<(), FsError> {
        let existing = self.position(name);
        match (existing, mode) {
            (Some(_), XattrMode::Create) => return Err(FsError::Exists),
            (None, XattrMode::Replace) => return Err(FsError::NoXattr),
            _ => {}
        }
        let mut stored = (name.len() + value.len()) as u64;
        let mut listed = listed_bytes(name);
        let mut count = 1;
        for (position, entry) in self.entries.iter().enumerate() {
            if Some(position) != existing {
                stored += entry.stored_bytes();
                listed += entry.listed_bytes();
                count += 1;
            }
        }
        if stored > XATTRS_BYTES_MAX || listed > XATTR_LIST_BYTES_MAX {
            return Err(FsError::NoSpace);
        }
        self.charge.resize(stored + count * ENTRY_BYTES)?;
        if let Some(position) = existing {
            self.entries[position].value = Arc::from(value);
        } else {
            self.last_cookie += 1;
            self.entries.push(Xattr {
                cookie: self.last_cookie,
                name: Name::from(name),
                value: Arc::from(value),
            });
        }
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) -> Result<(), FsError> {
        let position = self.position(name).ok_or(FsError::NoXattr)?;
        let removed = self.entries.remove(position);
        let left = self.charge.bytes() - removed.stored_bytes() - ENTRY_BYTES;
        let smaller = self.charge.resize(left);
        debug_assert!(smaller.is_ok(), "releasing memory never fails");
        Ok(())
    }

    fn after(&self, cookie: u64) -> &[Xattr] {
        let start = self.entries.partition_point(|entry| entry.cookie <= cookie);
        &self.entries[start..]
    }
}

impl FileSystem {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// `NoXattr`, also for objects other than files and directories; `AccessDenied`; `Invalid` or
    /// `NameTooLong` for the name.
    pub fn xattr(&self, id: InodeId, name: &[u8], caller: &Caller) -> Result<Arc<[u8]>, FsError> {
        check_xattr_name(name)?;
        let inode = self.table.get(id)?;
        let state = inode.read();
        caller.check_xattrs(inode.kind, state.protection(), READ)?;
        let Some(xattrs) = &state.xattrs else { return Err(FsError::NoXattr) };
        let found = xattrs.find(name).ok_or(FsError::NoXattr)?;
        Ok(Arc::clone(&found.value))
    }

    /// Sets the value of an attribute, as `mode` allows.
    ///
    /// # Errors
    /// `Exists` or `NoXattr` depending on `mode`; `XattrTooBig`; `NoSpace` if the object has too
    /// many or the memory limit is reached; `NotPermitted` for objects other than files and
    /// directories; `AccessDenied`; `Invalid` or `NameTooLong` for the name.
    pub fn set_xattr(
        &self,
        id: InodeId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        context: &Context,
    ) -> Result<Change, FsError> {
        self.change_xattrs(id, name, context, |xattrs| {
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(FsError::XattrTooBig);
            }
            let xattrs = xattrs.get_or_insert_with(|| Box::new(Xattrs::new(&self.budget)));
            xattrs.set(name, value, mode)
        })
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `NoXattr`; `NotPermitted` for objects other than files and directories; `AccessDenied`;
    /// `Invalid` or `NameTooLong` for the name.
    pub fn remove_xattr(
        &self,
        id: InodeId,
        name: &[u8],
        context: &Context,
    ) -> Result<Change, FsError> {
        self.change_xattrs(id, name, context, |xattrs| match xattrs {
            Some(xattrs) => xattrs.remove(name),
            None => Err(FsError::NoXattr),
        })
    }

    /// Changes the attributes of an inode, if the caller may; `None` is an inode that has none.
    fn change_xattrs(
        &self,
        id: InodeId,
        name: &[u8],
        context: &Context,
        change: impl FnOnce(&mut Option<Box<Xattrs>>) -> Result<(), FsError>,
    ) -> Result<Change, FsError> {
        check_xattr_name(name)?;
        let inode = self.table.get(id)?;
        let (change, ()) = inode.change(|state| {
            context.caller.check_xattrs(inode.kind, state.protection(), WRITE)?;
            change(&mut state.xattrs)?;
            state.touch(context.now);
            Ok(())
        })?;
        Ok(change)
    }

    /// Lists the names after `cookie` (0: from the start) as long as `fits` accepts the next one.
    /// Objects that can't have attributes have an empty list.
    ///
    /// # Errors
    /// `AccessDenied`, `Stale`, `BadHandle`.
    pub fn list_xattrs(
        &self,
        id: InodeId,
        cookie: u64,
        caller: &Caller,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> Result<XattrListing, FsError> {
        let inode = self.table.get(id)?;
        let state = inode.read();
        match caller.check_xattrs(inode.kind, state.protection(), READ) {
            Ok(()) | Err(FsError::NoXattr) => {}
            Err(error) => return Err(error),
        }
        let mut listing = XattrListing { names: Vec::new(), cookie, eof: true };
        let Some(xattrs) = &state.xattrs else { return Ok(listing) };
        for entry in xattrs.after(cookie) {
            if !fits(&entry.name) {
                listing.eof = false;
                break;
            }
            listing.names.push(Arc::clone(&entry.name));
            listing.cookie = entry.cookie;
        }
        Ok(listing)
    }
}

fn check_xattr_name(name: &[u8]) -> Result<(), FsError> {
    match name {
        b"" => Err(FsError::Invalid),
        _ if name.len() > XATTR_NAME_BYTES_MAX => Err(FsError::NameTooLong),
        // No client could show it: names in the list are separated by NULs.
        _ if name.contains(&0) => Err(FsError::Invalid),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use nfs_proto::rpc::Groups;

    use super::super::tests::{CONTEXT, NONE, NOW, empty, file};
    use super::super::{
        Attributes, CreateMode, DirectoryName, FileKind, FileTime, NewObject, Permissions,
        SetAttributes,
    };
    use super::*;

    fn get(fs: &FileSystem, id: InodeId, name: &[u8]) -> Result<Vec<u8>, FsError> {
        Ok(fs.xattr(id, name, &CONTEXT.caller)?.to_vec())
    }

    fn set(fs: &FileSystem, id: InodeId, name: &[u8], value: &[u8]) -> Result<Change, FsError> {
        fs.set_xattr(id, name, value, XattrMode::Either, &CONTEXT)
    }

    fn names_after(fs: &FileSystem, id: InodeId, cookie: u64, most: usize) -> XattrListing {
        let mut left = most;
        let listing = fs.list_xattrs(id, cookie, &CONTEXT.caller, |_| {
            let fits = left > 0;
            left = left.saturating_sub(1);
            fits
        });
        listing.unwrap()
    }

    fn texts(listing: &XattrListing) -> Vec<&str> {
        listing.names.iter().map(|name| std::str::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn hides_existence_without_permission() {
        let fs = empty();
        let id = file(&fs, "f");
        let set_as = |value: &[u8], mode| fs.set_xattr(id, b"a", value, mode, &CONTEXT).map(drop);
        assert_eq!(get(&fs, id, b"a"), Err(FsError::NoXattr));
        assert_eq!(set_as(b"1", XattrMode::Replace), Err(FsError::NoXattr));
        assert_eq!(set_as(b"1", XattrMode::Create), Ok(()));
        assert_eq!(set_as(b"2", XattrMode::Create), Err(FsError::Exists));
        assert_eq!(get(&fs, id, b"a").unwrap(), b"1");
        assert_eq!(set_as(b"22", XattrMode::Replace), Ok(()));
        assert_eq!(set_as(b"", XattrMode::Either), Ok(()));
        assert_eq!(get(&fs, id, b"a").unwrap(), b"");
        assert_eq!(get(&fs, id, b"b"), Err(FsError::NoXattr));
    }

    #[test]
    fn updates_only_ctime() {
        let fs = empty();
        let id = file(&fs, "f");
        let before = fs.attributes(id).unwrap();
        let change = set(&fs, id, b"a", b"1").unwrap();
        let moved = |nanoseconds| FileTime(NOW.0 + nanoseconds);
        assert_eq!((change.before.ctime, change.after.ctime), (NOW, moved(1)));
        let again = set(&fs, id, b"a", b"1").unwrap();
        assert_eq!(again.after.ctime, moved(2), "setting the same value counts as a change");
        fs.set_xattr(id, b"a", b"2", XattrMode::Create, &CONTEXT).unwrap_err();
        fs.remove_xattr(id, b"b", &CONTEXT).unwrap_err();
        let removed = fs.remove_xattr(id, b"a", &CONTEXT).unwrap();
        assert_eq!((removed.before.ctime, removed.after.ctime), (moved(2), moved(3)));
        let after = Attributes { ctime: before.ctime, ..removed.after };
        assert_eq!(after, before);
    }

    #[test]
    fn resumes_listing_despite_changes() {
        let fs = empty();
        let id = file(&fs, "f");
        assert!(names_after(&fs, id, 0, 9).eof);
        for name in ["a", "b", "c", "d"] {
            set(&fs, id, name.as_bytes(), b"v").unwrap();
        }
        let first = names_after(&fs, id, 0, 2);
        assert_eq!((texts(&first), first.eof), (vec!["a", "b"], false));
        for name in ["a", "b"] {
            fs.remove_xattr(id, name.as_bytes(), &CONTEXT).unwrap();
        }
        set(&fs, id, b"c", b"other").unwrap();
        set(&fs, id, b"a", b"back").unwrap();
        let second = names_after(&fs, id, first.cookie, 9);
        assert_eq!((texts(&second), second.eof), (vec!["c", "d", "a"], true));
        let end = names_after(&fs, id, second.cookie, 9);
        assert_eq!((texts(&end), end.eof, end.cookie), (vec![], true, second.cookie));
        assert!(!names_after(&fs, id, 0, 0).eof, "entries that don't fit are left out");
    }

    #[test]
    fn limits_names_values_and_sums() {
        let fs = empty();
        let id = file(&fs, "f");
        let long = [b'n'; XATTR_NAME_BYTES_MAX + 1];
        assert_eq!(set(&fs, id, &long, b"").unwrap_err(), FsError::NameTooLong);
        assert_eq!(get(&fs, id, &long), Err(FsError::NameTooLong));
        assert_eq!(set(&fs, id, b"", b"").unwrap_err(), FsError::Invalid);
        assert_eq!(set(&fs, id, b"a\0", b"").unwrap_err(), FsError::Invalid);
        set(&fs, id, &long[1..], b"").unwrap();
        let large = vec![7; XATTR_VALUE_BYTES_MAX + 1];
        assert_eq!(set(&fs, id, b"v", &large).unwrap_err(), FsError::XattrTooBig);
        set(&fs, id, b"v", &large[1..]).unwrap();
        let filled =
            (0..9_999).find(|n| set(&fs, id, n.to_string().as_bytes(), &large[1..]).is_err());
        assert_eq!(filled, Some(14), "values of 64 KiB fill 1 MiB");
        assert_eq!(set(&fs, id, b"more", &large[1..]).unwrap_err(), FsError::NoSpace);
        set(&fs, id, b"v", &large[1..]).expect("an existing value is replaced");
        let id = file(&fs, "g");
        let filled = (0..9_999).find(|n| set(&fs, id, format!("{n:010}").as_bytes(), b"").is_err());
        assert_eq!(filled, Some(4096), "the list of 16-byte names fills 64 KiB");
    }

    #[test]
    fn returns_memory_of_removed_attributes() {
        let fs = empty();
        let id = file(&fs, "f");
        let before = fs.memory_bytes();
        set(&fs, id, b"a", &[1; 1000]).unwrap();
        assert_eq!(fs.memory_bytes(), before + 1001 + ENTRY_BYTES);
        set(&fs, id, b"a", &[1; 10]).unwrap();
        set(&fs, id, b"b", &[1; 10]).unwrap();
        assert_eq!(fs.memory_bytes(), before + 2 * (11 + ENTRY_BYTES));
        fs.remove_xattr(id, b"a", &CONTEXT).unwrap();
        assert_eq!(fs.memory_bytes(), before + 11 + ENTRY_BYTES);
        fs.remove(fs.root(), b"f", &CONTEXT).unwrap();
        assert_eq!(get(&fs, id, b"b"), Err(FsError::Stale));
        let again = file(&fs, "f");
        assert_eq!(fs.memory_bytes(), before);
        assert_eq!(get(&fs, again, b"b"), Err(FsError::NoXattr));
    }

    #[test]
    fn keeps_old_value_without_memory() {
        let fs = FileSystem::new(super::super::StoreMode::Keep, 64 << 10, 77, FileTime(1));
        let id = file(&fs, "f");
        set(&fs, id, b"a", b"old").unwrap();
        let ctime = fs.attributes(id).unwrap().ctime;
        assert_eq!(set(&fs, id, b"a", &vec![0; 64 << 10]).unwrap_err(), FsError::NoSpace);
        assert_eq!(get(&fs, id, b"a").unwrap(), b"old");
        assert_eq!(fs.attributes(id).unwrap().ctime, ctime);
    }

    #[test]
    fn keeps_attributes_on_rename_and_link() {
        let fs = empty();
        let root = fs.root();
        let id = file(&fs, "f");
        set(&fs, id, b"a", b"1").unwrap();
        fs.rename(DirectoryName::new(root, b"f"), DirectoryName::new(root, b"g"), &CONTEXT)
            .unwrap();
        fs.link(id, root, b"h", &CONTEXT).unwrap();
        fs.remove(root, b"g", &CONTEXT).unwrap();
        let found = fs.lookup(root, b"h", &CONTEXT.caller).unwrap().id;
        assert_eq!(get(&fs, found, b"a").unwrap(), b"1");
    }

    fn user(uid: u32) -> Context {
        let caller = Caller::new(uid, uid, Groups::EMPTY, Permissions::Enforced);
        Context { caller, now: NOW }
    }

    #[test]
    fn checks_mode_bits_for_access() {
        let owner = user(1);
        let other = user(2);
        for (mode, reads, writes) in [
            (0o644, Ok(()), Err(FsError::AccessDenied)),
            (0o602, Err(FsError::AccessDenied), Ok(())),
        ] {
            let fs = empty();
            let bits = SetAttributes { mode: Some(mode), ..NONE };
            let made = fs.create(fs.root(), b"f", CreateMode::Guarded, &bits, &owner).unwrap();
            let id = made.id;
            fs.set_xattr(id, b"a", b"1", XattrMode::Either, &owner).unwrap();
            assert_eq!(fs.xattr(id, b"a", &other.caller).map(drop), reads);
            assert_eq!(fs.list_xattrs(id, 0, &other.caller, |_| true).map(drop), reads);
            let set = fs.set_xattr(id, b"a", b"2", XattrMode::Either, &other);
            assert_eq!(set.map(drop), writes);
            assert_eq!(fs.remove_xattr(id, b"a", &other).map(drop), writes);
            fs.set_xattr(id, b"a", b"2", XattrMode::Either, &user(0)).unwrap();
        }
    }

    #[test]
    fn restricts_attributes_to_files_and_directories() {
        let fs = empty();
        let root = fs.root();
        let fifo = NewObject::Node(FileKind::Fifo, (0, 0));
        for (name, object) in [(&b"l"[..], NewObject::Symlink(b"t")), (b"p", fifo)] {
            let id = fs.make(root, name, object, &NONE, &CONTEXT).unwrap().id;
            assert_eq!(set(&fs, id, b"a", b"1").unwrap_err(), FsError::NotPermitted);
            assert_eq!(get(&fs, id, b"a"), Err(FsError::NoXattr));
            assert!(names_after(&fs, id, 0, 9).names.is_empty());
        }
        let bits = SetAttributes { mode: Some(0o1777), ..NONE };
        let made = fs.make(root, b"d", NewObject::Directory, &bits, &user(1)).unwrap();
        let set_by =
            |user: &Context| fs.set_xattr(made.id, b"a", b"1", XattrMode::Either, user).map(drop);
        assert_eq!(set_by(&user(2)), Err(FsError::NotPermitted));
        assert_eq!(set_by(&user(1)), Ok(()));
        assert_eq!(fs.xattr(made.id, b"a", &user(2).caller).unwrap()[..], *b"1");
    }
}
