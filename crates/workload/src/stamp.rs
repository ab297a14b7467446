//! Stamps that identify campaign, file, offset and pass of each block of written data.
//!
//! A pattern alone detects changed bytes. A stamp also detects blocks that were written to the
//! wrong place or not at all: the block found is intact but from elsewhere. `Stamps` adds one to
//! each block of at most [`BLOCK_BYTES`] and checks it again. Both are pure and allocate nothing.
//!
//! A stamp contains the length that it covers (`len`), so data may be split differently when read.
//! Layout, little-endian: checksum (4 bytes, CRC-32C of the rest), magic (4), campaign (8), offset
//! (8), file (4), generation (4), len (4), writer (4). Any change of up to 3 bits in a block is
//! detected.
//!
//! **Source:** RFC 3720, B.4 (CRC-32C); P. Koopman, "32-bit cyclic redundancy codes for Internet
//! applications", DSN 2002 (Hamming distance 4 up to 2^31 bits).

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

use crate::mismatch::{Mismatch, WrongContent};
use crate::rewrites::WriteId;

/// Maximum size of a block with one stamp, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Size of a stamp in bytes; shorter blocks have none.
pub const STAMP_BYTES: usize = 40;

const MAGIC: [u8; 4] = *b"dfsb";

/// The fields that all stamps of a pass have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// The campaign that owns the data.
    pub campaign: u64,
    /// Blocks begin at multiples of this many bytes, and every [`BLOCK_BYTES`] after each of these.
    pub(crate) grid_bytes: u32,
    /// The generation being written.
    pub generation: u32,
    /// The oldest generation that may be read.
    pub oldest: u32,
    /// The process that writes; 0 if that doesn't matter. Ignored by readers.
    pub writer: u32,
}

/// A part of a transfer within one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the piece in the transfer.
    pub at: usize,
    pub len: usize,
    /// Offset of the piece in its block; the stamp is at 0.
    pub(crate) in_block: usize,
}

/// Splits a transfer at block boundaries.
#[derive(Clone, Debug)]
pub struct Pieces {
    grid: u64,
    offset: u64,
    at: usize,
    len: usize,
}

impl Pieces {
    /// Splits `len` bytes at `offset_bytes` of a file.
    pub const fn new(grid_bytes: u32, offset_bytes: u64, len: usize) -> Self {
        // A grid of multiples of the block size is the same as a grid of blocks.
        let whole = grid_bytes == 0 || (grid_bytes as usize).is_multiple_of(BLOCK_BYTES);
        let grid = if whole { BLOCK_BYTES as u64 } else { grid_bytes as u64 };
        Self { grid, offset: offset_bytes, at: 0, len }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.at == self.len {
            return None;
        }
        // There are two grids: cells as large as the ops that write, and in each cell blocks of 4
        // KiB from its start on. A piece ends at whichever boundary is closer.
        let in_cell = (self.offset + self.at as u64) % self.grid;
        let in_block = in_cell as usize % BLOCK_BYTES;
        let left = (BLOCK_BYTES - in_block).min((self.grid - in_cell) as usize);
        let piece = Piece { at: self.at, len: left.min(self.len - self.at), in_block };
        self.at += piece.len;
        Some(piece)
    }
}

impl Stamps {
    /// Adds stamps to a transfer that already contains all other bytes.
    pub(crate) fn stamp_all(&self, data: &mut [u8], file: u32, offset_bytes: u64) {
        self.stamp_each(data, file, offset_bytes, |_| self.write_id());
    }

    /// Returns the process and generation being written.
    const fn write_id(&self) -> WriteId {
        WriteId { writer: self.writer, number: self.generation }
    }

    /// Like [`Self::stamp_all`], with a separate process and generation for the block at each
    /// offset.
    pub(crate) fn stamp_each(
        &self,
        data: &mut [u8],
        file: u32,
        offset_bytes: u64,
        id: impl Fn(u64) -> WriteId,
    ) {
        for piece in Pieces::new(self.grid_bytes, offset_bytes, data.len()) {
            if piece.in_block == 0 && piece.len >= STAMP_BYTES {
                let block = &mut data[piece.at..piece.at + piece.len];
                let offset_bytes = offset_bytes + piece.at as u64;
                let WriteId { writer, number } = id(offset_bytes);
                let stamps = Self { generation: number, writer, ..*self };
                stamps.stamp_block(block, file, offset_bytes);
            }
        }
    }

    fn stamp_block(&self, block: &mut [u8], file: u32, offset_bytes: u64) {
        let len = block.len() as u32;
        block[4..8].copy_from_slice(&MAGIC);
        block[8..16].copy_from_slice(&self.campaign.to_le_bytes());
        block[16..24].copy_from_slice(&offset_bytes.to_le_bytes());
        block[24..28].copy_from_slice(&file.to_le_bytes());
        block[28..32].copy_from_slice(&self.generation.to_le_bytes());
        block[32..36].copy_from_slice(&len.to_le_bytes());
        block[36..40].copy_from_slice(&self.writer.to_le_bytes());
        // Last, because it covers everything after it in the block.
        let checksum = crc32_iscsi(&block[4..]);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Checks the stamp at the start of a block, and returns how many bytes of the block it covers.
    /// If less was read than the stamp covers, `rest(from, len)` returns what was written after it.
    ///
    /// # Errors
    /// Returns what was found instead.
    ///
    /// # Panics
    /// If there are fewer than [`STAMP_BYTES`] bytes.
    pub(crate) fn check_block<'a>(
        &self,
        block: &[u8],
        file: u32,
        offset_bytes: u64,
        rest: impl FnOnce(usize, usize) -> &'a [u8],
    ) -> Result<usize, Mismatch> {
        let len = u32_at(block, 32) as usize;
        let is_stamp = block[4..8] == MAGIC && (STAMP_BYTES..=BLOCK_BYTES).contains(&len);
        if !is_stamp {
            return Err(Mismatch {
                file,
                offset_bytes,
                what: WrongContent::NoStamp(array(block, 0)),
            });
        }
        // A read may end within the block. The rest of the block is known from the pattern, so the
        // checksum can be completed.
        let vouched = len.min(block.len());
        let computed = if vouched < len {
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            digest.update(&block[4..vouched]);
            digest.update(rest(vouched, len - vouched));
            digest.finalize() as u32
        } else {
            crc32_iscsi(&block[4..len])
        };
        let stored = u32_at(block, 0);
        if stored != computed {
            return Err(Mismatch {
                file,
                offset_bytes,
                what: WrongContent::Checksum { stored, computed },
            });
        }
        // Only now, because the fields of a damaged stamp are meaningless.
        match self.check_fields(block, file, offset_bytes) {
            None => Ok(vouched),
            Some(what) => Err(Mismatch { file, offset_bytes, what }),
        }
    }

    fn check_fields(&self, block: &[u8], file: u32, offset_bytes: u64) -> Option<WrongContent> {
        let campaign = u64::from_le_bytes(array(block, 8));
        let offset = u64::from_le_bytes(array(block, 16));
        let of_file = u32_at(block, 24);
        let generation = u32_at(block, 28);
        if campaign != self.campaign {
            Some(WrongContent::OtherCampaign(campaign))
        } else if of_file != file {
            Some(WrongContent::OtherFile(of_file))
        } else if offset != offset_bytes {
            Some(WrongContent::OtherOffset(offset))
        } else if !(self.oldest..=self.generation).contains(&generation) {
            Some(WrongContent::Generation { found: generation, oldest: self.oldest })
        } else {
            None
        }
    }

    /// Returns the generation in the stamp at the start of a block.
    ///
    /// # Panics
    /// If there are fewer than [`STAMP_BYTES`] bytes.
    pub(crate) fn generation_in(block: &[u8]) -> u32 {
        u32_at(block, 28)
    }

    /// Returns process and generation in the stamp at the start of a block, or `None` if there is
    /// no stamp.
    pub(crate) fn write_id_in(block: &[u8]) -> Option<WriteId> {
        if block.len() < STAMP_BYTES || block[4..8] != MAGIC {
            return None;
        }
        Some(WriteId { writer: u32_at(block, 36), number: u32_at(block, 28) })
    }

    /// Returns true if fewer than [`STAMP_BYTES`] bytes at the start of a block may be the start of
    /// a stamp. With fewer than 8 bytes, that is unknown.
    pub(crate) fn is_cut_stamp(block: &[u8]) -> bool {
        block.get(4..8).is_none_or(|magic| magic == MAGIC)
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range has the length of the array")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMPS: Stamps =
        Stamps { campaign: 7, grid_bytes: 4096, generation: 2, oldest: 1, writer: 0 };

    fn nothing(from: usize, len: usize) -> &'static [u8] {
        panic!("{len} bytes from {from} were requested")
    }

    fn stamped(len: usize, file: u32, offset: u64) -> Vec<u8> {
        let mut block = vec![0x5a; len];
        STAMPS.stamp_all(&mut block, file, offset);
        block
    }

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(crc32_iscsi(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn diagnoses_foreign_block() {
        let block = stamped(4096, 3, 8192);
        let what = |stamps: Stamps, file, offset| {
            stamps.check_block(&block, file, offset, nothing).map_err(|mismatch| mismatch.what)
        };
        assert_eq!(what(STAMPS, 3, 8192), Ok(4096));
        assert_eq!(what(STAMPS, 4, 8192), Err(WrongContent::OtherFile(3)));
        assert_eq!(what(STAMPS, 3, 4096), Err(WrongContent::OtherOffset(8192)));
        let other = Stamps { campaign: 8, ..STAMPS };
        assert_eq!(what(other, 3, 8192), Err(WrongContent::OtherCampaign(7)));
        let later = Stamps { generation: 4, oldest: 3, ..STAMPS };
        assert_eq!(what(later, 3, 8192), Err(WrongContent::Generation { found: 2, oldest: 3 }));
        let zeros = STAMPS.check_block(&[0; 512], 3, 8192, nothing).unwrap_err();
        assert_eq!((zeros.offset_bytes, zeros.what), (8192, WrongContent::NoStamp([0; 8])));
    }

    #[test]
    fn checks_truncated_block() {
        let block = stamped(4096, 3, 8192);
        let rest = |from: usize, len: usize| &[0x5a; 4096][from..from + len];
        for have in [STAMP_BYTES, 1000, 4095] {
            let checked = STAMPS.check_block(&block[..have], 3, 8192, rest);
            assert_eq!(checked, Ok(have));
        }
    }

    #[test]
    fn aligns_blocks_to_grid() {
        let starts = |grid, offset, len| {
            let pieces = Pieces::new(grid, offset, len);
            pieces.map(|piece| (piece.at, piece.len, piece.in_block)).collect::<Vec<_>>()
        };
        assert_eq!(starts(8192, 4096, 5000), [(0, 4096, 0), (4096, 904, 0)]);
        assert_eq!(starts(5000, 0, 6000), [(0, 4096, 0), (4096, 904, 0), (5000, 1000, 0)]);
        assert_eq!(starts(512, 100, 600), [(0, 412, 100), (412, 188, 0)]);
        assert!(starts(4096, 9, 0).is_empty());
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found(len in STAMP_BYTES..=BLOCK_BYTES, bit in 0..BLOCK_BYTES * 8) {
            let mut block = stamped(len, 3, 8192);
            let bit = bit % (len * 8);
            block[bit / 8] ^= 1 << (bit % 8);
            // A length beyond the end of the block finds 0x5a there, as was written.
            let rest = |_, len| &[0x5a; BLOCK_BYTES][..len];
            prop_assert!(STAMPS.check_block(&block, 3, 8192, rest).is_err());
        }
    }
}
