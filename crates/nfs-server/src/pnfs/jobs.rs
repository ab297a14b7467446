//! Work on data files for clients without a layout, from the first call to the one that gets the
//! outcome.
//!
//! A client whose call was not finished in time repeats it, so jobs are found again by what they
//! do. An outcome may only be used if nothing overlapping was done since: a later write ends the
//! earlier jobs of its range, and outcomes are forgotten after a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::control::Pending;
use crate::clock::{mix, monotonic_ns};
use crate::sync;

/// How long an outcome waits for its client, in nanoseconds.
const AGE_NS_MAX: u64 = 5_000_000_000;

/// A range of a file, which has this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DataRange {
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl DataRange {
    fn overlaps(&self, other: &Self) -> bool {
        let end = |range: &Self| range.offset.saturating_add(range.length);
        self.file == other.file && self.offset < end(other) && other.offset < end(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum JobKind {
    Read,
    /// A checksum of the data.
    Write(u64),
    Resize(u64),
    Size,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct JobKey {
    range: DataRange,
    kind: JobKind,
}

impl JobKey {
    pub(super) fn read(range: DataRange) -> Self {
        Self { range, kind: JobKind::Read }
    }

    pub(super) fn write(range: DataRange, data: &[u8]) -> Self {
        let mut sum = 0_u64;
        for chunk in data.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            sum = mix(sum ^ u64::from_le_bytes(word));
        }
        Self { range, kind: JobKind::Write(sum) }
    }

    pub(super) fn resize(file: u64, size: u64) -> Self {
        Self { range: DataRange { file, offset: 0, length: u64::MAX }, kind: JobKind::Resize(size) }
    }

    pub(super) fn size(file: u64) -> Self {
        Self { range: DataRange { file, offset: 0, length: u64::MAX }, kind: JobKind::Size }
    }

    fn changes(&self) -> bool {
        matches!(self.kind, JobKind::Write(_) | JobKind::Resize(_))
    }
}

/// The part of a job that one data server does.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) mirror: usize,
    pub(super) offset: u64,
    pub(super) pending: Arc<Pending>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Jobs(Mutex<HashMap<JobKey, Job>>);

#[derive(Debug)]
struct Job {
    since_ns: u64,
    parts: Vec<Part>,
}

impl Jobs {
    /// Returns the parts of a job that was begun before, or begins it.
    pub(super) fn find_or_begin(
        &self,
        key: JobKey,
        begin: impl FnOnce() -> Vec<Part>,
    ) -> Vec<Part> {
        let mut jobs = sync::lock(&self.0);
        if let Some(job) = jobs.get(&key) {
            return job.parts.clone();
        }
        let now_ns = monotonic_ns();
        // The lines execute jobs in order, so what was begun earlier is done before this one.
        jobs.retain(|other, job| {
            let is_overtaken = key.changes() && other.range.overlaps(&key.range);
            !is_overtaken && now_ns.saturating_sub(job.since_ns) < AGE_NS_MAX
        });
        let parts = begin();
        jobs.insert(key, Job { since_ns: now_ns, parts: parts.clone() });
        parts
    }

    /// Forgets a job whose outcome was used.
    pub(super) fn end(&self, key: JobKey) {
        sync::lock(&self.0).remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64) -> DataRange {
        DataRange { file: 1, offset, length: 10 }
    }

    fn is_begun(jobs: &Jobs, key: JobKey) -> bool {
        let mut is_new = false;
        jobs.find_or_begin(key, || {
            is_new = true;
            Vec::new()
        });
        is_new
    }

    #[test]
    fn finds_job_of_repeated_call() {
        let jobs = Jobs::default();
        let (first, second) = (JobKey::write(range(0), b"a"), JobKey::write(range(10), b"b"));
        assert!(is_begun(&jobs, first) && is_begun(&jobs, second));
        assert!(!is_begun(&jobs, first) && !is_begun(&jobs, second));
        jobs.end(first);
        assert!(is_begun(&jobs, first));
    }

    #[test]
    fn later_write_ends_overlapping_jobs() {
        let jobs = Jobs::default();
        let (read, write) = (JobKey::read(range(0)), JobKey::write(range(0), b"a"));
        assert!(is_begun(&jobs, write) && is_begun(&jobs, read));
        assert!(is_begun(&jobs, JobKey::write(range(5), b"b")));
        assert!(is_begun(&jobs, read) && is_begun(&jobs, write));
        assert!(is_begun(&jobs, JobKey::resize(1, 3)) && is_begun(&jobs, read));
        assert!(is_begun(&jobs, JobKey::resize(2, 3)) && !is_begun(&jobs, read));
    }
}
