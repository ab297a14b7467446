//! Direct access by path, without the wire: for tests and for setting a server up.
//!
//! Paths are absolute, as `/export/directory/file`; symbolic links are not followed.

use super::create::NewObject;
use super::types::{Attributes, FsError, SetAttributes};
use super::{Caller, Context, FileSystem, InodeId, OPEN_DIRECTORY_MODE};

/// Largest file read in one piece, in bytes; more than any test needs.
const READ_PATH_BYTES_MAX: u64 = 1 << 32;

impl FileSystem {
    /// Finds an object by its path.
    ///
    /// # Errors
    /// `NoEntry`, `NotDirectory`, `NameTooLong`.
    pub fn find_path(&self, path: &str) -> Result<(InodeId, Attributes), FsError> {
        let mut id = self.root();
        for name in names(path) {
            id = self.lookup(id, name.as_bytes(), &Caller::default())?.id;
        }
        Ok((id, self.attributes(id)?))
    }

    /// Creates the missing directories of a path, like `mkdir -p`, open to everyone as `/tmp` is.
    ///
    /// # Errors
    /// Same as `make`.
    pub fn make_path(&self, path: &str, context: &Context) -> Result<InodeId, FsError> {
        let set = SetAttributes { mode: Some(OPEN_DIRECTORY_MODE), ..SetAttributes::default() };
        let mut id = self.root();
        for name in names(path) {
            let made = self.make(id, name.as_bytes(), NewObject::Directory, &set, context);
            id = match made {
                Ok(created) => created.id,
                Err(FsError::Exists) => self.lookup(id, name.as_bytes(), &context.caller)?.id,
                Err(error) => return Err(error),
            };
        }
        Ok(id)
    }

    /// All bytes of a file; if the store discards data, its pattern is returned.
    ///
    /// # Errors
    /// Those of `find_path` and `read`; `FileTooBig` above 4 GiB.
    pub fn read_path(&self, path: &str) -> Result<Vec<u8>, FsError> {
        let (id, attributes) = self.find_path(path)?;
        if attributes.size > READ_PATH_BYTES_MAX {
            return Err(FsError::FileTooBig);
        }
        let mut bytes = Vec::with_capacity(attributes.size as usize);
        let mut pieces = Vec::new();
        let context = Context { now: attributes.atime, ..Context::default() };
        loop {
            let offset = bytes.len() as u64;
            let (_, span) = self.read(id, offset, u32::MAX, &context, &mut pieces)?;
            for piece in pieces.drain(..) {
                bytes.extend_from_slice(piece.bytes());
            }
            if span.eof {
                return Ok(bytes);
            }
        }
    }

    /// Names in a directory, without `.` and `..`, in order of creation.
    ///
    /// # Errors
    /// Those of `find_path` and `list`.
    pub fn list_path(&self, path: &str) -> Result<Vec<Vec<u8>>, FsError> {
        let (id, _) = self.find_path(path)?;
        let listing = self.list_stored(id, 0, &mut |_| true)?;
        Ok(listing.entries.iter().skip(2).map(|entry| entry.name.to_vec()).collect())
    }
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}
