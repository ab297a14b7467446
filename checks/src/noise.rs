//! Bytes that neither repeat nor compress, for the files that peers read.
//!
//! Principal type: `Noise`, an endless stream. The same every time: a check that fails can be
//! repeated.
//!
//! **Source:** Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"
//! (2016), xorshift64*.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};

/// An endless stream of bytes.
struct Noise {
    state: u64,
}

impl Noise {
    const fn new() -> Self {
        Self { state: 0x9E37_79B9_7F4A_7C15 }
    }

    const fn word(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

impl Read for Noise {
    /// Fills the buffer, whole words first; the rest of the last word is dropped.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for chunk in buffer.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(buffer.len())
    }
}

/// Returns this many bytes.
pub fn make_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Noise::new().read_exact(&mut bytes).expect("the stream never ends");
    bytes
}

/// Writes a file of this many bytes and waits until it is on disk.
///
/// # Errors
/// Where it can't be written.
pub fn write_file(path: &Path, len: u64) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        io::copy(&mut Noise::new().take(len), &mut file)?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::make_bytes;

    #[test]
    fn the_same_bytes_every_time_and_no_block_twice() {
        let noise = make_bytes(1 << 20);
        assert_eq!(noise, make_bytes(1 << 20));
        let mut blocks: Vec<&[u8]> = noise.chunks(512).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
