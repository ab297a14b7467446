//! Content of a target's files, generated before anything is timed, and only as much as ops need.
//!
//! A pass over large files needs all of it, while one with a thousand processes on small files only
//! needs a page. If an op needs content that wasn't generated, that is a bug and ends the program.

use std::sync::Arc;

use model::random::draw;
use model::{Fill, Opens, Pass, RunSpec, Share};
use workload::names::Sort;
use workload::stamp::STAMP_BYTES;
use workload::{FileSet, Journal, Pattern, Rewrites};

use super::{TargetConfig, TargetError, TrialTarget, check_stop, sparse_layout, works_anywhere};
use crate::backend::sparse::check_zeros;
use crate::limits::PREPARE_IO;

/// Returns the content of a run's files, suitable for all op sizes of the run. If the plan wants
/// stamps, they identify the agents that work in a directory named `work_name`. Nothing is
/// generated yet: see [`TrialTarget::make_content`] and [`TrialTarget::make_content_of`].
pub fn pattern_of(spec: &RunSpec, seed: u64, work_name: &str) -> Pattern {
    let pattern = Pattern::without_content(
        &spec.data,
        seed,
        spec.largest_op_bytes().max(PREPARE_IO) as usize,
    );
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

/// Tracks the writes of each block by a share's workers if the run reads and verifies what it
/// overwrites, so that reads detect lost writes.
#[must_use]
pub fn follow_rewrites(pattern: Pattern, spec: &RunSpec, share: Share) -> Pattern {
    if !verifies_rewrites(spec) {
        return pattern;
    }
    // A number greater than 0 that no other agent uses.
    let writer = share.first + 1;
    let has_others = share.count < spec.workers;
    match Rewrites::new(writer, has_others, spec) {
        Some(rewrites) => pattern.rewritten(Arc::new(rewrites)),
        None => pattern,
    }
}

/// Returns true if reads that are verified may find data that was overwritten. Without tracking, a
/// lost write would leave the same bytes. There is no room for a stamp in zeros or repeated blocks.
fn verifies_rewrites(spec: &RunSpec) -> bool {
    spec.verify
        && spec.passes().iter().any(|pass| pass.is_mix())
        && spec.soak.is_none()
        && (1..100).contains(&spec.read_percent)
        && spec.data.fill == Fill::Random
        && spec.data.dedup_percent == 0
        && spec.io_size_bytes as usize >= STAMP_BYTES
}

impl TrialTarget {
    /// Returns the writes of each block, if they are tracked.
    pub const fn rewrites(&self) -> Option<&Arc<Rewrites>> {
        self.config.pattern.rewrites()
    }

    /// Generates the content of this share's files, which [`Self::prepare`] writes.
    pub fn make_content(&mut self, spec: &RunSpec) {
        if spec.target.keeps_nothing() {
            return;
        }
        let own = self.config.share;
        let set = FileSet::new(spec);
        self.make_files(&set, |number| own.owns(number, spec.workers));
    }

    /// Generates the content that a share's workers write or compare in a pass.
    pub fn make_content_of(&mut self, spec: &RunSpec, pass: Pass, share: Share) {
        let only_reads =
            !pass.writes() || matches!(pass, Pass::Mix | Pass::Boot) && spec.read_percent >= 100;
        if spec.target.keeps_nothing() || only_reads && !spec.verify {
            return;
        }
        // Files that are opened by name, or grow, have sizes that the set doesn't contain.
        let knows_sizes = pass.opens() != Opens::Nothing && pass != Pass::OpMix;
        if !knows_sizes {
            return self.config.pattern.generate_all();
        }
        let is_anywhere = works_anywhere(spec, pass);
        let set = FileSet::new(spec);
        self.make_files(&set, |number| is_anywhere || share.owns(number, spec.workers));
    }

    /// Generates the content of the files of a set that are used.
    fn make_files(&mut self, set: &FileSet, is_used: impl Fn(u32) -> bool) {
        let mut files = Vec::new();
        for number in 0..set.files() {
            if let Some(bytes) = set.size(number)
                && is_used(number)
            {
                files.push((number, bytes));
            }
        }
        self.config.pattern.generate_for(files.into_iter());
    }

    /// Reads what a pass over ranges has left in this share's files, and counts the bytes that are
    /// in pieces without a difference. Returns `None` if the run or the pass needs no such check.
    pub fn count_right_bytes(
        &self,
        spec: &RunSpec,
        pass: Pass,
    ) -> Result<Option<u64>, TargetError> {
        let is_checked = spec.verify && pass.needs_data_ops() && pass.writes();
        if !is_checked || spec.target.keeps_nothing() {
            return Ok(None);
        }
        let TargetConfig { pattern, share, .. } = &self.config;
        let sparse = sparse_layout(spec);
        let sort = if pass.opens() == Opens::Twins { Sort::Twin } else { Sort::File };
        let mut right = 0;
        for number in (0..spec.files).filter(|number| share.owns(*number, spec.workers)) {
            check_stop(&self.config)?;
            let mut check = |offset: u64, data: &[u8]| {
                let checked = match pass {
                    Pass::Allocate => check_zeros(data, number, offset),
                    Pass::Punch => sparse.check(pattern, data, number, offset),
                    _ => pattern.check(data, number, offset),
                };
                right += if checked.is_ok() { data.len() as u64 } else { 0 };
            };
            self.access.read_file(sort, number, spec, &mut check)?;
        }
        Ok(Some(right))
    }

    /// Returns the content, as far as it has been generated.
    pub const fn content(&self) -> &Pattern {
        &self.config.pattern
    }
}

/// Returns the bytes to write during preparation: a slice of the pattern, or `buffer` if they have
/// to be assembled.
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
