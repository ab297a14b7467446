//! Checkpoints of large models: how many bytes the ranks of a training job save together.

use serde::{Deserialize, Serialize};

use crate::text::words::words;

/// A scale of 1: [`Checkpoint::scale_millionths`] of a whole model.
pub const SCALE_ONE: u32 = 1_000_000;

/// Shards are a multiple of this, in bytes: file systems allocate whole blocks, and direct I/O
/// requires them.
const SHARD_UNIT_BYTES: u64 = 4 << 10;

/// Maximum number of ranks per client host unless the plan sets `workers`. Hosts have 8 or 16
/// accelerators, and a rank each; beyond that, threads only compete for CPUs and memory.
pub const RANKS_PER_HOST_MAX: u64 = 64;

/// Number of ranks of a model that is scaled down to less than a host: those of one host with 8
/// accelerators.
const RANKS_OF_SUBSET: u64 = 8;

words! {
    /// A model whose training state is saved.
    CheckpointModel {
        /// 8 billion parameters.
        B8 = "8b",
        /// 70 billion parameters.
        B70 = "70b",
        /// 405 billion parameters.
        B405 = "405b",
        /// A trillion parameters.
        T1 = "1t",
    }
}

impl CheckpointModel {
    /// Returns the size of the model's weights and of the state of its optimizer in bytes, and the
    /// number of ranks that save them.
    ///
    /// **Source:** MLPerf Storage v3, rules of the checkpoint benchmark (Llama 3).
    pub const fn bytes_and_ranks(self) -> (u64, u64) {
        match self {
            Self::B8 => (105_000_000_000, 8),
            Self::B70 => (912_000_000_000, 64),
            Self::B405 => (5_290_000_000_000, 512),
            Self::T1 => (18_000_000_000_000, 1_024),
        }
    }
}

/// What a checkpoint consists of, and when it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    pub model: CheckpointModel,
    /// Share of the model's bytes and ranks, in millionths.
    pub scale_millionths: u32,
    /// Time between the starts of two saves of a training job, in milliseconds. It doesn't change
    /// the work, only how its cost is stated.
    pub save_every_ms: u64,
    /// Time without work before each pass, in milliseconds.
    pub pause_ms: u64,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self {
            model: CheckpointModel::B8,
            scale_millionths: SCALE_ONE / 100,
            save_every_ms: 600_000,
            pause_ms: 0,
        }
    }
}

impl Checkpoint {
    /// Returns the bytes of one checkpoint: those of the model times the scale.
    pub fn bytes(&self) -> u64 {
        let (bytes, _) = self.model.bytes_and_ranks();
        (u128::from(bytes) * u128::from(self.scale_millionths) / u128::from(SCALE_ONE)) as u64
    }

    /// Returns the number of ranks of the scaled model, in millionths.
    pub fn rank_millionths(&self) -> u64 {
        let (_, ranks) = self.model.bytes_and_ranks();
        ranks * u64::from(self.scale_millionths)
    }

    /// Returns the number of ranks of each of `agents` client processes. All together have the
    /// ranks of the scaled model, but at least as many as MLPerf's subset.
    pub fn ranks_per_agent(&self, agents: u32) -> u64 {
        let ranks = self.rank_millionths() / u64::from(SCALE_ONE);
        ranks.max(RANKS_OF_SUBSET).div_ceil(agents.max(1).into())
    }

    /// Returns true if the model is scaled down to fewer ranks than one host has, so that its own
    /// number of ranks no longer matters.
    pub fn is_subset(&self) -> bool {
        self.rank_millionths() < RANKS_OF_SUBSET * u64::from(SCALE_ONE)
    }

    /// Returns the size of each of `files` shards in bytes.
    pub fn shard_bytes(&self, files: u32) -> u64 {
        self.bytes().div_ceil(u64::from(files.max(1))).next_multiple_of(SHARD_UNIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(model: CheckpointModel, scale_millionths: u32) -> Checkpoint {
        Checkpoint { model, scale_millionths, ..Checkpoint::default() }
    }

    #[test]
    fn divides_models_among_their_ranks() {
        let shard = |model: CheckpointModel| {
            let (_, ranks) = model.bytes_and_ranks();
            let whole = scaled(model, SCALE_ONE);
            assert_eq!(whole.ranks_per_agent(1), ranks);
            whole.shard_bytes(ranks as u32)
        };
        // 13.125, 14.25, 10.33 and 17.58 GB per rank, each rounded up to 4 KiB.
        assert_eq!(
            CheckpointModel::ALL.iter().map(|model| shard(*model)).collect::<Vec<_>>(),
            [13_125_001_216, 14_250_000_384, 10_332_033_024, 17_578_127_360]
        );
    }

    #[test]
    fn scales_bytes_and_ranks() {
        let eighth = scaled(CheckpointModel::B70, SCALE_ONE / 8);
        assert_eq!((eighth.bytes(), eighth.ranks_per_agent(1)), (114_000_000_000, 8));
        assert_eq!((eighth.ranks_per_agent(2), eighth.is_subset()), (4, false));
        // A hundredth of 8 ranks is none, so one host's ranks share the bytes.
        let small = scaled(CheckpointModel::B8, 10_000);
        assert_eq!((small.bytes(), small.ranks_per_agent(1)), (1_050_000_000, 8));
        assert_eq!((small.ranks_per_agent(3), small.is_subset()), (3, true));
        assert_eq!(small.shard_bytes(8), 131_252_224);
    }
}
