//! Ops on names and attributes, each using the system call that is closest to its NFS call.
//!
//! | op | calls |
//! |---|---|
//! | Null | `getppid`, the cheapest system call |
//! | Getattr, Stat, StatDir | `fstat` of the open file, `newfstatat` of the name |
//! | Lookup | `statx` without attributes and without synchronization |
//! | Setattr, Access, Readlink | `fchmodat`, `faccessat`, `readlinkat` |
//! | Readdir | `openat`, one `getdents64` with a bounded buffer, `close` |
//! | ReaddirPlus | the same, and `newfstatat` of each name in the reply |
//! | Fsstat | `fstatfs` |
//! | Fsinfo, Pathconf | `fstatfs` too, as `fpathconf` of glibc does |
//! | SetXattr, GetXattr | `setxattr`, `getxattr` |

use std::ffi::CStr;
use std::mem::MaybeUninit;

use model::{Op, OpError, OpKind};
use rustix::fd::AsFd;
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RawDir, StatxFlags, accessat, chmodat, fstat, fstatfs, linkat,
    mkdirat, openat, readlinkat_raw, renameat, statat, statx, symlinkat, unlinkat,
};
use rustix::io::Errno;
use workload::Name;
use workload::names::Sort;

use super::super::files::{Files, failed, retry, there_and_back};
use super::xattrs::{get_xattr, set_xattr};
use crate::limits::LISTING_BYTES;

/// Maximum length of a symbolic link's target, in bytes.
const TARGET_BYTES: usize = 256;

/// Executes an op on names or attributes.
///
/// # Errors
/// The error of the system call; `EOPNOTSUPP` if it is another kind of op.
pub(in super::super) fn execute(set: &Files, op: &Op) -> Result<u32, OpError> {
    let root = set.root(op.file);
    match op.kind {
        OpKind::Null => {
            std::hint::black_box(rustix::process::getppid());
            Ok(())
        }
        OpKind::Getattr => {
            let file = set.file(op.file)?;
            retry(|| fstat(file)).map(drop)
        }
        OpKind::Setattr => {
            let path = set.path(Sort::File, op.file);
            let mode = Mode::from_raw_mode(0o644);
            retry(|| chmodat(root, path.as_c_str(), mode, AtFlags::empty()))
        }
        OpKind::Access => {
            let path = set.path(Sort::File, op.file);
            let wanted = Access::READ_OK | Access::WRITE_OK;
            retry(|| accessat(root, path.as_c_str(), wanted, AtFlags::empty()))
        }
        OpKind::Stat => stat_name(root, set.path(Sort::File, op.file).as_c_str()),
        OpKind::StatDir => stat_name(root, set.path(Sort::Directory, op.file).as_c_str()),
        OpKind::Lookup => look_up_name(root, set.path(Sort::File, op.file).as_c_str()),
        OpKind::LookupMissing => {
            match look_up_name(root, set.path(Sort::Missing, op.file).as_c_str()) {
                Err(error) if error == failed(Errno::NOENT) => Ok(()),
                Err(error) => Err(error),
                Ok(()) => Err(failed(Errno::EXIST)),
            }
        }
        OpKind::Fsstat | OpKind::Fsinfo | OpKind::Pathconf => retry(|| fstatfs(root)).map(drop),
        OpKind::Readdir | OpKind::ReaddirPlus => list_place(set, op),
        OpKind::SetXattr => set_xattr(set, op),
        OpKind::GetXattr => get_xattr(set, op),
        _ => change_name(set, op),
    }
    .map(|()| 0)
}

/// Executes ops that create, remove or rename, and those that read a link's target.
fn change_name(set: &Files, op: &Op) -> Result<(), OpError> {
    let root = set.root(op.file);
    match op.kind {
        OpKind::Remove => unlink(set, op, Sort::File, AtFlags::empty()),
        OpKind::Unlink => unlink(set, op, Sort::Link, AtFlags::empty()),
        OpKind::Rmdir => {
            let path = set.directory_path(op);
            retry(|| unlinkat(root, path.as_c_str(), AtFlags::REMOVEDIR))
        }
        OpKind::Rename => rename(set, op, Sort::File, Sort::OtherFile),
        OpKind::RenameDir => rename(set, op, Sort::Directory, Sort::OtherDirectory),
        OpKind::Mkdir => {
            let path = set.directory_path(op);
            retry(|| mkdirat(root, path.as_c_str(), Mode::from_raw_mode(0o755)))
        }
        OpKind::Symlink => {
            let path = set.path(Sort::Link, op.file);
            let target = Name::file(op.file);
            retry(|| symlinkat(target.as_c_str(), root, path.as_c_str()))
        }
        OpKind::Link => {
            let from = set.path(Sort::File, op.file);
            let to = set.second_path(op);
            retry(|| linkat(root, from.as_c_str(), root, to.as_c_str(), AtFlags::empty()))
        }
        OpKind::Readlink => {
            let path = set.path(Sort::Link, op.file);
            let mut target = [MaybeUninit::uninit(); TARGET_BYTES];
            retry(|| readlinkat_raw(root, path.as_c_str(), &mut target).map(drop))
        }
        _ => Err(failed(Errno::OPNOTSUPP)),
    }
}

/// Renames to the other type of name, or back, depending on the op.
fn rename(set: &Files, op: &Op, usual: Sort, other: Sort) -> Result<(), OpError> {
    let root = set.root(op.file);
    let (from, to) = there_and_back(op, usual, other);
    let from = set.path(from, op.file);
    let to = set.path(to, op.file);
    retry(|| renameat(root, from.as_c_str(), root, to.as_c_str()))
}

fn unlink(set: &Files, op: &Op, sort: Sort, flags: AtFlags) -> Result<(), OpError> {
    let path = set.path(sort, op.file);
    retry(|| unlinkat(set.root(op.file), path.as_c_str(), flags))
}

/// Looks up a name and its attributes.
fn stat_name(directory: impl AsFd, path: &CStr) -> Result<(), OpError> {
    retry(|| statat(&directory, path, AtFlags::SYMLINK_NOFOLLOW)).map(drop)
}

/// Looks up a name without attributes, so that a network file system may answer from its cache.
fn look_up_name(directory: impl AsFd, path: &CStr) -> Result<(), OpError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    retry(|| statx(&directory, path, flags, StatxFlags::empty())).map(drop)
}

/// Lists the first entries of a directory, as many as one call returns.
fn list_place(set: &Files, op: &Op) -> Result<(), OpError> {
    let place = set.places.path_of(op.file % set.places.count());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = retry(|| openat(set.root(op.file), place.as_c_str(), flags, Mode::empty()))?;
    let mut room = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(&directory, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        if op.kind == OpKind::ReaddirPlus {
            match stat_name(&directory, entry.file_name()) {
                // Another worker may have removed it in the meantime.
                Err(error) if error != failed(Errno::NOENT) => return Err(error),
                _ => {}
            }
        }
        if entries.is_buffer_empty() {
            break;
        }
    }
    Ok(())
}
