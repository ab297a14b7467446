//! NFS v3: the procedures that find, make, move and remove names.
//!
//! **Source:** RFC 1813 sections 3.3.3 and 3.3.8 to 3.3.15.

use nfs_proto::nfs3::{
    CreateHow, Created as WireCreated, MknodWhat, Object, Reply, Sattr, Status, WccData,
};

use super::Service;
use super::convert::{fattr, handle, set_attributes, wcc};
use crate::fs::{
    Change, Context, CreateMode, Created, FileKind, FsError, Named, NewObject, SetAttributes,
};

/// Outcome of what makes something: the directory's change and the object.
pub(super) type Made = (WccData, Result<WireCreated, Status>);

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) dir: &'a [u8],
    pub(super) name: &'a [u8],
}

impl Service {
    pub(super) fn remove(&self, dir: &[u8], name: &[u8], context: Context) -> Reply<'static> {
        let removed = self.id(dir).and_then(|id| self.shared.fs.remove(id, name, context.now));
        let (dir, result) = self.changed(dir, removed);
        Reply::Remove { dir, result }
    }

    pub(super) fn remove_directory(
        &self,
        dir: &[u8],
        name: &[u8],
        context: Context,
    ) -> Reply<'static> {
        let fs = &self.shared.fs;
        let removed = self.id(dir).and_then(|id| fs.remove_directory(id, name, context.now));
        let (dir, result) = self.changed(dir, removed);
        Reply::Rmdir { dir, result }
    }

    pub(super) fn lookup(&self, dir: &[u8], name: &[u8]) -> Reply<'static> {
        match self.id(dir).and_then(|id| self.shared.fs.lookup(id, name)) {
            Ok(found) => {
                let object = Object {
                    file: handle(&self.shared.fs, found.id),
                    attributes: Some(fattr(&found.attributes)),
                };
                Reply::Lookup { dir: Some(fattr(&found.directory)), result: Ok(object) }
            }
            Err(error) => {
                Reply::Lookup { dir: self.attributes_after(dir), result: Err(self.count(error)) }
            }
        }
    }

    pub(super) fn create(&self, dir: &[u8], name: &[u8], how: CreateHow, context: Context) -> Made {
        let (mode, set) = match how {
            CreateHow::Unchecked(sattr) => (CreateMode::Unchecked, set_attributes(&sattr)),
            CreateHow::Guarded(sattr) => (CreateMode::Guarded, set_attributes(&sattr)),
            CreateHow::Exclusive(verifier) => {
                (CreateMode::Exclusive(verifier.0), SetAttributes::default())
            }
        };
        let created =
            self.id(dir).and_then(|id| self.shared.fs.create(id, name, mode, &set, context));
        self.made(dir, created)
    }

    pub(super) fn make(
        &self,
        dir: &[u8],
        name: &[u8],
        object: NewObject<'_>,
        sattr: &Sattr,
        context: Context,
    ) -> Made {
        let set = set_attributes(sattr);
        let created =
            self.id(dir).and_then(|id| self.shared.fs.make(id, name, object, &set, context));
        self.made(dir, created)
    }

    fn made(&self, dir: &[u8], created: Result<Created, FsError>) -> Made {
        match created {
            Ok(created) => {
                let object = WireCreated {
                    file: Some(handle(&self.shared.fs, created.id)),
                    attributes: Some(fattr(&created.attributes)),
                };
                (wcc(&created.directory), Ok(object))
            }
            Err(error) => (self.wcc_after(dir), Err(self.count(error))),
        }
    }

    fn changed(
        &self,
        dir: &[u8],
        change: Result<Change, FsError>,
    ) -> (WccData, Result<(), Status>) {
        match change {
            Ok(change) => (wcc(&change), Ok(())),
            Err(error) => (self.wcc_after(dir), Err(self.count(error))),
        }
    }

    pub(super) fn rename(&self, from: Name<'_>, to: Name<'_>, context: Context) -> Reply<'static> {
        let renamed = self.id(from.dir).and_then(|from_id| {
            let to_id = self.id(to.dir)?;
            let (from, to) = (Named::new(from_id, from.name), Named::new(to_id, to.name));
            self.shared.fs.rename(from, to, context.now)
        });
        match renamed {
            Ok(renamed) => Reply::Rename {
                from_dir: wcc(&renamed.from),
                to_dir: wcc(&renamed.to),
                result: Ok(()),
            },
            Err(error) => Reply::Rename {
                from_dir: self.wcc_after(from.dir),
                to_dir: self.wcc_after(to.dir),
                result: Err(self.count(error)),
            },
        }
    }

    pub(super) fn link(&self, file: &[u8], to: Name<'_>, context: Context) -> Reply<'static> {
        let Name { dir, name } = to;
        let linked = self.id(file).and_then(|file_id| {
            let dir_id = self.id(dir)?;
            self.shared.fs.link(file_id, dir_id, name, context.now)
        });
        match linked {
            Ok((attributes, change)) => Reply::Link {
                attributes: Some(fattr(&attributes)),
                dir: wcc(&change),
                result: Ok(()),
            },
            Err(error) => Reply::Link {
                attributes: self.attributes_after(file),
                dir: self.wcc_after(dir),
                result: Err(self.count(error)),
            },
        }
    }
}

/// Returns the object that MKNOD asks for, and its attributes.
pub(super) fn node(what: &MknodWhat) -> (NewObject<'static>, Sattr) {
    let (kind, rdev, sattr) = match *what {
        MknodWhat::Character(sattr, device) => {
            (FileKind::CharacterDevice, (device.major, device.minor), sattr)
        }
        MknodWhat::Block(sattr, device) => {
            (FileKind::BlockDevice, (device.major, device.minor), sattr)
        }
        MknodWhat::Socket(sattr) => (FileKind::Socket, (0, 0), sattr),
        MknodWhat::Fifo(sattr) => (FileKind::Fifo, (0, 0), sattr),
        // Not to be made by MKNOD: the file system answers BADTYPE.
        MknodWhat::Other(_) => (FileKind::Regular, (0, 0), Sattr::default()),
    };
    (NewObject::Node(kind, rdev), sattr)
}
