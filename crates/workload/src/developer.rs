//! The trees of a developer: a source tree, its repository, and installed packages.
//!
//! Each worker has trees of its own with its share of the files. Shapes and sizes depend only on
//! the number of files and workers, so that every trial and every target has the same work. File
//! `i` of worker `w` is number `i * workers + w`; its directories are numbered in the same way,
//! each after its parent and in the order of a walk through the tree. First come the files of the
//! source tree, then as many in packages, then those of the repository.
//!
//! **Source:** directories and files per directory: Agrawal, Arpaci-Dusseau, Arpaci-Dusseau,
//! "Generating Realistic Impressions for File-System Benchmarking", FAST 2009. File sizes: The
//! Stack v3, `stats_by_language.json` (67 million files of C; 16 billion files of JavaScript).

use std::ops::Range;

use model::permute::Permutation;
use model::random::{below, draw};
use model::{Pass, RunSpec};

/// Seed of the shapes and sizes, which are part of the workload rather than of a trial.
const SHAPES: u64 = 0x6465_7665_6c6f_7065;

/// Maximum number of files in a directory, so that one reply or system call lists it.
const DIRECTORY_FILES_MAX: u32 = 60;

/// Maximum depth of the directories below that of a tree.
const DEPTH_MAX: u32 = 12;

/// Maximum number of files in a package; they are uniformly distributed from 1.
const PACKAGE_FILES_MAX: u32 = 39;

/// Share of a size distribution in ten thousandths, and the largest size within this share.
type Quantile = (u64, u64);

/// Sizes of files of C: the median and the 5th and 95th percentile of the source, with lognormal
/// halves between and beyond them. The mean is 9.9 kB.
const SOURCE_SIZES: &[Quantile] = &[
    (0, 20),
    (500, 155),
    (1_000, 257),
    (2_000, 476),
    (3_000, 741),
    (4_000, 1_081),
    (5_000, 1_540),
    (6_000, 2_520),
    (7_000, 4_267),
    (8_000, 7_905),
    (9_000, 18_588),
    (9_500, 37_664),
    (9_800, 83_372),
    (9_900, 141_617),
    (9_950, 229_982),
    (10_000, 1 << 20),
];

/// Sizes of files of JavaScript, in the same way. The mean is 4.9 kB.
const PACKAGE_SIZES: &[Quantile] = &[
    (0, 10),
    (500, 70),
    (1_000, 122),
    (2_000, 240),
    (3_000, 389),
    (4_000, 590),
    (5_000, 869),
    (6_000, 1_392),
    (7_000, 2_304),
    (8_000, 4_154),
    (9_000, 9_412),
    (9_500, 18_495),
    (9_800, 39_550),
    (9_900, 65_650),
    (9_950, 104_389),
    (10_000, 512 << 10),
];

/// Files of a repository: pack, its index, and the index of the working tree.
const REPOSITORY_FILES: u32 = 3;

/// Number of the working tree's index among the files of a repository.
pub(crate) const INDEX: u32 = 2;

/// Maximum size of a pack in bytes, since it is written by a single op.
const PACK_BYTES_MAX: u64 = 1 << 30;

/// A part of what a developer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Files and directories of a source tree.
    Source,
    /// Packages, each with directories of its own.
    Packages,
    /// What git keeps besides the working tree.
    Repository,
}

/// Which parts exist, in the trees of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trees {
    source: bool,
    packages: bool,
    repository: bool,
}

impl Trees {
    const NONE: Self = Self { source: false, packages: false, repository: false };

    /// Returns the parts that a pass works on.
    pub const fn needed_by(pass: Pass) -> Self {
        match pass {
            Pass::BuildReads | Pass::SyncTree => Self { source: true, ..Self::NONE },
            Pass::GitStatus | Pass::GitCheckout => {
                Self { source: true, repository: true, ..Self::NONE }
            }
            Pass::RemoveTree => Self { source: true, packages: true, repository: true },
            _ => Self::NONE,
        }
    }

    /// Returns the parts that a pass creates.
    const fn made_by(pass: Pass) -> Self {
        match pass {
            Pass::Unpack => Self { source: true, ..Self::NONE },
            Pass::GitClone => Self { source: true, repository: true, ..Self::NONE },
            Pass::Install => Self { packages: true, ..Self::NONE },
            _ => Self::NONE,
        }
    }

    /// Returns true if something is in the way of what a pass creates.
    pub const fn block(self, pass: Pass) -> bool {
        let made = Self::made_by(pass);
        (self.source && made.source)
            || (self.packages && made.packages)
            || (self.repository && made.repository)
    }

    /// Returns the parts that exist once a pass is done.
    #[must_use]
    pub const fn after(self, pass: Pass) -> Self {
        if matches!(pass, Pass::RemoveTree) { Self::NONE } else { self.with(Self::made_by(pass)) }
    }

    /// Returns the parts that exist in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            source: self.source || other.source,
            packages: self.packages || other.packages,
            repository: self.repository || other.repository,
        }
    }

    /// Returns the parts that exist here but not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            source: self.source && !other.source,
            packages: self.packages && !other.packages,
            repository: self.repository && !other.repository,
        }
    }

    /// Returns what exists when a pass of a run begins. Returns `None` if it begins more than once.
    pub fn at_start_of(spec: &RunSpec, pass: Pass) -> Option<Self> {
        if spec.passes().iter().filter(|other| **other == pass).count() != 1 {
            return None;
        }
        let mut trees = Self::NONE;
        for &next in spec.passes() {
            if trees.block(next) {
                trees = Self::NONE;
            }
            trees = trees.with(Self::needed_by(next));
            if next == pass {
                break;
            }
            trees = trees.after(next);
        }
        Some(trees)
    }

    const fn has(self, part: Part) -> bool {
        match part {
            Part::Source => self.source,
            Part::Packages => self.packages,
            Part::Repository => self.repository,
        }
    }
}

/// The numbers of the files of a run's trees, and their sizes.
#[derive(Clone, Debug)]
pub struct DeveloperSet {
    workers: u32,
    /// Files of all source trees, and of all packages.
    files: u32,
    /// Slots of each worker for the files of a part.
    slots: u32,
    order: Permutation,
    pack_bytes: u64,
}

impl DeveloperSet {
    /// Returns the set of a run.
    pub fn new(spec: &RunSpec) -> Self {
        let workers = spec.workers.max(1);
        let files = spec.files.max(1);
        let order = Permutation::new(SHAPES, files.into());
        let mut set = Self { workers, files, slots: files.div_ceil(workers), order, pack_bytes: 0 };
        // Software Heritage stores source code in a 2.4th of its size.
        let bytes: u64 = (0..files).filter_map(|number| set.size(number)).sum();
        set.pack_bytes = (bytes / u64::from(workers) * 10 / 24).min(PACK_BYTES_MAX);
        set
    }

    /// Returns the number of files in the source tree of a worker.
    pub(crate) const fn source_files(&self, worker: u32) -> u32 {
        self.files.saturating_sub(worker).div_ceil(self.workers)
    }

    /// Returns an upper bound for the numbers of files.
    pub const fn numbers(&self) -> u32 {
        (2 * self.slots + REPOSITORY_FILES) * self.workers
    }

    /// Returns the size of a file in bytes, or `None` if there is no such file.
    pub fn size(&self, number: u32) -> Option<u64> {
        let (part, index) = self.locate(number);
        let rank = |index: u32| {
            let nth = u64::from(index) * u64::from(self.workers) + u64::from(number % self.workers);
            (nth < u64::from(self.files)).then(|| self.order.number_at(nth))
        };
        let files = u64::from(self.files);
        match part {
            Part::Source => rank(index).map(|rank| size_at(SOURCE_SIZES, rank, files)),
            Part::Packages => rank(index).map(|rank| size_at(PACKAGE_SIZES, rank, files)),
            Part::Repository => match index {
                0 => Some(self.pack_bytes),
                // The name and CRC of each object and its offset, after a table and before two
                // checksums (gitformat-pack).
                1 => Some(1_064 + 28 * u64::from(self.slots)),
                // An entry of 62 bytes and a path, padded (gitformat-index).
                INDEX => Some(32 + 96 * u64::from(self.slots)),
                _ => None,
            },
        }
    }

    /// Returns true if a file exists when these parts do.
    pub fn is_in(&self, trees: Trees, number: u32) -> bool {
        trees.has(self.locate(number).0) && self.size(number).is_some()
    }

    /// Returns the number of files in these parts that belong to workers of a share, and their
    /// total size.
    pub fn totals(&self, trees: Trees, owns: impl Fn(u32) -> bool) -> (u64, u64) {
        let mut count = 0;
        let mut bytes = 0;
        for number in (0..self.numbers()).filter(|number| owns(*number)) {
            if let Some(size) = self.size(number)
                && self.is_in(trees, number)
            {
                count += 1;
                bytes += size;
            }
        }
        (count, bytes)
    }

    /// Returns the number of a worker's file.
    pub(crate) const fn number(&self, part: Part, index: u32, worker: u32) -> u32 {
        let first = match part {
            Part::Source => 0,
            Part::Packages => self.slots,
            Part::Repository => 2 * self.slots,
        };
        (first + index) * self.workers + worker
    }

    /// Returns the part of a file and its index there, among the files of its worker.
    const fn locate(&self, number: u32) -> (Part, u32) {
        let slot = number / self.workers;
        if slot < self.slots {
            (Part::Source, slot)
        } else if slot < 2 * self.slots {
            (Part::Packages, slot - self.slots)
        } else {
            (Part::Repository, slot - 2 * self.slots)
        }
    }
}

/// Returns the size at a rank of `count` files ordered by size.
fn size_at(sizes: &[Quantile], rank: u64, count: u64) -> u64 {
    // The middle of the rank's share, in ten thousandths.
    let at = (2 * rank + 1) * 5_000 / count.max(1);
    let above = sizes.partition_point(|(share, _)| *share <= at).clamp(1, sizes.len() - 1);
    let (low, small) = sizes[above - 1];
    let (high, large) = sizes[above];
    small + (large - small) * (at - low) / (high - low)
}

/// A directory of a worker's trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeDirectory {
    /// Number of the parent among the worker's directories; `None` for the top of a tree.
    pub parent: Option<u32>,
    pub part: Part,
    /// Its files, by their index in the part.
    pub files: Range<u32>,
}

/// Returns the directories of each worker, in the order of a walk: source tree, packages,
/// repository.
pub(crate) fn directories(spec: &RunSpec) -> Vec<TreeDirectory> {
    let slots = DeveloperSet::new(spec).slots;
    let mut all = Vec::new();
    append_tree(&mut all, Part::Source, None, 0..slots, draw(SHAPES, 1));
    let top = all.len() as u32;
    all.push(TreeDirectory { parent: None, part: Part::Packages, files: 0..0 });
    let mut first = 0;
    while first < slots {
        let seed = draw(SHAPES, 2 + u64::from(first));
        let files = 1 + below(seed, PACKAGE_FILES_MAX.into()) as u32;
        let end = slots.min(first + files);
        append_tree(&mut all, Part::Packages, Some(top), first..end, seed);
        first = end;
    }
    let files = 0..REPOSITORY_FILES;
    all.push(TreeDirectory { parent: None, part: Part::Repository, files });
    all
}

/// Returns the parts of directories that exist.
pub(crate) fn is_made(directory: &TreeDirectory, trees: Trees) -> bool {
    trees.has(directory.part)
}

/// Appends the directories of a tree with these files.
///
/// Directories are added one by one, each below one that is chosen with a probability proportional
/// to its number of subdirectories plus two. The number of files in a directory has an
/// inverse-polynomial distribution of degree 2 with an offset of 2.36.
fn append_tree(
    all: &mut Vec<TreeDirectory>,
    part: Part,
    top: Option<u32>,
    files: Range<u32>,
    seed: u64,
) {
    let mut children: Vec<Vec<u32>> = Vec::new();
    let mut counts = Vec::new();
    let mut depths = Vec::new();
    // Each directory is in the urn twice, and once more for each of its subdirectories.
    let mut urn: Vec<u32> = Vec::new();
    let mut left = files.end - files.start;
    while left > 0 || counts.is_empty() {
        let number = counts.len() as u32;
        let chance = draw(seed, 2 * u64::from(number));
        let mut depth = 0;
        if number > 0 {
            let mut parent = urn[below(chance, urn.len() as u64) as usize];
            if depths[parent as usize] == DEPTH_MAX {
                parent = 0;
            }
            depth = depths[parent as usize] + 1;
            children[parent as usize].push(number);
            urn.push(parent);
        }
        let count = directory_files(draw(seed, 2 * u64::from(number) + 1)).min(left);
        left -= count;
        counts.push(count);
        depths.push(depth);
        children.push(Vec::new());
        urn.extend([number, number]);
    }
    let mut next_file = files.start;
    let mut open = vec![(0_u32, top)];
    while let Some((number, parent)) = open.pop() {
        let end = next_file + counts[number as usize];
        let place = all.len() as u32;
        all.push(TreeDirectory { parent, part, files: next_file..end });
        next_file = end;
        open.extend(children[number as usize].iter().rev().map(|child| (*child, Some(place))));
    }
}

/// Draws the number of files in a directory: at least `n` with a probability of about
/// 1.86 / (n + 1.86).
fn directory_files(chance: u64) -> u32 {
    // 1 / (n + 2.36)^2 adds up to about 1 / (n + 1.86) from n on.
    let uniform = (chance >> 32) + 1;
    let files = (186_u64 << 32) / uniform - 186;
    (files / 100).min(DIRECTORY_FILES_MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use model::Workload;
    use model::testing::RunBuilder;

    use super::*;

    fn spec(files: u32, workers: u32) -> RunSpec {
        RunBuilder::new(Workload::Developer).files(files).workers(workers).build()
    }

    #[test]
    fn sizes_follow_published_percentiles() {
        let set = DeveloperSet::new(&spec(10_000, 1));
        for (part, p50, p95, mean) in
            [(Part::Source, 1_540, 37_664, 9_900), (Part::Packages, 869, 18_495, 4_900)]
        {
            let mut sizes: Vec<u64> =
                (0..10_000).map(|at| set.size(set.number(part, at, 0)).unwrap()).collect();
            sizes.sort_unstable();
            assert!(sizes[5_000].abs_diff(p50) <= p50 / 50, "{}", sizes[5_000]);
            assert!(sizes[9_500].abs_diff(p95) <= p95 / 50, "{}", sizes[9_500]);
            let all = sizes.iter().sum::<u64>() / 10_000;
            assert!(all.abs_diff(mean) <= mean / 5, "{all}");
        }
    }

    #[test]
    fn trees_look_like_studied_ones() {
        let all = directories(&spec(20_000, 1));
        let source: Vec<_> = all.iter().filter(|it| it.part == Part::Source).collect();
        let mut depth = vec![0_u32; all.len()];
        for (number, directory) in all.iter().enumerate() {
            if let Some(parent) = directory.parent {
                assert!((parent as usize) < number);
                depth[number] = depth[parent as usize] + 1;
            }
        }
        assert_eq!(source.iter().map(|it| it.files.len()).sum::<usize>(), 20_000);
        let mean = 20_000 / source.len();
        assert!((3..=10).contains(&mean), "{mean} files per directory");
        let empty = source.iter().filter(|it| it.files.is_empty()).count();
        // 1 / 2.36^2 of all, relative to the sum of 1 / (n + 2.36)^2.
        assert!((25..=45).contains(&(100 * empty / source.len())), "{empty}");
        let deepest = *depth.iter().max().unwrap();
        assert!((6..=DEPTH_MAX + 1).contains(&deepest), "{deepest} levels");
        assert_eq!(all, directories(&spec(20_000, 1)), "the same each time");
    }

    #[test]
    fn workers_share_the_files() {
        for (files, workers) in [(1, 1), (7, 3), (100, 8), (3, 3)] {
            let set = DeveloperSet::new(&spec(files, workers));
            let all = Trees::needed_by(Pass::RemoveTree);
            let expected = u64::from(2 * files + REPOSITORY_FILES * workers);
            assert_eq!(set.totals(all, |_| true).0, expected);
            let mut sum = (0, 0);
            for worker in 0..workers {
                let own = set.totals(all, |number| number % workers == worker);
                sum = (sum.0 + own.0, sum.1 + own.1);
            }
            assert_eq!(sum, set.totals(all, |_| true));
            // The same sizes, however they are shared.
            let source = Trees::needed_by(Pass::BuildReads);
            let alone = DeveloperSet::new(&spec(files, 1));
            assert_eq!(set.totals(source, |_| true), alone.totals(source, |_| true));
        }
    }

    #[test]
    fn passes_find_what_others_left() {
        let mut spec = spec(10, 1);
        let at = |spec: &RunSpec, pass| {
            let Trees { source, packages, repository } = Trees::at_start_of(spec, pass).unwrap();
            (source, packages, repository)
        };
        assert_eq!(at(&spec, Pass::Unpack), (false, false, false));
        assert_eq!(at(&spec, Pass::GitClone), (false, false, false), "emptied first");
        assert_eq!(at(&spec, Pass::GitCheckout), (true, false, true));
        assert_eq!(at(&spec, Pass::Install), (true, false, true));
        assert_eq!(at(&spec, Pass::RemoveTree), (true, true, true));
        spec.passes = vec![Pass::Unpack, Pass::RemoveTree, Pass::SyncTree];
        assert_eq!(at(&spec, Pass::RemoveTree), (true, true, true), "the rest is prepared");
        assert_eq!(at(&spec, Pass::SyncTree), (true, false, false));
        spec.passes.push(Pass::Unpack);
        assert_eq!(Trees::at_start_of(&spec, Pass::Unpack), None);
    }
}
