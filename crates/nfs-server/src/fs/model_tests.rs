//! Random operations, applied to this file system and to a real directory tree through `std::fs`:
//! every outcome and the final trees must agree, and no charge may remain once everything is
//! removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Op {
    Create(ModelPath),
    Write(ModelPath, u64, Vec<u8>),
    Resize(ModelPath, u64),
    Mkdir(ModelPath),
    Symlink(ModelPath),
    Link(ModelPath, ModelPath),
    Remove(ModelPath),
    Rmdir(ModelPath),
    Rename(ModelPath, ModelPath),
}

/// A directory (the root, or a name below it) and a name in it.
#[derive(Clone, Debug)]
struct ModelPath {
    directory: &'static str,
    name: &'static str,
}

impl ModelPath {
    fn path(&self, root: &Path) -> std::path::PathBuf {
        root.join(self.directory).join(self.name)
    }
}

fn places() -> impl Strategy<Value = ModelPath> {
    let directories = prop_oneof![3 => Just(""), 1 => Just("a"), 1 => Just("b"), 1 => Just("a/b")];
    (directories, prop::sample::select(&NAMES[..]))
        .prop_map(|(directory, name)| ModelPath { directory, name })
}

fn ops() -> impl Strategy<Value = Op> {
    let offsets = prop_oneof![0..100_u64, 250_000..270_000_u64, 1_000_000..1_000_010_u64];
    let data = vec(any::<u8>(), 1..40).prop_map(|seed| seed.repeat(seed.len() * 40));
    prop_oneof![
        3 => places().prop_map(Op::Create),
        4 => (places(), offsets.clone(), data).prop_map(|(p, o, d)| Op::Write(p, o, d)),
        2 => (places(), offsets).prop_map(|(p, s)| Op::Resize(p, s)),
        3 => places().prop_map(Op::Mkdir),
        1 => places().prop_map(Op::Symlink),
        2 => (places(), places()).prop_map(|(f, t)| Op::Link(f, t)),
        2 => places().prop_map(Op::Remove),
        2 => places().prop_map(Op::Rmdir),
        4 => (places(), places()).prop_map(|(f, t)| Op::Rename(f, t)),
    ]
}

fn apply_here(fs: &FileSystem, op: &Op) -> Result<(), FsError> {
    let context = Context::default();
    let set = SetAttributes::default();
    let dir = |place: &ModelPath| fs.find_path(place.directory).map(|(id, _)| id);
    let at =
        |place: &ModelPath| Ok(fs.lookup(dir(place)?, place.name.as_bytes(), &context.caller)?.id);
    let make = |place: &ModelPath, object| {
        fs.make(dir(place)?, place.name.as_bytes(), object, &set, &context).map(drop)
    };
    match op {
        Op::Create(p) => {
            fs.create(dir(p)?, p.name.as_bytes(), CreateMode::Guarded, &set, &context).map(drop)
        }
        Op::Write(p, offset, data) => fs.write(at(p)?, *offset, data, &context).map(drop),
        Op::Resize(p, size) => {
            let set = SetAttributes { size: Some(*size), ..set };
            fs.set_attributes(at(p)?, &set, None, &context).map(drop)
        }
        Op::Mkdir(p) => make(p, NewObject::Directory),
        Op::Symlink(p) => make(p, NewObject::Symlink(b"nowhere")),
        Op::Link(f, t) => fs.link(at(f)?, dir(t)?, t.name.as_bytes(), &context).map(drop),
        Op::Remove(p) => fs.remove(dir(p)?, p.name.as_bytes(), &context).map(drop),
        Op::Rmdir(p) => fs.remove_directory(dir(p)?, p.name.as_bytes(), &context).map(drop),
        Op::Rename(f, t) => {
            let to = DirectoryName::new(dir(t)?, t.name.as_bytes());
            fs.rename(DirectoryName::new(dir(f)?, f.name.as_bytes()), to, &context).map(drop)
        }
    }
}

fn apply_there(root: &Path, op: &Op) -> io::Result<()> {
    match op {
        Op::Create(p) => fs::File::create_new(p.path(root)).map(drop),
        Op::Write(p, offset, data) => open(&p.path(root))?.write_all_at(data, *offset),
        Op::Resize(p, size) => open(&p.path(root))?.set_len(*size),
        Op::Mkdir(p) => fs::create_dir(p.path(root)),
        Op::Symlink(p) => symlink("nowhere", p.path(root)),
        Op::Link(f, t) => fs::hard_link(f.path(root), t.path(root)),
        Op::Remove(p) => fs::remove_file(p.path(root)),
        Op::Rmdir(p) => fs::remove_dir(p.path(root)),
        Op::Rename(f, t) => fs::rename(f.path(root), t.path(root)),
    }
}

/// Opens without following a symbolic link, as an NFS handle does.
fn open(path: &Path) -> io::Result<fs::File> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(ErrorKind::InvalidInput.into());
    }
    fs::OpenOptions::new().write(true).open(path)
}

/// The error of the real tree that corresponds to ours. Several errors can apply to one operation
/// and the kernel checks in its own order, so only the unambiguous ones are compared.
fn comparable(op: &Op, kind: ErrorKind) -> Option<FsError> {
    match (op, kind) {
        (Op::Rmdir(_), ErrorKind::DirectoryNotEmpty) => Some(FsError::NotEmpty),
        (_, ErrorKind::AlreadyExists) => Some(FsError::Exists),
        _ => None,
    }
}

fn compare_trees(fs: &FileSystem, path: &str, real: &Path) {
    let mut expected: Vec<_> =
        fs::read_dir(real).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    expected.sort();
    let mut names = fs.list_path(path).unwrap();
    names.sort();
    let names: Vec<_> = names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    assert_eq!(names, expected.iter().map(|n| n.to_str().unwrap()).collect::<Vec<_>>());
    for name in &names {
        let path = format!("{path}/{name}");
        let real = real.join(name);
        let (_, attributes) = fs.find_path(&path).unwrap();
        let metadata = fs::symlink_metadata(&real).unwrap();
        if metadata.is_dir() {
            assert_eq!(attributes.kind, FileKind::Directory);
            compare_trees(fs, &path, &real);
        } else {
            assert_eq!(u64::from(attributes.nlink), metadata.nlink(), "{path}");
            assert_eq!(attributes.size, metadata.len(), "{path}");
        }
        if metadata.is_file() {
            assert!(fs.read_path(&path).unwrap() == fs::read(&real).unwrap(), "{path}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_a_real_tree(ops in vec(ops(), 1..60)) {
        let real = tempfile::tempdir().unwrap();
        let fs = FileSystem::new(StoreMode::Keep, 1 << 30, 1, FileTime(1));
        let empty_bytes = fs.memory_bytes();
        for op in &ops {
            let here = apply_here(&fs, op);
            let there = apply_there(real.path(), op);
            prop_assert_eq!(here.is_ok(), there.is_ok(), "{:?}: {:?} {:?}", op, here, there);
            if let Some(expected) = there.err().and_then(|error| comparable(op, error.kind())) {
                prop_assert_eq!(here, Err(expected), "{:?}", op);
            }
        }
        compare_trees(&fs, "", real.path());
        remove_all(&fs, fs.root());
        prop_assert_eq!(fs.memory_bytes(), empty_bytes);
    }
}

fn remove_all(fs: &FileSystem, directory: InodeId) {
    let listing = fs.list(directory, 2, &Caller::default(), |_| true).unwrap();
    for entry in listing.entries {
        if fs.attributes(entry.id).unwrap().kind == FileKind::Directory {
            remove_all(fs, entry.id);
            fs.remove_directory(directory, &entry.name, &Context::default()).unwrap();
        } else {
            fs.remove(directory, &entry.name, &Context::default()).unwrap();
        }
    }
}
