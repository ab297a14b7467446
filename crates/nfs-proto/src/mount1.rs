//! MOUNT version 1: from the name of an export to the root handle for NFS v2.
//!
//! Its procedures, arguments and lists are those of [`crate::mount3`]; only the results of MNT
//! differ: a handle of 32 bytes, a UNIX error number, and no flavors. **Source:** RFC 1094 appendix
//! A.

use crate::error::DecodeError;
use crate::mount3::{self, Export, MountStatus, Mounted};
use crate::nfs2::FileHandle;
use crate::wire::Wire;
use crate::xdr::{Reader, Writer};

pub use crate::mount3::{Call, PROGRAM};

/// The version. **Source:** RFC 1094 appendix A.1.
pub const VERSION: u32 = 1;

/// A reply with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// The root handle.
    Mnt(Result<FileHandle, MountStatus>),
    /// Who has mounted what.
    Dump(&'a [Mounted<'a>]),
    /// The result of UMNT, which is empty.
    Umnt,
    /// The result of UMNTALL, which is empty.
    Umntall,
    /// Exports of the server.
    Export(&'a [Export<'a>]),
}

impl Reply<'_> {
    /// Decodes the results of MNT; for the lists see [`mount3::Reply`].
    ///
    /// # Errors
    /// [`DecodeError`] if the results do not conform to the RFC.
    pub fn decode_mnt(
        mut reader: Reader<'_>,
    ) -> Result<Result<FileHandle, MountStatus>, DecodeError> {
        // The status of version 1 is a UNIX error number; those that servers send have the numbers
        // of version 3. RFC 1094 appendix A.
        let result = match reader.u32()? {
            0 => Ok(FileHandle::decode(&mut reader)?),
            number => Err(MountStatus::from_number(number)),
        };
        reader.finish()?;
        Ok(result)
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match *self {
            Self::Null | Self::Umnt | Self::Umntall => {}
            Self::Mnt(Err(status)) => writer.u32(status.number()),
            Self::Mnt(Ok(root)) => {
                writer.u32(0);
                root.encode(writer);
            }
            Self::Dump(lines) => mount3::Reply::Dump(lines).encode(writer),
            Self::Export(exports) => mount3::Reply::Export(exports).encode(writer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(reply: &Reply<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        reply.encode(&mut Writer::new(&mut out));
        out
    }

    #[test]
    fn requires_root_of_32_bytes() {
        let root = FileHandle::from_slice(b"root").unwrap();
        let out = encoded(&Reply::Mnt(Ok(root)));
        assert_eq!(out.len(), 4 + 32);
        assert_eq!(out[..8], *b"\0\0\0\0root");
        assert_eq!(Reply::decode_mnt(Reader::new(&out)), Ok(Ok(root)));
        for len in 0..out.len() {
            assert!(Reply::decode_mnt(Reader::new(&out[..len])).is_err());
        }
    }

    #[test]
    fn a_refusal_is_an_error_number() {
        let out = encoded(&Reply::Mnt(Err(MountStatus::NoEnt)));
        assert_eq!(out, [0, 0, 0, 2]);
        assert_eq!(Reply::decode_mnt(Reader::new(&out)), Ok(Err(MountStatus::NoEnt)));
    }

    #[test]
    fn lists_are_those_of_version_3() {
        let lines = [Mounted { host: b"h", dir: b"/a" }];
        let mut out = Vec::new();
        mount3::Reply::Dump(&lines).encode(&mut Writer::new(&mut out));
        assert_eq!(encoded(&Reply::Dump(&lines)), out);
    }
}
