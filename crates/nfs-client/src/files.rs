//! Blocking file operations of a mount, for setup, checks and cleanup.
//!
//! Methods of [`Mount`], each one or more calls; nothing is retried. They copy their data, so don't
//! use them in a measured window.

use nfs_proto::DecodeError;
use nfs_proto::client::{Attributes, Cursor, Data, File, OpenAccess, Operation, Outcome};
use nfs_proto::nfs3::{CreateHow, Fsinfo, Sattr, StableHow, Verifier};
use nfs_proto::version::ProtocolVersion;

use crate::error::CallFailure;
use crate::listing::{DirEntry, DirListing, LISTED_ENTRIES_MAX};
use crate::mount::Mount;

const READDIR_BYTES: u32 = 32 * 1024;

impl Mount {
    /// Finds a name in a directory.
    ///
    /// # Errors
    /// [`CallFailure`], such as NFS3ERR_NOENT.
    pub fn lookup(&mut self, dir: File, name: &str) -> Result<File, CallFailure> {
        self.control.lookup(&dir, name.as_bytes())
    }

    /// Gets a file's attributes.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn getattr(&mut self, file: File) -> Result<Attributes, CallFailure> {
        self.operate_on(&Operation::Getattr { file: &file }, |outcome| match outcome {
            Outcome::Attributes(attributes) => Some(attributes),
            _ => None,
        })
    }

    /// Creates a directory with mode 0755 and returns its handle.
    ///
    /// # Errors
    /// [`CallFailure`], such as NFS3ERR_EXIST.
    pub fn mkdir(&mut self, dir: File, name: &str) -> Result<File, CallFailure> {
        let attributes = Sattr::with_mode(0o755);
        let dir = &dir;
        let name = name.as_bytes();
        self.make_object(&Operation::Mkdir { dir, name, attributes }, dir, name)
    }

    /// Sets the permissions of a file or directory.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn chmod(&mut self, file: File, mode: u32) -> Result<(), CallFailure> {
        let attributes = Sattr::with_mode(mode);
        self.operate_on(&Operation::Setattr { file: &file, attributes }, expect_done)
    }

    /// Sets the size of a file that is open for writing.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn set_size(&mut self, file: File, bytes: u64) -> Result<(), CallFailure> {
        let attributes = Sattr { size: Some(bytes), ..Sattr::default() };
        self.operate_on(&Operation::Setattr { file: &file, attributes }, expect_done)
    }

    /// Creates a file with mode 0644, or truncates an existing one. In version 4 it is then open:
    /// see [`Mount::close`].
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn create(&mut self, dir: File, name: &str) -> Result<File, CallFailure> {
        let attributes = Sattr { size: Some(0), ..Sattr::with_mode(0o644) };
        let how = CreateHow::Unchecked(attributes);
        let dir = &dir;
        let name = name.as_bytes();
        self.make_object(&Operation::Create { dir, name, how }, dir, name)
    }

    /// Opens an existing file; the server is only involved in version 4.
    ///
    /// # Errors
    /// [`CallFailure`], such as NOENT.
    pub fn open(&mut self, dir: File, name: &str, access: OpenAccess) -> Result<File, CallFailure> {
        self.control.open_file(&dir, name.as_bytes(), access)
    }

    /// Closes an opened or created file; does nothing in versions without opens.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn close(&mut self, file: File) -> Result<(), CallFailure> {
        if !self.version().is_stateful() {
            return Ok(());
        }
        self.operate_on(&Operation::Close { file: &file }, expect_done)
    }

    /// Creates a symbolic link with mode 0777.
    ///
    /// # Errors
    /// [`CallFailure`], such as NFS3ERR_EXIST.
    pub fn symlink(&mut self, dir: File, name: &str, target: &str) -> Result<(), CallFailure> {
        self.operate_on(
            &Operation::Symlink {
                dir: &dir,
                name: name.as_bytes(),
                attributes: Sattr::with_mode(0o777),
                target: target.as_bytes(),
            },
            |outcome| {
                if let Outcome::Object { .. } = outcome { Some(()) } else { None }
            },
        )
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn remove(&mut self, dir: File, name: &str) -> Result<(), CallFailure> {
        self.operate_on(&Operation::Remove { dir: &dir, name: name.as_bytes() }, expect_done)
    }

    /// Renames an entry of a directory, replacing an existing one.
    ///
    /// # Errors
    /// [`CallFailure`], such as NOENT.
    pub fn rename(&mut self, dir: File, from: &str, to: &str) -> Result<(), CallFailure> {
        let rename = Operation::Rename {
            from_dir: &dir,
            from: from.as_bytes(),
            to_dir: &dir,
            to: to.as_bytes(),
        };
        self.operate_on(&rename, expect_done)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`CallFailure`], such as NFS3ERR_NOTEMPTY.
    pub fn rmdir(&mut self, dir: File, name: &str) -> Result<(), CallFailure> {
        self.operate_on(&Operation::Rmdir { dir: &dir, name: name.as_bytes() }, expect_done)
    }

    /// Lists a directory completely.
    ///
    /// # Errors
    /// [`CallFailure`], also if the directory does not seem to end.
    pub fn readdir(&mut self, dir: File) -> Result<Vec<DirEntry>, CallFailure> {
        self.readdir_up_to(dir, LISTED_ENTRIES_MAX)
    }

    /// Lists at most `max_entries` names of a directory, including `.` and `..`.
    ///
    /// # Errors
    /// Same as [`Mount::readdir`].
    pub fn readdir_up_to(
        &mut self,
        dir: File,
        max_entries: u64,
    ) -> Result<Vec<DirEntry>, CallFailure> {
        self.list(dir, max_entries, |dir, cursor| Operation::Readdir {
            dir,
            cursor,
            bytes: READDIR_BYTES,
        })
    }

    /// Lists a directory like [`Mount::readdir_up_to`], with attributes, in calls that return them
    /// with the names. Falls back to names only if the server has no such call.
    ///
    /// # Errors
    /// Same as [`Mount::readdir`].
    pub fn readdirplus_up_to(
        &mut self,
        dir: File,
        max_entries: u64,
    ) -> Result<Vec<DirEntry>, CallFailure> {
        if self.version() == ProtocolVersion::V2 {
            return self.readdir_up_to(dir, max_entries);
        }
        let listed = self.list(dir, max_entries, |dir, cursor| Operation::ReaddirPlus {
            dir,
            cursor,
            bytes: READDIR_BYTES,
        });
        match listed {
            Err(failure) if failure.lacks_call() => self.readdir_up_to(dir, max_entries),
            listed => listed,
        }
    }

    /// Lists a directory with calls of one kind, one per page.
    fn list(
        &mut self,
        dir: File,
        max_entries: u64,
        request: for<'a> fn(&'a File, Cursor) -> Operation<'a>,
    ) -> Result<Vec<DirEntry>, CallFailure> {
        let mut cursor = Cursor::default();
        let mut listing = DirListing::begin(max_entries);
        loop {
            let page = request(&dir, cursor);
            let eof = self.control.operate(&page, |event| {
                let page = event.listing()?;
                let mut empty = true;
                // The cookie of the last entry and the verifier of the page are the position of the
                // next one. If the verifier has changed, the server refuses the cookie
                // (BAD_COOKIE).
                for entry in &page {
                    cursor.cookie = entry.cookie;
                    empty = false;
                    listing.push(&entry);
                }
                cursor.verifier = page.verifier;
                // An empty page would be requested again forever.
                Ok(page.eof || empty)
            })?;
            if eof {
                return Ok(listing.entries);
            }
            let server = self.control.server();
            if let Err(why) = listing.end_page(cursor.cookie) {
                return Err(CallFailure::Unlistable { server, why });
            }
        }
    }

    /// Returns true if the server lists names with their attributes; requests a page of `dir`. v3
    /// servers need not support READDIRPLUS (RFC 1813 section 3.3.17).
    ///
    /// # Errors
    /// [`CallFailure`], unless the answer is that there is no such call.
    pub fn offers_readdirplus(&mut self, dir: File) -> Result<bool, CallFailure> {
        if self.version() == ProtocolVersion::V2 {
            return Ok(false);
        }
        let page =
            Operation::ReaddirPlus { dir: &dir, cursor: Cursor::default(), bytes: READDIR_BYTES };
        match self.control.operate(&page, |_| Ok(())) {
            Ok(()) => Ok(true),
            Err(failure) if failure.lacks_call() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Reads up to `len` bytes at `offset`, in as many READs as necessary; returns fewer bytes if
    /// the file ends before that.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn read(&mut self, file: File, offset: u64, len: usize) -> Result<Vec<u8>, CallFailure> {
        let mut data = Vec::new();
        while data.len() < len {
            // A short READ does not mean the end of the file: a server may return fewer bytes than
            // requested (RFC 1813 section 3.3.6), so request the rest.
            let count = (len - data.len()).min(self.rsize() as usize) as u32;
            let offset = offset + data.len() as u64;
            let read = Operation::Read { file: &file, offset, count };
            let ended = self.control.operate(&read, |event| {
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

    /// Writes all of `data` at `offset`, in as many WRITEs as necessary, and returns the weakest
    /// stability claimed by a reply: after [`StableHow::Unstable`] call [`Mount::commit`].
    ///
    /// # Errors
    /// [`CallFailure`], also if a reply claims less than requested; data written before that
    /// remains written.
    pub fn write(
        &mut self,
        file: File,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<StableHow, CallFailure> {
        let mut written = 0;
        let mut weakest = StableHow::FileSync;
        while written < data.len() {
            let len = (data.len() - written).min(self.wsize() as usize);
            let piece = Data::Bytes(&data[written..written + len]);
            let offset = offset + written as u64;
            let write = Operation::Write { file: &file, offset, stable, data: piece };
            let (count, committed) = self.control.operate(&write, |event| match event.result {
                // A server that writes nothing, or more than was sent, would keep us busy forever.
                Ok(Outcome::Written { count, committed, .. })
                    if (1..=len).contains(&(count as usize)) =>
                {
                    if committed < stable {
                        let value = committed.number();
                        return Err(DecodeError::BadValue { what: "the stability", value });
                    }
                    Ok((count as usize, committed))
                }
                _ => Err(unexpected_outcome()),
            })?;
            written += count;
            weakest = weakest.min(committed);
        }
        Ok(weakest)
    }

    /// Makes a whole file durable and returns the verifier.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn commit(&mut self, file: File) -> Result<Verifier, CallFailure> {
        if !self.version().has_commit() {
            return Ok(Verifier::default());
        }
        self.operate_on(&Operation::Commit { file: &file, offset: 0, count: 0 }, |outcome| {
            match outcome {
                Outcome::Committed { verifier } => Some(verifier),
                _ => None,
            }
        })
    }

    /// Queries the file system's limits again.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn refresh_fsinfo(&mut self) -> Result<Fsinfo, CallFailure> {
        let root = self.root();
        self.control.fsinfo(&root)
    }

    /// Creates an object and returns its handle, using LOOKUP if the server does not return it.
    fn make_object(
        &mut self,
        operation: &Operation<'_>,
        dir: &File,
        name: &[u8],
    ) -> Result<File, CallFailure> {
        let made = self.control.operate(operation, |event| match event.result {
            Ok(Outcome::Object { .. }) => Ok(event.file.copied()),
            _ => Err(unexpected_outcome()),
        })?;
        // SYMLINK of v2 returns no handle, and in v3 the handle of a new object is optional.
        match made {
            Some(file) => Ok(file),
            None => self.control.lookup(dir, name),
        }
    }

    fn operate_on<T>(
        &mut self,
        operation: &Operation<'_>,
        expect: impl FnOnce(Outcome) -> Option<T>,
    ) -> Result<T, CallFailure> {
        self.control.operate(operation, |event| {
            let Ok(outcome) = event.result else { return Err(unexpected_outcome()) };
            expect(outcome).ok_or(unexpected_outcome())
        })
    }
}

fn expect_done(outcome: Outcome) -> Option<()> {
    if outcome == Outcome::Done { Some(()) } else { None }
}

const fn unexpected_outcome() -> DecodeError {
    DecodeError::BadValue { what: "the result", value: 0 }
}
