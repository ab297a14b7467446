//! The load of a durability measurement: rounds of small and large files, overwrites, creates and
//! renames. Each op is reported before it is sent and again once its promise is fulfilled.
//!
//! [`Writer`] is the main type. One op is in flight at a time, except for those covered by a single
//! COMMIT, `fsync` or close. Data that is about to be overwritten or replaced by a rename has
//! always been made durable first.

use std::collections::BTreeMap;

use engine::target::named_files::{NamedFile, NamedFiles, NamedWrite};
use model::Durability;
use model::durability::{TestFile, TestOp, WorkKind};

use crate::protocol::{ClientMessage, now_ns};

/// Size of a block, the unit that carries a stamp.
pub(crate) const BLOCK_BYTES: u32 = 4096;

/// Small files per round, one block each.
const SMALL_FILES: u32 = 4;
/// Writes per round to the large file, and to the one that is overwritten. If single writes don't
/// fulfill the promise, it is fulfilled once per batch.
const BATCH: u32 = 4;
/// Blocks per write to the large file.
const LARGE_BLOCKS: u32 = 16;
/// Maximum size of a write.
pub(crate) const WRITE_BYTES: u32 = LARGE_BLOCKS * BLOCK_BYTES;
/// Blocks per overwrite.
const OVERWRITE_BLOCKS: u32 = 4;
/// Parts of the overwritten file. Each is written once before any is written again.
const OVERWRITE_PARTS: u32 = 16;
/// Step from one part to the next. It is odd, so that all parts are visited.
const OVERWRITE_STEP: u32 = 5;
/// Empty files per round, and also files replaced by a rename.
const NAMES: u32 = 2;

/// Writes files and reports what was acknowledged.
pub(crate) struct Writer<'a> {
    files: NamedFiles,
    send: &'a dyn Fn(&ClientMessage),
    /// Number of ops sent.
    sent: usize,
    /// Files that stay open across rounds.
    open: BTreeMap<TestFile, NamedFile>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(files: NamedFiles, send: &'a dyn Fn(&ClientMessage)) -> Self {
        Self { files, send, sent: 0, open: BTreeMap::new() }
    }

    /// Creates the files that must exist from the start and makes them durable.
    ///
    /// # Errors
    /// If that fails; the message is a full sentence.
    pub(crate) fn prepare(&mut self, promises: &[Durability]) -> Result<(), String> {
        for promise in promises {
            let blocks = OVERWRITE_PARTS * OVERWRITE_BLOCKS;
            self.make_safe_file(first_file(*promise, WorkKind::Overwrite), blocks)?;
            let large = first_file(*promise, WorkKind::LargeFile);
            self.make_safe_file(large, 0)?;
        }
        self.files.make_names_safe()
    }

    /// Writes one round under all promises. They take turns after each op or batch, so that each
    /// one has recent ops whenever the event happens. The last op writes data under the last
    /// promise.
    ///
    /// # Errors
    /// If an op fails; the message is a full sentence.
    pub(crate) fn make_round(&mut self, promises: &[Durability], round: u32) -> Result<(), String> {
        for number in round * SMALL_FILES..(round + 1) * SMALL_FILES {
            for promise in promises.iter().copied() {
                self.write_small(TestFile { promise, kind: WorkKind::SmallFile, number })?;
            }
        }
        for kind in [WorkKind::LargeFile, WorkKind::Overwrite] {
            for promise in promises {
                self.write_batch(first_file(*promise, kind), round)?;
            }
        }
        for number in round * NAMES..(round + 1) * NAMES {
            for promise in promises.iter().copied() {
                self.create_empty(TestFile { promise, kind: WorkKind::Create, number })?;
                self.replace(TestFile { promise, kind: WorkKind::Rename, number })?;
            }
        }
        Ok(())
    }

    fn write_small(&mut self, file: TestFile) -> Result<(), String> {
        let (id, op) = self.note_sent(one_block(file));
        let mut open = self.create(file)?;
        self.write_blocks(&mut open, &op)?;
        self.fulfill_promise(id, file.promise, open)
    }

    /// Writes a batch to an existing file.
    fn write_batch(&mut self, file: TestFile, round: u32) -> Result<(), String> {
        let promise = file.promise;
        let mut open = match self.open.remove(&file) {
            Some(open) => open,
            None => self.files.open_file(&file.name(), file.stamp_number(), promise)?,
        };
        let mut waiting = Vec::new();
        for number in round * BATCH..(round + 1) * BATCH {
            let (id, op) = self.note_sent(batch_op(file, number));
            self.write_blocks(&mut open, &op)?;
            match promise {
                Durability::Close | Durability::Sync => waiting.push(id),
                _ => self.note_acked(vec![id]),
            }
        }
        match promise {
            Durability::Close => {
                self.files.close(open)?;
                self.note_acked(waiting);
                return Ok(());
            }
            Durability::Sync => {
                self.files.make_safe(&mut open)?;
                self.note_acked(waiting);
            }
            _ => {}
        }
        self.open.insert(file, open);
        Ok(())
    }

    fn create_empty(&mut self, file: TestFile) -> Result<(), String> {
        let op = TestOp { file, first_block: 0, blocks: 0, generation: 1, bytes: 0 };
        let (id, _) = self.note_sent(op);
        let open = self.create(file)?;
        self.fulfill_promise(id, file.promise, open)
    }

    /// Replaces a file the way programs do: writes a new one and renames it over the old one.
    fn replace(&mut self, file: TestFile) -> Result<(), String> {
        self.make_safe_file(file, 1)?;
        self.files.make_names_safe()?;
        let (id, op) = self.note_sent(one_block(file));
        let name = file.replacement_name();
        let mut open = self.files.create(&name, file.stamp_number(), file.promise)?;
        self.write_blocks(&mut open, &op)?;
        if file.promise == Durability::Sync {
            self.files.make_safe(&mut open)?;
        }
        self.files.close(open)?;
        self.files.rename(&name, &file.name())?;
        if keeps_names(file.promise) {
            self.files.make_names_safe()?;
        }
        self.note_acked(vec![id]);
        Ok(())
    }

    /// Fulfills a promise after the data of a new file was written, reports the op as acknowledged
    /// right then, and closes the file.
    fn fulfill_promise(
        &mut self,
        id: usize,
        promise: Durability,
        mut open: NamedFile,
    ) -> Result<(), String> {
        if promise == Durability::Sync {
            self.files.make_safe(&mut open)?;
        }
        // A new file only exists once its directory entry is durable.
        if keeps_names(promise) {
            self.files.make_names_safe()?;
        }
        if promise == Durability::Close {
            self.files.close(open)?;
            self.note_acked(vec![id]);
            return Ok(());
        }
        self.note_acked(vec![id]);
        self.files.close(open)
    }

    fn create(&mut self, file: TestFile) -> Result<NamedFile, String> {
        self.files.create(&file.name(), file.stamp_number(), file.promise)
    }

    /// Creates a file with the given number of blocks of generation 0 and makes it fully durable.
    fn make_safe_file(&mut self, file: TestFile, blocks: u32) -> Result<(), String> {
        let name = file.name();
        let number = file.stamp_number();
        let mut open = self.files.create(&name, number, Durability::Osync)?;
        for first_block in (0..blocks).step_by(LARGE_BLOCKS as usize) {
            let blocks = LARGE_BLOCKS.min(blocks - first_block);
            let op = TestOp { file, first_block, blocks, generation: 0, bytes: 0 };
            self.write_blocks(&mut open, &op)?;
        }
        self.files.make_safe(&mut open)?;
        self.files.close(open)
    }

    fn write_blocks(&mut self, open: &mut NamedFile, op: &TestOp) -> Result<(), String> {
        let offset_bytes = u64::from(op.first_block) * u64::from(BLOCK_BYTES);
        self.files.write(
            open,
            NamedWrite {
                offset_bytes,
                len_bytes: op.blocks * BLOCK_BYTES,
                generation: op.generation,
            },
        )
    }

    /// Reports an op that is about to be sent, and returns its number.
    fn note_sent(&mut self, op: TestOp) -> (usize, TestOp) {
        let id = self.sent;
        self.sent += 1;
        (self.send)(&ClientMessage::Sent(op));
        (id, op)
    }

    fn note_acked(&self, ops: Vec<usize>) {
        (self.send)(&ClientMessage::Acked { ops, at_ns: now_ns() });
    }
}

const fn first_file(promise: Durability, kind: WorkKind) -> TestFile {
    TestFile { promise, kind, number: 0 }
}

/// Returns true if a promise covers directory entries as well.
const fn keeps_names(promise: Durability) -> bool {
    matches!(promise, Durability::Sync | Durability::Dsync | Durability::Osync)
}

fn one_block(file: TestFile) -> TestOp {
    TestOp { file, first_block: 0, blocks: 1, generation: 1, bytes: BLOCK_BYTES.into() }
}

/// Returns the nth write to the large file, which grows, or to the one that is overwritten.
fn batch_op(file: TestFile, number: u32) -> TestOp {
    let (first_block, blocks, generation) = match file.kind {
        WorkKind::Overwrite => {
            let part = number * OVERWRITE_STEP % OVERWRITE_PARTS;
            (part * OVERWRITE_BLOCKS, OVERWRITE_BLOCKS, number / OVERWRITE_PARTS + 1)
        }
        _ => (number * LARGE_BLOCKS, LARGE_BLOCKS, 1),
    };
    let bytes = u64::from(blocks) * u64::from(BLOCK_BYTES);
    TestOp { file, first_block, blocks, generation, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_every_part_in_turn() {
        let file = first_file(Durability::Sync, WorkKind::Overwrite);
        let mut parts = Vec::new();
        for number in 0..OVERWRITE_PARTS {
            let op = batch_op(file, number);
            assert_eq!((op.generation, op.blocks), (1, OVERWRITE_BLOCKS));
            parts.push(op.first_block / OVERWRITE_BLOCKS);
        }
        parts.sort_unstable();
        assert!(parts.into_iter().eq(0..OVERWRITE_PARTS));
        assert_eq!(batch_op(file, OVERWRITE_PARTS).generation, 2);
    }

    #[test]
    fn grows_large_file_without_gap() {
        let file = first_file(Durability::None, WorkKind::LargeFile);
        let first = batch_op(file, 0);
        let second = batch_op(file, 1);
        assert_eq!(first.range().end, second.first_block);
        assert_eq!(first.bytes, 65_536);
    }
}
