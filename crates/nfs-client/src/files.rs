//! Blocking file operations of a mount, for set-up, checks and clean-up.
//!
//! Methods of [`Mount`], each one call or as many as it takes; nothing is retried. What they
//! move is copied, so none of them belongs into a measured window.

use nfs_proto::DecodeError;
use nfs_proto::client::Outcome;
use nfs_proto::nfs3::{
    Call, CreateHow, Fattr, FileHandle, Fsinfo, Procedure, Reply, Sattr, StableHow, Verifier,
};
use nfs_proto::program;
use nfs_proto::xdr::Reader;

use crate::error::CallFailure;
use crate::mount::{Mount, call_fsinfo, call_lookup};

const READDIR_BYTES: u32 = 32 * 1024;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Id of the file within its file system.
    pub fileid: u64,
    /// Its name; `.` and `..` are left out of listings.
    pub name: Vec<u8>,
}

impl Mount {
    /// Finds a name in a directory.
    ///
    /// # Errors
    /// [`CallFailure`]; NFS3ERR_NOENT is one.
    pub fn lookup(&mut self, dir: FileHandle, name: &str) -> Result<FileHandle, CallFailure> {
        call_lookup(&mut self.control, dir, name.as_bytes())
    }

    /// Gets a file's attributes.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn getattr(&mut self, file: FileHandle) -> Result<Fattr, CallFailure> {
        self.nfs(Call::Getattr { file }, |outcome| match outcome {
            Outcome::Attributes(attributes) => Some(attributes),
            _ => None,
        })
    }

    /// Creates a directory with mode 0755 and returns its handle.
    ///
    /// # Errors
    /// [`CallFailure`]; NFS3ERR_EXIST is one.
    pub fn mkdir(&mut self, dir: FileHandle, name: &str) -> Result<FileHandle, CallFailure> {
        let attributes = Sattr::with_mode(0o755);
        self.make(&Call::Mkdir { dir, name: name.as_bytes(), attributes }, dir, name)
    }

    /// Creates a file with mode 0644, or empties the one that exists, and returns its handle.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn create(&mut self, dir: FileHandle, name: &str) -> Result<FileHandle, CallFailure> {
        let attributes = Sattr { size: Some(0), ..Sattr::with_mode(0o644) };
        let how = CreateHow::Unchecked(attributes);
        self.make(&Call::Create { dir, name: name.as_bytes(), how }, dir, name)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn remove(&mut self, dir: FileHandle, name: &str) -> Result<(), CallFailure> {
        self.nfs(Call::Remove { dir, name: name.as_bytes() }, done)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`CallFailure`]; NFS3ERR_NOTEMPTY is one.
    pub fn rmdir(&mut self, dir: FileHandle, name: &str) -> Result<(), CallFailure> {
        self.nfs(Call::Rmdir { dir, name: name.as_bytes() }, done)
    }

    /// Lists a directory, all pages of it.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn readdir(&mut self, dir: FileHandle) -> Result<Vec<DirEntry>, CallFailure> {
        let (mut cookie, mut verifier) = (0, Verifier::default());
        let mut listed = Vec::new();
        loop {
            let call = Call::Readdir { dir, cookie, verifier, count: READDIR_BYTES };
            let call = program::Call::Nfs3(call);
            let eof = self.control.call(&call, |event| {
                let reply = Reply::decode(Procedure::Readdir, Reader::new(event.body))?;
                let Reply::Readdir { result: Ok(page), .. } = reply else {
                    return Err(unexpected());
                };
                let mut empty = true;
                for entry in &page.entries {
                    (cookie, empty) = (entry.cookie, false);
                    if entry.name != b"." && entry.name != b".." {
                        let name = entry.name.to_vec();
                        listed.push(DirEntry { fileid: entry.fileid, name });
                    }
                }
                verifier = page.verifier;
                // A page with nothing on it would be asked for again for ever.
                Ok(page.eof || empty)
            })?;
            if eof {
                return Ok(listed);
            }
        }
    }

    /// Reads up to `len` bytes at `offset`, in as many READs as it takes; fewer come back where
    /// the file ends before.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn read(
        &mut self,
        file: FileHandle,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, CallFailure> {
        let mut data = Vec::new();
        while data.len() < len {
            let count = (len - data.len()).min(self.rsize() as usize) as u32;
            let offset = offset + data.len() as u64;
            let call = program::Call::Nfs3(Call::Read { file, offset, count });
            let ended = self.control.call(&call, |event| {
                data.extend_from_slice(event.payload);
                let at_eof = matches!(event.result, Ok(Outcome::Read { eof: true, .. }));
                Ok(at_eof || event.payload.is_empty())
            })?;
            if ended {
                break;
            }
        }
        Ok(data)
    }

    /// Writes all of `data` at `offset`, in as many WRITEs as it takes. After
    /// [`StableHow::Unstable`] call [`Mount::commit`].
    ///
    /// # Errors
    /// [`CallFailure`]; what was written before stays written.
    pub fn write(
        &mut self,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<(), CallFailure> {
        let mut written = 0;
        while written < data.len() {
            let len = (data.len() - written).min(self.wsize() as usize);
            let (data, offset) = (&data[written..written + len], offset + written as u64);
            let call = Call::Write { file, offset, stable, data };
            written += self.nfs(call, |outcome| match outcome {
                // A server that writes nothing, or more than was sent, would never get done.
                Outcome::Written { count, .. } if (1..=len).contains(&(count as usize)) => {
                    Some(count as usize)
                }
                _ => None,
            })?;
        }
        Ok(())
    }

    /// Makes a whole file durable and returns the verifier.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn commit(&mut self, file: FileHandle) -> Result<Verifier, CallFailure> {
        self.nfs(Call::Commit { file, offset: 0, count: 0 }, |outcome| match outcome {
            Outcome::Committed { verifier } => Some(verifier),
            _ => None,
        })
    }

    /// Asks for the file system's limits again.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn refresh_fsinfo(&mut self) -> Result<Fsinfo, CallFailure> {
        let root = self.root();
        call_fsinfo(&mut self.control, root)
    }

    /// Makes an object and returns its handle, by LOOKUP where the server does not give it.
    fn make(
        &mut self,
        call: &Call<'_>,
        dir: FileHandle,
        name: &str,
    ) -> Result<FileHandle, CallFailure> {
        let made = self.control.call(&program::Call::Nfs3(*call), |event| match event.result {
            Ok(Outcome::Object { file, .. }) => Ok(file),
            _ => Err(unexpected()),
        })?;
        made.map_or_else(|| self.lookup(dir, name), Ok)
    }

    fn nfs<T>(
        &mut self,
        call: Call<'_>,
        expect: impl FnOnce(Outcome) -> Option<T>,
    ) -> Result<T, CallFailure> {
        self.control.call(&program::Call::Nfs3(call), |event| {
            event.result.ok().and_then(expect).ok_or_else(unexpected)
        })
    }
}

fn done(outcome: Outcome) -> Option<()> {
    (outcome == Outcome::Done).then_some(())
}

fn unexpected() -> DecodeError {
    DecodeError::BadValue { what: "the result", value: 0 }
}
