//! Passes over whole directories: list, list_stat, find.
//!
//! A directory is a place on one of the targets: number n is place `n / targets` on target
//! `n % targets`. An op covers a directory and contains what it must find there, which follows from
//! the run: a directory has the files of its place and the places below it. Directories are
//! distributed among the workers in turn, unless each worker has a tree of its own.

use std::ops::Range;
use std::sync::Arc;

use model::{Io500Part, Op, OpKind, RunSpec, Workload};

use crate::file_set::FileSet;
use crate::names::{Name, Sort};
use crate::places::Places;

/// Text in the names of the files that a find looks for, as in `find -name '*01*'`.
///
/// **Source:** IO500, phase find.
const FIND_TEXT: &[u8; 2] = b"01";

/// Directories of one worker.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    kind: OpKind,
    contents: Arc<[Contents]>,
    numbers: Range<u32>,
    step: u32,
}

/// What a directory contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    entries: u32,
    /// Number of files that a find looks for.
    matches: u32,
}

impl Directories {
    pub(super) fn new(spec: &RunSpec, kind: OpKind, worker: u32) -> Self {
        let places = Places::new(spec);
        let targets = count_targets(spec);
        let contents = contents_of(spec, &places, targets, kind == OpKind::Find);
        let (trees, nodes) = places.trees_and_nodes();
        let (numbers, step) = if trees > 1 {
            let first = worker.min(trees) * nodes * targets;
            (first..(first + nodes * targets).min(contents.len() as u32), 1)
        } else {
            (worker..contents.len() as u32, spec.workers.max(1))
        };
        Self { kind, contents: contents.into(), numbers, step }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Op> {
        let number = self.numbers.next()?;
        let Contents { entries, matches } = self.contents[number as usize];
        self.numbers.start = (number + self.step).min(self.numbers.end);
        Some(Op::new(self.kind, number, matches.into(), entries))
    }
}

/// Returns the number of directories that are listed, over all targets.
pub fn listed_directories(spec: &RunSpec) -> u64 {
    u64::from(Places::new(spec).count()) * u64::from(count_targets(spec))
}

/// Returns the number of entries in all of these directories.
pub(super) fn listed_entries(spec: &RunSpec) -> u64 {
    let places = Places::new(spec);
    let below = (0..places.count()).filter(|place| places.parent(*place).is_some()).count() as u64;
    let files = match spec.workload {
        Workload::Io500 => {
            Io500Part::ALL.map(|part| u64::from(spec.io500_part(part).files)).iter().sum()
        }
        _ => u64::from(spec.files),
    };
    files + below * u64::from(count_targets(spec))
}

fn count_targets(spec: &RunSpec) -> u32 {
    spec.target.paths().len().max(1) as u32
}

/// Counts the contents of each directory.
fn contents_of(spec: &RunSpec, places: &Places, targets: u32, finds: bool) -> Vec<Contents> {
    let mut contents = vec![Contents::default(); (places.count() * targets) as usize];
    for place in 0..places.count() {
        if let Some(parent) = places.parent(place) {
            for target in 0..targets {
                contents[(parent * targets + target) as usize].entries += 1;
            }
        }
    }
    if spec.workload != Workload::Io500 {
        add_files(&mut contents, spec, targets, finds, |file| places.of_number(file));
        return contents;
    }
    // The directories within a part come after those of earlier parts.
    let mut first = Io500Part::ALL.len() as u32;
    for (number, part) in Io500Part::ALL.into_iter().enumerate() {
        let run = spec.io500_part(part);
        let within = Places::new(&run);
        let is_flat = within.is_root(0);
        // Only the hard phases have files of the size that it looks for.
        let finds = finds && part == Io500Part::MdtestHard;
        add_files(&mut contents, &run, targets, finds, |file| {
            if is_flat { number as u32 } else { first + within.of_number(file) }
        });
        first += if is_flat { 0 } else { within.count() };
    }
    contents
}

/// Counts the files of a run in their directories, and those of the sizes that a find looks for.
fn add_files(
    contents: &mut [Contents],
    spec: &RunSpec,
    targets: u32,
    finds: bool,
    place_of: impl Fn(u32) -> u32,
) {
    let sizes = FileSet::new(spec);
    let found_sizes = FileSet::found_sizes(spec);
    let is_found = |size| finds && found_sizes.contains(&size);
    for file in 0..spec.files {
        let directory = place_of(file) * targets + file % targets;
        let found = sizes.size(file).is_some_and(is_found)
            && has_find_text(Name::new(Sort::File, file).as_bytes());
        let content = &mut contents[directory as usize];
        content.entries += 1;
        content.matches += u32::from(found);
    }
}

/// Returns true if a find looks for files with this name.
pub fn has_find_text(name: &[u8]) -> bool {
    name.windows(FIND_TEXT.len()).any(|text| text == FIND_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{OpStream, pass_size};
    use model::testing::RunBuilder;
    use model::work::Tree;
    use model::{Io500Files, Pass, Sharing};

    fn spec(files: u32, workers: u32, tree: Tree) -> RunSpec {
        let spec = RunBuilder::new(Workload::Listing).files(files).workers(workers).tree(tree);
        spec.file_size_bytes(7).build()
    }

    fn ops(spec: &RunSpec, pass: Pass, worker: u32) -> Vec<Op> {
        let mut stream = OpStream::new(spec, pass, worker, 1);
        std::iter::from_fn(|| stream.next_op()).collect()
    }

    #[test]
    fn counts_files_and_directories() {
        let tree = Tree { sharing: Sharing::Shared, depth: 2, branching: 2 };
        let spec = spec(10, 2, tree);
        let entries = |worker| -> Vec<(u32, u32)> {
            ops(&spec, Pass::List, worker).iter().map(|op| (op.file, op.len_bytes)).collect()
        };
        // Files 0 to 9 in turn over 7 directories, of which 3 contain 2 directories each.
        assert_eq!(entries(0), [(0, 2 + 2), (2, 2 + 2), (4, 1), (6, 1)]);
        assert_eq!(entries(1), [(1, 2 + 2), (3, 1), (5, 1)]);
        assert_eq!(pass_size(&spec, Pass::List).ops, Some(10 + 6));
        assert_eq!(listed_directories(&spec), 7);
    }

    #[test]
    fn searches_all_parts_of_io500() {
        let run = RunBuilder::new(Workload::Io500).files(9).workers(2).file_size_bytes(1 << 20);
        let run = run.build().io500_search(Io500Files { easy: 6, hard: 104 });
        let found = |worker| -> Vec<(u32, u32, u64)> {
            let ops = ops(&run, Pass::Find, worker);
            ops.iter().map(|op| (op.file, op.len_bytes, op.offset_bytes)).collect()
        };
        // Two large files; a directory per worker; one shared file; 104 small ones, of which 1, 10
        // to 19 and 100 to 103 have the text in their names.
        assert_eq!(found(0), [(0, 2, 0), (2, 1, 0), (4, 3, 0)]);
        assert_eq!(found(1), [(1, 2, 0), (3, 104, 15), (5, 3, 0)]);
        assert_eq!(pass_size(&run, Pass::Find).ops, Some(2 + 2 + 1 + 104 + 6));
        let places = Places::new(&run);
        assert_eq!(places.path_of(5).as_str(), "t00000001/t00000001");
        assert_eq!((places.parent(5), places.name(5).as_str()), (Some(1), "t00000001"));
    }

    #[test]
    fn lists_own_trees_of_workers() {
        let tree = Tree { sharing: Sharing::Own, depth: 1, branching: 2 };
        let spec = spec(100, 3, tree);
        let mut all = 0;
        for worker in 0..3 {
            let ops = ops(&spec, Pass::List, worker);
            let numbers: Vec<u32> = ops.iter().map(|op| op.file).collect();
            assert_eq!(numbers, [worker * 3, worker * 3 + 1, worker * 3 + 2]);
            all += ops.iter().map(|op| u64::from(op.len_bytes)).sum::<u64>();
        }
        assert_eq!(Some(all), pass_size(&spec, Pass::List).ops);
    }

    #[test]
    fn finds_even_files_by_name() {
        let flat = Tree::default();
        // Files 1, 10 to 19, 100 and 101 have the text in their names, but odd ones are empty.
        let found = |files| ops(&spec(files, 1, flat), Pass::Find, 0)[0].offset_bytes;
        assert_eq!((found(10), found(11), found(100), found(102)), (0, 1, 5, 6));
        assert_eq!(ops(&spec(102, 1, flat), Pass::ListStat, 0)[0].offset_bytes, 0);
        let empty = RunBuilder::from(spec(102, 1, flat)).file_size_bytes(0).build();
        assert_eq!(ops(&empty, Pass::Find, 0)[0].offset_bytes, 13, "all have the size");
    }
}
