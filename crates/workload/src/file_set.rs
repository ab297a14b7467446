//! The files, directories and links of a run, and which of them exist beforehand.
//!
//! For each number, [`FileSet`] returns whether the file exists before the pass that needs it, and
//! its size. It is a function of the run, so preparation, streams and inventories on all hosts
//! agree.

use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{FileSizes, RunSpec, Share, Workload};

use crate::developer::{DeveloperSet, Trees};
use crate::kv_cache::Contexts;
use crate::opmix::OpMixSet;

/// Sizes of a distribution are rounded up to a multiple of this if I/O is direct, in bytes: no
/// device in use has larger logical blocks.
const DIRECT_UNIT_BYTES: u64 = 4 << 10;

/// The files of a run.
#[derive(Clone, Debug)]
pub struct FileSet {
    sizes: Sizes,
    files: u32,
    is_only_listed: bool,
}

#[derive(Clone, Debug)]
enum Sizes {
    /// All files have the same size.
    Equal(u64),
    /// Those with an even number have this size, the others are empty.
    Alternating(u64),
    /// Sizes of a distribution, each rounded up to a multiple of the unit.
    Distributed { sizes: FileSizes, unit: u64 },
    /// Objects of a cache, and how many of each user's are in it.
    Cached { contexts: Contexts, present: Arc<[u32]> },
    /// The files of an op mix.
    OpMix(Box<OpMixSet>),
    /// Those of a developer's trees.
    Developer(Box<DeveloperSet>),
}

impl FileSet {
    /// Returns the set of a run.
    pub fn new(spec: &RunSpec) -> Self {
        let sizes = match (spec.workload, &spec.file_sizes) {
            (Workload::OpMix, _) => {
                let set = OpMixSet::new(spec);
                let files = set.files();
                return Self { files, sizes: Sizes::OpMix(Box::new(set)), is_only_listed: false };
            }
            (Workload::Developer, _) => {
                let set = DeveloperSet::new(spec);
                let files = set.numbers();
                let sizes = Sizes::Developer(Box::new(set));
                return Self { files, sizes, is_only_listed: false };
            }
            // Each part of the run has a set of its own.
            (Workload::Io500, _) => {
                return Self { files: 0, sizes: Sizes::Equal(0), is_only_listed: false };
            }
            (Workload::KvCache, _) => {
                let contexts = Contexts::new(spec);
                let present = contexts.all_present().into();
                Sizes::Cached { contexts, present }
            }
            (Workload::Listing, None) => Sizes::Alternating(spec.file_size_bytes),
            (_, None) => Sizes::Equal(spec.file_size_bytes),
            (workload, Some(_)) => Sizes::Distributed {
                sizes: Self::sizes(spec),
                // Ops of a mix go to whole blocks, and O_DIRECT needs aligned sizes.
                unit: match workload {
                    Workload::Mixed => spec.io_size_bytes.max(1).into(),
                    _ if spec.direct => DIRECT_UNIT_BYTES,
                    _ => 1,
                },
            },
        };
        Self { sizes, files: spec.files, is_only_listed: spec.workload == Workload::Listing }
    }

    /// Returns the sizes of numbered files, including those that are created later.
    pub(crate) fn sizes(spec: &RunSpec) -> FileSizes {
        // Each file has the same size in all trials, so that they do the same work.
        FileSizes::new(spec.distribution(), spec.files.into(), 0)
    }

    /// Returns true if the data of the files is never read, only their names and sizes.
    pub const fn is_only_listed(&self) -> bool {
        self.is_only_listed
    }

    /// Returns the sizes of the files that a find looks for, among those with a matching name.
    pub fn found_sizes(spec: &RunSpec) -> RangeInclusive<u64> {
        let size = spec.file_size_bytes;
        // With a distribution, this is the mean.
        size..=if spec.file_sizes.is_some() { u64::MAX } else { size }
    }

    /// Returns the number of the first block of each file, counted over all files, and then the
    /// number of all blocks; `None` if all files have equally many.
    pub fn first_blocks(&self, block_bytes: u32) -> Option<Arc<[u64]>> {
        let Sizes::Distributed { .. } = &self.sizes else { return None };
        let block_bytes = u64::from(block_bytes.max(1));
        let mut firsts = Vec::with_capacity(self.files as usize + 1);
        let mut next = 0;
        firsts.push(next);
        for file in 0..self.files {
            next += self.size(file).unwrap_or(0).div_ceil(block_bytes);
            firsts.push(next);
        }
        Some(firsts.into())
    }

    /// Returns the sum of something that depends on the size of each file, such as the space that
    /// it takes.
    pub fn sum_sizes(&self, of_size: impl Fn(u64) -> u64) -> u64 {
        match &self.sizes {
            Sizes::Equal(size) => of_size(*size).saturating_mul(self.files.into()),
            _ => (0..self.files)
                .filter_map(|file| self.size(file))
                .fold(0, |sum, size| of_size(size).saturating_add(sum)),
        }
    }

    /// Returns the total size of the files of a share of the workers.
    pub fn bytes_of(&self, share: Share, workers: u32) -> u64 {
        match &self.sizes {
            Sizes::Equal(size) => {
                size.saturating_mul(share.owned_below(self.files, workers).into())
            }
            _ => share
                .owned_numbers(self.files, workers)
                .filter_map(|file| self.size(file))
                .fold(0, u64::saturating_add),
        }
    }

    /// Returns true if a file exists when these trees of a developer do. Files of other workloads
    /// don't belong to trees.
    pub fn is_in(&self, trees: Trees, file: u32) -> bool {
        match &self.sizes {
            Sizes::Developer(set) => set.is_in(trees, file),
            _ => true,
        }
    }

    /// Returns an upper bound for the numbers of files that exist beforehand.
    pub const fn files(&self) -> u32 {
        self.files
    }

    /// Returns the size of a file in bytes, or `None` if it doesn't exist beforehand.
    #[inline]
    pub fn size(&self, file: u32) -> Option<u64> {
        if file >= self.files {
            return None;
        }
        match &self.sizes {
            Sizes::Equal(size) => Some(*size),
            Sizes::Alternating(size) => Some(if file.is_multiple_of(2) { *size } else { 0 }),
            Sizes::Distributed { sizes, unit } => {
                Some(sizes.size(file.into()).next_multiple_of(*unit))
            }
            Sizes::Cached { contexts, present } => {
                let users = present.len() as u32;
                let is_present = file / users < present[(file % users) as usize];
                is_present.then(|| contexts.size(file))
            }
            Sizes::OpMix(set) => set.size(file),
            Sizes::Developer(set) => set.size(file),
        }
    }

    /// Returns the number of directories, other than places, that ops access and that exist
    /// beforehand. They are numbered from 0.
    pub const fn directories(&self) -> u32 {
        match &self.sizes {
            Sizes::OpMix(set) => set.directories(),
            _ => self.files,
        }
    }

    /// Returns the number of symbolic links that exist beforehand. They are numbered from 0.
    pub const fn links(&self) -> u32 {
        match &self.sizes {
            Sizes::OpMix(set) => set.links(),
            _ => 0,
        }
    }

    /// Returns the number of files that exist beforehand, and their total size.
    pub fn totals(&self) -> (u64, u64) {
        match &self.sizes {
            Sizes::Equal(size) => {
                return (self.files.into(), size.saturating_mul(self.files.into()));
            }
            Sizes::Alternating(size) => {
                return (u64::from(self.files), u64::from(self.files.div_ceil(2)) * size);
            }
            Sizes::OpMix(set) => return set.totals(),
            Sizes::Distributed { .. } | Sizes::Cached { .. } | Sizes::Developer(_) => {}
        }
        let mut count = 0;
        let mut bytes = 0;
        for file in 0..self.files {
            if let Some(size) = self.size(file) {
                count += 1;
                bytes = size.saturating_add(bytes);
            }
        }
        (count, bytes)
    }
}
