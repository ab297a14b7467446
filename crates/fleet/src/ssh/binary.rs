//! A program that is put on another host: its name there is its hash.
//!
//! **Source:** elf(5), `e_ident` and `e_machine`.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A program for another host.
pub(super) struct Binary {
    path: PathBuf,
    /// SHA-256 in hexadecimal.
    pub hash: String,
    /// Size of the program, in bytes.
    pub len_bytes: u64,
    /// The machine that it is made for, as `uname -m` calls it.
    pub machine: &'static str,
}

impl Binary {
    /// Reads a program.
    ///
    /// # Errors
    /// When it can't be read, or is no program for a machine that is known; in a sentence.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        match Self::read_file(path) {
            Ok(Some(binary)) => Ok(binary),
            Ok(None) => Err(format!("{} is no program for Linux", path.display())),
            Err(error) => Err(format!("can't read {}: {error}", path.display())),
        }
    }

    /// Reads a program; `None` where it is none for a machine that is known.
    fn read_file(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        (&mut file).take(20).read_to_end(&mut head)?;
        let Some(machine) = machine_of(&head) else { return Ok(None) };
        file.rewind()?;
        let mut hasher = Sha256::new();
        let len_bytes = io::copy(&mut file, &mut hasher)?;
        let hash = to_hexadecimal(&hasher.finalize());
        Ok(Some(Self { path: path.to_owned(), hash, len_bytes, machine }))
    }

    /// Opens it from its start.
    ///
    /// # Errors
    /// When it is gone; in a sentence.
    pub(super) fn open(&self) -> Result<File, String> {
        File::open(&self.path)
            .map_err(|error| format!("can't read {}: {error}", self.path.display()))
    }
}

fn to_hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            digits.extend(char::from_digit(digit.into(), 16));
        }
    }
    digits
}

/// Returns the machine that a program is made for, by its first 20 bytes.
fn machine_of(head: &[u8]) -> Option<&'static str> {
    let (magic, machine) = (head.get(..4)?, head.get(18..20)?);
    // `e_machine` is in the byte order of the machine: only s390x is big-endian here.
    match (magic, machine) {
        (b"\x7fELF", [62, 0]) => Some("x86_64"),
        (b"\x7fELF", [183, 0]) => Some("aarch64"),
        (b"\x7fELF", [243, 0]) => Some("riscv64"),
        (b"\x7fELF", [21, 0]) => Some("ppc64le"),
        (b"\x7fELF", [0, 22]) => Some("s390x"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_bytes() {
        let me = std::env::current_exe().unwrap();
        let binary = Binary::read(&me).unwrap();
        assert_eq!(binary.machine, std::env::consts::ARCH);
        assert_eq!((binary.hash.len(), binary.len_bytes), (64, me.metadata().unwrap().len()));
        let folder = tempfile::tempdir().unwrap();
        let (elf, script) = (folder.path().join("elf"), folder.path().join("script"));
        std::fs::write(&elf, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0").unwrap();
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let other = Binary::read(&elf).unwrap();
        assert_eq!((other.machine, other.len_bytes), ("aarch64", 20));
        // **Source:** sha256sum(1) on the same bytes.
        assert!(other.hash.starts_with("14a64a4ac184dd78") && other.hash.ends_with("9a6f137d"));
        assert!(Binary::read(&script).err().unwrap().ends_with("script is no program for Linux"));
        assert!(Binary::read(folder.path()).is_err());
    }
}
