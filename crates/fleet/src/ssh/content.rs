//! Bytes that are sent to a host: the first of a file, of which the very first may be replaced.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// The first bytes of a file, of which the very first may be replaced.
pub(super) struct Content {
    file: File,
    /// The bytes in the place of as many at the start of the file.
    head: Vec<u8>,
    pub len_bytes: u64,
}

/// A reader of a [`Content`], from its start.
pub(super) struct ContentReader {
    content: Arc<Content>,
    at: u64,
}

impl Content {
    /// Takes so many bytes of a file, with others in the place of the first.
    pub(super) fn new(file: File, head: Vec<u8>, len_bytes: u64) -> Self {
        Self { file, head, len_bytes }
    }

    /// Takes all bytes that a file has.
    ///
    /// # Errors
    /// When the file can't be examined.
    pub(super) fn of_file(file: File) -> io::Result<Self> {
        let len_bytes = file.metadata()?.len();
        Ok(Self { file, head: Vec::new(), len_bytes })
    }
}

impl ContentReader {
    /// Begins to read.
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
            // Several hosts read at one moment, so none moves the position of the file.
            _ => file.read_at(buffer, self.at)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}

/// Returns the SHA-256 of all that can be read, in hexadecimal.
///
/// # Errors
/// Those of the reader.
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
