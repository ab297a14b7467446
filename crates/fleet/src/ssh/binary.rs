//! A program that is copied to other hosts: the bytes to send, and their hash, which names it
//! there.
//!
//! Only the part that the kernel loads is sent. Debug information and symbols come after it and
//! make up most of the file. [`Binary::hash`] is the hash of the bytes that the host executes.
//!
//! **Source:** elf(5), `e_ident` and `e_machine`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::content::{Content, ContentReader, hash_of};
use super::{elf, packed};

pub(super) struct Binary {
    /// The bytes that a host executes.
    pub content: Arc<Content>,
    /// SHA-256 of the content, in hexadecimal.
    pub hash: String,
    /// SHA-256 of the first bytes of the original file, over the same length. Identifies an
    /// installed copy.
    pub(crate) file_hash: String,
    /// Machine the program was built for, as reported by `uname -m`.
    pub machine: &'static str,
    /// Gzipped content, created when a host needs it. `None` if compression failed.
    packed: OnceLock<Option<Arc<Content>>>,
}

impl Binary {
    /// Reads a program.
    ///
    /// # Errors
    /// If it cannot be read or isn't a program for a known machine. The error is a sentence.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        match Self::read_file(path) {
            Ok(Some(binary)) => Ok(binary),
            Ok(None) => Err(format!("{} is not a Linux program", path.display())),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// Reads a program. Returns `None` if it isn't one for a known machine.
    fn read_file(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut head = Vec::new();
        (&file).take(elf::HEADER_BYTES as u64).read_to_end(&mut head)?;
        let Some(machine) = machine_of(&head) else { return Ok(None) };
        let len_bytes = elf::loaded_bytes(&file, &head)?;
        let unchanged = Arc::new(Content::new(file.try_clone()?, Vec::new(), len_bytes));
        let file_hash = hash_of(&mut ContentReader::new(&unchanged))?;
        if len_bytes == file.metadata()?.len() {
            let hash = file_hash.clone();
            let packed = OnceLock::new();
            return Ok(Some(Self { content: unchanged, hash, file_hash, machine, packed }));
        }
        elf::forget_sections(&mut head);
        let content = Arc::new(Content::new(file, head, len_bytes));
        let hash = hash_of(&mut ContentReader::new(&content))?;
        Ok(Some(Self { content, hash, file_hash, machine, packed: OnceLock::new() }))
    }

    /// Returns the gzipped content, or `None` if this host has no space for it.
    ///
    /// It is created for the first host that needs it and kept in `cache` for later campaigns.
    pub(super) fn packed(&self, cache: Option<&Path>) -> Option<&Arc<Content>> {
        let packed = self.packed.get_or_init(|| packed::pack(&self.content, &self.hash, cache));
        packed.as_ref()
    }
}

/// Returns the machine a program was built for, given its first 20 bytes.
fn machine_of(head: &[u8]) -> Option<&'static str> {
    let magic = head.get(..4)?;
    let machine = head.get(18..20)?;
    // `e_machine` is in the machine's own byte order. Of these, only s390x is big-endian.
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
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn identifies_program_by_its_bytes() {
        let me = std::env::current_exe().unwrap();
        let binary = Binary::read(&me).unwrap();
        assert_eq!(binary.machine, std::env::consts::ARCH);
        assert_eq!((binary.hash.len(), binary.file_hash.len()), (64, 64));
        let folder = tempfile::tempdir().unwrap();
        let elf = folder.path().join("elf");
        let script = folder.path().join("script");
        std::fs::write(&elf, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0").unwrap();
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let other = Binary::read(&elf).unwrap();
        assert_eq!((other.machine, other.content.len_bytes), ("aarch64", 20));
        // **Source:** sha256sum(1) of the same bytes.
        assert!(other.hash.starts_with("14a64a4ac184dd78") && other.hash.ends_with("9a6f137d"));
        assert_eq!(other.hash, other.file_hash);
        let refused = Binary::read(&script).err().unwrap();
        insta::assert_snapshot!(
            refused.replace(folder.path().to_str().unwrap(), "[folder]"),
            @"[folder]/script is not a Linux program"
        );
        assert!(Binary::read(folder.path()).is_err());
    }

    #[test]
    fn sends_smaller_program_that_runs() {
        let me = std::env::current_exe().unwrap();
        let whole = me.metadata().unwrap().len();
        let binary = Binary::read(&me).unwrap();
        assert!(binary.content.len_bytes < whole, "{} of {whole}", binary.content.len_bytes);
        let folder = tempfile::tempdir().unwrap();
        let sent = folder.path().join("sent");
        let mut out = File::create(&sent).unwrap();
        io::copy(&mut ContentReader::new(&binary.content), &mut out).unwrap();
        drop(out);
        assert_eq!(hash_of(&mut File::open(&sent).unwrap()).unwrap(), binary.hash);
        std::fs::set_permissions(&sent, std::fs::Permissions::from_mode(0o755)).unwrap();
        let listed = Command::new(&sent).arg("--list").output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(
            listed.status.success() && text.contains("sends_smaller_program_that_runs"),
            "{text}"
        );
        // An installed copy is recognized by its first bytes.
        let mut installed = File::open(&me).unwrap().take(binary.content.len_bytes);
        assert_eq!(hash_of(&mut installed).unwrap(), binary.file_hash);
        // Stripping it again changes nothing.
        let again = Binary::read(&sent).unwrap();
        assert_eq!((&again.hash, &again.file_hash), (&binary.hash, &binary.hash));
    }
}
