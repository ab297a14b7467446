//! What the files of a target hold: made before anything is timed, and no more than ops need.
//!
//! A pass of large files needs all of it; one of a thousand processes that work on a small file
//! each needs a page. Content that an op needs and that was not made is a bug, and ends the
//! program.

use std::sync::Arc;

use model::random::draw;
use model::{Fill, Opens, Pass, RunSpec, Share, Workload};
use workload::stamp::STAMP_BYTES;
use workload::{FileSet, Journal, Pattern, Rewrites};

use super::{TrialTarget, largest_op, works_anywhere};
use crate::limits::PREPARE_IO;

/// The content of a run's files, for ops of every size that the run issues; with stamps where the
/// plan wants them, those of the agents that work in a directory of this name. Nothing of it is
/// made yet: see [`TrialTarget::make_content`] and [`TrialTarget::make_content_of`].
pub fn pattern_of(spec: &RunSpec, seed: u64, work_name: &str) -> Pattern {
    let pattern = Pattern::unmade(&spec.data, seed, largest_op(spec).max(PREPARE_IO) as usize);
    if !spec.data.stamp && !verifies_rewrites(spec) {
        return pattern;
    }
    let mut campaign = seed;
    for byte in work_name.bytes() {
        campaign = draw(campaign, u64::from(byte));
    }
    let pattern = pattern.stamped(campaign, spec.io_size_bytes);
    if spec.soak.is_none() {
        return pattern;
    }
    let journal = Journal::new(spec.files, spec.file_size_bytes, spec.io_size_bytes);
    pattern.journaled(Arc::new(journal))
}

/// Follows the writes of each block by the workers of a share, so that a read finds those that were
/// lost, where a run reads and verifies what it rewrites.
#[must_use]
pub fn follow_rewrites(pattern: Pattern, spec: &RunSpec, share: Share) -> Pattern {
    if !verifies_rewrites(spec) {
        return pattern;
    }
    // A number that no other agent has, and that is not 0.
    let (writer, has_others) = (share.first + 1, share.count < spec.workers);
    let (files, file_bytes) = (spec.files, spec.file_size_bytes);
    match Rewrites::new(writer, has_others, files, file_bytes, spec.io_size_bytes) {
        Some(rewrites) => pattern.rewritten(Arc::new(rewrites)),
        None => pattern,
    }
}

/// Says whether reads of a run are verified that may find what it has written over: else a write
/// that is lost leaves the same bytes. Zeros and blocks that repeat have no room for a stamp.
fn verifies_rewrites(spec: &RunSpec) -> bool {
    spec.verify
        && spec.workload == Workload::Mixed
        && spec.soak.is_none()
        && (1..100).contains(&spec.read_percent)
        && spec.data.fill == Fill::Random
        && spec.data.dedup_percent == 0
        && spec.io_size_bytes as usize >= STAMP_BYTES
}

impl TrialTarget {
    /// The writes of each block, where they are followed.
    pub const fn rewrites(&self) -> Option<&Arc<Rewrites>> {
        self.config.pattern.rewrites()
    }

    /// Makes the content of the files of its share, which [`Self::prepare`] writes.
    pub fn make_content(&mut self, spec: &RunSpec) {
        if spec.target.keeps_nothing() {
            return;
        }
        let own = self.config.share;
        let set = FileSet::of(spec, self.config.seed);
        self.make_files(&set, |number| own.owns(number, spec.workers));
    }

    /// Makes the content that the workers of a share write in a pass, or compare with.
    pub fn make_content_of(&mut self, spec: &RunSpec, pass: Pass, share: Share) {
        let only_reads = !pass.writes() || pass == Pass::Mix && spec.read_percent >= 100;
        if spec.target.keeps_nothing() || only_reads && !spec.verify {
            return;
        }
        // What is opened by name, or grows, has a size that the set doesn't know.
        let knows_sizes = pass.opens() != Opens::Nothing && pass != Pass::OpMix;
        if !knows_sizes {
            return self.config.pattern.make_all();
        }
        let is_anywhere = works_anywhere(spec, pass);
        let set = FileSet::of(spec, self.config.seed);
        self.make_files(&set, |number| is_anywhere || share.owns(number, spec.workers));
    }

    /// Makes the content of the files of a set that are used.
    fn make_files(&mut self, set: &FileSet, is_used: impl Fn(u32) -> bool) {
        let mut files = Vec::new();
        for number in 0..set.files() {
            if let Some(bytes) = set.size(number)
                && is_used(number)
            {
                files.push((number, bytes));
            }
        }
        self.config.pattern.make_for(files.into_iter());
    }

    /// The content, as far as it is made.
    pub const fn content(&self) -> &Pattern {
        &self.config.pattern
    }
}

/// The bytes that preparation writes: a slice of the pattern, or in `buffer` where they have to be
/// put together.
pub(super) fn content_of<'a>(
    pattern: &'a Pattern,
    buffer: &'a mut [u8],
    file: u32,
    offset: u64,
    len: u32,
) -> &'a [u8] {
    if !pattern.is_copied() {
        return pattern.slice(file, offset, len);
    }
    let data = &mut buffer[..len as usize];
    pattern.fill(data, file, offset);
    data
}
