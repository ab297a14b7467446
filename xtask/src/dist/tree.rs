//! Packed files: the same bytes for the same files, however they were made.
//!
//! Main type: [`Tree`], files sorted by path. Its archive has entries for their directories, one
//! owner, and one time.
//!
//! **Source:** POSIX.1-2017, pax, "ustar Interchange Format"; RFC 1952 for the header of gzip, RFC
//! 8878 for zstd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use crate::proc;

/// The highest level that needs at most 8 MiB of memory for unpacking.
const ZSTD_LEVEL: i32 = 19;
/// Mode of a directory without its own entry.
const FOLDER_MODE: u32 = 0o755;

/// A file or a directory.
#[derive(Clone)]
struct Entry {
    /// `None` for a directory.
    bytes: Option<Vec<u8>>,
    mode: u32,
}

/// Files and directories by path, such as `usr/bin/dfsbench`.
#[derive(Clone, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Adds a file that everyone may read.
    pub fn add_file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.entries.insert(path.to_owned(), Entry { bytes: Some(bytes.into()), mode: 0o644 });
    }

    /// Adds a file that everyone may execute.
    pub fn add_program(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.entries.insert(path.to_owned(), Entry { bytes: Some(bytes.into()), mode: 0o755 });
    }

    /// Adds a directory with its own mode.
    pub fn add_folder(&mut self, path: &str, mode: u32) {
        self.entries.insert(path.to_owned(), Entry { bytes: None, mode });
    }

    /// Moves the files below one directory to another.
    pub fn move_files(&mut self, from: &str, to: &str) {
        for (path, entry) in std::mem::take(&mut self.entries) {
            let path = match path.strip_prefix(from) {
                Some(name) => format!("{to}{name}"),
                None => path,
            };
            self.entries.insert(path, entry);
        }
    }

    /// Lists the files with their bytes, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let entries = self.entries.iter();
        entries.filter_map(|(path, entry)| Some((path.as_str(), entry.bytes.as_deref()?)))
    }

    /// Writes the files below a directory, for the packaging tools.
    pub fn write_below(&self, folder: &Path) -> Result<()> {
        for (path, entry) in self.with_folders() {
            let at = folder.join(&path);
            match &entry.bytes {
                Some(bytes) => fs::write(&at, bytes),
                None => fs::create_dir_all(&at),
            }
            .with_context(|| format!("cannot write {}", at.display()))?;
            fs::set_permissions(&at, fs::Permissions::from_mode(entry.mode))?;
        }
        Ok(())
    }

    /// Packs the files as a tar archive; `epoch` is the time of all of them.
    pub fn to_tar(&self, epoch: u64) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in self.with_folders() {
            let bytes = entry.bytes.as_deref().unwrap_or_default();
            let mut header = tar::Header::new_ustar();
            header.set_mode(entry.mode);
            header.set_mtime(epoch);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(bytes.len() as u64);
            let is_folder = entry.bytes.is_none();
            let kind = if is_folder { tar::EntryType::Directory } else { tar::EntryType::Regular };
            header.set_entry_type(kind);
            let name = if is_folder { format!("{path}/") } else { path };
            archive.append_data(&mut header, name, bytes)?;
        }
        Ok(archive.into_inner()?)
    }

    /// Returns all entries, and one for each directory without its own, directories first.
    fn with_folders(&self) -> Vec<(String, Entry)> {
        let mut folders = BTreeSet::new();
        for path in self.entries.keys() {
            folders.extend(path.match_indices('/').map(|(end, _)| &path[..end]));
        }
        let mut all: BTreeMap<_, _> = folders
            .into_iter()
            .map(|folder| (folder.to_owned(), Entry { bytes: None, mode: FOLDER_MODE }))
            .collect();
        all.extend(self.entries.iter().map(|(path, entry)| (path.clone(), entry.clone())));
        all.into_iter().collect()
    }
}

/// Compresses bytes with gzip, without a name or a time.
///
/// # Errors
/// Never: it writes to memory.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(packed.finish()?)
}

/// Compresses bytes like image layers: gzip would need a fifth more.
///
/// # Errors
/// Never: it writes to memory.
pub fn zstd(bytes: &[u8]) -> Result<Vec<u8>> {
    Ok(zstd::encode_all(bytes, ZSTD_LEVEL)?)
}

/// Compresses bytes with the xz program, which every distribution has.
pub fn xz(bytes: &[u8]) -> Result<Vec<u8>> {
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("archive");
    fs::write(&file, bytes)?;
    // More threads would split the data differently.
    proc::capture_stdout(Command::new("xz").args(["-9", "--threads=1", "--stdout"]).arg(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(order: [&str; 3]) -> Tree {
        let mut tree = Tree::default();
        for path in order {
            match path {
                "tmp" => tree.add_folder(path, 0o1777),
                "usr/bin/tool" => tree.add_program(path, "run"),
                _ => tree.add_file(path, path),
            }
        }
        tree
    }

    #[test]
    fn sorts_archive_entries() {
        let one = tree(["usr/bin/tool", "tmp", "usr/a"]).to_tar(86_400).unwrap();
        let other = tree(["usr/a", "usr/bin/tool", "tmp"]).to_tar(86_400).unwrap();
        assert!(one == other);
        for pack in [gzip, zstd, xz] {
            assert!(pack(&one).unwrap() == pack(&other).unwrap());
        }
        let mut seen = Vec::new();
        for entry in tar::Archive::new(one.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!([header.uid().unwrap(), header.gid().unwrap()], [0, 0]);
            assert_eq!(header.mtime().unwrap(), 86_400);
            let path = entry.path().unwrap().display().to_string();
            seen.push((path, header.mode().unwrap()));
        }
        let want = [
            ("tmp/", 0o1777),
            ("usr/", 0o755),
            ("usr/a", 0o644),
            ("usr/bin/", 0o755),
            ("usr/bin/tool", 0o755),
        ];
        assert_eq!(seen, want.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn detects_other_time_in_bytes() {
        let tree = tree(["usr/bin/tool", "tmp", "usr/a"]);
        assert!(tree.to_tar(1).unwrap() != tree.to_tar(2).unwrap());
    }

    #[test]
    fn files_are_written_with_their_modes() {
        let folder = tempfile::tempdir().unwrap();
        tree(["usr/bin/tool", "tmp", "usr/a"]).write_below(folder.path()).unwrap();
        let mode = |path: &str| {
            fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o7777
        };
        assert_eq!([mode("usr/bin/tool"), mode("usr/a"), mode("tmp")], [0o755, 0o644, 0o1777]);
    }
}
