//! MOUNT version 3: from the name of an export to its root handle.
//!
//! [`Call`] and [`Reply`] cover all six procedures. The lists of DUMP and EXPORT are passed on
//! element by element when decoding and come from slices when encoding. **Source:** RFC 1813
//! section 5.

use crate::error::DecodeError;
use crate::limits::{
    FLAVORS_MAX, MOUNT_NAME_BYTES_MAX, MOUNT_PATH_BYTES_MAX, V3_FILE_HANDLE_BYTES_MAX,
};
use crate::nfs3::FileHandle;
use crate::portmap::{decode_each, encode_each};
use crate::wire::{Wire, numbered_calls, read_field, wire_struct};
use crate::xdr::{Reader, Writer};

/// The program number. **Source:** RFC 1813 section 5.1.
pub const PROGRAM: u32 = 100_005;
/// The version. **Source:** RFC 1813 section 5.1.
pub const VERSION: u32 = 3;

/// Why MNT failed. **Source:** RFC 1813 section 5.1.5, mountstat3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountStatus {
    /// Not the owner.
    Perm,
    /// No such export.
    NoEnt,
    /// A hard device error.
    Io,
    /// Permission denied.
    Access,
    /// Not a directory.
    NotDir,
    /// An argument is invalid.
    Inval,
    /// The path is too long.
    NameTooLong,
    /// The operation is not supported.
    NotSupp,
    /// The server failed.
    ServerFault,
    /// A number the RFC does not define, never 0.
    Other(u32),
}

impl MountStatus {
    const DEFINED: [(Self, u32, &'static str); 9] = [
        (Self::Perm, 1, "MNT3ERR_PERM"),
        (Self::NoEnt, 2, "MNT3ERR_NOENT"),
        (Self::Io, 5, "MNT3ERR_IO"),
        (Self::Access, 13, "MNT3ERR_ACCES"),
        (Self::NotDir, 20, "MNT3ERR_NOTDIR"),
        (Self::Inval, 22, "MNT3ERR_INVAL"),
        (Self::NameTooLong, 63, "MNT3ERR_NAMETOOLONG"),
        (Self::NotSupp, 10004, "MNT3ERR_NOTSUPP"),
        (Self::ServerFault, 10006, "MNT3ERR_SERVERFAULT"),
    ];

    /// Returns the status of a number other than 0.
    pub fn from_number(number: u32) -> Self {
        for (status, defined, _) in Self::DEFINED {
            if defined == number {
                return status;
            }
        }
        Self::Other(number)
    }

    /// Returns the number on the wire.
    pub fn number(self) -> u32 {
        if let Self::Other(number) = self { number } else { self.defined_row().1 }
    }

    /// Returns the name in the RFC.
    pub fn name(self) -> &'static str {
        self.defined_row().2
    }

    fn defined_row(self) -> (Self, u32, &'static str) {
        for row in Self::DEFINED {
            if row.0 == self {
                return row;
            }
        }
        (self, 0, "MNT3ERR_(unknown)")
    }
}

impl std::fmt::Display for MountStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

numbered_calls! {
    /// A call with its arguments.
    pub enum Call<'a> {
        /// Does nothing at all.
        0 => Null,
        /// Requests the root handle of an export.
        1 => Mnt(path: &'a [u8] where len <= MOUNT_PATH_BYTES_MAX),
        /// Queries who has mounted what.
        2 => Dump,
        /// Undoes one MNT.
        3 => Umnt(path: &'a [u8] where len <= MOUNT_PATH_BYTES_MAX),
        /// Undoes every MNT of this client.
        4 => Umntall,
        /// Requests the exports.
        5 => Export,
    }
}

/// Authentication flavors, at most [`FLAVORS_MAX`], stored inline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flavors {
    flavors: [u32; FLAVORS_MAX],
    len: u8,
}

impl Flavors {
    /// Takes the first [`FLAVORS_MAX`] of `flavors`.
    pub fn from_slice(flavors: &[u32]) -> Self {
        let mut kept = Self::default();
        for flavor in flavors {
            kept.push(*flavor);
        }
        kept
    }

    /// Returns the flavors.
    pub fn as_slice(&self) -> &[u32] {
        &self.flavors[..self.len as usize]
    }

    fn push(&mut self, flavor: u32) {
        if let Some(to) = self.flavors.get_mut(self.len as usize) {
            *to = flavor;
            self.len += 1;
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // A server may return any number of flavors, best first. Those beyond the limit are still
        // read, to find what follows them, and dropped.
        let mut kept = Self::default();
        for _ in 0..reader.u32()? {
            kept.push(reader.u32()?);
        }
        Ok(kept)
    }
}

/// The result of a successful MNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountOk {
    /// The handle of the export's root.
    pub root: FileHandle,
    /// The flavors that the server accepts.
    pub flavors: Flavors,
}

/// One export, as a server lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export<'a> {
    /// Path of the export.
    pub dir: &'a [u8],
    /// Who may mount it; empty means everyone.
    pub groups: &'a [&'a [u8]],
}

/// Iterates over the groups of one export as received; an empty list means everyone may mount it.
#[derive(Debug, Clone)]
pub struct ExportGroups<'a> {
    /// Positioned before the flag of the next group of a checked list.
    reader: Reader<'a>,
}

impl<'a> Iterator for ExportGroups<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.reader;
        let follows = self.reader.bool("group_follows").ok()?;
        if !follows {
            self.reader = rest;
            return None;
        }
        self.reader.opaque(MOUNT_NAME_BYTES_MAX).ok()
    }
}

wire_struct! {
    /// One line of DUMP: a host and the path it has mounted.
    pub struct Mounted<'a> {
        /// Name of the host.
        host: &'a [u8] where len <= MOUNT_NAME_BYTES_MAX,
        /// Path of the export.
        dir: &'a [u8] where len <= MOUNT_PATH_BYTES_MAX,
    }
}

/// A reply with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// The root handle.
    Mnt(Result<MountOk, MountStatus>),
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
    /// Decodes the results of MNT.
    ///
    /// # Errors
    /// [`DecodeError`] if the results do not conform to the RFC.
    pub fn decode_mnt(mut reader: Reader<'_>) -> Result<Result<MountOk, MountStatus>, DecodeError> {
        let status = reader.u32()?;
        if status != 0 {
            reader.finish()?;
            return Ok(Err(MountStatus::from_number(status)));
        }
        let root = read_field!(&mut reader, V3_FILE_HANDLE_BYTES_MAX as u32);
        let flavors = Flavors::decode(&mut reader)?;
        reader.finish()?;
        Ok(Ok(MountOk { root, flavors }))
    }

    /// Calls `each` with the path of every export in the results of EXPORT, and the groups that may
    /// mount it.
    ///
    /// # Errors
    /// [`DecodeError`] if the list is malformed; earlier elements have been passed on.
    pub fn decode_export<'a>(
        mut reader: Reader<'a>,
        mut each: impl FnMut(&'a [u8], ExportGroups<'a>),
    ) -> Result<(), DecodeError> {
        // A list of lists: the groups of an export are walked once to find the next export, and
        // again by `each` if it wants them.
        while reader.bool("export_follows")? {
            let dir = reader.opaque(MOUNT_PATH_BYTES_MAX)?;
            let groups = ExportGroups { reader };
            while reader.bool("group_follows")? {
                reader.opaque(MOUNT_NAME_BYTES_MAX)?;
            }
            each(dir, groups);
        }
        reader.finish()
    }

    /// Calls `each` with every line in the results of DUMP.
    ///
    /// # Errors
    /// [`DecodeError`] if the list is malformed; earlier elements have been passed on.
    pub fn decode_dump<'a>(
        reader: Reader<'a>,
        each: impl FnMut(Mounted<'a>),
    ) -> Result<(), DecodeError> {
        decode_each(reader, each)
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null | Self::Umnt | Self::Umntall => {}
            Self::Mnt(Err(status)) => writer.u32(status.number()),
            Self::Mnt(Ok(ok)) => {
                writer.u32(0);
                ok.root.encode(writer);
                writer.u32(ok.flavors.as_slice().len() as u32);
                for flavor in ok.flavors.as_slice() {
                    writer.u32(*flavor);
                }
            }
            Self::Dump(lines) => encode_each(lines, writer),
            Self::Export(exports) => {
                for export in *exports {
                    writer.bool(true);
                    writer.opaque(export.dir);
                    encode_each(export.groups, writer);
                }
                writer.bool(false);
            }
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
    fn calls_come_back() {
        let calls = [
            Call::Null,
            Call::Mnt(b"/a"),
            Call::Dump,
            Call::Umnt(b"/a"),
            Call::Umntall,
            Call::Export,
        ];
        for call in calls {
            let mut out = Vec::new();
            call.encode(&mut Writer::new(&mut out));
            assert_eq!(Call::decode(call.procedure(), Reader::new(&out)), Ok(Some(call)));
        }
        assert_eq!(Call::decode(6, Reader::new(&[])), Ok(None));
    }

    #[test]
    fn decodes_root_and_flavors() {
        let root = FileHandle::from_slice(b"root").unwrap();
        let ok = MountOk { root, flavors: Flavors::from_slice(&[1, 6]) };
        let out = encoded(&Reply::Mnt(Ok(ok)));
        assert_eq!(Reply::decode_mnt(Reader::new(&out)), Ok(Ok(ok)));
        let out = encoded(&Reply::Mnt(Err(MountStatus::Access)));
        assert_eq!(out, [0, 0, 0, 13]);
        assert_eq!(Reply::decode_mnt(Reader::new(&out)), Ok(Err(MountStatus::Access)));
        assert_eq!(MountStatus::from_number(99).number(), 99);
    }

    #[test]
    fn lists_come_back() {
        let exports = [
            Export { dir: b"/a", groups: &[b"10.0.0.0/8", b"host"] },
            Export { dir: b"/b", groups: &[] },
        ];
        let out = encoded(&Reply::Export(&exports));
        let mut seen = Vec::new();
        Reply::decode_export(Reader::new(&out), |path, groups| {
            seen.push((path, groups.collect::<Vec<_>>()));
        })
        .unwrap();
        let groups: Vec<&[u8]> = vec![b"10.0.0.0/8", b"host"];
        assert_eq!(seen, [(&b"/a"[..], groups), (&b"/b"[..], vec![])]);

        let lines = [Mounted { host: b"h", dir: b"/a" }];
        let out = encoded(&Reply::Dump(&lines));
        let mut seen = Vec::new();
        Reply::decode_dump(Reader::new(&out), |line| seen.push(line)).unwrap();
        assert_eq!(seen, lines);
    }
}
