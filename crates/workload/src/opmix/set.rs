//! The files, directories and links of an op mix.
//!
//! Files are numbered in this order: data files, files that are renamed, and files that come and
//! go. One in ten data files is in use by READ and WRITE; the other kinds use all of them. Sizes
//! match the profile exactly in each hundred files. The files in use are spread over all numbers,
//! and so over all directories.

use model::{OpKind, RunSpec};

use super::pool::{Pool, RenamedFiles};
use super::profile::{LINKS_READ, Profile, RequestSize};
use super::shares::{profile_of, requests_of_block};
use crate::moved_bytes::MovedBytes;

/// Minimum number of names that come and go, and their share of the data files in percent.
///
/// **Source:** SPEC SFS 3.0: 100, or 2 % of the I/O files.
const POOL_MIN: u32 = 100;
const POOL_PERCENT: u64 = 2;

/// Numbers in names have eight digits.
const NAMES_MAX: u64 = 100_000_000;

/// Step between the sizes of consecutive files, out of a hundred. It has no common divisor with
/// 100, so all sizes occur, and small sets get some of each.
const SIZE_STEP: u64 = 37;

/// The files of an op mix.
#[derive(Clone, Debug)]
pub struct OpMixSet {
    profile: &'static Profile,
    pub(super) data_files: u32,
    /// Number of data files in use.
    pub(super) used_files: u32,
    /// Step from one file in use to the next, and its inverse; see `number_of`.
    step: u64,
    step_back: u64,
    pub(super) renamed: RenamedFiles,
    pub(super) files: Pool,
    pub(super) directories: Pool,
    pub(super) links: Pool,
    /// Second names created in each block of requests.
    second_names: u32,
}

impl OpMixSet {
    /// Returns the set of a run.
    pub fn new(spec: &RunSpec) -> Self {
        let mix = &spec.op_mix;
        let profile = profile_of(mix);
        let (counts, _) = requests_of_block(mix, spec.io_size_bytes);
        let data_files = data_files(spec, profile);
        let used = u64::from(data_files) * u64::from(mix.accessed_percent.min(100));
        let pool_min = POOL_MIN.max((u64::from(data_files) * POOL_PERCENT / 100) as u32);
        let renamed = RenamedFiles::new(data_files, count_of(&counts, OpKind::Rename));
        let pool = |first, makes, takes| {
            Pool::new(first, count_of(&counts, makes), count_of(&counts, takes), pool_min)
        };
        let (step, step_back) = steps(u64::from(data_files));
        Self {
            profile,
            data_files,
            used_files: (used.div_ceil(100) as u32).clamp(1, data_files),
            step,
            step_back,
            files: pool(data_files + renamed.slots(), OpKind::Create, OpKind::Remove),
            renamed,
            directories: pool(0, OpKind::Mkdir, OpKind::Rmdir),
            links: pool(LINKS_READ, OpKind::Symlink, OpKind::Unlink),
            second_names: count_of(&counts, OpKind::Link),
        }
    }

    /// Returns an upper bound for the numbers of files that exist beforehand.
    pub const fn files(&self) -> u32 {
        self.data_files + self.renamed.slots() + self.files.filled()
    }

    /// Returns the number of directories that exist beforehand, numbered from 0.
    pub const fn directories(&self) -> u32 {
        self.directories.filled()
    }

    /// Returns the number of symbolic links that exist beforehand, numbered from 0.
    pub const fn links(&self) -> u32 {
        LINKS_READ + self.links.filled()
    }

    /// Returns the size of a file in bytes, or `None` if it doesn't exist beforehand.
    pub fn size(&self, file: u32) -> Option<u64> {
        if file < self.data_files {
            // The inverse of `number_of`.
            let rank = u64::from(file) * self.step_back % u64::from(self.data_files);
            return Some(self.size_of(rank as u32));
        }
        if file < self.files() { Some(0) } else { None }
    }

    /// Returns the number of files that exist beforehand, and their total size.
    pub fn totals(&self) -> (u64, u64) {
        let hundreds = self.data_files / 100;
        let rest = self.data_files % 100;
        let whole = u64::from(hundreds) * (self.profile.kib_of_hundred() << 10);
        // Sizes repeat every hundred ranks, so whole hundreds match the profile exactly.
        let mut bytes = whole;
        bytes += (0..rest).map(|rank| self.size_of(rank)).sum::<u64>();
        (u64::from(self.files()), bytes)
    }

    /// Estimates the bytes that a run appends: what it writes in its time, but no more than one
    /// maximum request for each file in use, since appends to the same file overlap.
    pub fn appended_bytes(&self, spec: &RunSpec) -> u64 {
        let mut twice_mean_kib = 0;
        for range in self.profile.writes {
            twice_mean_kib += (range.least_kib + range.most_kib) * range.percent;
        }
        twice_mean_kib /= 100;
        let (counts, calls_of_block) = requests_of_block(&spec.op_mix, spec.io_size_bytes);
        let time_ms = u128::from(spec.warmup_ns() / 1_000_000 + spec.duration_ms);
        // Calls of a block are counted in units of 1/84,000, and time in milliseconds.
        let requests = u128::from(spec.load.rate_per_s)
            * time_ms
            * 84
            * u128::from(count_of(&counts, OpKind::Write))
            / u128::from(calls_of_block.max(1));
        let appends = requests * u128::from(spec.op_mix.append_percent) / 100;
        let bytes = appends * u128::from(twice_mean_kib << 10) / 2;
        let most = u64::from(self.used_files) * self.largest_write_bytes();
        u64::try_from(bytes).unwrap_or(u64::MAX).min(most)
    }

    /// Returns the mean number of bytes read and written by this many calls.
    pub fn mean_bytes(&self, spec: &RunSpec, calls: u64) -> MovedBytes {
        let (counts, calls_of_block) = requests_of_block(&spec.op_mix, spec.io_size_bytes);
        let appends = u64::from(spec.op_mix.append_percent).min(100);
        let moved = |kind, bytes_of_hundred: u64| {
            // Calls of a block are counted in 84,000ths.
            let all = u128::from(calls) * 840 * u128::from(count_of(&counts, kind));
            let bytes = all * u128::from(bytes_of_hundred) / u128::from(calls_of_block.max(1));
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        MovedBytes {
            read: moved(OpKind::Read, self.bytes_of_hundred(self.profile.reads, 0)),
            written: moved(OpKind::Write, self.bytes_of_hundred(self.profile.writes, appends)),
        }
    }

    /// Returns the bytes of a hundred requests of which some append. The others are cut to the size
    /// of any file in use if none of these files is as large.
    fn bytes_of_hundred(&self, sizes: &[RequestSize], append_percent: u64) -> u64 {
        let mut largest = 0;
        let mut sum = 0;
        // Sizes repeat with each hundred ranks.
        let ranks = self.used_files.min(100);
        for rank in 0..ranks {
            let size = self.size_of(rank);
            largest = size.max(largest);
            sum += size;
        }
        let mean = sum / u64::from(ranks.max(1));
        let mut all = 0;
        for range in sizes {
            let mut bytes = 0;
            for kib in range.least_kib..=range.most_kib {
                let whole = u64::from(kib) << 10;
                let cut = if whole > largest { mean } else { whole };
                bytes += whole * append_percent + cut * (100 - append_percent);
            }
            let count = u64::from(range.most_kib - range.least_kib) + 1;
            all += bytes * u64::from(range.percent) / count / 100;
        }
        all
    }

    /// Returns the end of all writes to a file, in bytes, including data appended beyond its
    /// initial size; 0 if the file is not in use.
    pub fn written_end(&self, file: u32) -> u64 {
        let rank = u64::from(file) * self.step_back % u64::from(self.data_files);
        if file >= self.data_files || rank >= u64::from(self.used_files) {
            return 0;
        }
        self.size_of(rank as u32) + self.largest_write_bytes()
    }

    /// Returns the maximum size of a WRITE request in bytes.
    fn largest_write_bytes(&self) -> u64 {
        let mut largest_kib = 0;
        for range in self.profile.writes {
            largest_kib = largest_kib.max(range.most_kib);
        }
        u64::from(largest_kib) << 10
    }

    /// Returns the file that LINK number `rank` of a block gives a second name, and the number of
    /// that name. All files take turns; no op removes these names.
    pub(super) const fn linked(&self, block: u64, rank: u32) -> (u32, u64) {
        let number = (block * self.second_names as u64 + rank as u64) % NAMES_MAX;
        (self.number_of((number % self.data_files as u64) as u32), number)
    }

    /// Returns the number of the data file with this rank. The files in use have the first ranks.
    #[inline]
    pub(super) const fn number_of(&self, rank: u32) -> u32 {
        (rank as u64 * self.step % self.data_files as u64) as u32
    }

    /// Returns the size of the data file with this rank in bytes.
    #[inline]
    pub(super) fn size_of(&self, rank: u32) -> u64 {
        let mut place = (u64::from(rank) * SIZE_STEP % 100) as u32;
        for share in self.profile.files {
            if place < share.percent {
                return u64::from(share.kib) << 10;
            }
            place -= share.percent;
        }
        1 << 10
    }

    /// Returns the profile of the mix.
    pub(super) const fn profile(&self) -> &'static Profile {
        self.profile
    }
}

/// Returns the number of requests of a kind in a block.
fn count_of(counts: &[(OpKind, u32)], kind: OpKind) -> u32 {
    for (known, count) in counts {
        if *known == kind {
            return *count;
        }
    }
    0
}

/// Returns the number of data files of a run: enough for its offered load, or as given in the plan.
fn data_files(spec: &RunSpec, profile: &Profile) -> u32 {
    let wanted = u128::from(spec.op_mix.set_bytes_per_rate) * u128::from(spec.load.rate_per_s);
    if wanted == 0 {
        return spec.files.max(1);
    }
    let hundred_bytes = u128::from(profile.kib_of_hundred()) << 10;
    // Names have eight digits, and some are reserved for files that come and go.
    (wanted * 100 / hundred_bytes.max(1)).clamp(1, 50_000_000) as u32
}

/// Finds a step that visits all of `count` numbers in turn, far apart, and its inverse.
///
/// **Source:** the golden ratio spreads multiples evenly (Knuth, TAOCP 3, 6.4); the inverse is
/// Euclid's.
fn steps(count: u64) -> (u64, u64) {
    let start = ((count as u128 * 0x9e37_79b9_7f4a_7c15) >> 64) as u64;
    for step in (start.max(1)..).take(1000) {
        // Only a step without a common divisor has an inverse and visits all numbers.
        if let Some(back) = inverse_of(step, count) {
            return (step, back);
        }
    }
    (1, 1)
}

/// Returns the multiplicative inverse of `step` modulo `count`.
fn inverse_of(step: u64, count: u64) -> Option<u64> {
    let mut old = (i128::from(step), 1_i128);
    let mut new = (i128::from(count), 0_i128);
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    if old.0 != 1 {
        return None;
    }
    Some(old.1.rem_euclid(i128::from(count.max(1))) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_all_numbers_and_returns() {
        for count in 1..500 {
            let (step, back) = steps(count);
            let mut seen: Vec<u64> = (0..count).map(|rank| rank * step % count).collect();
            for (rank, number) in seen.iter().enumerate() {
                assert_eq!(number * back % count, rank as u64, "{count}");
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }
}
