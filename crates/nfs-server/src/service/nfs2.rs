//! NFS v2: the dispatch, and the procedures on one object by its handle.
//!
//! The file system is the same as for the other versions; anything v2 cannot express is refused:
//! for a file of 2 GiB or more we return NFSERR_FBIG wherever its size or offsets would have to be
//! encoded. Every WRITE is all or nothing, since v2 has no short writes.
//!
//! **Source:** RFC 1094 section 2.2; where the RFC is silent, we follow the Linux server.

mod convert;
mod listing;
mod names;

use nfs_proto::Status;
use nfs_proto::limits::V2_TRANSFER_BYTES_MAX;
use nfs_proto::nfs2::{Call, FILE_BYTES_MAX, Fattr, FileHandle, Reply, Sattr, Statfs};
use nfs_proto::nfs3;
use nfs_proto::server::{encode_nfs2_read_reply_header, encode_reply};

use self::convert::{handle_bytes, v2_status, wire_attributes};
use self::listing::PageRequest;
use super::Service;
use super::by_handle::Name;
use super::convert::set_attributes;
use crate::fs::{Attributes, Context, NewObject};
use crate::outbox::Outbox;

/// Longest target of a symbolic link, in bytes. **Source:** RFC 1094 section 2.3, MAXPATHLEN.
const PATH_BYTES_MAX: usize = 1024;
/// The block size of STATFS, in bytes; any number will do.
const STATFS_BLOCK_BYTES: u32 = 4096;

/// The bytes that a READ requests.
#[derive(Clone, Copy, Debug)]
struct Range {
    offset: u32,
    count: u32,
}

impl Service {
    /// Executes one call and appends its reply.
    pub(super) fn answer_nfs2(
        &mut self,
        call: &Call<'_>,
        context: &Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let reply = match *call {
            Call::Null => Reply::Null,
            Call::Root => Reply::Root,
            Call::Writecache => Reply::Writecache,
            Call::Getattr { file } => Reply::Getattr(self.counted_v2(self.attributes_v2(&file))),
            Call::Setattr { file, attributes } => {
                Reply::Setattr(self.counted_v2(self.setattr_v2(&file, &attributes, context)))
            }
            Call::Read { file, offset, count } => {
                let range = Range { offset, count };
                return self.read_v2(&file, range, context, xid, out);
            }
            Call::Write { file, offset, data } => {
                let written = self.write_v2(&file, offset, data, context);
                Reply::Write(self.counted_v2(written))
            }
            Call::Readlink { file } => return self.read_link_v2(&file, xid, out),
            Call::Readdir { dir, cookie, count } => {
                let page = PageRequest { cookie, count };
                return self.readdir_v2(&dir, page, &context.caller, xid, out);
            }
            Call::Statfs { file } => Reply::Statfs(self.counted_v2(self.statfs_v2(&file))),
            Call::Lookup { dir, name } => {
                Reply::Lookup(self.counted_v2(self.lookup_v2(name_in(&dir, name), &context.caller)))
            }
            Call::Create { dir, name, attributes } => {
                let made = self.create_v2(name_in(&dir, name), &attributes, context);
                Reply::Create(self.counted_v2(made))
            }
            Call::Mkdir { dir, name, attributes } => {
                let at = name_in(&dir, name);
                let object = NewObject::Directory;
                Reply::Mkdir(self.counted_v2(self.make_v2(at, object, &attributes, context)))
            }
            Call::Symlink { dir, name, target, attributes } => {
                let at = name_in(&dir, name);
                let object = NewObject::Symlink(target);
                Reply::Symlink(self.done_v2(self.make_v2(at, object, &attributes, context)))
            }
            Call::Remove { dir, name } => {
                Reply::Remove(self.done_v2(self.remove_name(name_in(&dir, name), context)))
            }
            Call::Rmdir { dir, name } => {
                Reply::Rmdir(self.done_v2(self.remove_directory(name_in(&dir, name), context)))
            }
            Call::Rename { from_dir, from, to_dir, to } => {
                let from = name_in(&from_dir, from);
                let to = name_in(&to_dir, to);
                Reply::Rename(self.done_v2(self.rename_name(from, to, context)))
            }
            Call::Link { file, dir, name } => {
                let linked = self.link_name(handle_bytes(&file), name_in(&dir, name), context);
                Reply::Link(self.done_v2(linked))
            }
        };
        encode_reply(out.head(), xid, &nfs_proto::program::Reply::Nfs2(reply));
    }

    /// Counts an error and converts it to the status that this version defines for it.
    fn counted_v2<T>(&self, result: Result<T, impl Into<Status>>) -> Result<T, Status> {
        result.map_err(|error| {
            let status = v2_status(error.into());
            self.counters.error(status);
            status
        })
    }

    /// Same as `counted_v2`, for replies that contain only the status.
    fn done_v2<T>(&self, result: Result<T, impl Into<Status>>) -> Result<(), Status> {
        self.counted_v2(result)?;
        Ok(())
    }

    fn attributes_v2(&self, file: &FileHandle) -> Result<Fattr, Status> {
        wire_attributes(&self.attributes_of(handle_bytes(file))?)
    }

    fn setattr_v2(
        &self,
        file: &FileHandle,
        sattr: &Sattr,
        context: &Context,
    ) -> Result<Fattr, Status> {
        check_size(sattr)?;
        if sattr.size.is_none() {
            // The reply carries the size. If this version can't encode it, the call would fail
            // after changing something, so it fails before. Setting a new size avoids the problem.
            self.attributes_v2(file)?;
        }
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        let changed = self.set_attributes_of(handle_bytes(file), &set, None, context)?;
        wire_attributes(&changed.after)
    }

    fn read_v2(
        &mut self,
        file: &FileHandle,
        range: Range,
        context: &Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let Range { offset, count } = range;
        let count = count.min(V2_TRANSFER_BYTES_MAX).min(self.granted.read_bytes_max);
        let found = self.gather_v2(file, Range { offset, count }, context);
        let (attributes, count) = match self.counted_v2(found) {
            Ok(found) => found,
            Err(status) => {
                self.pieces.clear();
                let reply = nfs_proto::program::Reply::Nfs2(Reply::Read(Err(status)));
                return encode_reply(out.head(), xid, &reply);
            }
        };
        let pad = encode_nfs2_read_reply_header(out.head(), xid, &attributes, count);
        self.push_payload(count, pad, out);
    }

    /// Gathers the pieces of a READ; returns the attributes of the file and the number of bytes.
    fn gather_v2(
        &mut self,
        file: &FileHandle,
        range: Range,
        context: &Context,
    ) -> Result<(Fattr, u32), Status> {
        let id = self.inode_of(handle_bytes(file))?;
        self.hold_slow_file(id);
        let read = self.read_data(id, range.offset.into(), range.count, context);
        let (found, span): (Attributes, _) = read?;
        Ok((wire_attributes(&found)?, span.count))
    }

    /// Executes WRITE; unlike `write_data`, there are no short replies, granted or planned, and all
    /// data is stable.
    fn write_v2(
        &mut self,
        file: &FileHandle,
        offset: u32,
        data: &[u8],
        context: &Context,
    ) -> Result<Fattr, Status> {
        let end = u64::from(offset) + data.len() as u64;
        if end > u64::from(FILE_BYTES_MAX) {
            return Err(Status::FBig);
        }
        self.attributes_v2(file)?;
        let id = self.inode_of(handle_bytes(file))?;
        self.recall(id)?;
        self.hold_slow_file(id);
        let elsewhere = self.write_to_data_servers(id, offset.into(), data, context)?;
        let (change, count) = match elsewhere {
            Some(written) => written,
            None => self.shared.fs.write(id, offset.into(), data, context)?,
        };
        self.counters.payload_written_bytes.add(count as u64);
        // A v2 client takes every success as a complete write, so a short one has to fail.
        if count < data.len() {
            return Err(Status::NoSpc);
        }
        wire_attributes(&change.after)
    }

    fn read_link_v2(&self, file: &FileHandle, xid: u32, out: &mut Outbox) {
        let found = self.inode_of(handle_bytes(file)).and_then(|id| self.shared.fs.read_link(id));
        let result = match &found {
            Ok((_, target)) if target.len() > PATH_BYTES_MAX => Err(Status::NameTooLong),
            Ok((_, target)) => Ok(&**target),
            Err(error) => Err(Status::from(*error)),
        };
        let reply = Reply::Readlink(self.counted_v2(result));
        encode_reply(out.head(), xid, &nfs_proto::program::Reply::Nfs2(reply));
    }

    fn statfs_v2(&self, file: &FileHandle) -> Result<Statfs, Status> {
        self.attributes_of(handle_bytes(file))?;
        let space = self.space();
        let granted = self.granted.read_bytes_max.min(self.granted.write_bytes_max);
        Ok(Statfs {
            transfer_bytes: granted.min(V2_TRANSFER_BYTES_MAX),
            block_bytes: STATFS_BLOCK_BYTES,
            blocks: whole_blocks(space.total_bytes),
            free_blocks: whole_blocks(space.free_bytes),
            available_blocks: whole_blocks(space.free_bytes),
        })
    }
}

fn name_in<'a>(dir: &'a FileHandle, name: &'a [u8]) -> Name<'a> {
    Name { dir: handle_bytes(dir), name }
}

/// Number of STATFS blocks in `bytes`; capped at 32 bits.
fn whole_blocks(bytes: u64) -> u32 {
    u32::try_from(bytes / u64::from(STATFS_BLOCK_BYTES)).unwrap_or(u32::MAX)
}

/// Refuses to set a size that no v2 client could address.
fn check_size(sattr: &Sattr) -> Result<(), Status> {
    if sattr.size.is_some_and(|size| size > FILE_BYTES_MAX) { Err(Status::FBig) } else { Ok(()) }
}
