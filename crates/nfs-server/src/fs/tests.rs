//! Semantics of the file system, with exact expectations.
//!
//! Times are passed in, so they are exact, too: `NOW`, or one nanosecond more for each further
//! change.

use nfs_proto::rpc::Groups;

use super::*;

pub(super) const NOW: FileTime = FileTime(5_000_000_000);
pub(super) const CONTEXT: Context =
    Context { caller: Caller::new(10, 20, Groups::EMPTY, Permissions::Off), now: NOW };
pub(super) const NONE: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    atime: SetTime::Keep,
    mtime: SetTime::Keep,
};

/// The same caller, at a time in seconds.
fn at(seconds: u64) -> Context {
    Context { now: FileTime(seconds * 1_000_000_000), ..CONTEXT }
}

pub(super) fn empty() -> FileSystem {
    FileSystem::new(StoreMode::Keep, 64 << 20, 77, FileTime(1))
}

pub(super) fn file(fs: &FileSystem, name: &str) -> InodeId {
    let made = fs.create(fs.root(), name.as_bytes(), CreateMode::Guarded, &NONE, &CONTEXT);
    made.unwrap().id
}

fn directory(fs: &FileSystem, parent: InodeId, name: &str) -> InodeId {
    fs.make(parent, name.as_bytes(), NewObject::Directory, &NONE, &CONTEXT).unwrap().id
}

#[test]
fn sets_owner_and_times_on_creation() {
    let fs = empty();
    let set = SetAttributes { mode: Some(0o10_4755), ..NONE };
    let made = fs.create(fs.root(), b"f", CreateMode::Guarded, &set, &CONTEXT).unwrap();
    let attributes = made.attributes;
    assert_eq!(attributes.kind, FileKind::Regular);
    assert_eq!((attributes.mode, attributes.nlink), (0o4755, 1));
    assert_eq!((attributes.uid, attributes.gid, attributes.size), (10, 20, 0));
    assert_eq!((attributes.atime, attributes.mtime, attributes.ctime), (NOW, NOW, NOW));
    assert_eq!(made.directory.before.ctime, FileTime(1));
    assert_eq!((made.directory.after.ctime, made.directory.after.mtime), (NOW, NOW));
    assert_eq!(fs.lookup(fs.root(), b"f", &CONTEXT.caller).unwrap().id, made.id);
}

#[test]
fn handles_existing_name_by_create_mode() {
    let fs = empty();
    let root = fs.root();
    let create = |name: &[u8], mode| fs.create(root, name, mode, &NONE, &CONTEXT);
    let one = create(b"f", CreateMode::Unchecked).unwrap().id;
    assert_eq!(create(b"f", CreateMode::Unchecked).unwrap().id, one);
    assert_eq!(create(b"f", CreateMode::Guarded).unwrap_err(), FsError::Exists);
    let first = create(b"x", CreateMode::Exclusive([1; 8])).unwrap().id;
    assert_eq!(create(b"x", CreateMode::Exclusive([1; 8])).unwrap().id, first);
    assert_eq!(create(b"x", CreateMode::Exclusive([2; 8])).unwrap_err(), FsError::Exists);
    assert_eq!(create(b"f", CreateMode::Exclusive([1; 8])).unwrap_err(), FsError::Exists);
    directory(&fs, root, "d");
    for mode in [CreateMode::Unchecked, CreateMode::Guarded, CreateMode::Exclusive([1; 8])] {
        assert_eq!(create(b"d", mode).unwrap_err(), FsError::Exists);
        assert_eq!(create(b"..", mode).unwrap_err(), FsError::Exists);
    }
}

#[test]
fn truncates_on_unchecked_create() {
    let fs = empty();
    let id = file(&fs, "f");
    fs.write(id, 0, b"12345", &CONTEXT).unwrap();
    let set = SetAttributes { size: Some(0), mode: Some(0), ..NONE };
    let again = fs.create(fs.root(), b"f", CreateMode::Unchecked, &set, &CONTEXT).unwrap();
    assert_eq!((again.id, again.attributes.size, again.attributes.mode), (id, 0, 0o644));
}

#[test]
fn names_are_checked() {
    let fs = empty();
    let root = fs.root();
    let create = |name: &[u8]| fs.create(root, name, CreateMode::Guarded, &NONE, &CONTEXT);
    assert_eq!(create(&[b'x'; 256]).unwrap_err(), FsError::NameTooLong);
    assert!(create(&[b'x'; 255]).is_ok());
    assert_eq!(fs.lookup(root, &[b'x'; 256], &CONTEXT.caller).unwrap_err(), FsError::NameTooLong);
    for name in [&b""[..], b"a/b", b"a\0b"] {
        assert_eq!(create(name).unwrap_err(), FsError::Invalid);
    }
    let id = file(&fs, "f");
    assert_eq!(fs.lookup(id, b"x", &CONTEXT.caller).unwrap_err(), FsError::NotDirectory);
    assert_eq!(fs.lookup(root, b"none", &CONTEXT.caller).unwrap_err(), FsError::NoEntry);
}

#[test]
fn resolves_dot_and_dot_dot() {
    let fs = empty();
    let outer = directory(&fs, fs.root(), "outer");
    let inner = directory(&fs, outer, "inner");
    assert_eq!(fs.lookup(inner, b".", &CONTEXT.caller).unwrap().id, inner);
    assert_eq!(fs.lookup(inner, b"..", &CONTEXT.caller).unwrap().id, outer);
    assert_eq!(fs.lookup(fs.root(), b"..", &CONTEXT.caller).unwrap().id, fs.root());
    assert_eq!(fs.attributes(outer).unwrap().nlink, 3);
    assert_eq!(fs.attributes(fs.root()).unwrap().nlink, 3);
}

#[test]
fn reports_stale_handle_after_slot_reuse() {
    let fs = empty();
    let old = file(&fs, "f");
    fs.remove(fs.root(), b"f", &CONTEXT).unwrap();
    assert_eq!(fs.attributes(old), Err(FsError::Stale));
    let reused = (0..64).map(|n| file(&fs, &n.to_string())).any(|id| id.fileid() == old.fileid());
    assert!(reused);
    assert_eq!(fs.attributes(old), Err(FsError::Stale));
    assert_eq!(fs.inode_id(&fs.handle(old)), Ok(old));
    let later = FileSystem::new(StoreMode::Keep, 1 << 20, 78, NOW);
    assert_eq!(later.inode_id(&fs.handle(old)), Err(FsError::Stale));
}

#[test]
fn setattr_honours_its_guard() {
    let fs = empty();
    let id = file(&fs, "f");
    let set = SetAttributes { mode: Some(0o600), ..NONE };
    let stale = fs.set_attributes(id, &set, Some(FileTime(9)), &CONTEXT);
    assert_eq!(stale, Err(FsError::NotSync));
    assert_eq!(fs.attributes(id).unwrap().mode, 0o644);
    let change = fs.set_attributes(id, &set, Some(NOW), &CONTEXT).unwrap();
    assert_eq!((change.before.ctime, change.after.ctime), (NOW, FileTime(NOW.0 + 1)));
    assert_eq!((change.after.mode, change.after.mtime), (0o600, NOW));
}

#[test]
fn setattr_sets_times_and_sizes() {
    let fs = empty();
    let id = file(&fs, "f");
    let times = SetAttributes {
        atime: SetTime::To(FileTime(3)),
        mtime: SetTime::To(FileTime(4)),
        size: Some(1000),
        ..NONE
    };
    let after = fs.set_attributes(id, &times, None, &CONTEXT).unwrap().after;
    assert_eq!((after.atime, after.mtime, after.size), (FileTime(3), FileTime(4), 1000));
    let size = SetAttributes { size: Some(1), ..NONE };
    let root = fs.set_attributes(fs.root(), &size, None, &CONTEXT);
    assert_eq!(root, Err(FsError::IsDirectory));
    let huge = SetAttributes { size: Some(u64::MAX), ..NONE };
    assert_eq!(fs.set_attributes(id, &huge, None, &CONTEXT), Err(FsError::FileTooBig));
}

#[test]
fn write_reports_before_and_after() {
    let fs = empty();
    let id = file(&fs, "f");
    fs.write(id, 0, b"abc", &at(6)).unwrap();
    let (change, written) = fs.write(id, 1, b"xyz", &at(7)).unwrap();
    assert_eq!((change.before.size, change.after.size, written), (3, 4, 3));
    assert_eq!(change.before.mtime, FileTime(6_000_000_000));
    assert_eq!(change.after.mtime, FileTime(7_000_000_000));
    assert_eq!(fs.read_path("/f").unwrap(), b"axyz");
    assert_eq!(fs.write(fs.root(), 0, b"x", &CONTEXT).unwrap_err(), FsError::IsDirectory);
}

#[test]
fn changes_nothing_on_failed_write() {
    let fs = FileSystem::new(StoreMode::Keep, 100_000, 1, NOW);
    let id = file(&fs, "f");
    fs.write(id, 0, &vec![1; 60_000], &CONTEXT).unwrap();
    let before = (fs.attributes(id), fs.memory_bytes());
    assert_eq!(fs.write(id, 60_000, &vec![2; 60_000], &CONTEXT).unwrap_err(), FsError::NoSpace);
    assert_eq!((fs.attributes(id), fs.memory_bytes()), before);
    fs.remove(fs.root(), b"f", &CONTEXT).unwrap();
    let id = file(&fs, "g");
    assert!(fs.write(id, 0, &vec![1; 60_000], &CONTEXT).is_ok());
}

#[test]
fn charges_names_and_inodes() {
    let fs = FileSystem::new(StoreMode::Discard, 10_000, 1, NOW);
    let make = |n: u32| {
        fs.create(fs.root(), n.to_string().as_bytes(), CreateMode::Guarded, &NONE, &CONTEXT)
    };
    let made = (0..100).take_while(|n| make(*n).is_ok()).count();
    assert!((10..30).contains(&made), "{made}");
    let space = fs.space();
    assert_eq!(
        (space.total_bytes, space.total_files - space.free_files),
        (10_000, made as u64 + 1)
    );
    assert_eq!(make(1000).unwrap_err(), FsError::NoSpace);
    assert_eq!(fs.list_path("/").unwrap().len(), made);
}

#[test]
fn shares_data_between_hard_links() {
    let fs = empty();
    let id = file(&fs, "one");
    let (attributes, _) = fs.link(id, fs.root(), b"two", &CONTEXT).unwrap();
    assert_eq!(attributes.nlink, 2);
    fs.write(id, 0, b"data", &CONTEXT).unwrap();
    fs.remove(fs.root(), b"one", &CONTEXT).unwrap();
    assert_eq!(
        (fs.read_path("/two").unwrap(), fs.attributes(id).unwrap().nlink),
        (b"data".to_vec(), 1)
    );
    fs.remove(fs.root(), b"two", &CONTEXT).unwrap();
    assert_eq!(fs.attributes(id), Err(FsError::Stale));
    let sub = directory(&fs, fs.root(), "d");
    assert_eq!(fs.link(sub, fs.root(), b"e", &CONTEXT).unwrap_err(), FsError::Invalid);
}

#[test]
fn rename_replaces_and_refuses() {
    let fs = empty();
    let root = fs.root();
    let a = file(&fs, "a");
    let b = file(&fs, "b");
    let d = directory(&fs, root, "d");
    let e = directory(&fs, root, "e");
    let inner = directory(&fs, d, "inner");
    let rename = |from: &[u8], directory: InodeId, to: &[u8]| {
        fs.rename(DirectoryName::new(root, from), DirectoryName::new(directory, to), &CONTEXT)
    };
    assert_eq!(rename(b"a", root, b"d").unwrap_err(), FsError::IsDirectory);
    assert_eq!(rename(b"d", root, b"a").unwrap_err(), FsError::NotDirectory);
    assert_eq!(rename(b"e", root, b"d").unwrap_err(), FsError::NotEmpty);
    assert_eq!(rename(b"d", inner, b"x").unwrap_err(), FsError::Invalid);
    assert_eq!(rename(b"d", d, b"x").unwrap_err(), FsError::Invalid);
    assert_eq!(rename(b"none", root, b"x").unwrap_err(), FsError::NoEntry);
    assert_eq!(rename(b".", root, b"x").unwrap_err(), FsError::Invalid);
    rename(b"a", root, b"b").unwrap();
    assert_eq!(
        (fs.lookup(root, b"b", &CONTEXT.caller).unwrap().id, fs.attributes(b)),
        (a, Err(FsError::Stale))
    );
    assert_eq!(fs.lookup(root, b"a", &CONTEXT.caller).unwrap_err(), FsError::NoEntry);
    rename(b"d", root, b"e").unwrap();
    assert_eq!((fs.attributes(e), fs.attributes(root).unwrap().nlink), (Err(FsError::Stale), 3));
    rename(b"b", inner, b"moved").unwrap();
    assert_eq!(fs.find_path("/e/inner/moved").unwrap().0, a);
}

#[test]
fn updates_parent_of_moved_directory() {
    let fs = empty();
    let a = directory(&fs, fs.root(), "a");
    let b = directory(&fs, fs.root(), "b");
    let moved = directory(&fs, a, "m");
    let renamed =
        fs.rename(DirectoryName::new(a, b"m"), DirectoryName::new(b, b"n"), &CONTEXT).unwrap();
    assert_eq!((renamed.from.after.nlink, renamed.to.after.nlink), (2, 3));
    assert_eq!(fs.lookup(moved, b"..", &CONTEXT.caller).unwrap().id, b);
}

#[test]
fn ignores_rename_onto_same_file() {
    let fs = empty();
    let id = file(&fs, "one");
    fs.link(id, fs.root(), b"two", &CONTEXT).unwrap();
    let root = fs.attributes(fs.root());
    fs.rename(
        DirectoryName::new(fs.root(), b"one"),
        DirectoryName::new(fs.root(), b"two"),
        &CONTEXT,
    )
    .unwrap();
    assert_eq!(fs.list_path("/").unwrap(), [b"one", b"two"]);
    assert_eq!((fs.attributes(fs.root()), fs.attributes(id).unwrap().nlink), (root, 2));
}

#[test]
fn separates_rmdir_from_remove() {
    let fs = empty();
    let root = fs.root();
    file(&fs, "f");
    let sub = directory(&fs, root, "d");
    directory(&fs, sub, "below");
    assert_eq!(fs.remove(root, b"d", &CONTEXT).unwrap_err(), FsError::IsDirectory);
    assert_eq!(fs.remove(root, b".", &CONTEXT).unwrap_err(), FsError::IsDirectory);
    assert_eq!(fs.remove(root, b"none", &CONTEXT).unwrap_err(), FsError::NoEntry);
    assert_eq!(fs.remove_directory(root, b"f", &CONTEXT).unwrap_err(), FsError::NotDirectory);
    assert_eq!(fs.remove_directory(root, b"d", &CONTEXT).unwrap_err(), FsError::NotEmpty);
    assert_eq!(fs.remove_directory(sub, b".", &CONTEXT).unwrap_err(), FsError::Invalid);
    assert_eq!(fs.remove_directory(sub, b"..", &CONTEXT).unwrap_err(), FsError::Exists);
    fs.remove_directory(sub, b"below", &CONTEXT).unwrap();
    fs.remove_directory(root, b"d", &CONTEXT).unwrap();
    let gone = fs.create(sub, b"x", CreateMode::Guarded, &NONE, &CONTEXT);
    assert_eq!(gone.unwrap_err(), FsError::Stale);
}

#[test]
fn keeps_targets_of_symlinks_and_nodes() {
    let fs = empty();
    let root = fs.root();
    let link = fs.make(root, b"l", NewObject::Symlink(b"/to"), &NONE, &CONTEXT).unwrap();
    let (attributes, target) = fs.read_link(link.id).unwrap();
    assert_eq!((attributes.kind, attributes.size, &*target), (FileKind::Symlink, 3, &b"/to"[..]));
    assert_eq!(fs.read_link(root).unwrap_err(), FsError::Invalid);
    let node = NewObject::Node(FileKind::BlockDevice, (8, 1));
    let made = fs.make(root, b"n", node, &NONE, &CONTEXT).unwrap();
    assert_eq!((made.attributes.kind, made.attributes.rdev), (FileKind::BlockDevice, (8, 1)));
    let regular = NewObject::Node(FileKind::Regular, (0, 0));
    assert_eq!(fs.make(root, b"r", regular, &NONE, &CONTEXT).unwrap_err(), FsError::BadType);
    let long = vec![b'x'; 4096];
    let made = fs.make(root, b"m", NewObject::Symlink(&long), &NONE, &CONTEXT);
    assert_eq!(made.unwrap_err(), FsError::NameTooLong);
    let mut out = Vec::new();
    assert_eq!(fs.read(link.id, 0, 1, &CONTEXT, &mut out).unwrap_err(), FsError::Invalid);
    assert_eq!(fs.read(root, 0, 1, &CONTEXT, &mut out).unwrap_err(), FsError::IsDirectory);
}

#[test]
fn takes_as_many_locks_as_documented() {
    // The table in docs/design/scaling.md.
    let fs = empty();
    let context = Context::default();
    let set = SetAttributes::default();
    let file = fs.create(fs.root(), b"f", CreateMode::Guarded, &set, &context).unwrap().id;
    let locks = |work: &dyn Fn()| sync::locks_of(work);
    let block = vec![1; BLOCK_BYTES];
    let payload = || {
        let mut payload = fs.prepare_payload(0, BLOCK_BYTES).unwrap();
        payload.push(&block);
        payload
    };
    let getattr = || assert!(fs.attributes(file).is_ok());
    let lookup = || assert!(fs.lookup(fs.root(), b"f", &context.caller).is_ok());
    let write = || assert!(fs.write(file, 0, &block, &context).is_ok());
    let receive = || assert!(fs.write_payload(file, payload(), &context).is_ok());
    let read = || {
        let mut pieces = Vec::new();
        assert!(fs.read(file, 0, 1 << 20, &context, &mut pieces).is_ok());
    };
    write();
    assert_eq!(locks(&getattr), 2);
    assert_eq!(locks(&read), 2);
    assert_eq!(locks(&write), 2);
    // One buffer is taken from the spare ones, and the old one returned.
    assert_eq!(locks(&receive), 4);
    assert_eq!(locks(&lookup), 4);
}
