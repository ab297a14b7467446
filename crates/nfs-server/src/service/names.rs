//! NFS v3: the procedures that find, make, move and remove names.
//!
//! **Source:** RFC 1813 sections 3.3.3 and 3.3.8 to 3.3.15.

use nfs_proto::nfs3::{
    Call, CreateHow, Created as WireCreated, MknodWhat, Object, Reply, Sattr, Status, WccData,
};

use super::Service;
use super::convert::{fattr, handle, set_attributes, wcc};
use crate::fs::{
    Change, Context, CreateMode, Created, FileKind, FsError, NewObject, SetAttributes,
};

/// Outcome of what makes something: the directory's change and the object.
type Made = (WccData, Result<WireCreated, Status>);

impl Service {
    /// Carries out a call that names an entry of a directory.
    pub(super) fn answer_names(&self, call: &Call<'_>, context: Context) -> Reply<'static> {
        match *call {
            Call::Lookup { dir, name } => self.lookup(dir, name),
            Call::Create { dir, name, how } => {
                let (dir, result) = self.create(dir, name, how, context);
                Reply::Create { dir, result }
            }
            Call::Mkdir { dir, name, attributes } => {
                let object = NewObject::Directory;
                let (dir, result) = self.make(dir, name, object, &attributes, context);
                Reply::Mkdir { dir, result }
            }
            Call::Symlink { dir, name, attributes, target } => {
                let object = NewObject::Symlink(target);
                let (dir, result) = self.make(dir, name, object, &attributes, context);
                Reply::Symlink { dir, result }
            }
            Call::Mknod { dir, name, what } => {
                let (object, attributes) = node(&what);
                let (dir, result) = self.make(dir, name, object, &attributes, context);
                Reply::Mknod { dir, result }
            }
            Call::Remove { dir, name } => {
                let removed =
                    self.id(dir).and_then(|id| self.shared.fs.remove(id, name, context.now));
                let (dir, result) = self.changed(dir, removed);
                Reply::Remove { dir, result }
            }
            Call::Rmdir { dir, name } => {
                let fs = &self.shared.fs;
                let removed =
                    self.id(dir).and_then(|id| fs.remove_directory(id, name, context.now));
                let (dir, result) = self.changed(dir, removed);
                Reply::Rmdir { dir, result }
            }
            Call::Rename { from_dir, from, to_dir, to } => {
                self.rename((from_dir, from), (to_dir, to), context)
            }
            Call::Link { file, dir, name } => self.link(file, (dir, name), context),
            _ => unreachable!("answer_nfs3 handles {:?}", call.procedure()),
        }
    }

    fn lookup(&self, dir: &[u8], name: &[u8]) -> Reply<'static> {
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

    fn create(&self, dir: &[u8], name: &[u8], how: CreateHow, context: Context) -> Made {
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

    fn make(
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

    fn rename(&self, from: (&[u8], &[u8]), to: (&[u8], &[u8]), context: Context) -> Reply<'static> {
        let renamed = self.id(from.0).and_then(|from_id| {
            let to_id = self.id(to.0)?;
            self.shared.fs.rename((from_id, from.1), (to_id, to.1), context.now)
        });
        match renamed {
            Ok(renamed) => Reply::Rename {
                from_dir: wcc(&renamed.from),
                to_dir: wcc(&renamed.to),
                result: Ok(()),
            },
            Err(error) => Reply::Rename {
                from_dir: self.wcc_after(from.0),
                to_dir: self.wcc_after(to.0),
                result: Err(self.count(error)),
            },
        }
    }

    fn link(&self, file: &[u8], (dir, name): (&[u8], &[u8]), context: Context) -> Reply<'static> {
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

fn node(what: &MknodWhat) -> (NewObject<'static>, Sattr) {
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
