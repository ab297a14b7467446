//! Decodes RPC messages to operations with their arguments and results.
//!
//! Fields are read one by one into an [`Op`], so that everything before the end of a truncated
//! message is used. [`Context`] converts handles and names to numbers and hashes; neither is
//! stored.

pub(crate) mod mount;
pub(crate) mod v2;
pub(crate) mod v3;
pub(crate) mod v4;
mod v4_call;

use std::collections::HashSet;

use nfs_proto::xdr::Reader;
use nfs_proto::{DecodeError, nfs3};

use crate::connections::Names;
use crate::files::{FileNumber, FileNumbers, ServerPlace};
use crate::format::Entry;
use crate::record::Op;
use crate::roots::Roots;
use crate::secret::{Domain, Secret};

/// Maximum length of a name in bytes; longer ones are malformed.
pub(crate) const NAME_BYTES_MAX: u32 = 4096;
/// Maximum number of names that are remembered as written; others may be written twice.
const NAMES_REMEMBERED: usize = 1 << 20;

/// A name kept in plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptName {
    /// Hash by which operations refer to it.
    pub hash: u64,
    /// The name, with invalid UTF-8 replaced.
    pub text: String,
}

/// Data filled in by decoders.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Key of the hashes.
    pub secret: Secret,
    /// Whether names are kept.
    pub names: Names,
    /// Numbers of the files.
    pub files: FileNumbers,
    /// Directory entries of files that were unknown before.
    pub entries: Vec<Entry>,
    /// Names that have not been written yet.
    pub kept: Vec<KeptName>,
    /// Roots that no NFS connection has used yet.
    pub roots: Roots,
    /// The server of the message.
    pub server: ServerPlace,
    /// Number of the call being decoded.
    pub call: u64,
    known_names: HashSet<u64>,
}

impl Context {
    /// Creates a context with a new key.
    pub(crate) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// Returns the number of the file with this handle.
    pub(crate) fn file(&mut self, handle: &[u8]) -> u32 {
        self.numbered(handle).number
    }

    /// Returns the number of the file with this handle, and whether it is new.
    pub(crate) fn numbered(&mut self, handle: &[u8]) -> FileNumber {
        self.files.of_handle(&self.secret, &mut self.roots, self.server, handle)
    }

    /// Returns the number of the root with this handle.
    pub(crate) fn root(&mut self, handle: &[u8]) -> u32 {
        self.files.of_root(&self.secret, &mut self.roots, self.server, handle)
    }

    /// Returns the number of the root that PUTROOTFH or PUTPUBFH selects.
    pub(crate) fn server_root(&mut self, kind: u8) -> u32 {
        self.files.of_server_root(&self.secret, self.server, kind)
    }

    /// Returns the number of such a root with this handle.
    pub(crate) fn server_root_handle(&mut self, kind: u8, handle: &[u8]) -> u32 {
        let Self { files, secret, roots, server, .. } = self;
        files.of_server_root_handle(secret, roots, *server, kind, handle)
    }

    /// Returns the hash of a name.
    pub(crate) fn name(&mut self, name: &[u8]) -> u64 {
        let hash = self.secret.hash(Domain::Name, name);
        if self.names == Names::Kept {
            if self.known_names.len() >= NAMES_REMEMBERED {
                self.known_names.clear();
            }
            if self.known_names.insert(hash) {
                let text = String::from_utf8_lossy(name).into_owned();
                self.kept.push(KeptName { hash, text });
            }
        }
        hash
    }

    /// Reads a name of v2 or v3 and returns its hash.
    pub(crate) fn read_name(&mut self, reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
        Ok(self.name(reader.opaque(NAME_BYTES_MAX)?))
    }

    /// Records the file of a directory entry if it was unknown before.
    pub(crate) fn add_entry(&mut self, entry: &ListedEntry<'_>) {
        let FileNumber { number, is_new } = self.numbered(entry.handle);
        if is_new {
            let name = self.name(entry.name);
            let ListedEntry { dir, file_type, size, .. } = *entry;
            let call = self.call;
            self.entries.push(Entry { call, dir, name, file: number, file_type, size });
        }
    }
}

/// A directory entry as listed in a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedEntry<'a> {
    /// Number of the directory.
    pub dir: u32,
    /// Name of the entry.
    pub name: &'a [u8],
    /// Handle of its file.
    pub handle: &'a [u8],
    /// Type of the file, or 0 if unknown.
    pub file_type: u8,
    /// Size of the file.
    pub size: Option<u64>,
}

/// How far a message could be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Everything that is needed.
    Whole,
    /// Only a part, because bytes are missing or malformed.
    Part,
}

impl From<Result<(), DecodeError>> for Decoded {
    fn from(result: Result<(), DecodeError>) -> Self {
        if result.is_ok() { Self::Whole } else { Self::Part }
    }
}

/// Records type and size of the file described in a reply.
fn note_attributes(op: &mut Op, attributes: Option<&nfs3::Fattr>) {
    if let Some(attributes) = attributes {
        op.file_type = attributes.file_type.number() as u8;
        op.size = Some(attributes.size);
    }
}
