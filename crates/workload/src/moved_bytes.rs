//! How many bytes ops move.
//!
//! [`MovedBytes`] keeps what is read apart from what is written. The modules that draw ops compute
//! its means, for estimates before a run.

/// Bytes that ops read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl MovedBytes {
    /// Returns the sum of both.
    pub const fn all(&self) -> u64 {
        self.read.saturating_add(self.written)
    }
}
