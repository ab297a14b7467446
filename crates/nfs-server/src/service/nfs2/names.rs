//! NFS v2: the procedures that find and create names.
//!
//! CREATE also creates special files: the type is in the mode, the device number in the size.
//!
//! **Source:** RFC 1094 sections 2.2.5 and 2.2.10 to 2.2.16; Linux fs/nfsd/nfsproc.c,
//! `nfsd_proc_create`, for special files.

use nfs_proto::Status;
use nfs_proto::nfs2::{Object, Sattr};
use nfs_proto::nfs3;

use super::check_size;
use super::convert::{handle, wire_attributes};
use crate::fs::{
    Attributes, Caller, Context, CreateMode, FileKind, InodeId, NewObject, SetAttributes,
};
use crate::service::Service;
use crate::service::by_handle::Name;
use crate::service::convert::set_attributes;

/// Bits of a mode that contain the type of a file. **Source:** RFC 1094 section 2.3.5.
const TYPE_MASK: u32 = 0o170_000;

impl Service {
    pub(super) fn lookup_v2(&self, at: Name<'_>, caller: &Caller) -> Result<Object, Status> {
        let found = self.find_name(at, caller)?;
        self.wire_object(found.id, &found.attributes)
    }

    /// CREATE of a regular file, which may already exist, or of a special file.
    pub(super) fn create_v2(
        &self,
        at: Name<'_>,
        sattr: &Sattr,
        context: &Context,
    ) -> Result<Object, Status> {
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        let created = if let Some(node) = requested_node(sattr) {
            // The size contained the device number.
            let set = SetAttributes { size: None, ..set };
            self.make_object(at, node, &set, context)?
        } else {
            check_size(sattr)?;
            self.create_file(at, CreateMode::Unchecked, &set, context)?
        };
        self.wire_object(created.id, &created.attributes)
    }

    pub(super) fn make_v2(
        &self,
        at: Name<'_>,
        object: NewObject<'_>,
        sattr: &Sattr,
        context: &Context,
    ) -> Result<Object, Status> {
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        let created = self.make_object(at, object, &set, context)?;
        self.wire_object(created.id, &created.attributes)
    }

    fn wire_object(&self, id: InodeId, found: &Attributes) -> Result<Object, Status> {
        Ok(Object { file: handle(&self.shared.fs, id), attributes: wire_attributes(found)? })
    }
}

/// Returns the special file that a CREATE requests, if any.
fn requested_node(sattr: &Sattr) -> Option<NewObject<'static>> {
    let device = sattr.size.map_or((0, 0), |number| (number >> 8, number & 0xff));
    let (kind, device) = match sattr.mode? & TYPE_MASK {
        0o010_000 => (FileKind::Fifo, (0, 0)),
        // Older clients request a pipe as a character device without a number.
        0o020_000 if sattr.size.is_none() => (FileKind::Fifo, (0, 0)),
        0o020_000 => (FileKind::CharacterDevice, device),
        0o060_000 => (FileKind::BlockDevice, device),
        0o140_000 => (FileKind::Socket, (0, 0)),
        _ => return None,
    };
    Some(NewObject::Node(kind, device))
}
