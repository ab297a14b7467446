//! Bytes that never change: what holes and a discarding store read as.
//!
//! They stand twice: in memory, for small pieces, and in an anonymous file, from which the kernel
//! hands whole pages to a socket without copying them. Only bytes that nobody can ever change may
//! be sent so: on loopback the receiver sees the very pages, long after the call returned.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, memfd_create};

use super::block::BLOCK_BYTES;

/// The pattern of one place, then as many zeros.
static BYTES: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut bytes = pattern(BLOCK_BYTES);
    bytes.resize(2 * BLOCK_BYTES, 0);
    bytes.into_boxed_slice()
});

/// The same bytes in a file; `None` where the system has no such files.
static FILE: LazyLock<Option<OwnedFd>> = LazyLock::new(|| {
    let file = memfd_create(c"dfsbench-fixed", MemfdFlags::CLOEXEC).ok()?;
    let written = rustix::io::write(&file, &BYTES).ok()?;
    (written == BYTES.len()).then_some(file)
});

/// `len` zero bytes, at most `BLOCK_BYTES`.
pub(super) fn zeros(len: usize) -> &'static [u8] {
    &BYTES[BLOCK_BYTES..BLOCK_BYTES + len]
}

/// The part `[start, end)` of what a discarding store returns for each place.
pub(super) fn discarded(start: usize, end: usize) -> &'static [u8] {
    &BYTES[..BLOCK_BYTES][start..end]
}

/// Where fixed bytes stand in the file.
pub(super) fn in_file(bytes: &[u8]) -> Option<(BorrowedFd<'static>, u64)> {
    let offset = bytes.as_ptr().addr().checked_sub(BYTES.as_ptr().addr())?;
    let is_ours = offset + bytes.len() <= BYTES.len();
    let file = FILE.as_ref().filter(|_| is_ours)?;
    Some((file.as_fd(), offset as u64))
}

/// Bytes that do not compress. **Source:** xorshift64, Marsaglia 2003, triple (13, 7, 17).
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(2 * len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_what_memory_holds() {
        for bytes in [zeros(1000), &zeros(BLOCK_BYTES)[77..], discarded(5, 300), discarded(9, 9)] {
            let (file, offset) = in_file(bytes).unwrap();
            let mut found = vec![1; bytes.len()];
            rustix::io::pread(file, &mut found, offset).unwrap();
            assert_eq!(found, bytes);
        }
        assert!(in_file(b"other bytes").is_none());
    }
}
