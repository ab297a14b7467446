//! NFS v3: the dispatch, and the procedures on one object by its handle.
//!
//! Each procedure returns a whole `Reply`, except READ, whose payload goes straight from the store
//! into the outbox. WRITE is answered with the stability that was asked: nothing is more stable
//! than memory here, and COMMIT has nothing to do, but a client's choice is thus visible.
//!
//! **Source:** RFC 1813 sections 3.3.1 to 3.3.21.

use nfs_proto::nfs3::{
    Call, Fattr, Fsinfo, Fsstat, Pathconf, Reply, Sattr, StableHow, Status, Time, WccData, WriteOk,
    access,
};
use nfs_proto::server::{encode_nfs3_reply, encode_read_reply_header};

use super::convert::{fattr, file_time, set_attributes, status, wcc};
use super::listing::{Cursor, PlusCounts};
use super::names::{Name, node};
use super::{Service, Written};
use crate::fs::{
    BLOCK_BYTES, Context, FILE_BYTES_MAX, FileKind, FsError, InodeId, LINKS_MAX, NAME_BYTES_MAX,
    NewObject,
};
use crate::outbox::Outbox;

/// Rights a directory can grant; files never grant LOOKUP or DELETE, directories never EXECUTE.
const ACCESS_DIRECTORY: u32 =
    access::READ | access::LOOKUP | access::MODIFY | access::EXTEND | access::DELETE;
const ACCESS_OTHER: u32 = access::READ | access::MODIFY | access::EXTEND | access::EXECUTE;

impl Service {
    /// Carries out one call and appends its reply.
    pub(super) fn answer_nfs3(
        &mut self,
        call: &Call<'_>,
        context: Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let reply = match *call {
            Call::Null => Reply::Null,
            Call::Getattr { file } => {
                let result = self.id(file).and_then(|id| self.shared.fs.attributes(id));
                Reply::Getattr { result: self.result(result.map(|found| fattr(&found))) }
            }
            Call::Read { file, offset, count } => {
                return self.read(file, offset, count, xid, out);
            }
            Call::Write { file, offset, stable, data } => self.write(file, offset, stable, data),
            Call::Setattr { file, attributes, guard } => {
                self.set_attributes(file, &attributes, guard, context)
            }
            Call::Access { file, access } => self.access(file, access),
            Call::Readdir { dir, cookie, verifier, count } => {
                let cursor = Cursor { cookie, verifier };
                return self.answer_listing(xid, out, |service, page| {
                    service.readdir(dir, cursor, count, page)
                });
            }
            Call::Readdirplus { dir, cookie, verifier, dircount, maxcount } => {
                let cursor = Cursor { cookie, verifier };
                return self.answer_listing(xid, out, |service, page| {
                    service.readdirplus(dir, cursor, PlusCounts { dircount, maxcount }, page)
                });
            }
            Call::Readlink { file } => return self.read_link(file, xid, out),
            Call::Fsstat { root } => {
                let (attributes, result) = self.about(root, |service, _| service.fsstat());
                Reply::Fsstat { attributes, result }
            }
            Call::Fsinfo { root } => {
                let (attributes, result) = self.about(root, |service, _| service.fsinfo());
                Reply::Fsinfo { attributes, result }
            }
            Call::Pathconf { file } => {
                let (attributes, result) = self.about(file, |_, _| pathconf());
                Reply::Pathconf { attributes, result }
            }
            Call::Commit { file, .. } => {
                let committed = self.id(file).and_then(|id| self.commit_data(id));
                let wcc = self.wcc_after(file);
                Reply::Commit { wcc, result: self.result(committed) }
            }
            Call::Lookup { dir, name } => self.lookup(dir, name),
            Call::Create { dir, name, how } => {
                let (dir, result) = self.create(dir, name, how, context);
                Reply::Create { dir, result }
            }
            Call::Mkdir { dir, name, attributes } => {
                let (dir, result) =
                    self.make(dir, name, NewObject::Directory, &attributes, context);
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
            Call::Remove { dir, name } => self.remove(dir, name, context),
            Call::Rmdir { dir, name } => self.remove_directory(dir, name, context),
            Call::Rename { from_dir, from, to_dir, to } => {
                let from = Name { dir: from_dir, name: from };
                self.rename(from, Name { dir: to_dir, name: to }, context)
            }
            Call::Link { file, dir, name } => self.link(file, Name { dir, name }, context),
        };
        encode_nfs3_reply(out.head(), xid, &reply);
    }

    fn set_attributes(
        &self,
        file: &[u8],
        attributes: &Sattr,
        guard: Option<Time>,
        context: Context,
    ) -> Reply<'static> {
        let set = set_attributes(attributes);
        let guard = guard.map(file_time);
        let changed = self
            .id(file)
            .and_then(|id| self.shared.fs.set_attributes(id, &set, guard, context.now));
        match changed {
            Ok(change) => Reply::Setattr { wcc: wcc(&change), result: Ok(()) },
            Err(error) => {
                Reply::Setattr { wcc: self.wcc_after(file), result: Err(self.count(error)) }
            }
        }
    }

    /// Counts a failure and gives its status.
    pub(super) fn count(&self, error: FsError) -> Status {
        let status = status(error);
        self.counters.error(status);
        status
    }

    /// Counts a failure, if it is one.
    pub(super) fn result<T>(&self, result: Result<T, FsError>) -> Result<T, Status> {
        result.map_err(|error| self.count(error))
    }

    /// The inode that a handle names.
    pub(super) fn id(&self, file: &[u8]) -> Result<InodeId, FsError> {
        self.shared.fs.inode_id(file)
    }

    /// Attributes for the reply to a failed call, where there are any.
    pub(super) fn attributes_after(&self, file: &[u8]) -> Option<Fattr> {
        let found = self.id(file).and_then(|id| self.shared.fs.attributes(id));
        found.ok().map(|attributes| fattr(&attributes))
    }

    /// Returns attributes as `attributes_after` does, for calls that would have changed something.
    pub(super) fn wcc_after(&self, file: &[u8]) -> WccData {
        WccData { before: None, after: self.attributes_after(file) }
    }

    /// Answers a call about any object that exists, with its attributes.
    fn about<T>(
        &self,
        file: &[u8],
        tell: impl FnOnce(&Self, FileKind) -> T,
    ) -> (Option<Fattr>, Result<T, Status>) {
        match self.id(file).and_then(|id| self.shared.fs.attributes(id)) {
            Ok(found) => (Some(fattr(&found)), Ok(tell(self, found.kind))),
            Err(error) => (None, Err(self.count(error))),
        }
    }

    fn read(&mut self, file: &[u8], offset: u64, count: u32, xid: u32, out: &mut Outbox) {
        let count = count.min(self.granted.read_bytes_max);
        let found = self
            .id(file)
            .and_then(|id| self.shared.fs.read(id, offset, count, self.now, &mut self.pieces));
        let (attributes, span) = match found {
            Ok(found) => found,
            Err(error) => {
                let attributes = self.attributes_after(file);
                let result = Err(self.count(error));
                return encode_nfs3_reply(out.head(), xid, &Reply::Read { attributes, result });
            }
        };
        let attributes = fattr(&attributes);
        let head = out.head();
        let pad = encode_read_reply_header(head, xid, Some(&attributes), span.eof, span.count);
        self.pieces.drain(..).for_each(|piece| out.push(piece));
        out.head().extend_from_slice(&[0; 3][..pad]);
        self.counters.payload_read_bytes.add(u64::from(span.count));
    }

    fn write(
        &mut self,
        file: &[u8],
        offset: u64,
        stable: StableHow,
        data: &[u8],
    ) -> Reply<'static> {
        let unstable = stable == StableHow::Unstable;
        let written = self.id(file).and_then(|id| self.write_data(id, offset, data, unstable));
        match written {
            Ok(Written { change, count, verifier }) => {
                let committed = self.claimed_stability(stable);
                let ok = WriteOk { count, committed, verifier };
                Reply::Write { wcc: wcc(&change), result: Ok(ok) }
            }
            Err(error) => {
                Reply::Write { wcc: self.wcc_after(file), result: Err(self.count(error)) }
            }
        }
    }

    fn access(&self, file: &[u8], asked: u32) -> Reply<'static> {
        let (attributes, result) = self.about(file, |_, kind| match kind {
            FileKind::Directory => asked & ACCESS_DIRECTORY,
            _ => asked & ACCESS_OTHER,
        });
        Reply::Access { attributes, result }
    }

    fn read_link(&self, file: &[u8], xid: u32, out: &mut Outbox) {
        match self.id(file).and_then(|id| self.shared.fs.read_link(id)) {
            Ok((attributes, target)) => {
                let (attributes, result) = (Some(fattr(&attributes)), Ok(&*target));
                encode_nfs3_reply(out.head(), xid, &Reply::Readlink { attributes, result });
            }
            Err(error) => {
                let attributes = self.attributes_after(file);
                let result = Err(self.count(error));
                encode_nfs3_reply(out.head(), xid, &Reply::Readlink { attributes, result });
            }
        }
    }

    fn fsstat(&self) -> Fsstat {
        let space = self.shared.fs.space();
        Fsstat {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            available_bytes: space.free_bytes,
            total_files: space.total_files,
            free_files: space.free_files,
            available_files: space.free_files,
            invariant_seconds: 0,
        }
    }

    fn fsinfo(&self) -> Fsinfo {
        Fsinfo {
            read_bytes_max: self.granted.read_bytes_max,
            read_bytes_preferred: self.granted.read_bytes_max,
            read_bytes_multiple: READ_MULTIPLE_BYTES,
            write_bytes_max: self.granted.write_bytes_max,
            write_bytes_preferred: self.granted.write_bytes_max,
            write_bytes_multiple: READ_MULTIPLE_BYTES,
            directory_bytes_preferred: self.granted.directory_bytes_preferred,
            file_bytes_max: FILE_BYTES_MAX,
            time_delta: Time { seconds: 0, nanos: 1 },
            properties: Fsinfo::LINK | Fsinfo::SYMLINK | Fsinfo::HOMOGENEOUS | Fsinfo::CAN_SET_TIME,
        }
    }
}

/// Suggested multiple of transfer sizes: a page. **Source:** the Linux server says 4096 too.
const READ_MULTIPLE_BYTES: u32 = 4096;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(READ_MULTIPLE_BYTES as usize));

fn pathconf() -> Pathconf {
    Pathconf {
        links_max: LINKS_MAX,
        name_bytes_max: NAME_BYTES_MAX as u32,
        no_truncation: true,
        chown_restricted: false,
        case_insensitive: false,
        case_preserving: true,
    }
}
