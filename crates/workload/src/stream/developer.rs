//! Passes over the trees of a developer: tar, git, an install, a build, rsync, rm.
//!
//! A pass consists of [`Phase`]s, each a walk through a part of a worker's trees with ops on its
//! directories and files. Ops depend on earlier ones, so a worker has only one in flight.

use std::ops::Range;
use std::sync::Arc;

use model::random::draw;
use model::{Op, OpKind, PLACE, Pass, RunSpec};

use crate::developer::{DeveloperSet, INDEX, Part, TreeDirectory, directories};
use crate::zipf::Zipf;

/// Seed constant of the headers that a build reads.
const HEADERS: u64 = 0x6865_6164;

/// One in this number of source files is a header.
const FILES_PER_HEADER: u32 = 3;

/// Headers that are read for each other source file.
const HEADERS_READ: usize = 4;

/// One in this number of files differs between two branches.
const FILES_PER_CHANGE: u32 = 10;

/// A walk through a part of the trees.
struct Phase {
    part: Part,
    /// From the last directory to the first, so that subdirectories come before their parents.
    is_reversed: bool,
    /// Ops before the files of a directory.
    enter: &'static [OpKind],
    /// The files to work on.
    choice: Choice,
    /// Ops on each of them.
    each: &'static [OpKind],
    /// Ops after the files of a directory.
    leave: &'static [OpKind],
}

/// Which files of a directory a phase works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    All,
    /// Those that differ between branches.
    Changed,
    /// Those that are compiled; after each, some headers are looked for and read.
    Compiled,
    /// The index of the working tree.
    Index,
}

/// Returns a phase over all files of a part.
const fn walk(part: Part, enter: &'static [OpKind], each: &'static [OpKind]) -> Phase {
    Phase { part, is_reversed: false, enter, choice: Choice::All, each, leave: &[] }
}

/// Returns a phase over some files of a part.
const fn some(part: Part, choice: Choice, each: &'static [OpKind]) -> Phase {
    Phase { choice, ..walk(part, &[], each) }
}

/// Returns a phase that removes a part.
const fn removal(part: Part) -> Phase {
    Phase {
        is_reversed: true,
        leave: &[OpKind::Rmdir],
        ..walk(part, &[OpKind::Readdir], &[OpKind::Remove])
    }
}

/// tar sets the times of each file after it has written it.
const UNPACK: &[Phase] =
    &[walk(Part::Source, &[OpKind::Mkdir], &[OpKind::Create, OpKind::Setattr])];

/// make compares times; the compiler reads a file and looks for headers in several directories.
const BUILD: &[Phase] = &[
    walk(Part::Source, &[], &[OpKind::Stat]),
    some(Part::Source, Choice::Compiled, &[OpKind::ReadFile]),
];

const RSYNC: &[Phase] = &[walk(Part::Source, &[OpKind::Readdir], &[OpKind::Stat])];

/// git examines each file that it has written, for its index.
const CLONE: &[Phase] = &[
    walk(Part::Repository, &[OpKind::Mkdir], &[OpKind::Create]),
    walk(Part::Source, &[OpKind::Mkdir], &[OpKind::Create, OpKind::Stat]),
];

/// git compares each file with its index, then looks for other files and for `.gitignore`.
const STATUS: &[Phase] = &[
    some(Part::Repository, Choice::Index, &[OpKind::ReadFile]),
    walk(Part::Source, &[], &[OpKind::Stat]),
    walk(Part::Source, &[OpKind::Readdir, OpKind::LookupMissing], &[]),
];

const CHECKOUT: &[Phase] = &[
    some(Part::Repository, Choice::Index, &[OpKind::ReadFile]),
    walk(Part::Source, &[], &[OpKind::Stat]),
    some(Part::Source, Choice::Changed, &[OpKind::Remove, OpKind::Create, OpKind::Stat]),
    some(Part::Repository, Choice::Index, &[OpKind::Remove, OpKind::Create]),
];

const INSTALL: &[Phase] = &[walk(Part::Packages, &[OpKind::Mkdir], &[OpKind::Create])];

const REMOVE: &[Phase] =
    &[removal(Part::Repository), removal(Part::Packages), removal(Part::Source)];

const fn phases(pass: Pass) -> &'static [Phase] {
    match pass {
        Pass::Unpack => UNPACK,
        Pass::BuildReads => BUILD,
        Pass::SyncTree => RSYNC,
        Pass::GitClone => CLONE,
        Pass::GitStatus => STATUS,
        Pass::GitCheckout => CHECKOUT,
        Pass::Install => INSTALL,
        Pass::RemoveTree => REMOVE,
        _ => &[],
    }
}

/// The ops of one worker.
#[derive(Clone, Debug)]
pub(super) struct Developer {
    pass: Pass,
    set: DeveloperSet,
    /// Those of all parts, one part after the other.
    directories: Arc<[TreeDirectory]>,
    headers: Zipf,
    worker: u32,
    workers: u32,
    at: Position,
}

/// The next op of a walk.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    phase: usize,
    /// Directories done in this phase.
    directories: u32,
    stage: Stage,
    /// Files done in this directory.
    files: u32,
    /// Ops done in this stage, or on this file.
    ops: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Enter,
    Files,
    Leave,
}

impl Position {
    /// Returns the position after the ops of a stage, or of a file unless the last one is done.
    fn after_stage(self, is_last_file: bool) -> Self {
        let Self { phase, directories, files, .. } = self;
        match self.stage {
            Stage::Enter => Self { stage: Stage::Files, files: 0, ops: 0, ..self },
            Stage::Files if is_last_file => Self { stage: Stage::Leave, ops: 0, ..self },
            Stage::Files => Self { files: files + 1, ops: 0, ..self },
            Stage::Leave => Self { phase, directories: directories + 1, ..Self::default() },
        }
    }
}

impl Developer {
    pub(super) fn new(spec: &RunSpec, pass: Pass, worker: u32) -> Self {
        let set = DeveloperSet::new(spec);
        let directories = directories(spec);
        let headers = u64::from(set.source_files(worker).div_ceil(FILES_PER_HEADER));
        Self {
            pass,
            set,
            directories: directories.into(),
            headers: Zipf::new(100, headers),
            worker,
            workers: spec.workers.max(1),
            at: Position::default(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Op> {
        loop {
            let phase = phases(self.pass).get(self.at.phase)?;
            let Some(number) = self.directory(phase) else {
                self.at = Position { phase: self.at.phase + 1, ..Position::default() };
                continue;
            };
            let Range { start, end } = self.directories[number as usize].files;
            let index = start + self.at.files;
            let op = match self.at.stage {
                Stage::Enter => {
                    phase.enter.get(self.at.ops).map(|kind| self.directory_op(*kind, number))
                }
                Stage::Files if index == end => None,
                Stage::Files => self.file_op(phase, index).map(Some),
                Stage::Leave => {
                    phase.leave.get(self.at.ops).map(|kind| self.directory_op(*kind, number))
                }
            };
            if let Some(op) = op {
                self.at.ops += 1;
                if op.is_some() {
                    return op;
                }
            } else {
                self.at = self.at.after_stage(index == end);
            }
        }
    }

    /// Returns the current directory of a phase, or `None` at its end.
    fn directory(&self, phase: &Phase) -> Option<u32> {
        let first = self.directories.partition_point(|it| it.part < phase.part) as u32;
        let end = self.directories.partition_point(|it| it.part <= phase.part) as u32;
        let done = self.at.directories;
        if done == end - first {
            return None;
        }
        Some(if phase.is_reversed { end - 1 - done } else { first + done })
    }

    /// Returns an op on a directory, if it applies there.
    fn directory_op(&self, kind: OpKind, number: u32) -> Option<Op> {
        let place = number * self.workers + self.worker;
        match kind {
            OpKind::Mkdir | OpKind::Rmdir => Some(Op::new(kind, place, PLACE, 0)),
            // A missing name has the number of a file in its directory.
            OpKind::LookupMissing => {
                let TreeDirectory { part, files, .. } = &self.directories[number as usize];
                let file = self.set.number(*part, files.start, self.worker);
                (!files.is_empty()).then(|| Op::new(kind, file, 0, 0))
            }
            _ => Some(Op::new(kind, place, 0, 0)),
        }
    }

    /// Returns the next op on a file of a phase, or `None` once there are no more.
    fn file_op(&self, phase: &Phase, index: u32) -> Option<Op> {
        let number = self.set.number(phase.part, index, self.worker);
        let is_chosen = match phase.choice {
            Choice::All => true,
            Choice::Changed => index.is_multiple_of(FILES_PER_CHANGE),
            Choice::Compiled => !index.is_multiple_of(FILES_PER_HEADER),
            Choice::Index => index == INDEX,
        };
        if !is_chosen {
            return None;
        }
        let size = self.set.size(number)?;
        if let Some(kind) = phase.each.get(self.at.ops) {
            return Some(file_op(*kind, number, size));
        }
        let more = self.at.ops - phase.each.len();
        if phase.choice != Choice::Compiled || more >= 2 * HEADERS_READ {
            return None;
        }
        // Each header is first looked for where it isn't.
        let seed = draw(draw(HEADERS, index.into()), more as u64 / 2);
        let header = self.headers.draw_rank(seed) as u32 * FILES_PER_HEADER;
        let header = self.set.number(Part::Source, header, self.worker);
        let size = self.set.size(header)?;
        let kind = if more.is_multiple_of(2) { OpKind::LookupMissing } else { OpKind::ReadFile };
        Some(file_op(kind, header, size))
    }
}

fn file_op(kind: OpKind, number: u32, size: u64) -> Op {
    let is_sized = matches!(kind, OpKind::Create | OpKind::ReadFile);
    Op::new(kind, number, 0, if is_sized { size as u32 } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use model::Workload;
    use model::testing::RunBuilder;

    use super::*;
    use crate::names::{Name, Sort};
    use crate::places::Places;
    use crate::stream::{OpStream, mean_bytes, pass_size};

    fn spec(files: u32, workers: u32) -> RunSpec {
        RunBuilder::new(Workload::Developer).files(files).workers(workers).build()
    }

    /// A file system that fails if an op doesn't find what it needs.
    struct Directories {
        places: Places,
        files: BTreeMap<u32, u32>,
        made: BTreeSet<u32>,
    }

    impl Directories {
        fn execute(&mut self, op: &Op) {
            let place = if op.kind == OpKind::Readdir { op.file } else { 0 };
            match op.kind {
                OpKind::Mkdir => {
                    assert!(op.is_of_place());
                    let parent = self.places.parent(op.file);
                    assert!(parent.is_none_or(|parent| self.made.contains(&parent)), "{op:?}");
                    assert!(self.made.insert(op.file), "{op:?}");
                }
                OpKind::Rmdir => {
                    let is_in = |number: &u32| self.places.of_number(*number) == op.file;
                    assert!(!self.files.keys().any(is_in), "{op:?}");
                    let below = |place: &u32| self.places.parent(*place) == Some(op.file);
                    assert!(!self.made.iter().any(below), "{op:?}");
                    assert!(self.made.remove(&op.file), "{op:?}");
                }
                OpKind::Readdir => assert!(self.made.contains(&place), "{op:?}"),
                OpKind::Create => {
                    assert!(self.made.contains(&self.places.of_number(op.file)), "{op:?}");
                    assert_eq!(self.files.insert(op.file, op.len_bytes), None, "{op:?}");
                }
                OpKind::Remove => assert!(self.files.remove(&op.file).is_some(), "{op:?}"),
                OpKind::ReadFile => assert_eq!(self.files[&op.file], op.len_bytes),
                OpKind::LookupMissing => {
                    assert!(self.made.contains(&self.places.of_number(op.file)), "{op:?}");
                }
                _ => assert!(self.files.contains_key(&op.file), "{op:?}"),
            }
        }
    }

    #[test]
    fn every_op_finds_its_object() {
        for (files, workers) in [(1, 1), (2, 2), (100, 3), (1_000, 1)] {
            let spec = spec(files, workers);
            let places = Places::new(&spec);
            let mut all = Directories { places, files: BTreeMap::new(), made: BTreeSet::new() };
            for &pass in Workload::Developer.passes() {
                if pass == Pass::GitClone {
                    // The unpacked tree is removed before.
                    all.files.clear();
                    all.made.clear();
                }
                let mut ops = 0;
                let mut bytes = 0;
                for worker in 0..workers {
                    let mut stream = OpStream::new(&spec, pass, worker, 7);
                    while let Some(op) = stream.next_op() {
                        assert_eq!(op.file % workers, worker, "its own trees");
                        assert!(pass.kinds().contains(&op.kind), "{pass}: {op:?}");
                        all.execute(&op);
                        ops += 1;
                        bytes += u64::from(op.len_bytes);
                    }
                }
                let size = pass_size(&spec, pass);
                assert_eq!((size.ops, size.bytes), (Some(ops), Some(bytes)), "{pass}");
                assert_eq!(mean_bytes(&spec, pass, 1).unwrap().all(), bytes, "{pass}");
            }
            assert!(all.files.is_empty() && all.made.is_empty(), "rm leaves nothing");
        }
    }

    #[test]
    fn passes_make_the_calls_of_tools() {
        let spec = spec(1_000, 1);
        let count = |pass, kind| {
            let mut developer = Developer::new(&spec, pass, 0);
            std::iter::from_fn(|| developer.next()).filter(|op| op.kind == kind).count()
        };
        assert_eq!(count(Pass::Unpack, OpKind::Create), 1_000);
        assert_eq!(count(Pass::Unpack, OpKind::Setattr), 1_000);
        let directories = count(Pass::SyncTree, OpKind::Readdir);
        assert_eq!(count(Pass::Unpack, OpKind::Mkdir), directories);
        assert_eq!(count(Pass::SyncTree, OpKind::Stat), 1_000);
        // The tree, and pack, its index and the index of the working tree in their directory.
        assert_eq!(count(Pass::GitClone, OpKind::Create), 1_003);
        assert_eq!(count(Pass::GitClone, OpKind::Mkdir), directories + 1);
        assert_eq!(count(Pass::GitStatus, OpKind::ReadFile), 1);
        assert_eq!(count(Pass::GitStatus, OpKind::Stat), 1_000);
        // A tenth of the files, and the index.
        assert_eq!(count(Pass::GitCheckout, OpKind::Create), 101);
        assert_eq!(count(Pass::GitCheckout, OpKind::Remove), 101);
        // Two of three files, and four headers for each of them.
        assert_eq!(count(Pass::BuildReads, OpKind::ReadFile), 666 * 5);
        assert_eq!(count(Pass::BuildReads, OpKind::LookupMissing), 666 * 4);
        assert_eq!(count(Pass::RemoveTree, OpKind::Remove), 2_003);
    }

    #[test]
    fn names_directories_as_places() {
        let spec = spec(50, 2);
        let places = Places::new(&spec);
        let mut developer = Developer::new(&spec, Pass::Unpack, 1);
        let first = developer.next().unwrap();
        assert_eq!((first.kind, first.file), (OpKind::Mkdir, 1));
        assert_eq!(places.path_of(1).as_str(), Name::new(Sort::Place, 1).as_str());
    }
}
