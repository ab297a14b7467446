//! The files, directories and links that a run works on, and which of them are there beforehand.
//!
//! [`FileSet`] answers for each number whether it is there before the pass that needs it, and how
//! large the file is. It is a function of run and seed: preparation, streams and the parts that
//! count the set afterwards agree.

use model::random::{below, draw};
use model::{RunSpec, Workload};

use crate::opmix::OpMixSet;

/// Seed constant that separates sizes from other draws of the same seed.
const SIZES: u64 = 0x512e;

/// The files that a run works on.
#[derive(Clone, Debug)]
pub struct FileSet {
    sizes: Sizes,
    files: u32,
}

#[derive(Clone, Debug)]
enum Sizes {
    /// All files are equal.
    Equal(u64),
    /// Uniform between two sizes, drawn with a seed.
    Uniform { seed: u64, least: u32, most: u32 },
    /// The files of an op mix.
    OpMix(Box<OpMixSet>),
}

impl FileSet {
    /// The set of a run; `seed` is that of its streams.
    pub fn of(spec: &RunSpec, seed: u64) -> Self {
        match spec.workload {
            // Sizes come from the seed and the number alone, so preparation, streams and checks
            // agree on them without a table.
            Workload::Transactions => {
                let least = spec.transactions.size_min_bytes;
                let most = spec.transactions.size_max_bytes.max(least);
                let seed = size_seed(seed);
                Self { sizes: Sizes::Uniform { seed, least, most }, files: spec.files }
            }
            Workload::OpMix => {
                let set = OpMixSet::of(spec);
                Self { files: set.files(), sizes: Sizes::OpMix(Box::new(set)) }
            }
            _ => Self { sizes: Sizes::Equal(spec.file_size_bytes), files: spec.files },
        }
    }

    /// Every file that is there beforehand has a number below this.
    pub const fn files(&self) -> u32 {
        self.files
    }

    /// Size of a file in bytes; `None` where it is not there beforehand.
    #[inline]
    pub fn size(&self, file: u32) -> Option<u64> {
        if file >= self.files {
            return None;
        }
        match &self.sizes {
            Sizes::Equal(size) => Some(*size),
            Sizes::Uniform { seed, least, most } => Some(uniform(*seed, file, *least, *most)),
            Sizes::OpMix(set) => set.size(file),
        }
    }

    /// Numbers of the directories, other than places, that ops look for and that are there
    /// beforehand, as a range from 0 on.
    pub const fn directories(&self) -> u32 {
        match &self.sizes {
            Sizes::OpMix(set) => set.directories(),
            _ => self.files,
        }
    }

    /// Numbers of the symbolic links that are there beforehand, as a range from 0 on.
    pub const fn links(&self) -> u32 {
        match &self.sizes {
            Sizes::OpMix(set) => set.links(),
            _ => 0,
        }
    }

    /// Files that are there beforehand, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        match &self.sizes {
            Sizes::Equal(size) => return (u64::from(self.files), u64::from(self.files) * size),
            Sizes::OpMix(set) => return set.totals(),
            Sizes::Uniform { .. } => {}
        }
        let (mut count, mut bytes) = (0, 0);
        for file in 0..self.files {
            if let Some(size) = self.size(file) {
                (count, bytes) = (count + 1, bytes + size);
            }
        }
        (count, bytes)
    }
}

/// The size of a file of a pool: any from `least` to `most` with the same probability.
#[inline]
pub(crate) fn uniform(seed: u64, file: u32, least: u32, most: u32) -> u64 {
    let range = u64::from(most - least) + 1;
    u64::from(least) + below(draw(seed, u64::from(file)), range)
}

/// The seed of the sizes of a pool.
pub(crate) const fn size_seed(seed: u64) -> u64 {
    draw(seed, SIZES)
}
