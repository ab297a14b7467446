//! A connection without RPC: frames in, frames out, to measure plain TCP.
//!
//! [`Raw`] is the input of such a connection. Bytes arrive in pieces of any size, and answers go
//! into the outbox: bytes that are put are dropped, bytes that are requested are zeros. Nothing is
//! allocated for a length that was only announced; waiting bytes are bounded by the outbox, as for
//! RPC replies.

use std::ops::Range;

use nfs_proto::raw::{FRAME_BYTES, Frame, Kind, NoFrame};

use crate::fs::{DataPiece, ZEROS};
use crate::limits::OUTBOX_BYTES_MAX;
use crate::outbox::Outbox;

/// Bytes received at once, the same as for a large WRITE.
const INPUT_BYTES: usize = 256 * 1024;

/// A connection of frames: unanswered input and the position in the stream.
#[derive(Debug)]
pub(crate) struct Raw {
    reflector: Reflector,
    input: Vec<u8>,
    waiting: Range<usize>,
}

impl Raw {
    /// Takes over a connection that started with these bytes.
    pub(crate) fn starting_with(bytes: &[u8]) -> Self {
        Self { reflector: Reflector::default(), input: bytes.to_vec(), waiting: 0..bytes.len() }
    }

    /// Whether it needs a buffer to receive into.
    pub(crate) fn needs_buffer(&self) -> bool {
        self.waiting.is_empty() && self.input.len() < INPUT_BYTES
    }

    /// Takes over a buffer to receive into.
    pub(crate) fn adopt_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.resize(buffer.len().max(INPUT_BYTES), 0);
        self.input = buffer;
    }

    /// Gives the buffer away if at most `keep_bytes_max` bytes are waiting in it.
    pub(crate) fn release_buffer(&mut self, keep_bytes_max: usize) -> Option<Vec<u8>> {
        if self.input.len() < INPUT_BYTES || self.waiting.len() > keep_bytes_max {
            return None;
        }
        let own = self.input[self.waiting.clone()].to_vec();
        self.waiting = 0..own.len();
        Some(std::mem::replace(&mut self.input, own))
    }

    /// Length of the buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.input.len()
    }

    /// Room to receive into; empty as long as input is waiting.
    pub(crate) fn input_space(&mut self) -> &mut [u8] {
        if self.waiting.is_empty() { &mut self.input } else { &mut [] }
    }

    /// Records that `count` bytes were received.
    pub(crate) fn note_received(&mut self, count: usize) {
        self.waiting = 0..count;
    }

    /// Answers received frames; returns true if nothing is waiting any more.
    pub(crate) fn answer_frames(&mut self, outbox: &mut Outbox) -> Result<bool, NoFrame> {
        let taken = self.reflector.take_bytes(&self.input[self.waiting.clone()], outbox)?;
        self.waiting.start += taken;
        Ok(self.waiting.is_empty())
    }

    /// Whether a frame, or the data after it, is incomplete.
    pub(crate) fn is_partial(&self) -> bool {
        self.reflector.is_partial()
    }
}

/// The progress in a stream of frames.
#[derive(Debug, Default)]
struct Reflector {
    head: [u8; FRAME_BYTES],
    head_bytes: usize,
    /// The request whose data is arriving, and the number of bytes still to come.
    put: Option<(Frame, u32)>,
}

impl Reflector {
    /// Takes bytes of the stream and answers the frames they complete; returns how many were taken,
    /// which is all of them unless the outbox is full.
    fn take_bytes(&mut self, bytes: &[u8], outbox: &mut Outbox) -> Result<usize, NoFrame> {
        let mut taken = 0;
        while taken < bytes.len() && outbox.bytes() < OUTBOX_BYTES_MAX {
            taken += self.take_step(&bytes[taken..], outbox)?;
        }
        Ok(taken)
    }

    fn take_step(&mut self, bytes: &[u8], outbox: &mut Outbox) -> Result<usize, NoFrame> {
        // The bytes of a Put are dropped as they arrive and answered once all have, so a length of
        // 4 GiB in a header allocates nothing.
        if let Some((frame, left)) = self.put {
            let taken = (left as usize).min(bytes.len());
            let left = left - taken as u32;
            self.put = (left > 0).then_some((frame, left));
            if left == 0 {
                answer_frame(frame, outbox);
            }
            return Ok(taken);
        }
        let taken = (FRAME_BYTES - self.head_bytes).min(bytes.len());
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&bytes[..taken]);
        self.head_bytes += taken;
        if self.head_bytes == FRAME_BYTES {
            self.head_bytes = 0;
            let frame = Frame::from_bytes(self.head)?;
            if frame.kind == Kind::Put && frame.len > 0 {
                self.put = Some((frame, frame.len));
            } else {
                answer_frame(frame, outbox);
            }
        }
        Ok(taken)
    }

    fn is_partial(&self) -> bool {
        self.head_bytes > 0 || self.put.is_some()
    }
}

fn answer_frame(frame: Frame, outbox: &mut Outbox) {
    outbox.head().extend_from_slice(&frame.to_bytes());
    outbox.seal();
    let mut left = if frame.kind == Kind::Get { frame.len as usize } else { 0 };
    while left > 0 {
        let piece = left.min(ZEROS.len());
        outbox.push(DataPiece::Fixed(&ZEROS[..piece]));
        left -= piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, len) in [(Kind::Ping, 0), (Kind::Put, 5), (Kind::Get, 3), (Kind::Put, 0)] {
            bytes.extend(Frame { kind, len, tag: u64::from(len) }.to_bytes());
            if kind == Kind::Put {
                bytes.extend(vec![9; len as usize]);
            }
        }
        bytes
    }

    #[test]
    fn answers_same_for_any_fragmentation() {
        let requests = requests();
        let answers = |step: usize| {
            let mut reflector = Reflector::default();
            let mut outbox = Outbox::default();
            for piece in requests.chunks(step) {
                assert_eq!(reflector.take_bytes(piece, &mut outbox), Ok(piece.len()));
            }
            assert!(!reflector.is_partial());
            outbox.to_vec()
        };
        let whole = answers(requests.len());
        assert_eq!(whole.len(), 4 * FRAME_BYTES + 3);
        for step in 1..requests.len() {
            assert_eq!(answers(step), whole, "{step} bytes at a time");
        }
    }

    #[test]
    fn a_full_outbox_takes_no_more() {
        let mut reflector = Reflector::default();
        let mut outbox = Outbox::default();
        let want = Frame { kind: Kind::Get, len: 1 << 20, tag: 1 }.to_bytes();
        let flood = want.repeat(100);
        let taken = reflector.take_bytes(&flood, &mut outbox).unwrap();
        assert_eq!(taken, 4 * FRAME_BYTES);
        assert!(outbox.bytes() <= OUTBOX_BYTES_MAX + (1 << 20) + FRAME_BYTES);
    }

    #[test]
    fn a_stream_that_goes_wrong_ends() {
        let mut reflector = Reflector::default();
        let mut outbox = Outbox::default();
        assert_eq!(reflector.take_bytes(&[0x80; FRAME_BYTES], &mut outbox), Err(NoFrame));
    }
}
