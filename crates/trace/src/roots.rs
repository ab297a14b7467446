//! Roots of exports that MOUNT has returned, until NFS uses them.
//!
//! Several servers may have one address and a port each, and handles of their own. NFS
//! distinguishes them by the port of the connection. MOUNT has another port, so that it is not
//! known which server a root belongs to before a connection to one presents it: then it is that
//! server's.

use std::collections::HashMap;

/// Roots that wait at most; the mounts of further ones are files of their own.
const ROOTS_MAX: usize = 1 << 16;

/// Numbers of roots by host and handle.
#[derive(Debug, Default)]
pub struct Roots {
    /// By a hash of the host and the handle; two servers of a host may have equal handles.
    waiting: HashMap<u64, Vec<u32>>,
}

impl Roots {
    /// Tells whether a root waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a root that MOUNT returned for the first time.
    pub fn add(&mut self, hash: u64, number: u32) {
        if self.waiting.len() < ROOTS_MAX {
            self.waiting.entry(hash).or_default().push(number);
        }
    }

    /// Takes the root of a handle that a server has not seen before, the one mounted first.
    pub fn take_first(&mut self, hash: u64) -> Option<u32> {
        let numbers = self.waiting.get_mut(&hash)?;
        let first = numbers.remove(0);
        if numbers.is_empty() {
            self.waiting.remove(&hash);
        }
        Some(first)
    }

    /// Removes a root that is used at the port of its mount.
    pub fn remove(&mut self, hash: u64, number: u32) {
        if let Some(numbers) = self.waiting.get_mut(&hash) {
            numbers.retain(|waiting| *waiting != number);
            if numbers.is_empty() {
                self.waiting.remove(&hash);
            }
        }
    }
}
