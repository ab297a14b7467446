//! Export roots returned by MOUNT, until NFS uses them.
//!
//! Several servers may share an address, each with its own port and handles. NFS tells them apart
//! by the port of the connection. MOUNT uses a different port, so it is unknown which server a root
//! belongs to until a connection presents it.

use std::collections::HashMap;

/// Maximum number of waiting roots; further ones become separate files.
const ROOTS_MAX: usize = 1 << 16;

/// Numbers of roots by host and handle.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// By a hash of host and handle; two servers on a host may have equal handles.
    waiting: HashMap<u64, Vec<u32>>,
}

impl Roots {
    /// Returns true if no root is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a root that MOUNT returned for the first time.
    pub(crate) fn add(&mut self, hash: u64, number: u32) {
        if self.waiting.len() < ROOTS_MAX {
            self.waiting.entry(hash).or_default().push(number);
        }
    }

    /// Takes the root for a handle that a server has not seen before, in the order of mounts.
    pub(crate) fn take_first(&mut self, hash: u64) -> Option<u32> {
        let numbers = self.waiting.get_mut(&hash)?;
        let first = numbers.remove(0);
        if numbers.is_empty() {
            self.waiting.remove(&hash);
        }
        Some(first)
    }

    /// Removes a root that is used at the port of its mount.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        if let Some(numbers) = self.waiting.get_mut(&hash) {
            numbers.retain(|waiting| *waiting != number);
            if numbers.is_empty() {
                self.waiting.remove(&hash);
            }
        }
    }
}
