//! The files, directories and links of a run, and which of them exist beforehand.
//!
//! For each number, [`FileSet`] returns whether the file exists before the pass that needs it, and
//! its size. It is a function of run and seed, so preparation, streams and inventories agree.

use std::sync::Arc;

use model::random::{below, draw};
use model::{RunSpec, Workload};

use crate::developer::{DeveloperSet, Trees};
use crate::kv_cache::Contexts;
use crate::opmix::OpMixSet;

/// Seed constant that separates sizes from other draws with the same seed.
const SIZES: u64 = 0x512e;

/// The files of a run.
#[derive(Clone, Debug)]
pub struct FileSet {
    sizes: Sizes,
    files: u32,
}

#[derive(Clone, Debug)]
enum Sizes {
    /// All files have the same size.
    Equal(u64),
    /// Those with an even number have this size, the others are empty.
    Alternating(u64),
    /// Uniformly distributed between two sizes.
    Uniform { seed: u64, least: u32, most: u32 },
    /// Objects of a cache, and how many of each user's are in it.
    Cached { contexts: Contexts, present: Arc<[u32]> },
    /// The files of an op mix.
    OpMix(Box<OpMixSet>),
    /// Those of a developer's trees.
    Developer(Box<DeveloperSet>),
}

impl FileSet {
    /// Returns the set of a run. `seed` is that of its streams.
    pub fn new(spec: &RunSpec, seed: u64) -> Self {
        match spec.workload {
            // Sizes depend only on the seed and the number, so preparation, streams and checks
            // agree on them without a table.
            Workload::Transactions => {
                let least = spec.transactions.size_min_bytes;
                let most = spec.transactions.size_max_bytes.max(least);
                let seed = size_seed(seed);
                Self { sizes: Sizes::Uniform { seed, least, most }, files: spec.files }
            }
            Workload::Listing => {
                Self { sizes: Sizes::Alternating(spec.file_size_bytes), files: spec.files }
            }
            Workload::KvCache => {
                let contexts = Contexts::new(spec);
                let present = contexts.all_present().into();
                Self { sizes: Sizes::Cached { contexts, present }, files: spec.files }
            }
            // Each part of the run has a set of its own.
            Workload::Io500 => Self { sizes: Sizes::Equal(0), files: 0 },
            Workload::OpMix => {
                let set = OpMixSet::new(spec);
                Self { files: set.files(), sizes: Sizes::OpMix(Box::new(set)) }
            }
            Workload::Developer => {
                let set = DeveloperSet::new(spec);
                Self { files: set.numbers(), sizes: Sizes::Developer(Box::new(set)) }
            }
            _ => Self { sizes: Sizes::Equal(spec.file_size_bytes), files: spec.files },
        }
    }

    /// Returns true if the data of the files is never read, only their names and sizes.
    pub const fn is_only_listed(&self) -> bool {
        matches!(self.sizes, Sizes::Alternating(_))
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
            Sizes::Uniform { seed, least, most } => Some(uniform(*seed, file, *least, *most)),
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
            Sizes::Equal(size) => return (u64::from(self.files), u64::from(self.files) * size),
            Sizes::Alternating(size) => {
                return (u64::from(self.files), u64::from(self.files.div_ceil(2)) * size);
            }
            Sizes::OpMix(set) => return set.totals(),
            Sizes::Uniform { .. } | Sizes::Cached { .. } | Sizes::Developer(_) => {}
        }
        let mut count = 0;
        let mut bytes = 0;
        for file in 0..self.files {
            if let Some(size) = self.size(file) {
                count += 1;
                bytes += size;
            }
        }
        (count, bytes)
    }
}

/// Returns the size of a file in a pool, uniformly distributed from `least` to `most`.
#[inline]
pub(crate) fn uniform(seed: u64, file: u32, least: u32, most: u32) -> u64 {
    let range = u64::from(most - least) + 1;
    u64::from(least) + below(draw(seed, u64::from(file)), range)
}

/// Returns the seed for the sizes of a pool.
pub(crate) const fn size_seed(seed: u64) -> u64 {
    draw(seed, SIZES)
}
