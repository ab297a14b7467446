//! Reads the results of every NFS v3 procedure. **Source:** RFC 1813 sections 3.3.0 to 3.3.21.
//!
//! All results have one shape: status, then attributes whatever the status, then on success the
//! rest. Only LOOKUP, CREATE and the like put their directory's attributes last.

use super::{
    Created, Entries, EntriesPlus, Fattr, FileHandle, Fsinfo, Fsstat, Listing, ListingPlus, Object,
    Pathconf, Procedure, ReadOk, Reply, StableHow, Status, Verifier, WccData, WriteOk,
};
use crate::error::DecodeError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::xdr::Reader;

type Decoded<T> = Result<T, DecodeError>;

impl<'a> Reply<'a> {
    /// Reads the results of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not as the RFC defines them.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Decoded<Self> {
        if procedure == Procedure::Null {
            reader.finish()?;
            return Ok(Self::Null);
        }
        let status = Status::from_number(reader.u32()?);
        let reply = match procedure {
            Procedure::Null
            | Procedure::Getattr
            | Procedure::Lookup
            | Procedure::Access
            | Procedure::Readlink
            | Procedure::Read => decode_query(procedure, status, &mut reader)?,
            Procedure::Readdir
            | Procedure::Readdirplus
            | Procedure::Fsstat
            | Procedure::Fsinfo
            | Procedure::Pathconf => decode_large(procedure, status, &mut reader)?,
            _ => decode_change(procedure, status, &mut reader)?,
        };
        reader.finish()?;
        Ok(reply)
    }
}

/// Reads `ok` where the status says that it is there.
fn when_ok<'a, T>(
    status: Status,
    reader: &mut Reader<'a>,
    ok: impl FnOnce(&mut Reader<'a>) -> Decoded<T>,
) -> Decoded<Result<T, Status>> {
    if status == Status::Ok { ok(reader).map(Ok) } else { Ok(Err(status)) }
}

fn decode_query<'a>(
    procedure: Procedure,
    status: Status,
    reader: &mut Reader<'a>,
) -> Decoded<Reply<'a>> {
    if procedure == Procedure::Getattr {
        return Ok(Reply::Getattr { result: when_ok(status, reader, Fattr::decode)? });
    }
    if procedure == Procedure::Lookup {
        let result = when_ok(status, reader, |reader| {
            let file = FileHandle::decode(reader)?;
            Ok(Object { file, attributes: Fattr::decode_optional(reader)? })
        })?;
        return Ok(Reply::Lookup { dir: Fattr::decode_optional(reader)?, result });
    }
    let attributes = Fattr::decode_optional(reader)?;
    Ok(match procedure {
        Procedure::Access => {
            Reply::Access { attributes, result: when_ok(status, reader, Reader::u32)? }
        }
        Procedure::Readlink => {
            let result = when_ok(status, reader, |reader| reader.opaque(u32::MAX))?;
            Reply::Readlink { attributes, result }
        }
        _ => Reply::Read { attributes, result: when_ok(status, reader, decode_read)? },
    })
}

fn decode_read<'a>(reader: &mut Reader<'a>) -> Decoded<ReadOk<'a>> {
    let count = reader.u32()?;
    let eof = reader.bool("eof")?;
    let data = reader.opaque(TRANSFER_BYTES_MAX)?;
    if count as usize != data.len() {
        return Err(DecodeError::BadValue { what: "count of a READ", value: count });
    }
    Ok(ReadOk { eof, data })
}

fn decode_large<'a>(
    procedure: Procedure,
    status: Status,
    reader: &mut Reader<'a>,
) -> Decoded<Reply<'a>> {
    let attributes = Fattr::decode_optional(reader)?;
    Ok(match procedure {
        Procedure::Readdir => {
            let result = when_ok(status, reader, |reader| {
                let verifier = Verifier::decode(reader)?;
                let entries = Entries::decode(reader)?;
                Ok(Listing { verifier, entries, eof: reader.bool("eof")? })
            })?;
            Reply::Readdir { dir: attributes, result }
        }
        Procedure::Readdirplus => {
            let result = when_ok(status, reader, |reader| {
                let verifier = Verifier::decode(reader)?;
                let entries = EntriesPlus::decode(reader)?;
                Ok(ListingPlus { verifier, entries, eof: reader.bool("eof")? })
            })?;
            Reply::Readdirplus { dir: attributes, result }
        }
        Procedure::Fsstat => {
            Reply::Fsstat { attributes, result: when_ok(status, reader, Fsstat::decode)? }
        }
        Procedure::Fsinfo => {
            Reply::Fsinfo { attributes, result: when_ok(status, reader, Fsinfo::decode)? }
        }
        _ => Reply::Pathconf { attributes, result: when_ok(status, reader, Pathconf::decode)? },
    })
}

fn decode_change<'a>(
    procedure: Procedure,
    status: Status,
    reader: &mut Reader<'a>,
) -> Decoded<Reply<'a>> {
    let done = if status == Status::Ok { Ok(()) } else { Err(status) };
    match procedure {
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            return decode_made(procedure, status, reader);
        }
        Procedure::Link => {
            let attributes = Fattr::decode_optional(reader)?;
            return Ok(Reply::Link { attributes, dir: WccData::decode(reader)?, result: done });
        }
        _ => {}
    }
    let wcc = WccData::decode(reader)?;
    Ok(match procedure {
        Procedure::Setattr => Reply::Setattr { wcc, result: done },
        Procedure::Remove => Reply::Remove { dir: wcc, result: done },
        Procedure::Rmdir => Reply::Rmdir { dir: wcc, result: done },
        Procedure::Rename => {
            Reply::Rename { from_dir: wcc, to_dir: WccData::decode(reader)?, result: done }
        }
        Procedure::Write => {
            let result = when_ok(status, reader, |reader| {
                let (count, committed) = (reader.u32()?, StableHow::decode(reader)?);
                Ok(WriteOk { count, committed, verifier: Verifier::decode(reader)? })
            })?;
            Reply::Write { wcc, result }
        }
        _ => Reply::Commit { wcc, result: when_ok(status, reader, Verifier::decode)? },
    })
}

fn decode_made<'a>(
    procedure: Procedure,
    status: Status,
    reader: &mut Reader<'a>,
) -> Decoded<Reply<'a>> {
    let result = when_ok(status, reader, |reader| {
        let handle = reader.bool("handle_follows")?;
        let file = handle.then(|| FileHandle::decode(reader)).transpose()?;
        Ok(Created { file, attributes: Fattr::decode_optional(reader)? })
    })?;
    let dir = WccData::decode(reader)?;
    Ok(match procedure {
        Procedure::Create => Reply::Create { dir, result },
        Procedure::Mkdir => Reply::Mkdir { dir, result },
        Procedure::Symlink => Reply::Symlink { dir, result },
        _ => Reply::Mknod { dir, result },
    })
}
