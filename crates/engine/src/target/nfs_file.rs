//! Reads a file of an NFS server from start to end, such as one that a campaign wrote.

use std::io::{self, Read};

use model::NfsTarget;
use nfs_client::Mount;
use nfs_client::proto::client::File;

use super::mount_options::mount_options;

/// An open file of an NFS server.
pub struct NfsFile {
    mount: Mount,
    file: File,
    /// Position of the next byte.
    offset: u64,
}

impl NfsFile {
    /// Opens the file at the target's path.
    ///
    /// # Errors
    /// If its directory can't be mounted, or there is no such file.
    pub fn open(target: &NfsTarget) -> Result<Self, String> {
        // Treat the directory as the export, since a file can't be mounted.
        let (directory, name) = target.path.rsplit_once('/').unwrap_or(("/", &target.path));
        let target = NfsTarget { path: directory.to_owned(), ..target.clone() };
        let mut mount =
            Mount::connect(&mount_options(&target)).map_err(|error| error.to_string())?;
        let file = mount.lookup(mount.root(), name).map_err(|error| error.to_string())?;
        Ok(Self { mount, file, offset: 0 })
    }
}

impl Read for NfsFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.mount.read(self.file, self.offset, buffer.len());
        let data = read.map_err(|error| io::Error::other(error.to_string()))?;
        buffer[..data.len()].copy_from_slice(&data);
        self.offset += data.len() as u64;
        Ok(data.len())
    }
}
