//! The phases of IO500, each as a pass of a simpler run.
//!
//! A run of io500 has four sets of files, and writes and reads each with other settings.
//! [`RunSpec::io500_part`] is the run whose file set is one of them; [`Pass::base`] is the pass on
//! it that does the work of a phase. A set has a directory of its own, and the search goes through
//! all of them.
//!
//! **Source:** IO500 at 02091cf2, src/phase_ior_easy.c, phase_ior_hard.c, phase_mdtest_easy.c and
//! phase_mdtest_hard.c.

use crate::runs::pass::Pass;
use crate::runs::spec::RunSpec;
use crate::runs::work::{Io500Files, Layout, Load, Sharing, Tree};
use crate::runs::workload::Workload;

/// Size of a transfer in the easy phases.
const EASY_IO_BYTES: u32 = 2 << 20;

/// Size of a transfer in the hard phases.
const HARD_IO_BYTES: u32 = 47_008;

/// Size of a file in the hard phases, which the search looks for, too.
const HARD_FILE_BYTES: u64 = 3_901;

/// Size of a random read.
const RANDOM_IO_BYTES: u32 = 4_096;

/// How long a phase that writes must take to be valid in IO500, in milliseconds.
pub const STONEWALL_MS: u64 = 300_000;

/// A set of files in a run of io500.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io500Part {
    /// A large file for each worker.
    IorEasy,
    /// Empty files, in a directory for each worker.
    MdtestEasy,
    /// One file of all workers.
    IorHard,
    /// Small files in one directory of all workers.
    MdtestHard,
}

impl Io500Part {
    /// Lists all of them, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::IorEasy, Self::MdtestEasy, Self::IorHard, Self::MdtestHard];

    /// Returns the set that a phase works on; `None` for the search and for other passes.
    pub const fn of_pass(pass: Pass) -> Option<Self> {
        match pass {
            Pass::IorEasyWrite | Pass::IorEasyRead | Pass::IorRnd4kEasyRead => Some(Self::IorEasy),
            Pass::MdtestEasyWrite | Pass::MdtestEasyStat | Pass::MdtestEasyDelete => {
                Some(Self::MdtestEasy)
            }
            Pass::IorHardWrite | Pass::IorHardRead => Some(Self::IorHard),
            Pass::MdtestHardWrite
            | Pass::MdtestHardStat
            | Pass::MdtestHardRead
            | Pass::MdtestHardDelete => Some(Self::MdtestHard),
            _ => None,
        }
    }
}

impl Pass {
    /// Returns true for the phases that must write for the time of the stonewall.
    pub const fn has_stonewall(self) -> bool {
        matches!(
            self,
            Self::IorEasyWrite | Self::IorHardWrite | Self::MdtestEasyWrite | Self::MdtestHardWrite
        )
    }

    /// Returns true for phases that read what another worker wrote, even on a single host.
    const fn uses_files_of_next(self) -> bool {
        matches!(
            self,
            Self::IorEasyRead
                | Self::IorRnd4kEasyRead
                | Self::IorHardRead
                | Self::MdtestEasyStat
                | Self::MdtestHardStat
                | Self::MdtestHardRead
        )
    }
}

impl RunSpec {
    /// Returns the run with one of the four sets of files of this run of io500, before any phase
    /// has changed its size.
    #[must_use]
    pub fn io500_part(&self, part: Io500Part) -> Self {
        let mut run = self.clone();
        run.passes = Vec::new();
        let workers = self.workers.max(1);
        let is_large = matches!(part, Io500Part::IorEasy | Io500Part::IorHard);
        run.io_size_bytes = u64::from(EASY_IO_BYTES).min(self.file_size_bytes) as u32;
        if is_large {
            run.workload = Workload::Stream;
            run.files = workers;
        } else {
            run.workload = Workload::Metadata;
            // Published rules only bypass the cache with large transfers.
            run.direct = false;
            run.io_size_bytes = HARD_FILE_BYTES as u32;
        }
        match part {
            Io500Part::IorEasy => {}
            Io500Part::IorHard => {
                run.direct = false;
                run.files = 1;
                run.io_size_bytes = HARD_IO_BYTES;
                let block = u64::from(HARD_IO_BYTES);
                run.layout =
                    Layout { sharing: Sharing::Shared, block_size_bytes: block, ..self.layout };
                let each = (self.file_size_bytes / block).max(1) * block;
                run.file_size_bytes = each.saturating_mul(workers.into());
            }
            Io500Part::MdtestEasy => {
                run.tree = Tree { sharing: Sharing::Own, depth: 0, branching: 1 };
                run.file_size_bytes = 0;
                run.files = self.io500_files.map_or(self.files, |files| files.easy);
            }
            Io500Part::MdtestHard => {
                run.tree = Tree::default();
                run.file_size_bytes = HARD_FILE_BYTES;
                run.files = self.io500_files.map_or(self.files, |files| files.hard);
            }
        }
        run
    }

    /// Returns this part of a run of io500 as a phase uses it: only those that write have the
    /// stonewall, and random reads are small.
    #[must_use]
    pub fn in_io500_phase(&self, phase: Pass) -> Self {
        let mut run = self.clone();
        let is_random = phase == Pass::IorRnd4kEasyRead;
        let is_stonewalled = phase.has_stonewall();
        run.load = Load {
            time_max_ms: if is_stonewalled || is_random { self.load.time_max_ms } else { 0 },
            wears_out: is_stonewalled && self.load.time_max_ms > 0,
            ..self.load
        };
        run.layout.uses_next = phase.uses_files_of_next();
        if is_random {
            run.io_size_bytes = RANDOM_IO_BYTES;
        }
        run
    }

    /// Returns the run of the search, which goes through all four sets.
    #[must_use]
    pub fn io500_search(&self, files: Io500Files) -> Self {
        let load = Load { time_max_ms: 0, ..self.load };
        let io500_files = Some(files);
        Self { load, io500_files, file_size_bytes: HARD_FILE_BYTES, ..self.clone() }
    }

    /// Adapts a part of a run of io500 to what each worker wrote until the wear-out ended.
    pub fn set_io500_level(&mut self, part: Io500Part, ops_each: u64) {
        let workers = self.workers.max(1);
        match part {
            Io500Part::IorEasy => {
                self.file_size_bytes =
                    self.file_size_bytes.min(ops_each.saturating_mul(self.io_size_bytes.into()));
            }
            Io500Part::IorHard => {
                let all = ops_each
                    .saturating_mul(self.io_size_bytes.into())
                    .saturating_mul(workers.into());
                self.file_size_bytes = self.file_size_bytes.min(all);
            }
            Io500Part::MdtestEasy | Io500Part::MdtestHard => {
                let all = ops_each.saturating_mul(workers.into());
                self.files = self.files.min(u32::try_from(all).unwrap_or(u32::MAX));
            }
        }
    }

    /// Returns the size of all four sets together, in bytes.
    pub(crate) fn io500_set_bytes(&self) -> u64 {
        let run = Self { workers: self.all_workers(), ..self.clone() };
        let parts = Io500Part::ALL.map(|part| {
            let part = run.io500_part(part);
            part.file_size_bytes.saturating_mul(part.files.into())
        });
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RunBuilder;

    fn run() -> RunSpec {
        let mut run = RunBuilder::new(Workload::Io500)
            .workers(4)
            .files(1_000)
            .file_size_bytes(16 << 20)
            .io_size_bytes(2 << 20)
            .build();
        run.load.time_max_ms = 5_000;
        run
    }

    #[test]
    fn has_published_parameters() {
        let run = run();
        let easy = run.io500_part(Io500Part::IorEasy);
        assert_eq!((easy.files, easy.io_size_bytes, easy.file_size_bytes), (4, 2 << 20, 16 << 20));
        let hard = run.io500_part(Io500Part::IorHard);
        assert_eq!((hard.files, hard.io_size_bytes), (1, 47_008));
        assert_eq!(hard.file_size_bytes, (16 << 20) / 47_008 * 47_008 * 4);
        let names = run.io500_part(Io500Part::MdtestHard);
        assert_eq!((names.files, names.file_size_bytes), (1_000, 3_901));
        assert_eq!(run.io500_part(Io500Part::MdtestEasy).file_size_bytes, 0);
        assert_eq!(run.set_bytes(), 4 * (16 << 20) + hard.file_size_bytes + 1_000 * 3_901);
    }

    #[test]
    fn only_writes_wear_out() {
        let part = run().io500_part(Io500Part::IorEasy);
        let limits = |phase| {
            let run = part.in_io500_phase(phase);
            (run.load.time_max_ms, run.load.wears_out, run.io_size_bytes)
        };
        assert_eq!(limits(Pass::IorEasyWrite), (5_000, true, 2 << 20));
        assert_eq!(limits(Pass::IorEasyRead), (0, false, 2 << 20));
        assert_eq!(limits(Pass::IorRnd4kEasyRead), (5_000, false, 4_096));
        assert!(!part.in_io500_phase(Pass::IorEasyWrite).is_cut());
    }

    #[test]
    fn later_phases_use_what_was_written() {
        for (part, files, bytes) in [
            (Io500Part::IorEasy, 4, 3 * (2 << 20)),
            (Io500Part::MdtestEasy, 12, 0),
            (Io500Part::IorHard, 1, 3 * 4 * 47_008),
            (Io500Part::MdtestHard, 12, 3_901),
        ] {
            let mut run = run().io500_part(part);
            run.set_io500_level(part, 3);
            assert_eq!((run.files, run.file_size_bytes), (files, bytes), "{part:?}");
            run.set_io500_level(part, 1 << 40);
            assert_eq!((run.files, run.file_size_bytes), (files, bytes), "never grows");
        }
    }

    #[test]
    fn every_phase_has_a_part() {
        for pass in Workload::Io500.passes() {
            assert_ne!(pass.base(), *pass, "{pass}");
            assert_eq!(pass.opens(), pass.base().opens(), "{pass}");
            assert_eq!(Io500Part::of_pass(*pass).is_none(), *pass == Pass::Io500Find);
        }
        assert_eq!(Workload::Io500.passes().len(), 13);
    }
}
