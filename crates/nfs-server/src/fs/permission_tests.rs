//! Access by mode and owner: the cases of pjdfstest, each with its exact outcome.
//!
//! Users 1 and 2 have groups 10 and 20; in some tests user 2 is also in group 10.

use nfs_proto::rpc::Groups;

use super::tests::{NONE, NOW, empty};
use super::*;

const ROOT: Context = user(0, 0);
const OWNER: Context = user(1, 10);
const OTHER: Context = user(2, 20);

const fn user(uid: u32, gid: u32) -> Context {
    let caller = Caller::new(uid, gid, Groups::EMPTY, Permissions::Enforced);
    Context { caller, now: NOW }
}

fn member(context: Context, group: u32) -> Context {
    let caller = Caller { groups: Groups::from_slice(&[group]), ..context.caller };
    Context { caller, ..context }
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..NONE }
}

fn file(fs: &FileSystem, bits: u32, context: &Context) -> InodeId {
    make_file(fs, fs.root(), b"f", bits, context).unwrap()
}

fn make_file(
    fs: &FileSystem,
    directory: InodeId,
    name: &[u8],
    bits: u32,
    context: &Context,
) -> Result<InodeId, FsError> {
    Ok(fs.create(directory, name, CreateMode::Guarded, &mode(bits), context)?.id)
}

fn directory(fs: &FileSystem, bits: u32, context: &Context) -> InodeId {
    fs.make(fs.root(), b"d", NewObject::Directory, &mode(bits), context).unwrap().id
}

fn set(
    fs: &FileSystem,
    id: InodeId,
    set: &SetAttributes,
    context: &Context,
) -> Result<u32, FsError> {
    Ok(fs.set_attributes(id, set, None, context)?.after.mode)
}

#[test]
fn applies_single_permission_class() {
    let fs = empty();
    let read = |bits: u32, context: &Context| {
        let id = file(&fs, bits, &OWNER);
        let found = fs.read(id, 0, 1, context, &mut Vec::new()).map(drop);
        fs.remove(fs.root(), b"f", &ROOT).unwrap();
        found
    };
    assert_eq!(read(0o004, &OTHER), Ok(()));
    assert_eq!(read(0o040, &OTHER), Err(FsError::AccessDenied));
    assert_eq!(read(0o040, &member(OTHER, 10)), Ok(()));
    assert_eq!(read(0o004, &member(OTHER, 10)), Err(FsError::AccessDenied));
    assert_eq!(read(0o001, &OTHER), Ok(()), "executable files are readable");
    // The owner may have opened it before the chmod, and user 0 may do everything.
    assert_eq!(read(0o000, &OWNER), Ok(()));
    assert_eq!(read(0o000, &ROOT), Ok(()));
    let off = Caller::new(2, 20, Groups::EMPTY, Permissions::Off);
    assert_eq!(read(0o000, &Context { caller: off, ..OTHER }), Ok(()));
}

#[test]
fn clears_setuid_on_write() {
    let fs = empty();
    let id = file(&fs, 0o6777, &OWNER);
    let mode_now = || fs.attributes(id).unwrap().mode;
    fs.write(id, 0, b"x", &ROOT).unwrap();
    assert_eq!(mode_now(), 0o6777);
    fs.write(id, 0, b"x", &OTHER).unwrap();
    assert_eq!(mode_now(), 0o777);
    // Without group execute, set-gid means mandatory locking.
    set(&fs, id, &mode(0o2602), &OWNER).unwrap();
    fs.write(id, 0, b"x", &OTHER).unwrap();
    assert_eq!(mode_now(), 0o2602);
    set(&fs, id, &mode(0o6750), &OWNER).unwrap();
    assert_eq!(fs.write(id, 0, b"x", &OTHER).map(drop), Err(FsError::AccessDenied));
    let cut = SetAttributes { size: Some(0), ..NONE };
    assert_eq!(set(&fs, id, &cut, &OTHER), Err(FsError::AccessDenied));
    assert_eq!(set(&fs, id, &cut, &OWNER), Ok(0o750));
    let denied = Err(FsError::AccessDenied);
    assert_eq!(fs.allocate(id, 0, 9, &OTHER).map(drop), denied);
    assert_eq!(fs.punch(id, 0, 9, &OTHER).map(drop), denied);
    assert_eq!(fs.seek(id, 0, ExtentKind::Data, &OTHER).map(drop), denied);
    let mut into =
        ExtentsRead { extents: &mut Vec::new(), extents_max: 9, pieces: &mut Vec::new() };
    assert_eq!(fs.read_extents(id, 0, 9, &OTHER, &mut into).map(drop), denied);
    fs.allocate(id, 0, 9, &OWNER).unwrap();
    assert_eq!(fs.read_extents(id, 0, 9, &OWNER, &mut into), Ok(true));
}

#[test]
fn checks_directory_permission_bits() {
    let fs = empty();
    let id = directory(&fs, 0o755, &OWNER);
    make_file(&fs, id, b"a", 0o644, &OWNER).unwrap();
    let lookup = || fs.lookup(id, b"a", &OTHER.caller).map(drop);
    let list = || fs.list(id, 0, &OTHER.caller, |_| true).map(drop);
    let make = || make_file(&fs, id, b"b", 0o644, &OTHER).map(drop);
    let remove = || fs.remove(id, b"a", &OTHER).map(drop);
    let denied = Err(FsError::AccessDenied);
    assert_eq!((lookup(), list(), make(), remove()), (Ok(()), Ok(()), denied, denied));
    set(&fs, id, &mode(0o754), &OWNER).unwrap();
    assert_eq!((lookup(), list(), make(), remove()), (denied, Ok(()), denied, denied));
    set(&fs, id, &mode(0o752), &OWNER).unwrap();
    assert_eq!((lookup(), list(), make(), remove()), (denied, denied, denied, denied));
    set(&fs, id, &mode(0o753), &OWNER).unwrap();
    assert_eq!((lookup(), list(), make(), remove()), (Ok(()), denied, Ok(()), Ok(())));
    // An existing name is reported as such even if nothing may be created.
    set(&fs, id, &mode(0o755), &OWNER).unwrap();
    assert_eq!(make(), Err(FsError::Exists));
    let link = fs.link(file(&fs, 0o666, &OTHER), id, b"c", &OTHER).map(drop);
    assert_eq!(link, denied);
}

#[test]
fn protects_names_in_sticky_directory() {
    let fs = empty();
    let id = directory(&fs, 0o1777, &ROOT);
    let third = user(3, 30);
    make_file(&fs, id, b"a", 0o666, &OWNER).unwrap();
    make_file(&fs, id, b"b", 0o666, &OTHER).unwrap();
    let denied = Err(FsError::NotPermitted);
    let a = DirectoryName::new(id, b"a");
    let b = DirectoryName::new(id, b"b");
    assert_eq!(fs.remove(id, b"a", &OTHER).map(drop), denied);
    assert_eq!(fs.rename(a, DirectoryName::new(id, b"c"), &OTHER).map(drop), denied);
    assert_eq!(
        fs.rename(b, a, &OTHER).map(drop),
        denied,
        "it would replace a file of another user"
    );
    let inner = fs.make(id, b"inner", NewObject::Directory, &NONE, &OWNER);
    inner.unwrap();
    assert_eq!(fs.remove_directory(id, b"inner", &OTHER).map(drop), denied);
    fs.remove_directory(id, b"inner", &OWNER).unwrap();
    fs.rename(b, DirectoryName::new(id, b"c"), &OTHER).unwrap();
    // The owner of the directory may remove any name.
    let chown = SetAttributes { uid: Some(3), ..NONE };
    set(&fs, id, &chown, &ROOT).unwrap();
    fs.remove(id, b"a", &third).unwrap();
}

#[test]
fn requires_write_to_move_directory() {
    let fs = empty();
    let id = directory(&fs, 0o777, &ROOT);
    let chown = SetAttributes { mode: Some(0o777), ..NONE };
    set(&fs, fs.root(), &chown, &ROOT).unwrap();
    fs.make(fs.root(), b"m", NewObject::Directory, &mode(0o755), &OWNER).unwrap();
    let from = DirectoryName::new(fs.root(), b"m");
    let to = DirectoryName::new(id, b"m");
    assert_eq!(fs.rename(from, to, &OTHER).map(drop), Err(FsError::AccessDenied));
    fs.rename(from, DirectoryName::new(fs.root(), b"n"), &OTHER).unwrap();
    fs.rename(DirectoryName::new(fs.root(), b"n"), to, &OWNER).unwrap();
}

#[test]
fn restricts_attribute_changes_to_owner() {
    let fs = empty();
    let id = file(&fs, 0o644, &OWNER);
    let denied = Err(FsError::NotPermitted);
    assert_eq!(set(&fs, id, &mode(0o600), &OTHER), denied);
    let chosen = SetAttributes { mtime: SetTime::To(FileTime(3)), ..NONE };
    assert_eq!(set(&fs, id, &chosen, &OTHER), denied);
    set(&fs, id, &chosen, &OWNER).unwrap();
    let touch = SetAttributes { atime: SetTime::Now, mtime: SetTime::Now, ..NONE };
    assert_eq!(set(&fs, id, &touch, &OTHER), Err(FsError::AccessDenied));
    set(&fs, id, &mode(0o646), &OWNER).unwrap();
    set(&fs, id, &touch, &OTHER).unwrap();

    let owner = |uid| SetAttributes { uid: Some(uid), ..NONE };
    let group = |gid| SetAttributes { gid: Some(gid), ..NONE };
    assert_eq!(set(&fs, id, &owner(2), &OWNER), denied);
    assert_eq!(set(&fs, id, &owner(2), &OTHER), denied);
    assert_eq!(set(&fs, id, &owner(1), &OTHER), denied);
    set(&fs, id, &owner(1), &OWNER).unwrap();
    assert_eq!(set(&fs, id, &group(20), &OWNER), denied);
    assert_eq!(set(&fs, id, &group(10), &member(OTHER, 10)), denied);
    set(&fs, id, &group(20), &member(OWNER, 20)).unwrap();
    set(&fs, id, &owner(2), &ROOT).unwrap();
    let found = fs.attributes(id).unwrap();
    assert_eq!((found.uid, found.gid), (2, 20));
}

#[test]
fn clears_setuid_on_chown() {
    let fs = empty();
    let id = file(&fs, 0o6755, &OWNER);
    let group = SetAttributes { gid: Some(10), ..NONE };
    assert_eq!(set(&fs, id, &group, &OWNER), Ok(0o755));
    set(&fs, id, &mode(0o6745), &OWNER).unwrap();
    assert_eq!(set(&fs, id, &group, &ROOT), Ok(0o2745));
    let folder = directory(&fs, 0o2755, &OWNER);
    assert_eq!(set(&fs, folder, &group, &ROOT), Ok(0o2755));
    // Set-gid is also cleared for a group that the owner is not a member of.
    set(&fs, id, &SetAttributes { gid: Some(99), ..NONE }, &ROOT).unwrap();
    assert_eq!(set(&fs, id, &mode(0o2755), &OWNER), Ok(0o755));
    assert_eq!(set(&fs, id, &mode(0o2755), &member(OWNER, 99)), Ok(0o2755));
}

#[test]
fn inherits_group_of_setgid_directory() {
    let fs = empty();
    let given = SetAttributes { uid: Some(7), gid: Some(7), mode: Some(0o644), ..NONE };
    let create = |directory, name: &[u8], context| {
        let made = fs.create(directory, name, CreateMode::Guarded, &given, context).unwrap();
        (made.attributes.uid, made.attributes.gid)
    };
    assert_eq!(create(fs.root(), b"a", &OWNER), (1, 10));
    assert_eq!(create(fs.root(), b"b", &ROOT), (7, 7));
    let id = directory(&fs, 0o2777, &member(OWNER, 10));
    assert_eq!(create(id, b"a", &OTHER), (2, 10));
    let inner = fs.make(id, b"inner", NewObject::Directory, &mode(0o700), &OTHER).unwrap();
    assert_eq!((inner.attributes.gid, inner.attributes.mode), (10, 0o2700));
    let node = NewObject::Node(FileKind::CharacterDevice, (1, 3));
    let made = fs.make(fs.root(), b"null", node, &NONE, &OWNER).map(drop);
    assert_eq!(made, Err(FsError::NotPermitted));
    fs.make(fs.root(), b"pipe", NewObject::Node(FileKind::Fifo, (0, 0)), &NONE, &OWNER).unwrap();
}

#[test]
fn limits_execution_by_root() {
    let fs = empty();
    let id = file(&fs, 0o644, &OWNER);
    let rights = |context: &Context| context.caller.rights_on(&fs.attributes(id).unwrap());
    assert_eq!((rights(&ROOT), rights(&OWNER), rights(&OTHER)), (READ | WRITE, 6, READ));
    set(&fs, id, &mode(0o100), &OWNER).unwrap();
    assert_eq!((rights(&ROOT), rights(&OWNER), rights(&OTHER)), (7, EXECUTE, 0));
}
