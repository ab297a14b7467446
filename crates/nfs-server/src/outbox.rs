//! Replies of one connection waiting to be sent.
//!
//! Encoded bytes are collected in one reused buffer, the head; payload stays in the store. A queue
//! of segments keeps both in order and becomes the vectors of a `sendmsg`, so payload is never
//! copied in user space. Positions in the head are absolute: compacting the buffer does not change
//! them.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::fs::DataPiece;
use crate::limits::{HEAD_KEEP_BYTES, HEAD_SLACK_BYTES};

#[derive(Clone, Debug)]
enum Segment {
    /// Head bytes between two absolute positions.
    Head(u64, u64),
    /// Bytes from the store.
    Payload(DataPiece),
}

/// The queue; see the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    head: Vec<u8>,
    /// Absolute position of the first byte of `head`.
    base: u64,
    /// Absolute position up to which `head` is covered by segments.
    sealed: u64,
    segments: VecDeque<Segment>,
    bytes: usize,
}

impl Outbox {
    /// Number of waiting bytes, sealed ones only.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of the encoded bytes; payload belongs to the store.
    pub(crate) fn head_capacity(&self) -> usize {
        self.head.capacity()
    }

    /// Frees memory that encoded bytes don't need.
    pub(crate) fn shrink(&mut self) {
        self.head.shrink_to_fit();
    }

    /// Whether it has buffers that can be reused.
    pub(crate) fn is_warm(&self) -> bool {
        self.head.capacity() > 0
    }

    /// The buffer to append encoded bytes to; call [`Outbox::seal`] afterwards.
    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        &mut self.head
    }

    /// Queues the bytes appended to the head since the last call.
    pub(crate) fn seal(&mut self) {
        let end = self.base + self.head.len() as u64;
        if end == self.sealed {
            return;
        }
        self.bytes += (end - self.sealed) as usize;
        // Consecutive replies without payload share one segment, and so one vector.
        match self.segments.back_mut() {
            Some(Segment::Head(_, last)) => *last = end,
            _ => self.segments.push_back(Segment::Head(self.sealed, end)),
        }
        self.sealed = end;
    }

    /// Queues payload, after the current content of the head.
    pub(crate) fn push(&mut self, piece: DataPiece) {
        self.seal();
        self.bytes += piece.bytes().len();
        self.segments.push_back(Segment::Payload(piece));
    }

    /// Moves up to `count` bytes from the front of the queue to the end of `other`.
    pub(crate) fn move_front(&mut self, count: usize, other: &mut Self) {
        let mut vector = [IoSlice::new(&[])];
        if self.vectors(&mut vector) == 0 {
            return;
        }
        let moved = vector[0].len().min(count);
        other.head().extend_from_slice(&vector[0][..moved]);
        other.seal();
        self.consume(moved);
    }

    /// Moves the content of another outbox to the end of this one.
    pub(crate) fn append(&mut self, other: Self) {
        for segment in other.segments {
            match segment {
                Segment::Head(start, end) => {
                    let range = (start - other.base) as usize..(end - other.base) as usize;
                    self.head.extend_from_slice(&other.head[range]);
                    self.seal();
                }
                Segment::Payload(piece) => self.push(piece),
            }
        }
    }

    /// Copies everything that waits.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes);
        for segment in &self.segments {
            bytes.extend_from_slice(self.bytes_of(segment));
        }
        bytes
    }

    fn bytes_of<'a>(&'a self, segment: &'a Segment) -> &'a [u8] {
        match segment {
            Segment::Head(start, end) => {
                &self.head[(start - self.base) as usize..(end - self.base) as usize]
            }
            Segment::Payload(piece) => piece.bytes(),
        }
    }

    /// Fills vectors from the front of the queue and returns their number.
    pub(crate) fn vectors<'a>(&'a self, vectors: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (vector, segment) in vectors.iter_mut().zip(&self.segments) {
            *vector = IoSlice::new(self.bytes_of(segment));
            count += 1;
        }
        count
    }

    /// Removes `sent` bytes from the front of the queue.
    pub(crate) fn consume(&mut self, mut sent: usize) {
        self.bytes -= sent;
        while sent > 0 {
            let Some(front) = self.segments.front_mut() else {
                debug_assert!(false, "more bytes were sent than queued");
                return;
            };
            let length = match front {
                Segment::Head(start, end) => (*end - *start) as usize,
                Segment::Payload(piece) => piece.bytes().len(),
            };
            if sent < length {
                match front {
                    Segment::Head(start, _) => *start += sent as u64,
                    Segment::Payload(piece) => piece.advance(sent),
                }
                break;
            }
            sent -= length;
            self.segments.pop_front();
        }
        self.reclaim();
    }

    /// Frees the part of the head that was sent.
    fn reclaim(&mut self) {
        // The first waiting head segment marks the first byte still needed; segments are in order.
        let mut needed = self.sealed;
        for segment in &self.segments {
            if let Segment::Head(start, _) = segment {
                needed = *start;
                break;
            }
        }
        let free = (needed - self.base) as usize;
        // An empty head costs nothing to clear. Otherwise compact only if that frees many bytes, so
        // that each byte is moved a bounded number of times.
        if free == self.head.len() {
            self.head.clear();
            self.head.shrink_to(HEAD_KEEP_BYTES);
        } else if free >= HEAD_SLACK_BYTES {
            self.head.drain(..free);
        } else {
            return;
        }
        self.base = needed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(outbox: &mut Outbox, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while outbox.bytes() > 0 {
            let mut vectors = [IoSlice::new(&[]); 3];
            let count = outbox.vectors(&mut vectors);
            let bytes: Vec<u8> = vectors[..count].iter().flat_map(|v| v.to_vec()).collect();
            let sent = step.min(bytes.len());
            all.extend_from_slice(&bytes[..sent]);
            outbox.consume(sent);
        }
        all
    }

    fn fill(outbox: &mut Outbox) -> Vec<u8> {
        outbox.head().extend_from_slice(b"one");
        outbox.seal();
        outbox.head().extend_from_slice(b"two");
        outbox.push(DataPiece::Fixed(b"PAYLOAD"));
        outbox.push(DataPiece::Fixed(b"MORE"));
        outbox.head().extend_from_slice(b"end");
        outbox.seal();
        b"onetwoPAYLOADMOREend".to_vec()
    }

    #[test]
    fn keeps_order_after_partial_writes() {
        for step in 1..25 {
            let mut outbox = Outbox::default();
            let mut expected = fill(&mut outbox);
            assert_eq!((outbox.bytes(), outbox.to_vec()), (expected.len(), expected.clone()));
            let mut other = Outbox::default();
            expected.extend(fill(&mut other));
            outbox.append(other);
            assert_eq!(drain(&mut outbox, step), expected);
            assert_eq!((outbox.bytes(), outbox.head.len()), (0, 0));
        }
    }

    #[test]
    fn bounds_queue_that_never_empties() {
        let mut outbox = Outbox::default();
        for round in 0..10_000_u32 {
            outbox.head().extend_from_slice(&[round as u8; 100]);
            outbox.seal();
            if round > 0 {
                outbox.consume(100);
            }
        }
        assert!(outbox.head.capacity() <= 4 * HEAD_SLACK_BYTES, "{}", outbox.head.capacity());
        assert_eq!(drain(&mut outbox, 7), vec![(9_999_u32 % 256) as u8; 100]);
    }
}
