//! The call for each op and stage, depending on the protocol version.
//!
//! If a version lacks a call, we do what its clients do instead. In v2, GETATTR replaces ACCESS and
//! COMMIT, READDIR replaces READDIRPLUS, and STATFS replaces FSINFO and PATHCONF. Files opened by
//! name are written with FILE_SYNC, as kernels do before a close. Nothing allocates once the
//! connection's slots have reached their size.

use model::{Op, OpError, OpKind};
use nfs_client::Connection;
use nfs_client::proto::client::{
    Cursor, Data, File, OpenAccess, Operation, OperationKind, PayloadRange,
};
use nfs_client::proto::nfs3::{CreateHow, Sattr, SetTime, access};
use nfs_client::proto::nfs4::XattrOption;
use nfs_client::proto::status::Status;
use nfs_client::proto::version::ProtocolVersion;
use workload::Name;
use workload::names::Sort;

use super::super::set::{PlusListing, WorkerState};
use super::{NotStarted, OpSlot, Opens, Stage, Transfer, Transfers, listing};
use crate::backend::files::{XATTR_NAME, XATTR_VALUE, there_and_back};
use crate::backend::posix::put_each;
use crate::limits::LISTING_BYTES;

impl Transfers {
    /// Starts one call of an op. Returns true if more calls of its stage have to be started.
    pub(super) fn start_next(
        &mut self,
        link: &mut Connection,
        now_ns: u64,
        slot: u32,
        tag: u32,
        common: &mut WorkerState,
    ) -> bool {
        let state = &mut self.ops[slot as usize];
        let OpSlot { op, stage, .. } = *state;
        state.calls += 1;
        let mut transfer = Transfer {
            op: Some(slot),
            kind: op.kind,
            stage,
            file: op.file,
            offset: 0,
            len: 0,
            reopens: 0,
        };
        if !stage.moves_data() {
            if op.kind.changes_range() || op.kind == OpKind::Seek || op.is_of_place() {
                transfer.offset = op.offset_bytes;
            }
            // A server may copy less than requested, so the rest is copied by further calls.
            if op.kind == OpKind::Copy {
                transfer.len = op.len_bytes;
            }
            self.table[tag as usize] = transfer;
            self.start_call(link, now_ns, tag, common);
            return false;
        }
        let step = if stage == Stage::Read { common.set.rsize } else { common.set.wsize };
        transfer.offset = op.offset_bytes + u64::from(state.started_bytes);
        transfer.len = step.min(op.len_bytes - state.started_bytes);
        state.started_bytes += transfer.len;
        let has_more = state.started_bytes < op.len_bytes;
        self.table[tag as usize] = transfer;
        self.start_call(link, now_ns, tag, common);
        // An op that has failed starts no further calls; it may just have completed.
        has_more && self.ops[slot as usize].error.is_none()
    }

    /// Starts the call of a transfer. If there is no free slot, it is continued when there is one.
    /// If the call is impossible, the transfer completes with the error.
    pub(super) fn start_call(
        &mut self,
        link: &mut Connection,
        now_ns: u64,
        tag: u32,
        common: &mut WorkerState,
    ) {
        let started = if self.table[tag as usize].stage.moves_data() {
            self.start_transfer(link, now_ns, tag, common)
        } else {
            self.start_action(link, now_ns, tag, common)
        };
        match started {
            Ok(()) => {}
            Err(NotStarted::NoSlot) => self.continued.push(tag),
            Err(NotStarted::Failed(error)) => self.end_transfer(tag, Err(error), now_ns, common),
        }
    }

    /// Starts an op's call that transfers no data.
    fn start_action(
        &self,
        link: &mut Connection,
        now_ns: u64,
        tag: u32,
        common: &WorkerState,
    ) -> Result<(), NotStarted> {
        let Transfer { op, stage, .. } = self.table[tag as usize];
        let Some(slot) = op else { return Err(NO_HANDLE) };
        let state = &self.ops[slot as usize];
        if state.op.kind.changes_range() || state.op.kind == OpKind::Seek {
            return self.start_range(link, now_ns, tag, common);
        }
        let dir = directory_of(&state.op, common);
        let names = names_of(&state.op);
        let name = names.0.as_bytes();
        let other = names.1.as_bytes();
        let operation = match (stage, state.op.kind) {
            (_, kind) if kind.counts_entries() => {
                listing::call_of(state, &self.listings[slot as usize], common)
            }
            (Stage::Find, OpKind::ReadFile) => {
                Operation::Open { dir, name, access: OpenAccess::Read }
            }
            (Stage::Find, OpKind::Append) => {
                Operation::Open { dir, name, access: OpenAccess::Write }
            }
            (Stage::Find, _) => Operation::Lookup { dir, name },
            (Stage::Make, _) => {
                let attributes = Sattr::with_mode(common.set.file_mode());
                Operation::Create { dir, name, how: CreateHow::Guarded(attributes) }
            }
            (Stage::Close, _) => {
                let file = state.object.as_ref().ok_or(NO_HANDLE)?;
                Operation::Close { file }
            }
            _ => action_of(state, name, other, common)?,
        };
        link.start(now_ns, tag, &operation)?;
        common.calls.add(operation.kind());
        Ok(())
    }

    /// Starts a call that transfers a piece of data.
    fn start_transfer(
        &self,
        link: &mut Connection,
        now_ns: u64,
        tag: u32,
        common: &mut WorkerState,
    ) -> Result<(), NotStarted> {
        let Transfer { op, kind, stage, file: number, offset, len, .. } = self.table[tag as usize];
        // A rewrite doesn't belong to an op, so its file is one of the set.
        let object = match op {
            Some(slot) => self.ops[slot as usize].object,
            None => None,
        };
        let by_name = object.is_some();
        let file = match object {
            Some(object) => object,
            // An open's stateid is only valid for the client that made it. Use the anonymous
            // stateid instead (RFC 8881, 8.2.3).
            None if self.opens == Opens::OfAnother => File::from(common.file(number).handle),
            None => *common.file(number),
        };
        let file = &file;
        if stage == Stage::Read {
            let operation = match kind {
                OpKind::ReadPlus => Operation::ReadPlus { file, offset, count: len },
                _ => Operation::Read { file, offset, count: len },
            };
            link.start(now_ns, tag, &operation)?;
            common.calls.add(operation.kind());
            return Ok(());
        }
        let stable = common.set.stability_of(kind, by_name);
        let mut scratch = std::mem::take(&mut common.scratch);
        let data = payload_of(common, &mut scratch, kind, number, offset, len);
        let operation = Operation::Write { file, offset, stable, data };
        let started = link.start(now_ns, tag, &operation);
        common.scratch = scratch;
        // Count it only after it was sent, since a call without a slot is started again later.
        started?;
        common.calls.add(OperationKind::Write);
        Ok(())
    }
}

/// The server returned no handle although one is needed.
const NO_HANDLE: NotStarted = NotStarted::Failed(OpError(Status::BadHandle.number()));

/// Returns the payload of a WRITE: part of the pool, unless it has to be assembled.
pub(in super::super) fn payload_of<'a>(
    common: &WorkerState,
    scratch: &'a mut [u8],
    kind: OpKind,
    number: u32,
    offset: u64,
    len: u32,
) -> Data<'a> {
    let pattern = &common.set.pattern;
    let range = pattern.range(number, offset, len);
    if !pattern.is_copied() && kind != OpKind::PutChars {
        return Data::Pool(PayloadRange { start: range.start, len });
    }
    let data = &mut scratch[..len as usize];
    if kind == OpKind::PutChars {
        put_each(pattern, number, offset, data);
    } else {
        pattern.fill(data, number, offset);
    }
    Data::Bytes(data)
}

/// Returns the object that an op works on, whether found or already known.
fn object<'a>(state: &'a OpSlot, common: &'a WorkerState) -> &'a File {
    match &state.object {
        Some(found) => found,
        None => common.written_file(state.op.file),
    }
}

/// Returns the directory that contains the object of an op.
fn directory_of<'a>(op: &Op, common: &'a WorkerState) -> &'a File {
    if op.is_of_place() { common.parent_of(op.file) } else { common.place(op.file) }
}

/// Returns the names of an op: its object, and the new name or target.
fn names_of(op: &Op) -> (Name, Name) {
    if op.is_of_place() {
        let name = Name::new(Sort::Place, op.file);
        return (name, name);
    }
    let (from, to) = match op.kind {
        OpKind::Rename => there_and_back(op, Sort::File, Sort::OtherFile),
        OpKind::RenameDir => there_and_back(op, Sort::Directory, Sort::OtherDirectory),
        OpKind::Mkdir | OpKind::StatDir | OpKind::Rmdir => (Sort::Directory, Sort::Directory),
        OpKind::LookupMissing => (Sort::Missing, Sort::Missing),
        // A link points to the file with the same number.
        OpKind::Symlink | OpKind::Unlink | OpKind::Readlink => (Sort::Link, Sort::File),
        OpKind::Link => {
            let second = Name::new(Sort::SecondName, op.offset_bytes as u32);
            return (Name::file(op.file), second);
        }
        _ => (Sort::File, Sort::File),
    };
    (Name::new(from, op.file), Name::new(to, op.file))
}

/// Returns the call of an op that consists of only one.
fn action_of<'a>(
    state: &'a OpSlot,
    name: &'a [u8],
    other: &'a [u8],
    common: &'a WorkerState,
) -> Result<Operation<'a>, NotStarted> {
    let op = &state.op;
    let dir = directory_of(op, common);
    Ok(match op.kind {
        OpKind::Null => Operation::Null,
        OpKind::Stat | OpKind::StatDir | OpKind::Lookup | OpKind::LookupMissing => {
            Operation::Lookup { dir, name }
        }
        OpKind::Remove | OpKind::Unlink => Operation::Remove { dir, name },
        OpKind::Rmdir => Operation::Rmdir { dir, name },
        OpKind::Mkdir => Operation::Mkdir { dir, name, attributes: made_directory(common) },
        OpKind::Rename | OpKind::RenameDir => {
            Operation::Rename { from_dir: dir, from: name, to_dir: dir, to: other }
        }
        OpKind::Symlink => {
            Operation::Symlink { dir, name, attributes: Sattr::with_mode(0o777), target: other }
        }
        OpKind::Link => Operation::Link { file: object(state, common), dir, name: other },
        OpKind::Readlink => {
            let link = match &state.object {
                Some(found) => Some(found),
                None => common.link(op.file),
            };
            Operation::Readlink { file: link.ok_or(NO_HANDLE)? }
        }
        _ => query_of(state, common),
    })
}

/// Returns the attributes of a new directory.
fn made_directory(common: &WorkerState) -> Sattr {
    Sattr::with_mode(if common.set.is_open_to_all() { 0o777 } else { 0o755 })
}

/// Returns the call of an op that queries, changes attributes or commits.
fn query_of<'a>(state: &'a OpSlot, common: &'a WorkerState) -> Operation<'a> {
    let op = &state.op;
    let is_old = common.set.version == ProtocolVersion::V2;
    let root = &common.set.directory;
    let bytes = LISTING_BYTES as u32;
    let cursor = Cursor::default();
    match op.kind {
        OpKind::Readdir => Operation::Readdir { dir: common.listed(op.file), cursor, bytes },
        OpKind::ReaddirPlus if common.set.plus_listing == PlusListing::Readdir => {
            Operation::Readdir { dir: common.listed(op.file), cursor, bytes }
        }
        OpKind::ReaddirPlus => {
            Operation::ReaddirPlus { dir: common.listed(op.file), cursor, bytes }
        }
        OpKind::Fsinfo if !is_old => Operation::Fsinfo { root },
        OpKind::Pathconf if !is_old => Operation::Pathconf { file: root },
        OpKind::Fsstat | OpKind::Fsinfo | OpKind::Pathconf => Operation::Fsstat { root },
        OpKind::Setattr => {
            // Only the owner may set the mode, but any user with write permission may set the
            // current time.
            let attributes = if common.set.is_open_to_all() {
                Sattr { mtime: SetTime::Server, ..Sattr::default() }
            } else {
                Sattr::with_mode(common.set.file_mode())
            };
            Operation::Setattr { file: object(state, common), attributes }
        }
        OpKind::Access if !is_old => Operation::Access {
            file: object(state, common),
            access: access::READ | access::MODIFY | access::EXTEND,
        },
        OpKind::SetXattr => {
            let option = XattrOption::Either;
            let name = XATTR_NAME;
            let file = object(state, common);
            Operation::Setxattr { file, option, name, value: &XATTR_VALUE }
        }
        OpKind::GetXattr => Operation::Getxattr { file: object(state, common), name: XATTR_NAME },
        OpKind::Sync | OpKind::Commit if !is_old => {
            Operation::Commit { file: object(state, common), offset: 0, count: 0 }
        }
        _ => Operation::Getattr { file: object(state, common) },
    }
}
