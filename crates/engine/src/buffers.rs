//! Aligned memory for ops in flight: one region with a slot per op.
//!
//! This is safe code: the region is over-allocated and starts at the first aligned byte. It never
//! moves or grows after [`Buffers::new`], so its addresses can be passed to the kernel.

use crate::limits::ALIGNMENT;

/// Slots of equal size in one aligned region.
pub(crate) struct Buffers {
    memory: Vec<u8>,
    start: usize,
    slot_bytes: usize,
}

impl Buffers {
    /// Creates `slots` slots of at least `slot_bytes` each and touches all their pages.
    pub(crate) fn new(slots: usize, slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.next_multiple_of(ALIGNMENT);
        // Fill them with a nonzero value, since untouched pages would fault in the first measured
        // ops.
        let memory = vec![0xa5; slots * slot_bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, slot_bytes }
    }

    /// Returns the buffer of one slot.
    pub(crate) fn slot(&mut self, slot: usize) -> &mut [u8] {
        let at = self.start + slot * self.slot_bytes;
        &mut self.memory[at..at + self.slot_bytes]
    }

    /// Returns all slots as one slice.
    pub(crate) fn region(&mut self) -> &mut [u8] {
        let end = self.memory.len() - ALIGNMENT + self.start;
        &mut self.memory[self.start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut buffers = Buffers::new(3, 5000);
        for slot in 0..3 {
            assert_eq!(buffers.slot(slot).as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffers.slot(slot).len(), 8192);
            buffers.slot(slot).fill(slot as u8);
        }
        assert_eq!(buffers.region().len(), 3 * 8192);
        assert!(buffers.region().chunks(8192).enumerate().all(|(i, s)| s[0] == i as u8));
    }
}
