//! The bytes sent to a host: a prefix of a file, whose first bytes may be replaced.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// A prefix of a file, whose first bytes may be replaced.
pub(super) struct Content {
    file: File,
    /// Replacement for the bytes at the start of the file.
    head: Vec<u8>,
    pub len_bytes: u64,
}

/// Reads a [`Content`] from its start.
pub(super) struct ContentReader {
    content: Arc<Content>,
    at: u64,
}

impl Content {
    /// Takes the first `len_bytes` of a file and replaces its start with `head`.
    pub(super) fn new(file: File, head: Vec<u8>, len_bytes: u64) -> Self {
        Self { file, head, len_bytes }
    }

    /// Takes a whole file.
    pub(super) fn from_file(file: File) -> io::Result<Self> {
        let len_bytes = file.metadata()?.len();
        Ok(Self { file, head: Vec::new(), len_bytes })
    }
}

impl ContentReader {
    pub(super) fn new(content: &Arc<Content>) -> Self {
        Self { content: Arc::clone(content), at: 0 }
    }
}

impl Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Content { file, head, len_bytes } = &*self.content;
        let left = len_bytes.saturating_sub(self.at).min(buffer.len() as u64);
        let buffer = &mut buffer[..left as usize];
        let count = match usize::try_from(self.at) {
            Ok(at) if at < head.len() => (&head[at..]).read(buffer)?,
            // Several hosts read at the same time, so use positioned reads.
            _ => file.read_at(buffer, self.at)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}

/// Returns the SHA-256 of everything in a reader, in hexadecimal.
pub(super) fn hash_of(reader: &mut impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(reader, &mut hasher)?;
    Ok(to_hexadecimal(&hasher.finalize()))
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
