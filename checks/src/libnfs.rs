//! libnfs as an independent client: its programs `nfs-cp`, `nfs-cat` and `nfs-ls`.
//!
//! Main type: [`Export`], an address that can be written in the syntax of libnfs and in that of
//! dfsbench. Both contain the port of MOUNT, so that no portmapper is needed.
//!
//! **Source:** libnfs 4.0, README, "URL-FORMAT".

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::proc;

/// An export of a server on loopback.
#[derive(Clone, Debug)]
pub struct Export {
    /// Port of NFS.
    pub port: u16,
    pub mount_port: u16,
    /// Path of the export, with a leading slash.
    pub path: String,
}

impl Export {
    /// Returns the address of a file (or of the root: "") in libnfs syntax, for NFSv3.
    pub fn for_libnfs(&self, file: &str) -> String {
        let Self { port, mount_port, path } = self;
        format!(
            "nfs://127.0.0.1{path}/{file}?version=3&nfsport={port}&mountport={mount_port}&uid=0&gid=0"
        )
    }

    /// Returns the address of a file (or of the export: "") in dfsbench syntax, for NFSv3.
    pub fn for_us(&self, file: &str) -> String {
        let Self { port, mount_port, path } = self;
        let slash = if file.is_empty() { "" } else { "/" };
        format!("nfs://127.0.0.1:{port}{path}{slash}{file}?version=3&mountport={mount_port}")
    }
}

/// Writes a local file to the server. The name must be new there.
///
/// # Errors
/// If `nfs-cp` fails.
pub fn copy_to(from: &Path, to: &Export, name: &str) -> Result<()> {
    proc::capture_stdout(Command::new("nfs-cp").arg(from).arg(to.for_libnfs(name))).map(|_| ())
}

/// Reads a whole file from the server.
///
/// # Errors
/// If `nfs-cat` fails.
pub fn read_file(export: &Export, name: &str) -> Result<Vec<u8>> {
    proc::capture_stdout(Command::new("nfs-cat").arg(export.for_libnfs(name)))
}

/// Returns the names of all files below the root of an export, with their directories.
///
/// # Errors
/// If `nfs-ls` fails.
pub fn list_files(export: &Export) -> Result<Vec<String>> {
    let listing = proc::capture_text(Command::new("nfs-ls").arg("-R").arg(export.for_libnfs("")))?;
    // `-rw-r--r--  1     0     0        12 ./folder/file`; directories start with `d`.
    Ok(listing
        .lines()
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.trim_start_matches("./").trim_start_matches('/').to_owned())
        .collect())
}

/// Compares two contents byte by byte and reports the first difference.
pub fn compare_bytes(what: &str, got: &[u8], want: &[u8]) -> Result<()> {
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        ensure!(got == want, "{what}: differs first at byte {index}");
    }
    ensure!(got.len() == want.len(), "{what}: {} bytes, not {}", got.len(), want.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Export, compare_bytes};

    #[test]
    fn names_first_difference() {
        assert!(compare_bytes("x", b"abc", b"abc").is_ok());
        assert!(compare_bytes("x", b"abd", b"abc").unwrap_err().to_string().contains("byte 2"));
        assert!(
            compare_bytes("x", b"ab", b"abc").unwrap_err().to_string().contains("2 bytes, not 3")
        );
    }

    #[test]
    fn addresses_are_spelled_for_both_readers() {
        let export = Export { port: 7, mount_port: 8, path: "/vfs".to_owned() };
        let theirs = "nfs://127.0.0.1/vfs/a?version=3&nfsport=7&mountport=8&uid=0&gid=0";
        assert_eq!(export.for_libnfs("a"), theirs);
        assert_eq!(export.for_us("a"), "nfs://127.0.0.1:7/vfs/a?version=3&mountport=8");
        assert_eq!(export.for_us(""), "nfs://127.0.0.1:7/vfs?version=3&mountport=8");
    }
}
