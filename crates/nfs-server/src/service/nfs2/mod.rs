//! NFS v2: the dispatch, and the procedures on one object by its handle.
//!
//! The file system is that of the other versions; what this one can't say is refused: a file of 2
//! GiB or more is NFSERR_FBIG wherever its size or offsets would have to be told. Every WRITE is
//! answered whole, for the protocol knows no short one.
//!
//! **Source:** RFC 1094 section 2.2; choices of the Linux server where the RFC is open.

mod convert;
mod listing;
mod names;

use nfs_proto::Status;
use nfs_proto::limits::V2_TRANSFER_BYTES_MAX;
use nfs_proto::nfs2::{Call, FILE_BYTES_MAX, Fattr, FileHandle, Reply, Sattr, Statfs};
use nfs_proto::nfs3;
use nfs_proto::server::{encode_nfs2_read_reply_header, encode_reply};

use self::convert::{attributes, handle_bytes, status};
use self::names::Name;
use super::Service;
use super::convert::set_attributes;
use crate::fs::{Context, FsError, InodeId};
use crate::outbox::Outbox;

/// Longest target of a symbolic link, in bytes. **Source:** RFC 1094 section 2.3, MAXPATHLEN.
const PATH_BYTES_MAX: usize = 1024;
/// The unit in which STATFS counts, in bytes; any number will do.
const STATFS_BLOCK_BYTES: u32 = 4096;

impl Service {
    /// Carries out one call and appends its reply.
    pub(super) fn answer_nfs2(
        &mut self,
        call: &Call<'_>,
        context: Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let reply = match *call {
            Call::Null => Reply::Null,
            Call::Root => Reply::Root,
            Call::Writecache => Reply::Writecache,
            Call::Getattr { file } => {
                Reply::Getattr(self.counted(self.attributes2(file).map(|(_, found)| found)))
            }
            Call::Setattr { file, attributes } => {
                Reply::Setattr(self.counted(self.set_attributes2(file, &attributes, context)))
            }
            Call::Read { file, offset, count } => {
                return self.read2(file, offset, count, xid, out);
            }
            Call::Write { file, offset, data } => {
                Reply::Write(self.counted(self.write2(file, offset, data)))
            }
            Call::Readlink { file } => return self.read_link2(file, xid, out),
            Call::Readdir { dir, cookie, count } => {
                return self.readdir2(dir, cookie, count, xid, out);
            }
            Call::Statfs { file } => Reply::Statfs(self.counted(self.statfs2(file))),
            Call::Lookup { dir, name } => Reply::Lookup(self.counted(self.lookup2(dir, name))),
            Call::Create { dir, name, attributes } => {
                Reply::Create(self.counted(self.create2(dir, name, &attributes, context)))
            }
            Call::Mkdir { dir, name, attributes } => {
                Reply::Mkdir(self.counted(self.make_directory2(dir, name, &attributes, context)))
            }
            Call::Symlink { dir, name, target, attributes } => {
                let made = self.symlink2(dir, name, target, &attributes, context);
                Reply::Symlink(self.counted(made))
            }
            Call::Remove { dir, name } => {
                Reply::Remove(self.counted(self.remove2(dir, name, context)))
            }
            Call::Rmdir { dir, name } => {
                Reply::Rmdir(self.counted(self.remove_directory2(dir, name, context)))
            }
            Call::Rename { from_dir, from, to_dir, to } => {
                let (from, to) =
                    (Name { dir: from_dir, name: from }, Name { dir: to_dir, name: to });
                Reply::Rename(self.counted(self.rename2(from, to, context)))
            }
            Call::Link { file, dir, name } => {
                Reply::Link(self.counted(self.link2(file, Name { dir, name }, context)))
            }
        };
        encode_reply(out.head(), xid, &nfs_proto::program::Reply::Nfs2(reply));
    }

    /// Counts a failure, if it is one.
    pub(super) fn counted<T>(&self, result: Result<T, Status>) -> Result<T, Status> {
        result.inspect_err(|status| self.counters.error(*status))
    }

    /// The inode that a handle names.
    pub(super) fn id2(&self, file: FileHandle) -> Result<InodeId, Status> {
        let bytes = handle_bytes(&file).ok_or(FsError::BadHandle);
        bytes.and_then(|bytes| self.shared.fs.inode_id(bytes)).map_err(status)
    }

    /// The inode that a handle names, and its attributes.
    fn attributes2(&self, file: FileHandle) -> Result<(InodeId, Fattr), Status> {
        let id = self.id2(file)?;
        let found = self.shared.fs.attributes(id).map_err(status)?;
        Ok((id, attributes(&found)?))
    }

    fn set_attributes2(
        &self,
        file: FileHandle,
        sattr: &Sattr,
        context: Context,
    ) -> Result<Fattr, Status> {
        check_size(sattr)?;
        let id = self.id2(file)?;
        if sattr.size.is_none() {
            // What can't be told afterwards is not done; cutting a file that is too large is.
            attributes(&self.shared.fs.attributes(id).map_err(status)?)?;
        }
        let set = set_attributes(&nfs3::Sattr::from(sattr));
        let changed = self.shared.fs.set_attributes(id, &set, None, context.now);
        attributes(&changed.map_err(status)?.after)
    }

    fn read2(&mut self, file: FileHandle, offset: u32, count: u32, xid: u32, out: &mut Outbox) {
        let count = count.min(V2_TRANSFER_BYTES_MAX).min(self.granted.read_bytes_max);
        let found = self.id2(file).and_then(|id| {
            let (found, span) = self
                .shared
                .fs
                .read(id, offset.into(), count, self.now, &mut self.pieces)
                .map_err(status)?;
            Ok((attributes(&found)?, span))
        });
        let (attributes, span) = match self.counted(found) {
            Ok(found) => found,
            Err(status) => {
                self.pieces.clear();
                let reply = nfs_proto::program::Reply::Nfs2(Reply::Read(Err(status)));
                return encode_reply(out.head(), xid, &reply);
            }
        };
        let pad = encode_nfs2_read_reply_header(out.head(), xid, &attributes, span.count);
        self.pieces.drain(..).for_each(|piece| out.push(piece));
        out.head().extend_from_slice(&[0; 3][..pad]);
        self.counters.payload_read_bytes.add(u64::from(span.count));
    }

    /// WRITE, past `write_data`: there is no short reply for what was granted or planned, and all
    /// data is stable.
    fn write2(&self, file: FileHandle, offset: u32, data: &[u8]) -> Result<Fattr, Status> {
        let end = u64::from(offset) + data.len() as u64;
        if end > u64::from(FILE_BYTES_MAX) {
            return Err(Status::FBig);
        }
        let (id, _) = self.attributes2(file)?;
        let written = self.shared.fs.write(id, offset.into(), data, self.now);
        let (change, count) = written.map_err(status)?;
        self.counters.payload_written_bytes.add(count as u64);
        if count < data.len() {
            return Err(Status::NoSpc);
        }
        attributes(&change.after)
    }

    fn read_link2(&self, file: FileHandle, xid: u32, out: &mut Outbox) {
        let found = self.id2(file).and_then(|id| self.shared.fs.read_link(id).map_err(status));
        let found = found.and_then(|(_, target)| match target.len() {
            0..=PATH_BYTES_MAX => Ok(target),
            _ => Err(Status::NameTooLong),
        });
        let found = self.counted(found);
        let reply = Reply::Readlink(found.as_deref().map_err(|status| *status));
        encode_reply(out.head(), xid, &nfs_proto::program::Reply::Nfs2(reply));
    }

    fn statfs2(&self, file: FileHandle) -> Result<Statfs, Status> {
        let id = self.id2(file)?;
        self.shared.fs.attributes(id).map_err(status)?;
        let space = self.shared.fs.space();
        let blocks =
            |bytes: u64| u32::try_from(bytes / u64::from(STATFS_BLOCK_BYTES)).unwrap_or(u32::MAX);
        let granted = self.granted.read_bytes_max.min(self.granted.write_bytes_max);
        Ok(Statfs {
            transfer_bytes: granted.min(V2_TRANSFER_BYTES_MAX),
            block_bytes: STATFS_BLOCK_BYTES,
            blocks: blocks(space.total_bytes),
            free_blocks: blocks(space.free_bytes),
            available_blocks: blocks(space.free_bytes),
        })
    }
}

/// Refuses a size to set that no client of this version could address.
fn check_size(sattr: &Sattr) -> Result<(), Status> {
    if sattr.size.is_some_and(|size| size > FILE_BYTES_MAX) { Err(Status::FBig) } else { Ok(()) }
}
