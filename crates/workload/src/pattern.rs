//! Content of written data, which can be computed for each offset.
//!
//! A pool of bytes (`Pool`) is generated before the measurement, or as much of it as ops will need.
//! Byte `o` of file `f` is `pool[(o + shift(f)) % PERIOD]`, and the head of the pool is repeated
//! after its end, so the content of any op is a single slice of the pool. Writing needs no copy and
//! no generation, and data that was read can be compared with the same slice. `PERIOD` is an odd
//! multiple of 8 bytes, so aligned blocks of 4 KiB don't repeat within the first 1 GiB of a file.
//! Content with stamps or duplicate blocks differs in each block and is copied by
//! [`Pattern::fill`]. Zeros are the same everywhere, so every op uses the first ones.

use std::ops::Range;
use std::sync::Arc;

use model::random::{below, draw};
use model::soak::BlockState;
use model::{DataSettings, Fill, Pass, RunSpec};

use crate::journal::Journal;
use crate::mismatch::{Mismatch, WrongContent};
use crate::pool::{GRAIN, PERIOD, Pool};
use crate::rewrites::{Rewrites, WriteId};
use crate::stamp::{BLOCK_BYTES, Piece, Pieces, STAMP_BYTES, Stamps};

/// Total size of the files from which on all content is generated.
const MUCH_BYTES: u64 = PERIOD as u64 / 4;

/// Number of different blocks among duplicates.
const REPEATED_BLOCKS: u64 = 64;

/// Number of bytes at the start of a block that make it unique, if there are duplicate blocks.
const UNIQUE_BYTES: usize = 16;

/// Changes the seed for drawing duplicate blocks.
const REPEATS: u64 = 0x7265_7065_6174_7321;

/// Content of all files of a campaign.
#[derive(Clone)]
pub struct Pattern {
    seed: u64,
    pool: Pool,
    dedup_percent: u64,
    is_zeros: bool,
    stamps: Option<Stamps>,
    /// The journal, if each block has generations of its own.
    journal: Option<Arc<Journal>>,
    /// The writes of each block, in a mix with verified reads.
    rewrites: Option<Arc<Rewrites>>,
}

impl Pattern {
    /// Generates random content for a seed, in slices of up to `len_max` bytes.
    pub fn new(seed: u64, len_max: usize) -> Self {
        Self::with_settings(&DataSettings::default(), seed, len_max)
    }

    /// Generates content according to the settings; [`Self::stamped`] adds stamps.
    pub fn with_settings(data: &DataSettings, seed: u64, len_max: usize) -> Self {
        let mut content = Self::without_content(data, seed, len_max);
        content.pool.generate_all();
        content
    }

    /// Like [`Self::with_settings`], but nothing is generated until [`Self::generate_for`] or
    /// [`Self::generate_all`] is called.
    pub fn without_content(data: &DataSettings, seed: u64, len_max: usize) -> Self {
        let random_bytes = match data.fill {
            Fill::Random => BLOCK_BYTES * (100 - data.compress_percent.min(100)) as usize / 100,
            Fill::Zeros => 0,
        };
        let pool = Pool::without_content(seed, len_max, random_bytes);
        let dedup_percent = u64::from(data.dedup_percent.min(100));
        let is_zeros = data.fill == Fill::Zeros;
        Self { seed, pool, dedup_percent, is_zeros, stamps: None, journal: None, rewrites: None }
    }

    /// Generates all content, for any ops.
    pub fn generate_all(&mut self) {
        self.pool.generate_all();
    }

    /// Generates the content of files with these sizes in bytes, for ops that don't exceed their
    /// file. If much of the content is needed, generates all of it, which makes lookups cheaper.
    pub fn generate_for(&mut self, files: impl Iterator<Item = (u32, u64)> + Clone) {
        let mut sum: u64 = 0;
        for (_, bytes) in files.clone() {
            sum = sum.saturating_add(bytes);
            if sum >= MUCH_BYTES {
                break;
            }
        }
        // Ops use the first zeros regardless of their offset, and duplicate blocks are there as
        // well.
        if sum >= MUCH_BYTES || self.is_zeros || self.dedup_percent > 0 {
            return self.pool.generate_all();
        }
        for (file, bytes) in files {
            if bytes > 0 {
                self.pool.make_part(self.pool_start(file), bytes as usize);
            }
        }
    }

    /// Shares the pool of another pattern if the content is the same.
    #[must_use]
    pub fn reuse_pool(mut self, other: Option<&Self>) -> Self {
        if let Some(other) = other
            && other.pool.is_like(&self.pool)
        {
            self.pool = other.pool.clone();
        }
        self
    }

    /// Adds a stamp to each block. Blocks are aligned with the ops of `io_size_bytes`.
    #[must_use]
    pub fn stamped(mut self, campaign: u64, io_size_bytes: u32) -> Self {
        self.stamps = Some(Stamps {
            campaign,
            grid_bytes: io_size_bytes,
            generation: 0,
            oldest: 0,
            writer: 0,
        });
        self
    }

    /// Uses a journal for the generations of each block that are written and may be read. The
    /// content must have stamps.
    #[must_use]
    pub fn journaled(mut self, journal: Arc<Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Stamps each write of a mix with its own number, and tracks which of them may be read. The
    /// content must have stamps.
    #[must_use]
    pub fn rewritten(mut self, rewrites: Arc<Rewrites>) -> Self {
        self.rewrites = Some(rewrites);
        self
    }

    /// Returns the same content in a certain generation. The content must have stamps.
    #[must_use]
    pub fn in_generation(&self, generation: u32) -> Self {
        let mut content = self.clone();
        if let Some(stamps) = &mut content.stamps {
            stamps.generation = generation;
        }
        content
    }

    /// Returns the generation of a block that was read completely, or `None` if it is anything
    /// else.
    pub fn find_generation(&self, block: &[u8], file: u32, offset_bytes: u64) -> Option<u32> {
        if block.len() < STAMP_BYTES {
            return None;
        }
        let stamps = Stamps { generation: u32::MAX, oldest: 0, ..self.stamps? };
        generation_found(&self.check_stamped(&stamps, block, file, offset_bytes, 0), block)
    }

    /// Returns the journal of the blocks, if there is one.
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    /// Returns the writes of each block, if they are tracked.
    pub const fn rewrites(&self) -> Option<&Arc<Rewrites>> {
        self.rewrites.as_ref()
    }

    /// Returns the same content as written and read by one pass of a run.
    ///
    /// A pass that writes every block has its own generation, which is its number from 1 on. In a
    /// mix with verified reads, each write has its own. Other passes write the existing content
    /// again, because others may read it at the same time. Data that is read is at least as new as
    /// the last pass that wrote every block, unless that pass was ended early.
    #[must_use]
    pub fn in_pass(&self, spec: &RunSpec, pass: Pass) -> Self {
        let mut content = self.clone();
        if !pass.is_mix() {
            content.rewrites = None;
        }
        if let Some(stamps) = &mut content.stamps {
            let passes = spec.passes();
            let here = passes.iter().position(|known| *known == pass).unwrap_or(0);
            let load = &spec.load;
            let is_whole = load.time_max_ms + load.ops_max + load.bytes_max == 0;
            stamps.generation = last_generation(&passes[..passes.len().min(here + 1)]);
            // A pass that was ended early left blocks of older generations.
            stamps.oldest = if is_whole { last_generation(&passes[..here]) } else { 0 };
        }
        content
    }

    /// Returns the range of the pool with the content of `len` bytes of a file, except for stamps
    /// and duplicate blocks; see [`Self::is_copied`].
    ///
    /// # Panics
    /// If `len` exceeds the `len_max` of [`Self::new`], or the content was not generated.
    #[inline]
    pub fn range(&self, file: u32, offset_bytes: u64, len: u32) -> Range<usize> {
        if self.is_zeros {
            return 0..len as usize;
        }
        // Each file begins at a different position in the pool, so that files differ and a block
        // written to the wrong file is detected without stamps.
        let start = ((offset_bytes + self.pool_start(file) as u64) % PERIOD as u64) as usize;
        let range = start..start + len as usize;
        assert!(range.end <= self.pool.len(), "the op is longer than the pattern supports");
        assert!(self.pool.is_made(&range), "the content of the op was not generated");
        range
    }

    /// Returns the position in the pool where the content of a file begins.
    #[inline]
    fn pool_start(&self, file: u32) -> usize {
        let grains = (PERIOD / GRAIN) as u64;
        below(draw(!self.seed, u64::from(file)), grains) as usize * GRAIN
    }

    /// Returns the content of `len` bytes of a file that is not copied.
    ///
    /// # Panics
    /// Same as for [`Self::range`].
    #[inline]
    pub fn slice(&self, file: u32, offset_bytes: u64, len: u32) -> &[u8] {
        &self.pool.bytes()[self.range(file, offset_bytes, len)]
    }

    /// Returns the pool itself, for backends that send its slices later.
    pub fn pool(&self) -> Arc<Vec<u8>> {
        self.pool.shared()
    }

    /// Returns true if [`Self::fill`] has to create the content of each op. Otherwise it is a
    /// slice.
    pub const fn is_copied(&self) -> bool {
        self.stamps.is_some() || self.dedup_percent > 0
    }

    /// Returns true if blocks contain the pass that wrote them.
    pub const fn is_stamped(&self) -> bool {
        self.stamps.is_some()
    }

    /// Copies the content of a part of a file to `data`, including stamps.
    ///
    /// # Panics
    /// Same as for [`Self::range`].
    pub fn fill(&self, data: &mut [u8], file: u32, offset_bytes: u64) {
        if self.dedup_percent == 0 {
            data.copy_from_slice(self.slice(file, offset_bytes, data.len() as u32));
        } else {
            for piece in Pieces::new(BLOCK_BYTES as u32, offset_bytes, data.len()) {
                let out = &mut data[piece.at..piece.at + piece.len];
                self.fill_piece(out, file, offset_bytes + piece.at as u64, piece.in_block);
            }
        }
        let Some(stamps) = &self.stamps else { return };
        match (&self.journal, &self.rewrites) {
            (Some(journal), _) => {
                let id = |at| WriteId { writer: 0, number: journal.generation(file, at) };
                stamps.stamp_each(data, file, offset_bytes, id);
            }
            (None, Some(rewrites)) => {
                stamps.stamp_each(data, file, offset_bytes, |at| rewrites.stamp_write(file, at));
            }
            (None, None) => stamps.stamp_all(data, file, offset_bytes),
        }
    }

    /// Copies a part of one block.
    fn fill_piece(&self, out: &mut [u8], file: u32, offset_bytes: u64, in_block: usize) {
        let block = offset_bytes / BLOCK_BYTES as u64;
        // Whether a block is a duplicate, and of which block, depends only on its position, so
        // reads can be checked without a record of the writes.
        let chance = draw(draw(self.seed ^ REPEATS, u64::from(file)), block);
        if below(chance, 100) < self.dedup_percent {
            let which = below(draw(chance, 0), REPEATED_BLOCKS) as usize;
            let from = which * BLOCK_BYTES + in_block;
            out.copy_from_slice(&self.pool.bytes()[from..from + out.len()]);
            return;
        }
        out.copy_from_slice(self.slice(file, offset_bytes, out.len() as u32));
        // The pool repeats after its period, so file and block number make each block unique.
        if in_block < UNIQUE_BYTES {
            let mut mark = [0; UNIQUE_BYTES];
            mark[..8].copy_from_slice(&u64::from(file).to_le_bytes());
            mark[8..].copy_from_slice(&block.to_le_bytes());
            let rest = &mark[in_block..];
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
        }
    }

    /// Compares data that was read with what was written.
    ///
    /// # Errors
    /// Returns the first difference and what was found there.
    ///
    /// # Panics
    /// Same as for [`Self::range`].
    pub fn check(&self, data: &[u8], file: u32, offset_bytes: u64) -> Result<(), Mismatch> {
        if !self.is_copied() {
            let written = self.slice(file, offset_bytes, data.len() as u32);
            return compare(data, written, file, offset_bytes);
        }
        let grid = self.stamps.map_or(BLOCK_BYTES as u32, |stamps| stamps.grid_bytes);
        for piece in Pieces::new(grid, offset_bytes, data.len()) {
            let Piece { at, len, in_block } = piece;
            let read = &data[at..at + len];
            let offset_bytes = offset_bytes + at as u64;
            if let Some(stamps) = &self.stamps {
                self.check_journaled(stamps, read, file, offset_bytes, in_block)?;
            } else {
                let mut written = [0; BLOCK_BYTES];
                self.fill_piece(&mut written[..len], file, offset_bytes, in_block);
                compare(read, &written[..len], file, offset_bytes)?;
            }
        }
        Ok(())
    }

    /// Checks a part of a stamped block against the generations in the journal, if there is one.
    /// The effects of a crash on a block are recorded there and don't count as mismatches.
    fn check_journaled(
        &self,
        stamps: &Stamps,
        read: &[u8],
        file: u32,
        offset_bytes: u64,
        in_block: usize,
    ) -> Result<(), Mismatch> {
        if self.rewrites.is_some() {
            return self.check_rewritten(stamps, read, file, offset_bytes, in_block);
        }
        let Some(journal) = &self.journal else {
            return self.check_stamped(stamps, read, file, offset_bytes, in_block);
        };
        let (oldest, generation) = journal.readable_range(file, offset_bytes);
        let stamps = Stamps { generation, oldest, ..*stamps };
        let checked = self.check_stamped(&stamps, read, file, offset_bytes, in_block);
        // A part without the stamp has no generation, so only mismatches matter.
        let has_stamp = in_block == 0 && read.len() >= STAMP_BYTES;
        if checked.is_ok() && !has_stamp {
            return checked;
        }
        let found = generation_found(&checked, read);
        match journal.record_read(file, offset_bytes, found) {
            Some(BlockState::Lost) => checked,
            None | Some(BlockState::RolledBack | BlockState::Torn) => Ok(()),
        }
    }

    /// Checks a part of one block of a mix, in which each write has its own stamp.
    fn check_rewritten(
        &self,
        stamps: &Stamps,
        read: &[u8],
        file: u32,
        offset_bytes: u64,
        in_block: usize,
    ) -> Result<(), Mismatch> {
        let any = Stamps { generation: u32::MAX, oldest: 0, ..*stamps };
        match self.check_stamped(&any, read, file, offset_bytes, in_block) {
            Ok(()) => {}
            // Everything else in the block is correct, so the stamp consists of halves of two
            // writes.
            Err(Mismatch { what: WrongContent::Checksum { .. }, .. })
                if self
                    .rewrites
                    .as_ref()
                    .is_some_and(|known| known.is_raced(file, offset_bytes)) =>
            {
                return Ok(());
            }
            Err(mismatch) => return Err(mismatch),
        }
        let id = if in_block == 0 { Stamps::write_id_in(read) } else { None };
        let (Some(id), Some(rewrites)) = (id, &self.rewrites) else { return Ok(()) };
        let what = match rewrites.check(file, offset_bytes, id) {
            Ok(()) if id.writer > 0 || id.number >= stamps.oldest => return Ok(()),
            Ok(()) => WrongContent::Generation { found: id.number, oldest: stamps.oldest },
            Err(oldest) => WrongContent::Generation { found: id.number, oldest },
        };
        Err(Mismatch { file, offset_bytes, what })
    }

    /// Checks a part of a stamped block.
    fn check_stamped(
        &self,
        stamps: &Stamps,
        read: &[u8],
        file: u32,
        offset_bytes: u64,
        in_block: usize,
    ) -> Result<(), Mismatch> {
        if in_block == 0 && read.len() >= STAMP_BYTES {
            let checked = stamps.check_block(read, file, offset_bytes, |from, len| {
                self.slice(file, offset_bytes + from as u64, len as u32)
            });
            return match checked {
                Ok(vouched) => self.compare_from(vouched, read, file, offset_bytes),
                Err(mismatch) => match mismatch.what {
                    // The byte itself is better evidence than a checksum, unless it is part of the
                    // stamp.
                    WrongContent::Checksum { .. } => {
                        self.compare_from(STAMP_BYTES, read, file, offset_bytes)?;
                        Err(mismatch)
                    }
                    // A block that was begun with too few bytes for a stamp has none.
                    WrongContent::NoStamp(_)
                        if self.compare_from(0, read, file, offset_bytes).is_ok() =>
                    {
                        Ok(())
                    }
                    _ => Err(mismatch),
                },
            };
        }
        if in_block == 0 {
            if Stamps::is_cut_stamp(read) {
                return Ok(());
            }
            return self.compare_from(0, read, file, offset_bytes);
        }
        // The length covered by the stamp is at its beginning, which is not in this part; the stamp
        // ends within its fixed size.
        let from = STAMP_BYTES.saturating_sub(in_block).min(read.len());
        self.compare_from(from, read, file, offset_bytes)
    }

    /// Compares data that was read with the pool, starting at byte `from`.
    fn compare_from(
        &self,
        from: usize,
        read: &[u8],
        file: u32,
        offset_bytes: u64,
    ) -> Result<(), Mismatch> {
        let offset_bytes = offset_bytes + from as u64;
        let written = self.slice(file, offset_bytes, (read.len() - from) as u32);
        compare(&read[from..], written, file, offset_bytes)
    }
}

/// Returns the generation of a stamped block from the result of its check, or `None` if it isn't a
/// complete block.
fn generation_found(checked: &Result<(), Mismatch>, read: &[u8]) -> Option<u32> {
    match checked {
        Ok(()) => Some(Stamps::generation_in(read)),
        Err(Mismatch { what: WrongContent::Generation { found, .. }, .. }) => Some(*found),
        Err(_) => None,
    }
}

/// Returns the generation of the last of these passes that wrote every block, or 0 if none did.
fn last_generation(passes: &[Pass]) -> u32 {
    passes.iter().rposition(|pass| pass.writes_every_block()).map_or(0, |number| number as u32 + 1)
}

/// Compares bytes and finds the first difference.
fn compare(read: &[u8], written: &[u8], file: u32, offset_bytes: u64) -> Result<(), Mismatch> {
    if read == written {
        return Ok(());
    }
    // Slices of equal length that are not equal differ somewhere.
    let mut at = 0;
    while read[at] == written[at] {
        at += 1;
    }
    let what = WrongContent::Byte { found: read[at], expected: written[at] };
    Err(Mismatch { file, offset_bytes: offset_bytes + at as u64, what })
}

#[cfg(test)]
mod tests;
