//! Payload of a WRITE, received into the blocks that the file will consist of.
//!
//! A [`Payload`] has one buffer for each place of the file that the WRITE touches. Nobody else sees
//! them until all bytes have arrived and the call is executed. Then buffers that cover a place
//! become its block, without a copy; the others are written like any data. If the call never
//! arrives, the buffers go back, and the file is unchanged.

use std::io::IoSliceMut;
use std::sync::Arc;

use super::block::BLOCK_BYTES;
use super::budget::Budget;

/// See the module.
#[derive(Debug)]
pub struct Payload {
    budget: Arc<Budget>,
    offset: u64,
    len: usize,
    filled: usize,
    /// The bytes of each place; all but the first and the last cover theirs. None if they are
    /// dropped.
    parts: Vec<Vec<u8>>,
}

impl Payload {
    /// Makes room for `len` bytes at `offset`. `None` if they don't cover any place, or if files
    /// use all of the budget: then old blocks are better overwritten, since neither they nor the
    /// new ones could be kept for the next payload.
    pub(super) fn new(budget: &Arc<Budget>, offset: u64, len: usize) -> Option<Self> {
        let start = (offset % BLOCK_BYTES as u64) as usize;
        let before = (BLOCK_BYTES - start) % BLOCK_BYTES;
        if len < before + BLOCK_BYTES {
            return None;
        }
        offset.checked_add(len as u64)?;
        let parts = Vec::with_capacity(len / BLOCK_BYTES + 2);
        let mut payload = Self { budget: Arc::clone(budget), offset, len, filled: 0, parts };
        let mut left = len;
        while left > 0 {
            let is_first = payload.parts.is_empty();
            let part_len = left.min(if is_first && before > 0 { before } else { BLOCK_BYTES });
            let spare = if part_len == BLOCK_BYTES { budget.take_spare() } else { None };
            let mut part = match spare {
                Some(spare) => spare,
                None if part_len == BLOCK_BYTES && !budget.has_room(BLOCK_BYTES as u64) => {
                    return None;
                }
                None => vec![0; part_len],
            };
            // A spare buffer has all its old bytes, or nearly: they need not be set again.
            part.resize(part_len, 0);
            payload.parts.push(part);
            left -= part_len;
        }
        Some(payload)
    }

    /// Returns a payload whose bytes are dropped, for a store that discards data.
    pub(super) fn dropped(budget: &Arc<Budget>, offset: u64, len: usize) -> Self {
        Self { budget: Arc::clone(budget), offset, len, filled: 0, parts: Vec::new() }
    }

    /// Whether nothing reads the bytes.
    pub fn is_dropped(&self) -> bool {
        self.parts.is_empty()
    }

    /// Offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// Number of bytes that have not arrived.
    pub fn missing_bytes(&self) -> usize {
        self.len - self.filled
    }

    /// Fills `slices` from the front with the memory for the missing bytes, and returns how many
    /// there are.
    pub fn free_space<'a>(&'a mut self, slices: &mut [IoSliceMut<'a>]) -> usize {
        let mut skipped = self.filled;
        let mut count = 0;
        for part in &mut self.parts {
            let start = skipped.min(part.len());
            skipped -= start;
            if start == part.len() {
                continue;
            }
            let Some(slice) = slices.get_mut(count) else { break };
            *slice = IoSliceMut::new(&mut part[start..]);
            count += 1;
        }
        count
    }

    /// Records that the next `count` bytes have arrived in [`Payload::free_space`].
    ///
    /// # Panics
    /// If fewer are missing.
    pub fn mark_filled(&mut self, count: usize) {
        assert!(count <= self.missing_bytes(), "more bytes than the payload has");
        self.filled += count;
    }

    /// Copies the next bytes.
    ///
    /// # Panics
    /// If fewer are missing.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.mark_filled(bytes.len());
        let mut skipped = self.filled - bytes.len();
        for part in &mut self.parts {
            let start = skipped.min(part.len());
            skipped -= start;
            let (head, rest) = bytes.split_at(bytes.len().min(part.len() - start));
            part[start..start + head.len()].copy_from_slice(head);
            bytes = rest;
        }
    }

    /// Copies the whole payload; zeros if it was dropped.
    pub fn to_vec(&self) -> Vec<u8> {
        if self.is_dropped() { vec![0; self.len] } else { self.parts.concat() }
    }

    /// Takes the next part from the front: its offset and its bytes.
    pub(super) fn take_parts(&mut self) -> impl Iterator<Item = (u64, Vec<u8>)> + use<> {
        assert!(self.missing_bytes() == 0, "the payload is incomplete");
        let mut offset = self.offset;
        std::mem::take(&mut self.parts).into_iter().map(move |part| {
            let start = offset;
            offset += part.len() as u64;
            (start, part)
        })
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        for part in self.parts.drain(..).filter(|part| part.capacity() == BLOCK_BYTES) {
            self.budget.keep_spare(part, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fs::content::{FileContent, StoreMode};
    use crate::fs::types::FsError;
    use crate::fs::{Charge, DataPiece};

    const PLACE: u64 = BLOCK_BYTES as u64;

    fn filled(budget: &Arc<Budget>, offset: u64, data: &[u8]) -> Payload {
        let mut payload = Payload::new(budget, offset, data.len()).unwrap();
        payload.push(data);
        payload
    }

    fn pieces(content: &FileContent) -> Vec<DataPiece> {
        let mut pieces = Vec::new();
        content.read(0, u32::MAX, &mut pieces);
        pieces
    }

    fn bytes(pieces: &[DataPiece]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| piece.bytes().to_vec()).collect()
    }

    #[test]
    fn buffers_become_blocks() {
        let budget = Budget::new(1 << 20);
        let mut content = FileContent::new(StoreMode::Keep);
        let mut seen = Vec::new();
        // Three buffers take turns: two are blocks, and one at a time is received into.
        for round in 0..20_u8 {
            let mut payload = Payload::new(&budget, 0, 2 * BLOCK_BYTES).unwrap();
            payload.push(&vec![round; 2 * BLOCK_BYTES]);
            let received: Vec<_> = payload.parts.iter().map(Vec::as_ptr).collect();
            assert_eq!(content.write_payload(&mut payload, &budget), Ok(2 * BLOCK_BYTES));
            let stored: Vec<_> =
                pieces(&content).iter().map(|piece| piece.bytes().as_ptr()).collect();
            assert_eq!(received, stored, "nothing is copied");
            assert!(bytes(&pieces(&content)) == vec![round; 2 * BLOCK_BYTES]);
            seen.extend(stored);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
        assert_eq!((content.used_bytes(), budget.used_bytes()), (2 * PLACE, 2 * PLACE));
        drop(content);
        let spare = std::iter::from_fn(|| budget.take_spare()).count();
        assert_eq!((spare, budget.used_bytes()), (4, 0));
    }

    #[test]
    fn what_never_arrives_changes_nothing() {
        let budget = Budget::new(1 << 20);
        let mut payload = Payload::new(&budget, 5, BLOCK_BYTES * 2).unwrap();
        payload.push(&[1; 1000]);
        assert_eq!((payload.missing_bytes(), budget.used_bytes()), (BLOCK_BYTES * 2 - 1000, 0));
        drop(payload);
        assert!(budget.take_spare().is_some() && budget.take_spare().is_none());
        assert!(Payload::new(&budget, 1, BLOCK_BYTES * 2 - 2).is_none(), "no place is covered");
        assert!(Payload::new(&budget, 1, BLOCK_BYTES * 2 - 1).is_some());
        assert!(Payload::new(&budget, u64::MAX - 10, BLOCK_BYTES * 2).is_none());
    }

    #[test]
    fn stores_as_much_as_fits() {
        let budget = Budget::new(3 * PLACE);
        let mut content = FileContent::new(StoreMode::Keep);
        for round in 0..3 {
            let mut payload = filled(&budget, 0, &vec![round; 2 * BLOCK_BYTES]);
            assert_eq!(content.write_payload(&mut payload, &budget), Ok(2 * BLOCK_BYTES));
            drop(payload);
            let spare: Vec<_> = std::iter::from_fn(|| budget.take_spare()).collect();
            assert!(spare.len() <= 1, "spare buffers are within the limit, too");
            for buffer in spare {
                budget.keep_spare(buffer, 0);
            }
        }
        // The first place is there, the second one is new, and there is no room for the third.
        let mut payload = filled(&budget, PLACE, &vec![7; 3 * BLOCK_BYTES]);
        let mut late = filled(&budget, 3 * PLACE, &vec![8; BLOCK_BYTES]);
        assert_eq!(content.write_payload(&mut payload, &budget), Ok(2 * BLOCK_BYTES));
        assert_eq!(content.write_payload(&mut late, &budget), Err(FsError::NoSpace));
        assert_eq!((content.size(), budget.used_bytes()), (3 * PLACE, 3 * PLACE));
        assert!(bytes(&pieces(&content))[BLOCK_BYTES..] == vec![7; 2 * BLOCK_BYTES]);
        assert!(Payload::new(&budget, 0, BLOCK_BYTES).is_none(), "the limit is reached");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
        #[test]
        fn writes_like_one_slice(
            writes in prop::collection::vec((0..2 * PLACE, 1..3 * PLACE, any::<u8>()), 1..4),
            chunk in 10_000..BLOCK_BYTES,
            limit in PLACE * 2..PLACE * 12,
            is_read in any::<bool>(),
        ) {
            let budgets = [(); 2].map(|()| Budget::new(limit));
            // Old bytes of spare buffers must never be seen.
            budgets[0].keep_spare(vec![0xee; BLOCK_BYTES], 0);
            let mut contents = [(); 2].map(|()| FileContent::new(StoreMode::Keep));
            for (offset, len, seed) in writes {
                let data = [seed, 1, 2, 3, 5, 8, 13].repeat(len as usize / 7 + 1);
                let data = &data[..len as usize];
                let held = contents.each_ref().map(pieces);
                let before = bytes(&held[0]);
                let held = if is_read { held } else { Default::default() };
                let one = contents[1].write(offset, data, &budgets[1]);
                let other = match Payload::new(&budgets[0], offset, data.len()) {
                    None => contents[0].write(offset, data, &budgets[0]),
                    Some(mut payload) => {
                        let mut left = data;
                        while !left.is_empty() {
                            let mut slices: [_; 5] =
                                std::array::from_fn(|_| IoSliceMut::new(&mut []));
                            let count = payload.free_space(&mut slices);
                            let slice = &mut slices[..count][0];
                            let now = chunk.min(slice.len());
                            slice[..now].copy_from_slice(&left[..now]);
                            payload.mark_filled(now);
                            left = &left[now..];
                        }
                        prop_assert!(payload.to_vec() == data);
                        contents[0].write_payload(&mut payload, &budgets[0])
                    }
                };
                prop_assert_eq!(one, other);
                let [first, second] = contents.each_ref().map(|it| bytes(&pieces(it)));
                prop_assert!(first == second);
                if is_read {
                    prop_assert!(bytes(&held[0]) == before, "replies keep the old bytes");
                }
                drop(held);
                let [ours, theirs] = contents.each_ref().map(|it| (it.size(), it.used_bytes()));
                prop_assert_eq!(ours, theirs);
                let charge = Charge::take(&budgets[0], limit - budgets[0].used_bytes());
                prop_assert!(charge.is_ok() && budgets[0].take_spare().is_none());
            }
            prop_assert_eq!(budgets[0].used_bytes(), budgets[1].used_bytes());
        }
    }
}
