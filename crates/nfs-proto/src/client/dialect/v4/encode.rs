//! Encodes an operation as a compound: first the handles, then the operation itself, then the
//! requested results.
//!
//! **Source:** RFC 7530 section 16, RFC 8881 section 18, RFC 7862 section 15, RFC 8276 section 8.4.

use super::super::super::file::File;
use super::super::super::operation::{Data, OpenAccess, Operation, OperationKind, SeekWhat};
use super::super::super::types::{StartError, WantedDelegation};
use super::attributes::{ENTRY, ENTRY_PLUS, FILE, FSINFO, FSSTAT, Owner, PATHCONF, to_set};
use super::owners::OWNER_BYTES;
use crate::nfs3::{CreateHow, MknodWhat, Sattr, Verifier};
use crate::nfs4::{
    Attributes, Bitmap, Claim, ClientId, CompoundBuilder, CreateKind, Fattr, FileHandle, List, Op,
    OpenHow, StateOwner, Stateid, content, encode_write_header, share,
};
use crate::version::ProtocolVersion;

/// Offset of the sequence number in OPEN and CLOSE, after the number of the operation.
const SEQID_AT: usize = 4;

/// A compound being written, with its context.
pub(super) struct Compound<'c> {
    pub(super) builder: CompoundBuilder<'c>,
    pub(super) version: ProtocolVersion,
    pub(super) wanted: WantedDelegation,
    pub(super) client: ClientId,
    pub(super) owner: [u8; OWNER_BYTES],
    /// The owner's sequence number; 0 if there are sessions.
    pub(super) seqid: u32,
    pub(super) scratch: &'c mut Vec<u8>,
}

impl Compound<'_> {
    fn push_putfh(&mut self, file: &File) {
        self.builder.push(&Op::Putfh { file: file.handle });
    }

    /// Makes the first file the saved one and the second the current one.
    fn push_saved_and_current(&mut self, saved: &File, current: &File) {
        self.push_putfh(saved);
        self.builder.push(&Op::Savefh);
        self.push_putfh(current);
    }

    /// Requests the handle and attributes of the current object.
    fn push_description(&mut self) {
        self.builder.push(&Op::Getfh);
        self.builder.push(&Op::Getattr { request: FILE });
    }

    /// Creates an object that is not a regular file.
    fn push_create(&mut self, dir: &File, name: &[u8], kind: CreateKind<'_>, attributes: &Sattr) {
        let owner = Owner::from_attributes(attributes);
        self.push_putfh(dir);
        let attributes = to_set(attributes, &owner).to_fattr(Attributes::UNDERSTOOD, self.scratch);
        self.builder.push(&Op::Create { kind, name, attributes });
        self.push_description();
    }

    /// Opens the claimed or current file, and returns the offset of the sequence number.
    fn push_open(
        &mut self,
        current: &File,
        claim: Claim<'_>,
        access: u32,
        how: OpenHow<'_>,
    ) -> usize {
        self.push_putfh(current);
        let seqid_at = self.builder.position() + SEQID_AT;
        // A delegation has to be returned when the server recalls it. Unless one is wanted, v4.1
        // and later can decline it; before that, the callback address is invalid, and no server
        // grants one. A write delegation is never wanted: data is written to the server at once.
        let want = match self.wanted {
            _ if !self.version.has_sessions() => 0,
            WantedDelegation::Read if access == share::READ => share::WANT_READ_DELEGATION,
            _ => share::WANT_NO_DELEGATION,
        };
        self.builder.push(&Op::Open {
            seqid: self.seqid,
            share_access: access | want,
            share_deny: share::NONE,
            owner: StateOwner { client: self.client, owner: &self.owner },
            how,
            claim,
        });
        self.push_description();
        seqid_at
    }

    fn push_open_create(&mut self, dir: &File, name: &[u8], how: &CreateHow) -> usize {
        let mut scratch = std::mem::take(self.scratch);
        let seqid_at = match how {
            CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes) => {
                let owner = Owner::from_attributes(attributes);
                let attributes =
                    to_set(attributes, &owner).to_fattr(Attributes::UNDERSTOOD, &mut scratch);
                let how = match how {
                    CreateHow::Unchecked(_) => OpenHow::Unchecked(attributes),
                    _ => OpenHow::Guarded(attributes),
                };
                self.push_open(dir, Claim::Name(name), share::BOTH, how)
            }
            CreateHow::Exclusive(verifier) => {
                // EXCLUSIVE4 stores its verifier in the file's times, and a SETATTR has to repair
                // them. EXCLUSIVE4_1 has attributes of its own and needs none: RFC 8881 section
                // 18.16.3.
                let how = if self.version.has_sessions() {
                    OpenHow::ExclusiveWith(*verifier, Fattr::default())
                } else {
                    OpenHow::Exclusive(*verifier)
                };
                self.push_open(dir, Claim::Name(name), share::BOTH, how)
            }
        };
        *self.scratch = scratch;
        seqid_at
    }
}

/// Refuses operations that the minor version lacks.
pub(super) fn check_supported(
    version: ProtocolVersion,
    operation: &Operation<'_>,
) -> Result<(), StartError> {
    let kind = operation.kind();
    let needs_session = matches!(operation, Operation::OpenHandle { .. });
    if has_operation(version, kind) && (version.has_sessions() || !needs_session) {
        Ok(())
    } else {
        Err(StartError::Unsupported { kind, version })
    }
}

/// Returns true if the minor version has an operation.
pub(in super::super) fn has_operation(version: ProtocolVersion, kind: OperationKind) -> bool {
    let minor = version.minor().unwrap_or_default();
    kind.nfs4_operation().is_none_or(|operation| operation.is_in_minor(minor))
}

/// Appends an operation, up to an external payload, and returns the offset of an owner's sequence
/// number if there is one.
pub(super) fn encode_operation(
    compound: &mut Compound<'_>,
    operation: &Operation<'_>,
) -> Option<usize> {
    match *operation {
        Operation::Open { dir, name, access } => {
            let claim = Claim::Name(name);
            let access = access_bits(access);
            return Some(compound.push_open(dir, claim, access, OpenHow::NoCreate));
        }
        Operation::OpenHandle { file, access } => {
            let claim = Claim::Current;
            let access = access_bits(access);
            return Some(compound.push_open(file, claim, access, OpenHow::NoCreate));
        }
        Operation::Create { dir, name, ref how } => {
            return Some(compound.push_open_create(dir, name, how));
        }
        Operation::Close { file } => {
            compound.push_putfh(file);
            let seqid_at = compound.builder.position() + SEQID_AT;
            compound.builder.push(&Op::Close { seqid: compound.seqid, stateid: file.stateid });
            return Some(seqid_at);
        }
        Operation::Copy { from, from_offset, to, to_offset, len, synchronous } => {
            compound.push_saved_and_current(from, to);
            compound.builder.push(&Op::Copy {
                source: from.stateid,
                destination: to.stateid,
                source_offset: from_offset,
                destination_offset: to_offset,
                count: len,
                consecutive: true,
                synchronous,
                servers: List::default(),
            });
        }
        Operation::Clone { from, from_offset, to, to_offset, len } => {
            compound.push_saved_and_current(from, to);
            compound.builder.push(&Op::Clone {
                source: from.stateid,
                destination: to.stateid,
                source_offset: from_offset,
                destination_offset: to_offset,
                count: len,
            });
        }
        _ => encode_data_operation(compound, operation),
    }
    None
}

const fn access_bits(access: OpenAccess) -> u32 {
    match access {
        OpenAccess::Read => share::READ,
        OpenAccess::Write => share::WRITE,
        OpenAccess::Both => share::BOTH,
    }
}

/// Appends an operation on the data of a file, or passes it on.
fn encode_data_operation(compound: &mut Compound<'_>, operation: &Operation<'_>) {
    let (file, op) = match *operation {
        Operation::Write { file, offset, stable, data: Data::Pool(payload) } => {
            compound.push_putfh(file);
            return compound.builder.push_with(|writer| {
                encode_write_header(writer, &file.stateid, offset, stable, payload.len);
            });
        }
        Operation::Write { file, offset, stable, data: Data::Bytes(data) } => {
            (file, Op::Write { stateid: file.stateid, offset, stable, data })
        }
        Operation::Read { file, offset, count } => {
            (file, Op::Read { stateid: file.stateid, offset, count })
        }
        Operation::Commit { file, offset, count } => (file, Op::Commit { offset, count }),
        Operation::Allocate { file, offset, len } => {
            (file, Op::Allocate { stateid: file.stateid, offset, length: len })
        }
        Operation::Deallocate { file, offset, len } => {
            (file, Op::Deallocate { stateid: file.stateid, offset, length: len })
        }
        Operation::Seek { file, offset, what } => {
            let what = match what {
                SeekWhat::Data => content::DATA,
                SeekWhat::Hole => content::HOLE,
            };
            (file, Op::Seek { stateid: file.stateid, offset, what })
        }
        Operation::ReadPlus { file, offset, count } => {
            (file, Op::ReadPlus { stateid: file.stateid, offset, count })
        }
        _ => return encode_name_operation(compound, operation),
    };
    compound.push_putfh(file);
    compound.builder.push(&op);
}

/// Appends an operation on names or attributes, or passes it on.
fn encode_name_operation(compound: &mut Compound<'_>, operation: &Operation<'_>) {
    match *operation {
        Operation::Lookup { dir, name } => {
            compound.push_putfh(dir);
            compound.builder.push(&Op::Lookup { name });
            compound.push_description();
        }
        Operation::Setattr { file, ref attributes } => {
            let owner = Owner::from_attributes(attributes);
            let attributes =
                to_set(attributes, &owner).to_fattr(Attributes::UNDERSTOOD, compound.scratch);
            compound.builder.push(&Op::Putfh { file: file.handle });
            compound.builder.push(&Op::Setattr { stateid: file.stateid, attributes });
        }
        Operation::Mkdir { dir, name, ref attributes } => {
            compound.push_create(dir, name, CreateKind::Directory, attributes);
        }
        Operation::Symlink { dir, name, ref attributes, target } => {
            compound.push_create(dir, name, CreateKind::Symlink(target), attributes);
        }
        Operation::Mknod { dir, name, what } => {
            let (kind, attributes) = match what {
                MknodWhat::Character(attributes, device) => {
                    (CreateKind::Character(device), attributes)
                }
                MknodWhat::Block(attributes, device) => (CreateKind::Block(device), attributes),
                MknodWhat::Socket(attributes) => (CreateKind::Socket, attributes),
                MknodWhat::Fifo(attributes) => (CreateKind::Fifo, attributes),
                MknodWhat::Other(other) => (CreateKind::Other(other.number()), Sattr::default()),
            };
            compound.push_create(dir, name, kind, &attributes);
        }
        Operation::Remove { dir, name } | Operation::Rmdir { dir, name } => {
            compound.push_putfh(dir);
            compound.builder.push(&Op::Remove { name });
        }
        Operation::Rename { from_dir, from, to_dir, to } => {
            compound.push_saved_and_current(from_dir, to_dir);
            compound.builder.push(&Op::Rename { from, to });
        }
        Operation::Link { file, dir, name } => {
            compound.push_saved_and_current(file, dir);
            compound.builder.push(&Op::Link { name });
        }
        Operation::Setxattr { file, option, name, value } => {
            compound.push_putfh(file);
            compound.builder.push(&Op::Setxattr { option, name, value });
        }
        Operation::Removexattr { file, name } => {
            compound.push_putfh(file);
            compound.builder.push(&Op::Removexattr { name });
        }
        _ => encode_query(compound, operation),
    }
}

/// Appends an operation that changes nothing.
fn encode_query(compound: &mut Compound<'_>, operation: &Operation<'_>) {
    let (file, op) = match *operation {
        Operation::Getattr { file } => (file, Op::Getattr { request: FILE }),
        Operation::Access { file, access } => (file, Op::Access { access }),
        Operation::Readlink { file } => (file, Op::Readlink),
        Operation::Readdir { dir, cursor, bytes } => {
            (dir, readdir_op(cursor.cookie, cursor.verifier, bytes, ENTRY))
        }
        Operation::ReaddirPlus { dir, cursor, bytes } => {
            (dir, readdir_op(cursor.cookie, cursor.verifier, bytes, ENTRY_PLUS))
        }
        Operation::Getxattr { file, name } => (file, Op::Getxattr { name }),
        Operation::Listxattrs { file, cookie, bytes } => {
            (file, Op::Listxattrs { cookie, maxcount: bytes })
        }
        Operation::Fsstat { root } => (root, Op::Getattr { request: FSSTAT }),
        Operation::Fsinfo { root } => (root, Op::Getattr { request: FSINFO }),
        Operation::Pathconf { file } => (file, Op::Getattr { request: PATHCONF }),
        _ => unreachable!("{:?} is no operation of v4: a session refuses it", operation.kind()),
    };
    compound.push_putfh(file);
    compound.builder.push(&op);
}

fn readdir_op(cookie: u64, verifier: Verifier, bytes: u32, request: Bitmap) -> Op<'static> {
    Op::Readdir { cookie, verifier, dircount: bytes, maxcount: bytes, request }
}

/// Appends the compound that confirms an open of v4.0, and returns the offset of its sequence
/// number, which is not filled in. It requests the same results as the OPEN.
pub(super) fn encode_open_confirm(
    header: &mut Vec<u8>,
    file: FileHandle,
    stateid: Stateid,
) -> usize {
    let mut builder = CompoundBuilder::new(header, b"", 0);
    builder.push(&Op::Putfh { file });
    let seqid_at = builder.position() + 4 + Stateid::WIRE_BYTES;
    builder.push(&Op::OpenConfirm { stateid, seqid: 0 });
    builder.push(&Op::Getfh);
    builder.push(&Op::Getattr { request: FILE });
    builder.finish();
    seqid_at
}
