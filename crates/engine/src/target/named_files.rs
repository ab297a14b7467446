//! Files that the caller names, opens and writes one by one, such as those of a durability
//! measurement.
//!
//! [`NamedFiles`] is a working directory on an NFS server or on a file system of this host. A
//! backend executes every write, sync and close(2), and a file is opened with one kind of
//! durability. Nothing is retried and no connection is re-established, so an answer is an
//! acknowledgement by this very server.

use std::cell::Cell;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::work::mark_of;
use model::{ConnectionPolicy, Durability, Op, OpKind, Outcome, RunSpec, Stable, Target, Workload};
use nfs_client::proto::client::{File as Handle, OpenAccess};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::status::Status;
use nfs_client::{CallFailure, Connection, ConnectionOptions, Mount, MountError, MountOptions};
use rustix::fs::{Advice, Mode, OFlags, fadvise, open, statfs};
use workload::{Pattern, Places};

use super::directory::sync_flags;
use super::mount_options::mount_options;
use super::nfs::stable_how;
use crate::backend::files::{Files, Handles};
use crate::backend::find::FindRule;
use crate::backend::nfs::{Nfs, NfsFiles, PlusListing};
use crate::backend::posix::Posix;
use crate::backend::sparse::SparseLayout;
use crate::backend::{Backend, NO_LIMIT};
use crate::clients::ClientRecords;
use crate::clock::SystemClock;

/// A working directory at a target, or the target itself until one is created or opened.
pub struct NamedFiles {
    directory: Directory,
    content: Content,
}

/// The files' content, and how it is written.
struct Content {
    pattern: Pattern,
    /// Maximum size of a write.
    io_size_bytes: u32,
}

enum Directory {
    /// On an NFS server.
    Nfs(Box<NfsDirectory>),
    /// On a file system of this host.
    Local(PathBuf),
}

struct NfsDirectory {
    mount: Mount,
    directory: Handle,
    /// Executes writes and syncs, once there are any.
    backend: Option<Nfs>,
}

/// A file that is open for writing.
pub struct NamedFile {
    /// Number in the stamps of its blocks.
    number: u32,
    open: OpenFile,
}

enum OpenFile {
    Nfs(Handle, StableHow),
    Local(Box<Posix>),
}

/// The part of a file to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedWrite {
    pub offset_bytes: u64,
    pub len_bytes: u32,
    /// The generation in the stamps of the blocks.
    pub generation: u32,
}

impl NamedFiles {
    /// Opens the target itself. The content must have stamps, and be made for writes of up to
    /// `io_size_bytes`.
    ///
    /// # Errors
    /// If the target cannot be used; the error is a sentence, as for all methods.
    pub fn open(
        target: &Target,
        timeout: Duration,
        pattern: Pattern,
        io_size_bytes: u32,
    ) -> Result<Self, String> {
        let directory = match target {
            Target::Nfs(nfs) => {
                let options = MountOptions { timeout, ..mount_options(nfs) };
                let mount = Mount::connect(&options).map_err(|error| error.to_string())?;
                let directory = mount.root();
                Directory::Nfs(Box::new(NfsDirectory { mount, directory, backend: None }))
            }
            Target::Directory { path } => match fs::metadata(path) {
                Ok(_) => Directory::Local(path.clone()),
                Err(error) => return Err(format!("cannot open {}: {error}", path.display())),
            },
            other => return Err(format!("{other} does not store files")),
        };
        Ok(Self { directory, content: Content { pattern, io_size_bytes } })
    }

    /// Returns a text that differs for another file system in the target's place, such as the
    /// directory below a mount that is gone.
    ///
    /// # Errors
    /// If the target does not answer.
    pub fn identity(&self) -> Result<String, String> {
        match &self.directory {
            Directory::Nfs(nfs) => Ok(format!("{:?}", nfs.mount.root().handle)),
            Directory::Local(path) => {
                let failed = |error: &dyn Display| format!("{}: {error}", path.display());
                let inode = fs::metadata(path).map_err(|error| failed(&error))?.ino();
                let kind = statfs(path).map_err(|error| failed(&error))?.f_type;
                Ok(format!("inode {inode} of file system type {kind:#x}"))
            }
        }
    }

    /// Creates a new working directory and opens it.
    pub fn make(&mut self, name: &str) -> Result<(), String> {
        match &mut self.directory {
            Directory::Nfs(nfs) => {
                let made = nfs.mount.mkdir(nfs.directory, name);
                nfs.directory = made.map_err(|error| format!("{name}: {error}"))?;
                let marked = nfs.mount.mkdir(nfs.directory, &mark_of(name));
                marked.map(drop).map_err(|error| format!("{name}: {error}"))
            }
            Directory::Local(path) => {
                path.push(name);
                let made = fs::create_dir(&path).and_then(|()| {
                    fs::create_dir(path.join(mark_of(name)))?;
                    // It has to be there after a crash, whatever becomes of its files.
                    sync_names(&path.with_file_name("."))
                });
                made.map_err(|error| format!("cannot create {}: {error}", path.display()))
            }
        }
    }

    /// Opens an existing working directory. Returns false if there is none.
    ///
    /// # Errors
    /// If the target does not answer.
    pub fn enter(&mut self, name: &str) -> Result<bool, String> {
        match &mut self.directory {
            Directory::Nfs(nfs) => match nfs.mount.lookup(nfs.directory, name) {
                Ok(directory) => {
                    nfs.directory = directory;
                    Ok(true)
                }
                Err(failure) if is_missing(&failure) => Ok(false),
                Err(failure) => Err(format!("{name}: {failure}")),
            },
            Directory::Local(path) => {
                path.push(name);
                path.try_exists().map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }

    /// Creates a file, or empties it, and opens it for writing with this durability. `number` is
    /// stamped into its blocks, and has up to 8 digits.
    pub fn create(
        &mut self,
        name: &str,
        number: u32,
        durability: Durability,
    ) -> Result<NamedFile, String> {
        let open = match &mut self.directory {
            Directory::Nfs(nfs) => {
                let made = nfs.mount.create(nfs.directory, name);
                let file = made.map_err(|error| format!("{name}: {error}"))?;
                OpenFile::Nfs(file, stable_how(durability, Stable::Unstable))
            }
            Directory::Local(path) => {
                let flags = OFlags::CREATE | OFlags::TRUNC | sync_flags(durability);
                let opened = self.content.open_local(&path.join(name), flags);
                OpenFile::Local(opened.map_err(|error| format!("cannot create {name}: {error}"))?)
            }
        };
        Ok(NamedFile { number, open })
    }

    /// Opens an existing file for writing with this durability.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    pub fn open_file(
        &mut self,
        name: &str,
        number: u32,
        durability: Durability,
    ) -> Result<NamedFile, String> {
        let open = match &mut self.directory {
            Directory::Nfs(nfs) => {
                // Version 4 has to open a file; the others find it.
                let found = if nfs.mount.version().is_stateful() {
                    nfs.mount.open(nfs.directory, name, OpenAccess::Write)
                } else {
                    nfs.mount.lookup(nfs.directory, name)
                };
                let file = found.map_err(|error| format!("{name}: {error}"))?;
                OpenFile::Nfs(file, stable_how(durability, Stable::Unstable))
            }
            Directory::Local(path) => {
                let opened = self.content.open_local(&path.join(name), sync_flags(durability));
                OpenFile::Local(opened.map_err(|error| format!("cannot open {name}: {error}"))?)
            }
        };
        Ok(NamedFile { number, open })
    }

    /// Writes a part of a file. With a durability that applies to each write, it is safe when this
    /// returns.
    pub fn write(&mut self, file: &mut NamedFile, write: NamedWrite) -> Result<(), String> {
        let NamedWrite { offset_bytes, len_bytes, generation } = write;
        let kind = OpKind::Write;
        let op = Op { scheduled_ns: 0, offset_bytes, len_bytes, file: file.number, kind };
        let pattern = self.content.pattern.in_generation(generation);
        match (&mut self.directory, &mut file.open) {
            (Directory::Nfs(nfs), OpenFile::Nfs(handle, stable)) => {
                let backend = nfs.backend(&self.content)?;
                backend.switch_file(file.number, *handle, *stable, pattern);
                execute(backend, &op)
            }
            (_, OpenFile::Local(backend)) => {
                backend.set_pattern(pattern);
                execute(&mut **backend, &op).map_err(|error| format!("cannot write: {error}"))
            }
            (Directory::Local(_), OpenFile::Nfs(..)) => Err(FOREIGN_FILE.to_owned()),
        }
    }

    /// Makes a file durable with COMMIT or `fsync`.
    ///
    /// # Errors
    /// If that fails. It also fails if the server has restarted since the file was written or
    /// another one was committed, because data written before may be lost and would have to be
    /// rewritten (RFC 1813, 3.3.21).
    pub fn make_safe(&mut self, file: &mut NamedFile) -> Result<(), String> {
        let op =
            |kind| Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file: file.number, kind };
        match (&mut self.directory, &mut file.open) {
            (Directory::Nfs(nfs), OpenFile::Nfs(handle, stable)) => {
                let backend = nfs.backend(&self.content)?;
                backend.switch_file(file.number, *handle, *stable, self.content.pattern.clone());
                // Unlike a sync, it calls the server even if all data was acknowledged as safe.
                execute(backend, &op(OpKind::Commit)).map_err(|error| format!("COMMIT: {error}"))
            }
            (_, OpenFile::Local(backend)) => {
                let synced = execute(&mut **backend, &op(OpKind::Sync));
                synced.map_err(|error| format!("fsync failed: {error}"))
            }
            (Directory::Local(_), OpenFile::Nfs(..)) => Err(FOREIGN_FILE.to_owned()),
        }
    }

    /// Closes a file. Unlike at the end of a pass, nothing is committed first.
    ///
    /// # Errors
    /// If that fails: a network file system writes back here, and reports data that it could not
    /// write.
    pub fn close(&mut self, file: NamedFile) -> Result<(), String> {
        match (&mut self.directory, file.open) {
            (Directory::Nfs(nfs), OpenFile::Nfs(file, _)) => {
                nfs.mount.close(file).map_err(|error| error.to_string())
            }
            (_, OpenFile::Local(mut backend)) => {
                backend.close(&AtomicBool::new(false)).map_err(|lost| lost.0)
            }
            (Directory::Local(_), OpenFile::Nfs(..)) => Err(FOREIGN_FILE.to_owned()),
        }
    }

    /// Renames a file, in place of another one.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        match &mut self.directory {
            Directory::Nfs(nfs) => {
                nfs.mount.rename(nfs.directory, from, to).map_err(|error| error.to_string())
            }
            Directory::Local(path) => fs::rename(path.join(from), path.join(to))
                .map_err(|error| format!("cannot rename {from}: {error}")),
        }
    }

    /// Makes the names in the directory durable. An NFS server has done that before it answered.
    pub fn make_names_safe(&self) -> Result<(), String> {
        let Directory::Local(path) = &self.directory else { return Ok(()) };
        sync_names(path).map_err(|error| format!("fsync of the directory failed: {error}"))
    }

    /// Reads a whole file. Returns `None` if there is none.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match &mut self.directory {
            Directory::Nfs(nfs) => {
                let file = match nfs.mount.lookup(nfs.directory, name) {
                    Ok(file) => file,
                    Err(failure) if is_missing(&failure) => return Ok(None),
                    Err(failure) => return Err(format!("{name}: {failure}")),
                };
                let read = nfs
                    .mount
                    .getattr(file)
                    .and_then(|attributes| nfs.mount.read(file, 0, attributes.size as usize));
                Ok(Some(read.map_err(|error| format!("{name}: {error}"))?))
            }
            Directory::Local(path) => match read_from_storage(&path.join(name)) {
                Ok(data) => Ok(Some(data)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("cannot read {name}: {error}")),
            },
        }
    }
}

const FOREIGN_FILE: &str = "a file of another directory";

impl Content {
    /// Opens a file for writing and creates a backend that has only this file.
    fn open_local(&self, path: &Path, flags: OFlags) -> io::Result<Box<Posix>> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | flags;
        let file: OwnedFd = open(path, flags, Mode::from_raw_mode(0o666))?;
        let set = Files {
            roots: Vec::new(),
            places: flat_places(),
            files: Handles::Own(vec![file]),
            twins: Handles::Own(Vec::new()),
            maps: Vec::new(),
            // Any number is that of the only file.
            stride: u32::MAX,
            pattern: self.pattern.clone(),
            verify: false,
            mismatches: Cell::default(),
            sparse: SparseLayout { block_bytes: 1, file_bytes: 0 },
            ranges: Cell::default(),
            direct: false,
            durable: OFlags::empty(),
            sync_each: false,
            syncs_log: false,
            io_size_bytes: self.io_size_bytes as usize,
            queue_depth: 1,
        };
        Ok(Box::new(Posix::new(set, Arc::new(SystemClock::new()))))
    }
}

impl NfsDirectory {
    /// Returns the backend, which has its own connection.
    fn backend(&mut self, content: &Content) -> Result<&mut Nfs, String> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => self.connect(content).map_err(|error| error.to_string())?,
        };
        Ok(self.backend.insert(backend))
    }

    fn connect(&self, content: &Content) -> Result<Nfs, MountError> {
        let options = ConnectionOptions { reconnect: false, ..ConnectionOptions::default() };
        let mut connection = Connection::open(&self.mount, &options)?;
        let wsize = self.mount.wsize().min(content.io_size_bytes);
        // Blocks with stamps are assembled and copied into their call.
        connection.reserve_copies(wsize);
        let set = NfsFiles {
            version: self.mount.version(),
            directory: self.directory,
            places: flat_places(),
            place_files: Arc::new([self.directory]),
            links: Arc::default(),
            plus_listing: PlusListing::Readdirplus,
            lists: None,
            listing_bytes: 0,
            find: FindRule::default(),
            // The file of each op takes its place.
            files: vec![self.directory],
            twins: Vec::new(),
            sparse: SparseLayout { block_bytes: 1, file_bytes: 0 },
            first: 0,
            stride: u32::MAX,
            is_written: true,
            // Lost data stays lost: a COMMIT fails instead.
            grid: None,
            stable: StableHow::Unstable,
            log_stable: StableHow::FileSync,
            rsize: self.mount.rsize(),
            wsize,
            pattern: content.pattern.clone(),
            verify: false,
            queue_depth: 1,
            async_copy: false,
            timeout_ns: self.mount.options().timeout.as_nanos() as u64,
            client_uids: 1,
            closable: false,
            own: 1,
            connections_per_client: 1,
            policy: ConnectionPolicy::Share,
            clients: ClientRecords::default(),
            paths: Vec::new(),
        };
        Ok(Nfs::new(connection, set, Arc::new(SystemClock::new())))
    }
}

/// Executes one op and waits for its end.
fn execute(backend: &mut dyn Backend, op: &Op) -> Result<(), String> {
    let mut ended = Vec::with_capacity(1);
    backend.submit(slice::from_ref(op));
    while ended.is_empty() {
        backend.reap(1, NO_LIMIT, &mut ended).map_err(|lost| lost.0)?;
    }
    match ended[0].outcome {
        Outcome::Done(_) => Ok(()),
        Outcome::Failed(error) => Err(error.to_string()),
    }
}

/// Returns the places of files that are all in the working directory itself.
fn flat_places() -> Arc<Places> {
    Arc::new(Places::new(&RunSpec::null(Workload::Stream)))
}

/// Makes the names in a directory durable. Some file systems can't: with kAFS, each name is on the
/// server before the call that creates it returns.
fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // fsync(2): errors of objects that can't be synced.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Reads a file bypassing this host's page cache, as far as the kernel can drop it.
fn read_from_storage(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // Clean pages are dropped; dirty ones are newer than the server's data, and remain.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let mut data = vec![0; file.metadata()?.len() as usize];
    let mut read = 0;
    while read < data.len() {
        match file.read_at(&mut data[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    data.truncate(read);
    Ok(data)
}

fn is_missing(failure: &CallFailure) -> bool {
    failure.status() == Some(Status::NoEnt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerates_directories_without_fsync() {
        sync_names(Path::new("/tmp")).unwrap();
        // The kernel has no fsync(2) there.
        sync_names(Path::new("/proc")).unwrap();
        let missing = sync_names(Path::new("/proc/none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
