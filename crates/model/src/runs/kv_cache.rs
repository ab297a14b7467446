//! A key-value cache of an inference server on storage: how large its objects are, and how many
//! fit.

use serde::{Deserialize, Serialize};

use crate::runs::file_sizes::SizeDistribution;

/// Sizes are a multiple of this, in bytes: file systems allocate whole blocks, and direct I/O
/// requires them.
pub const OBJECT_UNIT_BYTES: u64 = 4 << 10;

/// Number of contexts of each user unless the plan sets `files`.
pub const CONTEXTS_PER_USER: u64 = 32;

/// Objects of a key-value cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct KvCache {
    /// Sizes of the objects; there is one for each context.
    pub object_sizes: SizeDistribution,
    /// Bytes of all objects in the cache, over all workers.
    pub capacity_bytes: u64,
}

impl Default for KvCache {
    fn default() -> Self {
        // 128 tokens of Llama 3.1 8B, at 128 KiB each; MLPerf Storage v3 has some 2,700.
        let object_sizes = SizeDistribution::Lognormal {
            median_bytes: 16 << 20,
            sigma_thousandths: 800,
            max_bytes: 256 << 20,
        };
        Self { object_sizes, capacity_bytes: 0 }
    }
}

impl KvCache {
    /// Returns an upper bound of the sizes of `count` objects.
    pub fn largest_bytes(&self, count: u32) -> u64 {
        self.object_sizes.largest(count.into()).max(1).next_multiple_of(OBJECT_UNIT_BYTES)
    }

    /// Returns the mean size of `count` objects.
    pub fn mean_bytes(&self, count: u32) -> u64 {
        self.object_sizes.mean(count.into()).max(1).next_multiple_of(OBJECT_UNIT_BYTES)
    }
}
