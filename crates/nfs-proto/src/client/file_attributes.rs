//! Converts v4 attributes of a file to the vocabulary of all versions.
//!
//! [`DecodedAttributes`] is decoded in one pass over the values, without a complete
//! [`crate::nfs4::Attributes`]: LOOKUP, GETATTR and every entry of a listing use it. Owners that
//! are not numbers become the anonymous id of AUTH_SYS; anything a server does not return is 0.
//! **Source:** RFC 7530 section 5.

use super::event::Attributes;
use crate::error::DecodeError;
use crate::nfs3;
use crate::nfs4::{Device, Fattr, FileHandle, FileType, Time, Wire, attribute, owner_number};
use crate::xdr::Reader;

/// User and group id for owners without a number.
const UNKNOWN_ID: u32 = 65_534;

/// The attributes decoded for a file or a directory entry.
pub(super) struct DecodedAttributes {
    pub(super) attributes: Attributes,
    /// Whether there are attributes beyond the id.
    pub(super) is_whole: bool,
    pub(super) handle: Option<FileHandle>,
}

/// Decodes the attributes of a file, and its handle if there is one.
pub(super) fn read_described(fattr: &Fattr<'_>) -> Result<DecodedAttributes, DecodeError> {
    let mut handle = None;
    let mut attributes = NOTHING;
    fattr.visit(|number, reader| {
        let to = &mut attributes;
        match number {
            attribute::TYPE => to.file_type = Wire::decode(reader)?,
            attribute::SIZE => to.size = reader.u64()?,
            attribute::FSID => to.fsid = reader.u64()? ^ reader.u64()?,
            attribute::FILEHANDLE => handle = Some(Wire::decode(reader)?),
            attribute::FILEID => to.fileid = reader.u64()?,
            attribute::MODE => to.mode = reader.u32()?,
            attribute::NUMLINKS => to.nlink = reader.u32()?,
            attribute::OWNER => to.uid = read_owner_number(reader)?,
            attribute::OWNER_GROUP => to.gid = read_owner_number(reader)?,
            attribute::RAWDEV => to.device = Wire::decode(reader)?,
            attribute::SPACE_USED => to.used = reader.u64()?,
            attribute::TIME_ACCESS => to.atime = Time::decode(reader)?.into(),
            attribute::TIME_METADATA => to.ctime = Time::decode(reader)?.into(),
            attribute::TIME_MODIFY => to.mtime = Time::decode(reader)?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let is_whole = fattr.mask().contains(attribute::TYPE);
    Ok(DecodedAttributes { attributes, is_whole, handle })
}

/// Attributes of a file if the server returned none.
const NOTHING: Attributes = Attributes {
    file_type: FileType::Regular,
    mode: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    size: 0,
    used: 0,
    device: Device { major: 0, minor: 0 },
    fsid: 0,
    fileid: 0,
    atime: nfs3::Time { seconds: 0, nanos: 0 },
    mtime: nfs3::Time { seconds: 0, nanos: 0 },
    ctime: nfs3::Time { seconds: 0, nanos: 0 },
};

fn read_owner_number(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let owner: &[u8] = Wire::decode(reader)?;
    Ok(owner_number(owner).unwrap_or(UNKNOWN_ID))
}
