//! Decodes the reply to an operation's compound.
//!
//! The results are walked once: the outcome is the last result, or the handle, stateid and
//! attributes on the way. A reply that lacks a required one is malformed. **Source:** RFC 7530
//! section 16, RFC 8881 section 18, RFC 7862 section 15.

use super::super::super::event::Outcome;
use super::super::super::file::File;
use super::super::super::file_attributes::read_described;
use super::super::super::listing::{Entries, Listing};
use super::super::super::operation::OperationKind;
use super::super::{DecodedReply, Prefix, not_a};
use super::attributes;
use crate::error::DecodeError;
use crate::nfs4::{
    self, Attributes, CompoundReply, Fattr, FileHandle, List, OpOk, OpResult, Segment, Stateid,
};
use crate::version::ProtocolVersion;
use crate::xdr::Reader;

/// Size of a successful reply up to the payload of its READ, in v4.0 and without SEQUENCE: status,
/// empty tag and count, PUTFH, the READ's own words.
const READ_HEAD_BYTES: usize = 3 * 4 + 2 * 4 + 4 * 4;
const SEQUENCE_BYTES: usize = 2 * 4 + 16 + 5 * 4;

/// Looks for the payload in the results of a READ. Requests everything before it at once; a shorter
/// reply has no payload.
pub(in super::super) fn read_prefix(
    version: ProtocolVersion,
    mut reader: Reader<'_>,
) -> Result<Prefix, DecodeError> {
    // Request the whole head in one piece. A failed READ is shorter: its reply ends first, and is
    // decoded as a whole.
    let needed = READ_HEAD_BYTES + if version.has_sessions() { SEQUENCE_BYTES } else { 0 };
    if reader.remaining() < needed {
        return Err(DecodeError::Truncated { needed, left: reader.remaining() });
    }
    Ok(match nfs4::read_prefix(&mut reader)? {
        Some(head) => Prefix::Payload { len: head.len, eof: head.eof },
        None => Prefix::Other,
    })
}

/// The results found in a reply.
#[derive(Default)]
struct CompoundResults<'a> {
    stateid: Option<Stateid>,
    file: Option<FileHandle>,
    attributes: Option<Fattr<'a>>,
    last: Option<OpOk<'a>>,
}

impl<'a> CompoundResults<'a> {
    /// Walks the results of a compound that succeeded.
    fn from_reply(reply: &CompoundReply<'a>) -> Result<Self, DecodeError> {
        let mut found = Self::default();
        let mut results = reply.results();
        while let Some(result) = results.next_result()? {
            let OpResult::Ok(ok) = result else {
                return Err(not_a("a successful result"));
            };
            match ok {
                OpOk::Open { stateid, .. } | OpOk::OpenConfirm { stateid } => {
                    found.stateid = Some(stateid);
                }
                OpOk::Getfh { file } => found.file = Some(file),
                OpOk::Getattr { attributes } => found.attributes = Some(attributes),
                _ => {}
            }
            found.last = Some(ok);
        }
        results.finish()?;
        Ok(found)
    }

    fn found_attributes(&self) -> Result<Fattr<'a>, DecodeError> {
        self.attributes.ok_or_else(|| not_a("attributes"))
    }

    fn decode_values(&self) -> Result<Attributes<'a>, DecodeError> {
        self.found_attributes()?.decode_values()
    }

    fn object_outcome(&self, owner: u32, file: &mut Option<File>) -> Result<Outcome, DecodeError> {
        let handle = self.file.ok_or_else(|| not_a("a handle"))?;
        *file = Some(File { handle, stateid: self.stateid.unwrap_or_default(), owner });
        let attributes = Some(read_described(&self.found_attributes()?)?.attributes);
        Ok(Outcome::Object { attributes })
    }
}

/// Decodes the results of an operation, which must be all that is left; `owner` is that of an OPEN.
pub(in super::super) fn decode_outcome(
    kind: OperationKind,
    owner: u32,
    results: Reader<'_>,
    file: &mut Option<File>,
) -> DecodedReply {
    if kind == OperationKind::Null {
        results.finish()?;
        return Ok(Ok(Outcome::Done));
    }
    let reply = CompoundReply::decode(results)?;
    if reply.status != crate::Status::Ok {
        return Ok(Err(reply.status));
    }
    let found = CompoundResults::from_reply(&reply)?;
    Ok(Ok(match (kind, found.last) {
        (OperationKind::Lookup, Some(OpOk::Getattr { .. }))
        | (
            OperationKind::Mkdir | OperationKind::Symlink | OperationKind::Mknod,
            Some(OpOk::Getattr { .. }),
        ) => found.object_outcome(0, file)?,
        (OperationKind::Open | OperationKind::Create, Some(OpOk::Getattr { .. }))
            if found.stateid.is_some() =>
        {
            found.object_outcome(owner, file)?
        }
        (OperationKind::Getattr, Some(OpOk::Getattr { .. })) => {
            Outcome::Attributes(read_described(&found.found_attributes()?)?.attributes)
        }
        (OperationKind::Fsstat, Some(OpOk::Getattr { .. })) => {
            Outcome::Fsstat(attributes::fsstat_from(&found.decode_values()?))
        }
        (OperationKind::Fsinfo, Some(OpOk::Getattr { .. })) => {
            Outcome::Fsinfo(attributes::fsinfo_from(&found.decode_values()?))
        }
        (OperationKind::Pathconf, Some(OpOk::Getattr { .. })) => {
            Outcome::Pathconf(attributes::pathconf_from(&found.decode_values()?))
        }
        (kind, Some(last)) => plain_outcome(kind, &last).ok_or_else(|| not_a("the result"))?,
        (_, None) => return Err(not_a("a result")),
    }))
}

/// Returns the outcome if the last result is enough.
fn plain_outcome(kind: OperationKind, last: &OpOk<'_>) -> Option<Outcome> {
    Some(match (kind, last) {
        (OperationKind::Setattr, OpOk::Setattr { .. })
        | (OperationKind::Remove | OperationKind::Rmdir, OpOk::Remove { .. })
        | (OperationKind::Rename, OpOk::Rename { .. })
        | (OperationKind::Link, OpOk::Link { .. })
        | (OperationKind::Close, OpOk::Close { .. })
        | (OperationKind::Allocate, OpOk::Allocate)
        | (OperationKind::Deallocate, OpOk::Deallocate)
        | (OperationKind::Clone, OpOk::Clone)
        | (OperationKind::Setxattr, OpOk::Setxattr { .. })
        | (OperationKind::Removexattr, OpOk::Removexattr { .. }) => Outcome::Done,
        (OperationKind::Access, OpOk::Access { access, .. }) => Outcome::Access(*access),
        (OperationKind::Read, OpOk::Read { eof, data }) => {
            Outcome::Read { count: data.len() as u32, eof: *eof }
        }
        (OperationKind::Write, OpOk::Write { count, committed, verifier }) => {
            Outcome::Written { count: *count, committed: *committed, verifier: *verifier }
        }
        (OperationKind::Commit, OpOk::Commit { verifier }) => {
            Outcome::Committed { verifier: *verifier }
        }
        (OperationKind::Seek, OpOk::Seek { eof, offset }) => {
            Outcome::Found { offset: *offset, eof: *eof }
        }
        (OperationKind::Copy, OpOk::Copy { callback_id: None, count, committed, verifier, .. }) => {
            Outcome::Copied { count: *count, committed: *committed, verifier: *verifier }
        }
        (OperationKind::Copy, OpOk::Copy { callback_id: Some(stateid), verifier, .. }) => {
            Outcome::Copying { stateid: *stateid, verifier: *verifier }
        }
        (OperationKind::Readdir | OperationKind::ReaddirPlus, OpOk::Readdir { .. }) => {
            Outcome::Listing
        }
        (OperationKind::Readlink, OpOk::Readlink { .. }) => Outcome::Target,
        (OperationKind::ReadPlus, OpOk::ReadPlus { eof, .. }) => Outcome::Segments { eof: *eof },
        (OperationKind::Getxattr, OpOk::Getxattr { value }) => {
            Outcome::XattrValue { len: value.len() as u32 }
        }
        (OperationKind::Listxattrs, OpOk::Listxattrs { cookie, eof, .. }) => {
            Outcome::XattrNames { cookie: *cookie, eof: *eof }
        }
        _ => return None,
    })
}

fn last_result(body: &[u8]) -> Result<OpOk<'_>, DecodeError> {
    let reply = CompoundReply::decode(Reader::new(body))?;
    CompoundResults::from_reply(&reply)?.last.ok_or_else(|| not_a("a result"))
}

/// Decodes a page of a directory.
pub(in super::super) fn decode_listing(body: &[u8]) -> Result<Listing<'_>, DecodeError> {
    match last_result(body)? {
        OpOk::Readdir { verifier, entries, eof } => {
            Ok(Listing { verifier, eof, entries: Entries::V4(entries) })
        }
        _ => Err(not_a("listing")),
    }
}

/// Decodes the target of a symbolic link.
pub(in super::super) fn decode_target(body: &[u8]) -> Result<&[u8], DecodeError> {
    match last_result(body)? {
        OpOk::Readlink { target } => Ok(target),
        _ => Err(not_a("link target")),
    }
}

/// Decodes the segments of a READ_PLUS.
pub(in super::super) fn decode_segments(body: &[u8]) -> Result<List<'_, Segment<'_>>, DecodeError> {
    match last_result(body)? {
        OpOk::ReadPlus { segments, .. } => Ok(segments),
        _ => Err(not_a("data and holes")),
    }
}
