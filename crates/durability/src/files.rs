//! The files of a durability measurement: on an NFS server without a mount, or in a directory.
//!
//! [`TestFolder`] is the principal type. Every function returns when the target has answered, and
//! nothing is retried, so that an answer is an acknowledgement of this very server.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::backend::files::close_file;
use engine::target::mount_options;
use model::work::mark_of;
use model::{Durability, Target};
use nfs_client::proto::client::{File as Handle, OpenAccess};
use nfs_client::proto::nfs3::{StableHow, Verifier};
use nfs_client::{CallFailure, Mount, MountOptions};
use rustix::fs::{Advice, OFlags, fadvise, statfs};

/// A working directory at the target.
pub enum TestFolder {
    /// On an NFS server.
    Nfs(Box<NfsFolder>),
    /// On a file system of this host.
    Local(PathBuf),
}

/// A directory of an NFS server.
pub struct NfsFolder {
    mount: Mount,
    /// The working directory, or the target itself until it is entered.
    folder: Handle,
    /// The verifier of the last COMMIT.
    verifier: Option<Verifier>,
}

/// A file that is open for writing.
pub enum OpenFile {
    /// On an NFS server.
    Nfs(Handle),
    /// On a file system of this host.
    Local(File),
}

impl TestFolder {
    /// Opens the target itself.
    ///
    /// # Errors
    /// In a sentence.
    pub fn open(target: &Target, timeout: Duration) -> Result<Self, String> {
        match target {
            Target::Nfs(nfs) => {
                let options = MountOptions { timeout, ..mount_options(nfs) };
                let mount = Mount::connect(&options).map_err(|error| error.to_string())?;
                let folder = mount.root();
                Ok(Self::Nfs(Box::new(NfsFolder { mount, folder, verifier: None })))
            }
            Target::Directory { path } => match fs::metadata(path) {
                Ok(_) => Ok(Self::Local(path.clone())),
                Err(error) => Err(format!("can't open {}: {error}", path.display())),
            },
            other => Err(format!("{other} keeps no files")),
        }
    }

    /// Returns what tells the target from another file system that may stand in its place, such as
    /// the directory below a mount that is gone.
    ///
    /// # Errors
    /// In a sentence.
    pub fn identity(&self) -> Result<String, String> {
        match self {
            Self::Nfs(nfs) => Ok(format!("{:?}", nfs.mount.root().handle)),
            Self::Local(path) => {
                let failed = |error: &dyn Display| format!("{}: {error}", path.display());
                let inode = fs::metadata(path).map_err(|error| failed(&error))?.ino();
                let kind = statfs(path).map_err(|error| failed(&error))?.f_type;
                Ok(format!("inode {inode} of file system type {kind:#x}"))
            }
        }
    }

    /// Makes a new working directory and enters it.
    ///
    /// # Errors
    /// In a sentence.
    pub fn make(&mut self, name: &str) -> Result<(), String> {
        match self {
            Self::Nfs(nfs) => {
                let made = nfs.mount.mkdir(nfs.folder, name);
                nfs.folder = made.map_err(|error| format!("{name}: {error}"))?;
                let marked = nfs.mount.mkdir(nfs.folder, &mark_of(name));
                marked.map(drop).map_err(|error| format!("{name}: {error}"))
            }
            Self::Local(path) => {
                path.push(name);
                let made = fs::create_dir(&path).and_then(|()| {
                    fs::create_dir(path.join(mark_of(name)))?;
                    // It has to be there after a crash, whatever becomes of its files.
                    sync_names(&path.with_file_name("."))
                });
                made.map_err(|error| format!("can't make {}: {error}", path.display()))
            }
        }
    }

    /// Enters a working directory that was made before; returns false where there is none.
    ///
    /// # Errors
    /// In a sentence.
    pub fn enter(&mut self, name: &str) -> Result<bool, String> {
        match self {
            Self::Nfs(nfs) => match nfs.mount.lookup(nfs.folder, name) {
                Ok(folder) => {
                    nfs.folder = folder;
                    Ok(true)
                }
                Err(failure) if is_missing(&failure) => Ok(false),
                Err(failure) => Err(format!("{name}: {failure}")),
            },
            Self::Local(path) => {
                path.push(name);
                path.try_exists().map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }

    /// Creates a file, or empties it, to be written under a promise.
    ///
    /// # Errors
    /// In a sentence.
    pub fn create(&mut self, name: &str, promise: Durability) -> Result<OpenFile, String> {
        match self {
            Self::Nfs(nfs) => {
                let made = nfs.mount.create(nfs.folder, name);
                Ok(OpenFile::Nfs(made.map_err(|error| format!("{name}: {error}"))?))
            }
            Self::Local(folder) => {
                let mut options = options_for(promise);
                let made = options.create(true).truncate(true).open(folder.join(name));
                Ok(OpenFile::Local(made.map_err(|error| format!("can't create {name}: {error}"))?))
            }
        }
    }

    /// Opens a file that exists, to be written under a promise.
    ///
    /// # Errors
    /// In a sentence.
    pub fn open_file(&mut self, name: &str, promise: Durability) -> Result<OpenFile, String> {
        match self {
            Self::Nfs(nfs) => {
                let folder = nfs.folder;
                // Version 4 has to open a file; the others find it.
                let found = if nfs.mount.version().is_stateful() {
                    nfs.mount.open(folder, name, OpenAccess::Write)
                } else {
                    nfs.mount.lookup(folder, name)
                };
                Ok(OpenFile::Nfs(found.map_err(|error| format!("{name}: {error}"))?))
            }
            Self::Local(folder) => {
                let opened = options_for(promise).open(folder.join(name));
                Ok(OpenFile::Local(opened.map_err(|error| format!("can't open {name}: {error}"))?))
            }
        }
    }

    /// Writes all of `data`; under a promise that each write keeps, it is kept when this returns.
    ///
    /// # Errors
    /// In a sentence.
    pub fn write(
        &mut self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
        promise: Durability,
    ) -> Result<(), String> {
        match (self, file) {
            (Self::Nfs(nfs), OpenFile::Nfs(file)) => {
                let stable = match promise {
                    Durability::None | Durability::Close | Durability::Sync => StableHow::Unstable,
                    Durability::Dsync => StableHow::DataSync,
                    Durability::Osync => StableHow::FileSync,
                };
                let written = nfs.mount.write(*file, offset, data, stable);
                written.map(drop).map_err(|error| error.to_string())
            }
            (_, OpenFile::Local(file)) => {
                file.write_all_at(data, offset).map_err(|error| format!("can't write: {error}"))
            }
            (Self::Local(_), OpenFile::Nfs(_)) => Err("a file of another folder".to_owned()),
        }
    }

    /// Makes a file safe: COMMIT or `fsync`.
    ///
    /// # Errors
    /// In a sentence; also where the server has restarted since the last COMMIT, for then what was
    /// written before may be lost, and has to be written again (RFC 1813, 3.3.21).
    pub fn make_safe(&mut self, file: &OpenFile) -> Result<(), String> {
        match (self, file) {
            (Self::Nfs(nfs), OpenFile::Nfs(file)) => {
                let verifier = nfs.mount.commit(*file).map_err(|error| error.to_string())?;
                if nfs.verifier.is_some_and(|known| known != verifier) {
                    return Err("COMMIT: the server has another write verifier now".to_owned());
                }
                nfs.verifier = Some(verifier);
                Ok(())
            }
            (_, OpenFile::Local(file)) => {
                file.sync_all().map_err(|error| format!("fsync failed: {error}"))
            }
            (Self::Local(_), OpenFile::Nfs(_)) => Err("a file of another folder".to_owned()),
        }
    }

    /// Closes a file.
    ///
    /// # Errors
    /// In a sentence.
    pub fn close(&mut self, file: OpenFile) -> Result<(), String> {
        match (self, file) {
            (Self::Nfs(nfs), OpenFile::Nfs(file)) => {
                nfs.mount.close(file).map_err(|error| error.to_string())
            }
            // A network file system flushes here, and reports what it could not write.
            (_, OpenFile::Local(file)) => {
                close_file(file.into()).map_err(|error| format!("close failed: {error}"))
            }
            (Self::Local(_), OpenFile::Nfs(_)) => Err("a file of another folder".to_owned()),
        }
    }

    /// Renames a file, in place of another one.
    ///
    /// # Errors
    /// In a sentence.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        match self {
            Self::Nfs(nfs) => {
                nfs.mount.rename(nfs.folder, from, to).map_err(|error| error.to_string())
            }
            Self::Local(folder) => fs::rename(folder.join(from), folder.join(to))
                .map_err(|error| format!("can't rename {from}: {error}")),
        }
    }

    /// Makes the names of the folder safe; a server of NFS has done so before it answered.
    ///
    /// # Errors
    /// In a sentence.
    pub fn make_names_safe(&self) -> Result<(), String> {
        let Self::Local(folder) = self else { return Ok(()) };
        sync_names(folder).map_err(|error| format!("fsync of the directory failed: {error}"))
    }

    /// Reads a whole file, `None` where there is none.
    ///
    /// # Errors
    /// In a sentence.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Nfs(nfs) => {
                let file = match nfs.mount.lookup(nfs.folder, name) {
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
            Self::Local(folder) => match read_from_storage(&folder.join(name)) {
                Ok(data) => Ok(Some(data)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(format!("can't read {name}: {error}")),
            },
        }
    }
}

/// Makes the names of a directory safe. Some file systems can't: with kAFS each name is on the
/// server before the call that makes it returns.
fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // fsync(2): what can't be synced.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Options to write a file under a promise.
fn options_for(promise: Durability) -> OpenOptions {
    let flags = match promise {
        Durability::None | Durability::Close | Durability::Sync => OFlags::empty(),
        Durability::Dsync => OFlags::DSYNC,
        Durability::Osync => OFlags::SYNC,
    };
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Reads a file past what this host's page cache has of it, as far as the kernel drops that.
fn read_from_storage(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // Clean pages go; dirty ones are newer than what the server has, and remain.
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
    failure.status() == Some(nfs_client::proto::nfs3::Status::NoEnt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_can_not_be_synced_are_no_error() {
        sync_names(Path::new("/tmp")).unwrap();
        // The kernel has no fsync(2) there.
        sync_names(Path::new("/proc")).unwrap();
        let missing = sync_names(Path::new("/proc/none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
