//! NFS v3: the dispatch, and the procedures on one object by its handle.
//!
//! Each procedure returns a complete `Reply`, except READ, whose payload goes straight from the
//! store into the outbox. WRITE returns the requested stability: nothing here is more stable than
//! memory, and COMMIT has nothing to do, but the client's choice stays visible.
//!
//! **Source:** RFC 1813 sections 3.3.1 to 3.3.21.

use nfs_proto::nfs3::{
    Call, Fattr, Fsinfo, Fsstat, Pathconf, Reply, StableHow, Status, Time, WccData, WriteOk,
};
use nfs_proto::server::{encode_nfs3_reply, encode_read_reply_header};

use super::by_handle::Name;
use super::convert::{fattr, file_time, granted_access, set_attributes, wcc};
use super::listing::{Cursor, PlusCounts};
use super::names::requested_node;
use super::{Service, WriteOutcome};
use crate::fs::{
    Attributes, BLOCK_BYTES, Caller, Context, FILE_BYTES_MAX, FsError, LINKS_MAX, NAME_BYTES_MAX,
    NewObject, Permissions,
};
use crate::outbox::Outbox;

/// The bytes that a READ requests.
#[derive(Clone, Copy, Debug)]
struct Range {
    offset: u64,
    count: u32,
}

impl Service {
    /// Executes one call and appends its reply.
    pub(super) fn answer_nfs3(
        &mut self,
        call: &Call<'_>,
        context: &Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let reply = match *call {
            Call::Null => Reply::Null,
            Call::Getattr { file } => match self.attributes_of(file) {
                Ok(found) => Reply::Getattr { result: Ok(fattr(&found)) },
                Err(error) => Reply::Getattr { result: Err(self.count_error(error)) },
            },
            Call::Read { file, offset, count } => {
                let range = Range { offset, count };
                return self.read_v3(file, range, context, xid, out);
            }
            Call::Write { file, offset, stable, data } => {
                self.write_v3(file, offset, stable, data, context)
            }
            Call::Setattr { file, attributes, guard } => {
                let set = set_attributes(&attributes);
                let guard = guard.map(file_time);
                let changed = self.set_attributes_of(file, &set, guard, context);
                let (wcc, result) = self.changed_reply(file, changed);
                Reply::Setattr { wcc, result }
            }
            Call::Access { file, access } => self.access_v3(file, access, &context.caller),
            Call::Readdir { dir, cookie, verifier, count } => {
                let cursor = Cursor { cookie, verifier };
                return self.answer_listing(xid, out, |service, page| {
                    service.readdir_v3(dir, cursor, count, &context.caller, page)
                });
            }
            Call::Readdirplus { dir, cookie, verifier, dircount, maxcount } => {
                let cursor = Cursor { cookie, verifier };
                let counts = PlusCounts { dircount, maxcount };
                return self.answer_listing(xid, out, |service, page| {
                    service.readdirplus_v3(dir, cursor, counts, &context.caller, page)
                });
            }
            Call::Readlink { file } => return self.read_link_v3(file, xid, out),
            Call::Fsstat { root } => {
                let (attributes, result) = self.with_attributes(root, |_| self.space_info());
                Reply::Fsstat { attributes, result }
            }
            Call::Fsinfo { root } => {
                let (attributes, result) = self.with_attributes(root, |_| self.server_info());
                Reply::Fsinfo { attributes, result }
            }
            Call::Pathconf { file } => {
                let (attributes, result) = self.with_attributes(file, |_| self.path_limits());
                Reply::Pathconf { attributes, result }
            }
            Call::Commit { file, .. } => {
                let committed = self.inode_of(file).and_then(|id| self.commit_data(id));
                let result = committed.map_err(|error| self.count_error(error));
                Reply::Commit { wcc: self.wcc_after(file), result }
            }
            Call::Lookup { dir, name } => self.lookup_v3(Name { dir, name }, &context.caller),
            Call::Create { dir, name, how } => {
                let (dir, result) = self.create_v3(Name { dir, name }, how, context);
                Reply::Create { dir, result }
            }
            Call::Mkdir { dir, name, attributes } => {
                let at = Name { dir, name };
                let object = NewObject::Directory;
                let (dir, result) = self.make_v3(at, object, &attributes, context);
                Reply::Mkdir { dir, result }
            }
            Call::Symlink { dir, name, attributes, target } => {
                let at = Name { dir, name };
                let object = NewObject::Symlink(target);
                let (dir, result) = self.make_v3(at, object, &attributes, context);
                Reply::Symlink { dir, result }
            }
            Call::Mknod { dir, name, what } => {
                let (object, attributes) = requested_node(&what);
                let (dir, result) = self.make_v3(Name { dir, name }, object, &attributes, context);
                Reply::Mknod { dir, result }
            }
            Call::Remove { dir, name } => {
                let removed = self.remove_name(Name { dir, name }, context);
                let (dir, result) = self.changed_reply(dir, removed);
                Reply::Remove { dir, result }
            }
            Call::Rmdir { dir, name } => {
                let removed = self.remove_directory(Name { dir, name }, context);
                let (dir, result) = self.changed_reply(dir, removed);
                Reply::Rmdir { dir, result }
            }
            Call::Rename { from_dir, from, to_dir, to } => {
                let from = Name { dir: from_dir, name: from };
                self.rename_v3(from, Name { dir: to_dir, name: to }, context)
            }
            Call::Link { file, dir, name } => self.link_v3(file, Name { dir, name }, context),
        };
        encode_nfs3_reply(out.head(), xid, &reply);
    }

    /// Counts an error and returns its status.
    pub(super) fn count_error(&self, error: FsError) -> Status {
        let status = Status::from(error);
        self.counters.error(status);
        status
    }

    /// Attributes for the reply to a failed call, if available.
    pub(super) fn attributes_after(&self, file: &[u8]) -> Option<Fattr> {
        Some(fattr(&self.attributes_of(file).ok()?))
    }

    /// Same as `attributes_after`, for calls that would have changed something.
    pub(super) fn wcc_after(&self, file: &[u8]) -> WccData {
        WccData { before: None, after: self.attributes_after(file) }
    }

    /// Answers a call about any existing object, with its attributes.
    fn with_attributes<T>(
        &self,
        file: &[u8],
        answer: impl FnOnce(&Attributes) -> T,
    ) -> (Option<Fattr>, Result<T, Status>) {
        match self.attributes_of(file) {
            Ok(found) => (Some(fattr(&found)), Ok(answer(&found))),
            Err(error) => (None, Err(self.count_error(error))),
        }
    }

    fn read_v3(
        &mut self,
        file: &[u8],
        range: Range,
        context: &Context,
        xid: u32,
        out: &mut Outbox,
    ) {
        let Range { offset, count } = range;
        let count = self.granted_read(count);
        let found = self.inode_of(file).and_then(|id| {
            self.hold_slow_file(id);
            self.read_data(id, offset, count, context)
        });
        let (attributes, span) = match found {
            Ok(found) => found,
            Err(error) => {
                let attributes = self.attributes_after(file);
                let result = Err(self.count_error(error));
                return encode_nfs3_reply(out.head(), xid, &Reply::Read { attributes, result });
            }
        };
        let attributes = fattr(&attributes);
        let head = out.head();
        let pad = encode_read_reply_header(head, xid, Some(&attributes), span.eof, span.count);
        self.push_payload(span.count, pad, out);
    }

    /// Moves the pieces gathered by a READ into its reply, and pads them: XDR opaque data is a
    /// multiple of four bytes (RFC 4506 section 4.10).
    pub(super) fn push_payload(&mut self, count: u32, pad: usize, out: &mut Outbox) {
        for piece in self.pieces.drain(..) {
            out.push(piece);
        }
        out.head().extend_from_slice(&[0; 3][..pad]);
        self.counters.payload_read_bytes.add(u64::from(count));
    }

    fn write_v3(
        &mut self,
        file: &[u8],
        offset: u64,
        stable: StableHow,
        data: &[u8],
        context: &Context,
    ) -> Reply<'static> {
        let written = match self.inode_of(file) {
            Ok(id) => {
                self.recall(id).and_then(|()| self.write_data(id, offset, data, stable, context))
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(WriteOutcome { change, count, verifier }) => {
                let committed = self.claimed_stability(stable);
                let ok = WriteOk { count, committed, verifier };
                Reply::Write { wcc: wcc(&change), result: Ok(ok) }
            }
            Err(error) => {
                Reply::Write { wcc: self.wcc_after(file), result: Err(self.count_error(error)) }
            }
        }
    }

    fn access_v3(&self, file: &[u8], requested: u32, caller: &Caller) -> Reply<'static> {
        let (attributes, result) =
            self.with_attributes(file, |found| granted_access(requested, found, caller));
        Reply::Access { attributes, result }
    }

    fn read_link_v3(&self, file: &[u8], xid: u32, out: &mut Outbox) {
        // The target is shared with the store, so it has to live until the reply is encoded.
        let found = self.inode_of(file).and_then(|id| self.shared.fs.read_link(id));
        let reply = match &found {
            Ok((attributes, target)) => {
                Reply::Readlink { attributes: Some(fattr(attributes)), result: Ok(target) }
            }
            Err(error) => Reply::Readlink {
                attributes: self.attributes_after(file),
                result: Err(self.count_error(*error)),
            },
        };
        encode_nfs3_reply(out.head(), xid, &reply);
    }

    fn space_info(&self) -> Fsstat {
        let space = self.space();
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

    fn server_info(&self) -> Fsinfo {
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

    fn path_limits(&self) -> Pathconf {
        Pathconf {
            links_max: LINKS_MAX,
            name_bytes_max: NAME_BYTES_MAX as u32,
            no_truncation: true,
            chown_restricted: self.restricts_chown(),
            case_insensitive: false,
            case_preserving: true,
        }
    }

    /// Whether only user 0 may change the owner of files.
    pub(super) fn restricts_chown(&self) -> bool {
        self.shared.permissions == Permissions::Enforced
    }
}

/// Suggested multiple of transfer sizes: a page. **Source:** the Linux server also returns 4096.
const READ_MULTIPLE_BYTES: u32 = 4096;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(READ_MULTIPLE_BYTES as usize));
