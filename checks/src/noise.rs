//! Bytes that neither repeat nor compress, for files read by peers.
//!
//! Main type: [`Noise`], an endless stream. It is the same every time for each seed, so a failing
//! check can be repeated.
//!
//! **Source:** Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"
//! (2016), xorshift64*.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};

/// An endless stream of bytes.
pub struct Noise {
    state: u64,
}

impl Noise {
    const fn new() -> Self {
        Self { state: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Returns the stream of a seed.
    pub const fn seeded(seed: u64) -> Self {
        let state = Self::new().state ^ seed;
        // A state of zeros would never change.
        Self { state: if state == 0 { 1 } else { state } }
    }

    /// Returns the next number in the range 0 to 1, excluding 1.
    pub fn next_share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    const fn word(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

impl Read for Noise {
    /// Fills the buffer with whole words; the rest of the last word is dropped.
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

/// Writes a file of this size and waits until it is on disk.
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
    use super::{Noise, make_bytes};

    #[test]
    fn repeats_bytes_but_no_block() {
        let noise = make_bytes(1 << 20);
        assert_eq!(noise, make_bytes(1 << 20));
        let mut blocks: Vec<&[u8]> = noise.chunks(512).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn gives_each_seed_its_shares() {
        // The last one would make a state of zeros.
        for seed in [0, 2, 13_147, Noise::new().state] {
            let mut one = Noise::seeded(seed);
            let mut again = Noise::seeded(seed);
            let mut other = Noise::seeded(seed + 1);
            let mut below_half = 0;
            for _ in 0..1_000 {
                let share = one.next_share();
                assert!((0.0..1.0).contains(&share));
                assert_eq!(share.to_bits(), again.next_share().to_bits());
                assert_ne!(share.to_bits(), other.next_share().to_bits());
                below_half += u32::from(share < 0.5);
            }
            assert!((400..600).contains(&below_half), "{seed}: {below_half}");
        }
    }
}
