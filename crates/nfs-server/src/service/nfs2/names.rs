//! NFS v2: the procedures that find, make, move and remove names.
//!
//! CREATE makes special files too: the type stands in the mode, the device number in the size.
//!
//! **Source:** RFC 1094 sections 2.2.5 and 2.2.10 to 2.2.16; Linux fs/nfsd/nfsproc.c,
//! `nfsd_proc_create`, for special files.

use nfs_proto::Status;
use nfs_proto::nfs2::{FileHandle, Object, Sattr};
use nfs_proto::nfs3;

use super::check_size;
use super::convert::{attributes, handle, status};
use crate::fs::{Context, CreateMode, Created, FileKind, FsError, Named, NewObject, SetAttributes};
use crate::service::Service;
use crate::service::convert::set_attributes;

/// Bits of a mode that name the type of a file. **Source:** RFC 1094 section 2.3.5.
const TYPE_MASK: u32 = 0o170_000;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) dir: FileHandle,
    pub(super) name: &'a [u8],
}

impl Service {
    pub(super) fn make_directory2(
        &self,
        dir: FileHandle,
        name: &[u8],
        sattr: &Sattr,
        context: Context,
    ) -> Result<Object, Status> {
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        self.make2(dir, name, NewObject::Directory, &set, context)
    }

    pub(super) fn symlink2(
        &self,
        dir: FileHandle,
        name: &[u8],
        target: &[u8],
        sattr: &Sattr,
        context: Context,
    ) -> Result<(), Status> {
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        self.make2(dir, name, NewObject::Symlink(target), &set, context)?;
        Ok(())
    }

    pub(super) fn remove2(
        &self,
        dir: FileHandle,
        name: &[u8],
        context: Context,
    ) -> Result<(), Status> {
        self.in_directory(dir, |id| self.shared.fs.remove(id, name, context.now))?;
        Ok(())
    }

    pub(super) fn remove_directory2(
        &self,
        dir: FileHandle,
        name: &[u8],
        context: Context,
    ) -> Result<(), Status> {
        self.in_directory(dir, |id| self.shared.fs.remove_directory(id, name, context.now))?;
        Ok(())
    }

    pub(super) fn rename2(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        context: Context,
    ) -> Result<(), Status> {
        let to_id = self.id2(to.dir)?;
        self.in_directory(from.dir, |from_id| {
            let (from, to) = (Named::new(from_id, from.name), Named::new(to_id, to.name));
            self.shared.fs.rename(from, to, context.now)
        })?;
        Ok(())
    }

    pub(super) fn link2(
        &self,
        file: FileHandle,
        to: Name<'_>,
        context: Context,
    ) -> Result<(), Status> {
        let file_id = self.id2(file)?;
        self.in_directory(to.dir, |id| self.shared.fs.link(file_id, id, to.name, context.now))?;
        Ok(())
    }

    /// Does something in a directory.
    fn in_directory<T>(
        &self,
        dir: FileHandle,
        act: impl FnOnce(crate::fs::InodeId) -> Result<T, FsError>,
    ) -> Result<T, Status> {
        self.id2(dir).and_then(|id| act(id).map_err(status))
    }

    pub(super) fn lookup2(&self, dir: FileHandle, name: &[u8]) -> Result<Object, Status> {
        let found = self.in_directory(dir, |id| self.shared.fs.lookup(id, name))?;
        let file = handle(&self.shared.fs, found.id);
        Ok(Object { file, attributes: attributes(&found.attributes)? })
    }

    /// CREATE of a file, which is taken where it exists, or of a special file.
    pub(super) fn create2(
        &self,
        dir: FileHandle,
        name: &[u8],
        sattr: &Sattr,
        context: Context,
    ) -> Result<Object, Status> {
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        if let Some((kind, device)) = special(sattr) {
            let object = NewObject::Node(kind, device);
            let set = SetAttributes { size: None, ..set };
            return self.make2(dir, name, object, &set, context);
        }
        check_size(sattr)?;
        let mode = CreateMode::Unchecked;
        self.made2(
            self.in_directory(dir, |id| self.shared.fs.create(id, name, mode, &set, context))?,
        )
    }

    fn make2(
        &self,
        dir: FileHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
        context: Context,
    ) -> Result<Object, Status> {
        self.made2(
            self.in_directory(dir, |id| self.shared.fs.make(id, name, object, set, context))?,
        )
    }

    fn made2(&self, created: Created) -> Result<Object, Status> {
        let file = handle(&self.shared.fs, created.id);
        Ok(Object { file, attributes: attributes(&created.attributes)? })
    }
}

/// The special file that a CREATE asks for, with its device number, if it does.
fn special(sattr: &Sattr) -> Option<(FileKind, (u32, u32))> {
    let device = sattr.size.map_or((0, 0), |number| (number >> 8, number & 0xff));
    match sattr.mode? & TYPE_MASK {
        0o010_000 => Some((FileKind::Fifo, (0, 0))),
        // A character device without a number is how a pipe was written before.
        0o020_000 if sattr.size.is_none() => Some((FileKind::Fifo, (0, 0))),
        0o020_000 => Some((FileKind::CharacterDevice, device)),
        0o060_000 => Some((FileKind::BlockDevice, device)),
        0o140_000 => Some((FileKind::Socket, (0, 0))),
        _ => None,
    }
}
