//! Determines the directory of each file, directory and link of a run.
//!
//! A place is a directory that is created before the measurement: the working directory itself, or
//! one below it. [`Places`] depends only on the run and maps numbers to places, and places to
//! paths. A path consists of a prefix from a table and a name, put together on the stack.

use std::ffi::CStr;

use model::work::{Sharing, Tree};
use model::{Io500Part, RunSpec, Workload};

use crate::developer::{self, TreeDirectory, Trees};
use crate::names::{Name, Sort};
use crate::opmix::OpMixSet;

/// Maximum depth of directories below a working directory.
pub(crate) const DEPTH_MAX: u32 = 16;

/// Maximum number of places of a run. With more directories, names are no longer what is measured.
pub const PLACES_MAX: u64 = 1_000_000;

const PATH_BYTES: usize = (DEPTH_MAX as usize + 2) * (Name::BYTES + 1);

/// The places of a run.
#[derive(Clone, Debug)]
pub struct Places {
    rule: Rule,
    /// Path of each directory relative to the working directory, empty or with a `/` at the end.
    prefixes: Vec<Box<[u8]>>,
    /// Parent of each directory, or `None` for the working directory itself.
    parents: Vec<Option<u32>>,
    /// The trees of a developer, one set for each worker.
    developer: Option<DeveloperPlaces>,
}

/// The directories of a developer's trees, which are the same for each worker.
#[derive(Clone, Debug)]
struct DeveloperPlaces {
    directories: Vec<TreeDirectory>,
    /// Directory of each file, by their numbers among those of its worker.
    of_files: Vec<u32>,
}

/// How numbers are assigned to directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    InTurn,
    /// Each tree has the numbers of its worker, in turn within the tree.
    TreePerWorker {
        workers: u32,
        nodes: u32,
    },
    /// Fill one place completely, then the next.
    Filled {
        per_place: u32,
    },
    /// Numbers and places of a worker are equal to its own number, modulo the number of workers.
    Developer {
        workers: u32,
    },
}

impl Places {
    /// Returns the directories of a run.
    pub fn new(spec: &RunSpec) -> Self {
        match spec.workload {
            Workload::Metadata => Self::trees(spec.tree, spec.workers.max(1), true),
            // The working directory also contains our mark, which is not to be counted.
            Workload::Listing => Self::trees(spec.tree, spec.workers.max(1), false),
            Workload::Io500 => Self::of_parts(spec),
            Workload::Transactions => Self::flat(spec.transactions.directories, Rule::InTurn),
            Workload::OpMix => {
                let per_place = spec.op_mix.files_per_directory.max(1);
                let files = OpMixSet::new(spec).files();
                Self::flat(files.div_ceil(per_place), Rule::Filled { per_place })
            }
            Workload::Developer => Self::of_developer(spec),
            _ => Self::flat(0, Rule::InTurn),
        }
    }

    fn of_developer(spec: &RunSpec) -> Self {
        let workers = spec.workers.max(1);
        let directories = developer::directories(spec);
        let mut places = Self::empty(Rule::Developer { workers });
        let mut of_files = Vec::new();
        for (number, directory) in directories.iter().enumerate() {
            for worker in 0..workers {
                places.add_below(directory.parent.map(|parent| parent * workers + worker));
            }
            of_files.extend(directory.files.clone().map(|_| number as u32));
        }
        places.developer = Some(DeveloperPlaces { directories, of_files });
        places
    }

    const fn empty(rule: Rule) -> Self {
        Self { rule, prefixes: Vec::new(), parents: Vec::new(), developer: None }
    }

    /// Returns `count` sibling directories, none of which is the working directory itself.
    fn flat(count: u32, rule: Rule) -> Self {
        let mut places = Self::empty(rule);
        if count == 0 {
            places.add_root();
        }
        for _ in 0..count {
            places.add_below(None);
        }
        places
    }

    /// Returns full trees: either one, whose root may be the working directory, or one for each
    /// worker.
    fn trees(tree: Tree, workers: u32, in_root: bool) -> Self {
        let nodes = tree_nodes(tree.depth, tree.branching);
        let own = tree.sharing == Sharing::Own;
        let rule = if own { Rule::TreePerWorker { workers, nodes } } else { Rule::InTurn };
        let mut places = Self::empty(rule);
        for _ in 0..if own { workers } else { 1 } {
            let root = places.count();
            if own || !in_root {
                places.add_below(None);
            } else {
                places.add_root();
            }
            // Level by level, as in a heap: the parent of node n is (n - 1) / branching, so parents
            // come before their children.
            for node in 1..nodes {
                places.add_below(Some(root + (node - 1) / tree.branching.max(1)));
            }
        }
        places
    }

    /// Returns the directories of all parts of a run of io500: first those that contain the parts,
    /// then what each of them has below it.
    fn of_parts(spec: &RunSpec) -> Self {
        let mut places = Self::flat(Io500Part::ALL.len() as u32, Rule::InTurn);
        for (number, part) in Io500Part::ALL.into_iter().enumerate() {
            let of_part = Self::new(&spec.io500_part(part));
            let whole = places.prefixes[number].clone();
            let first = places.count();
            for place in 0..of_part.count() {
                let prefix = &of_part.prefixes[place as usize];
                if !prefix.is_empty() {
                    places.prefixes.push([&*whole, prefix].concat().into());
                    let parent = of_part.parent(place).map(|parent| first + parent);
                    places.parents.push(parent.or(Some(number as u32)));
                }
            }
        }
        places
    }

    fn add_root(&mut self) {
        self.prefixes.push(Box::default());
        self.parents.push(None);
    }

    fn add_below(&mut self, parent: Option<u32>) {
        let mut prefix = match parent {
            Some(parent) => self.prefixes[parent as usize].to_vec(),
            None => Vec::new(),
        };
        prefix.extend_from_slice(Name::new(Sort::Place, self.count()).as_bytes());
        prefix.push(b'/');
        self.prefixes.push(prefix.into());
        self.parents.push(parent);
    }

    /// Returns the number of places, at least one.
    pub const fn count(&self) -> u32 {
        self.prefixes.len() as u32
    }

    /// Returns the place of the file, directory or link with this number.
    #[inline]
    pub fn of_number(&self, number: u32) -> u32 {
        match self.rule {
            Rule::Developer { workers } => {
                let of_files = self.developer.as_ref().map_or(&[][..], |it| &it.of_files);
                of_files[(number / workers) as usize] * workers + number % workers
            }
            Rule::InTurn => number % self.count(),
            // A worker's names have its number modulo the number of workers. The quotient is
            // assigned to the nodes of its own tree in turn.
            Rule::TreePerWorker { workers, nodes } => {
                (number % workers) * nodes + (number / workers) % nodes
            }
            Rule::Filled { per_place } => (number / per_place) % self.count(),
        }
    }

    /// Returns true if a place exists when these trees of a developer do. Other places always do.
    pub fn is_in(&self, trees: Trees, place: u32) -> bool {
        match (self.rule, &self.developer) {
            (Rule::Developer { workers }, Some(it)) => {
                developer::is_made(&it.directories[(place / workers) as usize], trees)
            }
            _ => true,
        }
    }

    /// Returns true if passes create and remove places.
    pub const fn are_made_by_passes(&self) -> bool {
        self.developer.is_some()
    }

    /// Returns the number of trees, each of which has the same number of directories.
    pub(crate) const fn trees_and_nodes(&self) -> (u32, u32) {
        match self.rule {
            Rule::TreePerWorker { workers, nodes } => (workers, nodes),
            _ => (1, self.count()),
        }
    }

    /// Returns true if a place is the working directory itself, which need not be created.
    pub fn is_root(&self, place: u32) -> bool {
        self.prefixes[place as usize].is_empty()
    }

    /// Returns the place that contains this one, or `None` for the working directory.
    ///
    /// A place has a larger number than its parent.
    pub fn parent(&self, place: u32) -> Option<u32> {
        self.parents[place as usize]
    }

    /// Returns the name of a place within its parent.
    pub fn name(&self, place: u32) -> Name {
        // Parts of a run number their places separately.
        let path = self.prefixes[place as usize].strip_suffix(b"/").unwrap_or_default();
        let last = path.len().saturating_sub(Name::BYTES);
        Name::new(Sort::Place, Name::number_of(&path[last..]).unwrap_or(place))
    }

    /// Returns the path of a name in a place, relative to the working directory.
    ///
    /// # Panics
    /// If the tree is deeper than `DEPTH_MAX`, which plans don't allow.
    #[inline]
    pub fn path(&self, place: u32, name: Name) -> PathName {
        let prefix = &self.prefixes[place as usize];
        let mut path = PathName { bytes: [0; PATH_BYTES], len: prefix.len() + Name::BYTES };
        path.bytes[..prefix.len()].copy_from_slice(prefix);
        path.bytes[prefix.len()..path.len].copy_from_slice(name.as_bytes());
        path
    }

    /// Returns the path of a place relative to the working directory, which is `.` itself.
    pub fn path_of(&self, place: u32) -> PathName {
        let prefix = &self.prefixes[place as usize];
        let path = prefix.strip_suffix(b"/").unwrap_or(b".");
        let mut bytes = [0; PATH_BYTES];
        bytes[..path.len()].copy_from_slice(path);
        PathName { bytes, len: path.len() }
    }
}

/// Returns the number of directories in a full tree, including its root, up to [`PLACES_MAX`].
///
/// **Source:** the sum of `branching^level` over all levels.
pub(crate) fn tree_nodes(depth: u32, branching: u32) -> u32 {
    let mut nodes = 0_u64;
    let mut level = 1_u64;
    for _ in 0..=depth {
        nodes = nodes.saturating_add(level).min(PLACES_MAX);
        level = level.saturating_mul(u64::from(branching.max(1)));
    }
    nodes as u32
}

/// A path of names, relative to a working directory.
#[derive(Clone, Copy)]
pub struct PathName {
    bytes: [u8; PATH_BYTES],
    len: usize,
}

impl From<Name> for PathName {
    fn from(name: Name) -> Self {
        let mut bytes = [0; PATH_BYTES];
        bytes[..Name::BYTES].copy_from_slice(name.as_bytes());
        Self { bytes, len: Name::BYTES }
    }
}

impl PathName {
    /// Maximum length of a path in bytes, including the terminating zero.
    pub const BYTES_MAX: usize = PATH_BYTES;

    /// Returns the path as a C string.
    ///
    /// # Panics
    /// Never: names and slashes contain no zero byte, and one follows them.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.len]).expect("one zero byte, at the end")
    }

    /// Returns the path as text.
    ///
    /// # Panics
    /// Never: names and slashes are ASCII.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("paths are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::OpKind;
    use model::testing::RunBuilder;
    use model::work::{OpMix, Transactions};

    fn metadata(workers: u32, tree: Tree) -> Places {
        Places::new(
            &RunBuilder::new(Workload::Metadata).workers(workers).tree(tree).files(8).build(),
        )
    }

    fn paths(places: &Places, numbers: u32) -> Vec<String> {
        let path = |number| places.path(places.of_number(number), Name::file(number));
        (0..numbers).map(|number| path(number).as_str().to_owned()).collect()
    }

    #[test]
    fn puts_files_in_working_directory() {
        for workload in [Workload::Stream, Workload::Metadata, Workload::Transactions] {
            let places = Places::new(&RunSpec::null(workload));
            assert_eq!((places.count(), places.is_root(0)), (1, true));
            assert_eq!(paths(&places, 2), ["f00000000", "f00000001"]);
            assert_eq!(places.path_of(0).as_c_str(), c".");
        }
    }

    #[test]
    fn assigns_numbers_in_turn() {
        let places = metadata(2, Tree { sharing: Sharing::Shared, depth: 2, branching: 2 });
        assert_eq!(places.count(), 1 + 2 + 4);
        let parents: Vec<_> = (0..7).map(|place| places.parent(place)).collect();
        assert_eq!(parents[1..], [Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
        let expected = [
            "f00000000",
            "t00000001/f00000001",
            "t00000002/f00000002",
            "t00000001/t00000003/f00000003",
        ];
        assert_eq!(paths(&places, 4), expected);
        assert_eq!(places.of_number(7), 0);
    }

    #[test]
    fn separates_trees_of_workers() {
        let places = metadata(3, Tree { sharing: Sharing::Own, depth: 1, branching: 2 });
        assert_eq!(places.count(), 3 * 3);
        for number in 0..30 {
            let mut place = places.of_number(number);
            while let Some(parent) = places.parent(place) {
                place = parent;
            }
            assert_eq!(place, (number % 3) * 3, "root of the tree of the worker of {number}");
            assert!(!places.is_root(place));
        }
    }

    #[test]
    fn spreads_pools_and_fills_directories() {
        let transactions = Transactions { directories: 2, ..Transactions::default() };
        let spec = RunBuilder::new(Workload::Transactions).transactions(transactions).build();
        assert_eq!(
            paths(&Places::new(&spec), 3),
            ["t00000000/f00000000", "t00000001/f00000001", "t00000000/f00000002"]
        );
        let op_mix = OpMix {
            files_per_directory: 2,
            shares: vec![(OpKind::Getattr, 10_000)],
            ..OpMix::default()
        };
        let spec = RunBuilder::new(Workload::OpMix).op_mix(op_mix).files(3).build();
        let places = Places::new(&spec);
        let of: Vec<u32> = (0..6).map(|number| places.of_number(number)).collect();
        assert_eq!(of, [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn bounds_depth_and_size_of_trees() {
        let places = metadata(1, Tree { sharing: Sharing::Own, depth: DEPTH_MAX, branching: 1 });
        let deepest = places.path(DEPTH_MAX, Name::file(99_999_999));
        assert_eq!(deepest.as_str().matches('/').count(), DEPTH_MAX as usize + 1);
        assert_eq!(deepest.as_c_str().to_bytes().len(), deepest.as_str().len());
        assert_eq!(tree_nodes(3, 10), 1_111);
        assert_eq!(u64::from(tree_nodes(16, 1000)), PLACES_MAX);
    }
}
