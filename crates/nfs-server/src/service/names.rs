//! NFS v3: the procedures that find, create, move and remove names.
//!
//! Each reply carries attributes of the directories from before and after, taken under one lock if
//! the call succeeded (weak cache consistency). After a failure only the current attributes are
//! sent: there was no change for a "before" to belong to.
//!
//! **Source:** RFC 1813 sections 2.6 (`wcc_data`), 3.3.3 and 3.3.8 to 3.3.15.

use nfs_proto::nfs3::{
    CreateHow, Created as WireCreated, MknodWhat, Object, Reply, Sattr, Status, WccData,
};

use super::Service;
use super::by_handle::Name;
use super::convert::{fattr, handle, set_attributes, wcc};
use crate::fs::{
    Caller, Change, Context, CreateMode, CreatedObject, FileKind, FsError, NewObject, SetAttributes,
};

/// Outcome of a procedure that creates an object: the directory's change and the object.
pub(super) type CreateOutcome = (WccData, Result<WireCreated, Status>);

impl Service {
    pub(super) fn lookup_v3(&self, at: Name<'_>, caller: &Caller) -> Reply<'static> {
        match self.find_name(at, caller) {
            Ok(found) => {
                let object = Object {
                    file: handle(&self.shared.fs, found.id),
                    attributes: Some(fattr(&found.attributes)),
                };
                Reply::Lookup { dir: Some(fattr(&found.directory)), result: Ok(object) }
            }
            Err(error) => Reply::Lookup {
                dir: self.attributes_after(at.dir),
                result: Err(self.count_error(error)),
            },
        }
    }

    pub(super) fn create_v3(
        &self,
        at: Name<'_>,
        how: CreateHow,
        context: &Context,
    ) -> CreateOutcome {
        let (mode, set) = match how {
            CreateHow::Unchecked(sattr) => (CreateMode::Unchecked, set_attributes(&sattr)),
            CreateHow::Guarded(sattr) => (CreateMode::Guarded, set_attributes(&sattr)),
            // An exclusive CREATE has no room for attributes: the verifier takes their place, and
            // the client sets them in the SETATTR that follows (RFC 1813 section 3.3.8).
            CreateHow::Exclusive(verifier) => {
                (CreateMode::Exclusive(verifier.0), SetAttributes::default())
            }
        };
        self.made_reply(at.dir, self.create_file(at, mode, &set, context))
    }

    pub(super) fn make_v3(
        &self,
        at: Name<'_>,
        object: NewObject<'_>,
        sattr: &Sattr,
        context: &Context,
    ) -> CreateOutcome {
        self.made_reply(at.dir, self.make_object(at, object, &set_attributes(sattr), context))
    }

    fn made_reply(&self, dir: &[u8], created: Result<CreatedObject, FsError>) -> CreateOutcome {
        match created {
            Ok(created) => {
                let object = WireCreated {
                    file: Some(handle(&self.shared.fs, created.id)),
                    attributes: Some(fattr(&created.attributes)),
                };
                (wcc(&created.directory), Ok(object))
            }
            Err(error) => (self.wcc_after(dir), Err(self.count_error(error))),
        }
    }

    /// Converts the change of one object to the parts of a reply; `file` is its handle.
    pub(super) fn changed_reply(
        &self,
        file: &[u8],
        change: Result<Change, FsError>,
    ) -> (WccData, Result<(), Status>) {
        match change {
            Ok(change) => (wcc(&change), Ok(())),
            Err(error) => (self.wcc_after(file), Err(self.count_error(error))),
        }
    }

    pub(super) fn rename_v3(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        context: &Context,
    ) -> Reply<'static> {
        match self.rename_name(from, to, context) {
            Ok(renamed) => Reply::Rename {
                from_dir: wcc(&renamed.from),
                to_dir: wcc(&renamed.to),
                result: Ok(()),
            },
            Err(error) => Reply::Rename {
                from_dir: self.wcc_after(from.dir),
                to_dir: self.wcc_after(to.dir),
                result: Err(self.count_error(error)),
            },
        }
    }

    pub(super) fn link_v3(&self, file: &[u8], to: Name<'_>, context: &Context) -> Reply<'static> {
        match self.link_name(file, to, context) {
            Ok((attributes, change)) => Reply::Link {
                attributes: Some(fattr(&attributes)),
                dir: wcc(&change),
                result: Ok(()),
            },
            Err(error) => Reply::Link {
                attributes: self.attributes_after(file),
                dir: self.wcc_after(to.dir),
                result: Err(self.count_error(error)),
            },
        }
    }
}

/// Returns the object that MKNOD requests, and its attributes.
pub(super) fn requested_node(what: &MknodWhat) -> (NewObject<'static>, Sattr) {
    let (kind, rdev, sattr) = match *what {
        MknodWhat::Character(sattr, device) => {
            (FileKind::CharacterDevice, (device.major, device.minor), sattr)
        }
        MknodWhat::Block(sattr, device) => {
            (FileKind::BlockDevice, (device.major, device.minor), sattr)
        }
        MknodWhat::Socket(sattr) => (FileKind::Socket, (0, 0), sattr),
        MknodWhat::Fifo(sattr) => (FileKind::Fifo, (0, 0), sattr),
        // Cannot be created with MKNOD: the file system returns BADTYPE.
        MknodWhat::Other(_) => (FileKind::Regular, (0, 0), Sattr::default()),
    };
    (NewObject::Node(kind, rdev), sattr)
}
