//! The kernel's counts of this thread's reads and writes.
//!
//! An independent cross-check for synchronous backends: `rchar` and `wchar` in
//! `/proc/thread-self/io` count every byte transferred by `read` and `write` calls.
//!
//! **Source:** proc_pid_io(5).

use std::fs::File;
use std::io::Read as _;

/// One thread's counters at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadIo {
    read_bytes: u64,
    write_bytes: u64,
    /// Bytes by which reading these counters has itself increased `read_bytes` afterwards.
    own_bytes: u64,
}

impl ThreadIo {
    /// Reads the counters of the calling thread. Returns `None` if the kernel does not keep them.
    pub(crate) fn now() -> Option<Self> {
        let mut text = [0_u8; 512];
        let len = File::open("/proc/thread-self/io").ok()?.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        let field = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        Some(Self {
            read_bytes: field("rchar:")?,
            write_bytes: field("wchar:")?,
            own_bytes: len as u64,
        })
    }

    /// Returns the bytes read and written by system calls since an earlier reading.
    pub(crate) const fn since(self, earlier: Self) -> (u64, u64) {
        (
            self.read_bytes - earlier.read_bytes - earlier.own_bytes,
            self.write_bytes - earlier.write_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    #[test]
    fn counts_io_of_thread() {
        let mut file = tempfile::tempfile().unwrap();
        let before = ThreadIo::now().unwrap();
        file.write_all(&[1; 3000]).unwrap();
        file.rewind().unwrap();
        file.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(ThreadIo::now().unwrap().since(before), (1000, 3000));
    }
}
