//! What a pass expects to find, and what already exists.
//!
//! [`Fixtures`] specify what must be created before a pass is timed. [`PreparedFixtures`] tracks
//! what exists, whether created by preparation or by an earlier pass. Files that a pass may have
//! left incomplete don't count: they are written completely before anyone reads them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Opens, Pass, RunSpec};
use workload::{FileSet, Trees};

/// Objects to create, each numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fixtures {
    /// Number of complete files.
    pub(super) files: u32,
    /// Size of the blocks of these files, every second of which is a hole; 0 for files without
    /// holes.
    pub(super) hole_bytes: u32,
    /// Number of directories that ops work on.
    pub(super) directories: u32,
    /// Number of symbolic links.
    pub(super) links: u32,
    /// Trees of a developer to which files and places must belong, if a workload has them.
    pub(super) trees: Trees,
}

/// The work to do before a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Preparation {
    /// Remove everything first.
    pub(super) wipe: bool,
    /// What to create.
    pub(super) make: Fixtures,
    /// The trees of a developer that exist when the pass begins.
    pub(super) trees: Trees,
}

/// The objects that exist. The passes of a trial follow each other, so one finds what the previous
/// one created.
#[derive(Debug, Default)]
pub(super) struct PreparedFixtures(Mutex<PresentFixtures>);

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
struct PresentFixtures {
    files: bool,
    /// Every second block of the files is a hole.
    sparse: bool,
    directories: bool,
    links: bool,
    /// The trees of a developer.
    trees: Trees,
    /// A pass has left an unpredictable subset of the files.
    mixed: bool,
    /// A pass that creates, removes or renames was cut short, so it isn't known what exists.
    cut: bool,
}

impl PreparedFixtures {
    /// Returns the work to do before a pass, and assumes that both are then done.
    pub(super) fn before(&self, spec: &RunSpec, pass: Pass, set: &FileSet) -> Preparation {
        let mut present = self.lock_present();
        let mut todo = Preparation::default();
        if present.must_go(pass) {
            todo.wipe = true;
            *present = PresentFixtures::default();
        }
        if pass.is_of_developer() {
            let needed = Trees::needed_by(pass);
            todo.make.trees = needed.without(present.trees);
            todo.make.files = if todo.make.trees == Trees::default() { 0 } else { set.files() };
            todo.trees = present.trees.with(needed);
            present.trees = todo.trees.after(pass);
            return todo;
        }
        let needed = needs(pass, set);
        if pass.needs_data_ops() && present.sparse != pass.needs_holes() {
            present.sparse = pass.needs_holes();
            present.files = false;
        }
        if pass.needs_holes() {
            todo.make.hole_bytes = spec.io_size_bytes;
        }
        // A removal pass only needs what is left of the pool.
        if !present.files && !present.mixed {
            todo.make.files = needed.files;
        }
        if !present.directories {
            todo.make.directories = needed.directories;
        }
        if !present.links {
            todo.make.links = needed.links;
        }
        present.files |= needed.files > 0;
        present.directories |= needed.directories > 0;
        present.links |= needed.links > 0;
        present.record_pass(spec, pass);
        todo
    }

    /// Assumes that all files exist, because another agent created them before it was lost.
    pub(super) fn assume_prepared(&self) {
        self.lock_present().files = true;
    }

    fn lock_present(&self) -> MutexGuard<'_, PresentFixtures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PresentFixtures {
    /// Returns true if existing objects are in the way of a pass.
    const fn must_go(self, pass: Pass) -> bool {
        if self.cut {
            return true;
        }
        if pass.is_of_developer() {
            return self.trees.block(pass);
        }
        match pass {
            Pass::Create | Pass::Record | Pass::OpMix => self.files || self.mixed,
            Pass::Mkdir => self.directories,
            // A removal pass removes whatever is left of the pool.
            Pass::Remove => false,
            _ => self.mixed,
        }
    }

    /// Records what a pass leaves behind.
    fn record_pass(&mut self, spec: &RunSpec, pass: Pass) {
        let opens_files = pass.opens() != Opens::Nothing;
        // Attribute changes that are cut short don't affect names, so it is still known what
        // exists.
        let changes_names = !opens_files && pass.writes() && !pass.needs_xattrs();
        self.cut |= spec.is_cut() && changes_names;
        match pass {
            // A pass that is cut short has not written everything.
            Pass::Write | Pass::CharWrite | Pass::Save | Pass::Create | Pass::Record => {
                self.files = !spec.is_cut();
            }
            Pass::Punch => (self.files, self.sparse) = (!spec.is_cut(), true),
            Pass::Remove => (self.files, self.mixed) = (false, false),
            Pass::Mkdir => self.directories = !spec.is_cut(),
            Pass::Rmdir => self.directories = false,
            Pass::Transactions | Pass::OpMix | Pass::Serve => {
                (self.files, self.mixed) = (false, true);
            }
            _ => {}
        }
    }
}

/// Returns the pieces of a file to write, at most `step` bytes each: offsets and lengths. If
/// `hole_bytes` isn't 0, every second block of that size is left out.
pub(super) fn pieces_to_write(
    bytes: u64,
    hole_bytes: u32,
    step: u32,
) -> impl Iterator<Item = (u64, u32)> {
    let block = if hole_bytes == 0 { bytes.max(1) } else { hole_bytes.into() };
    (0..bytes).step_by(block as usize).step_by(2).flat_map(move |start| {
        let end = (start + block).min(bytes);
        let offsets = (start..end).step_by(step as usize);
        offsets.map(move |offset| (offset, u64::from(step).min(end - offset) as u32))
    })
}

/// Returns what a pass needs if no other pass went before it.
fn needs(pass: Pass, set: &FileSet) -> Fixtures {
    let names_files = matches!(pass, Pass::Stat | Pass::Rename | Pass::Remove | Pass::ReadFiles)
        || pass.needs_xattrs()
        || pass.lists();
    let opens_files = matches!(pass.opens(), Opens::ToRead | Opens::Both | Opens::Twins);
    let names_directories = matches!(pass, Pass::StatDirs | Pass::RenameDirs | Pass::Rmdir);
    let is_mix = pass == Pass::OpMix;
    let directories = set.directories();
    let links = set.links();
    Fixtures {
        files: if names_files || opens_files || pass.reads() { set.files() } else { 0 },
        hole_bytes: 0,
        trees: Trees::default(),
        directories: if names_directories || is_mix { directories } else { 0 },
        links: if is_mix { links } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    fn todo(spec: &RunSpec, passes: &[Pass]) -> Vec<(bool, u32, u32)> {
        let made = PreparedFixtures::default();
        let set = FileSet::new(spec);
        let before = |pass: &Pass| {
            let todo = made.before(spec, *pass, &set);
            (todo.wipe, todo.make.files, todo.make.directories)
        };
        passes.iter().map(before).collect()
    }

    #[test]
    fn does_not_recreate_existing_content() {
        let spec = RunBuilder::new(Workload::Stream).files(3).build();
        let passes = [Pass::Write, Pass::Read, Pass::RandomRead, Pass::Rewrite];
        assert_eq!(todo(&spec, &passes), [(false, 0, 0); 4]);
        let passes = [Pass::Read, Pass::Write, Pass::Reread];
        assert_eq!(todo(&spec, &passes), [(false, 3, 0), (false, 0, 0), (false, 0, 0)]);
    }

    #[test]
    fn completes_truncated_data_before_reading() {
        let mut spec = RunBuilder::new(Workload::Stream).files(3).build();
        spec.load.ops_max = 5;
        assert_eq!(todo(&spec, &[Pass::Write, Pass::Read]), [(false, 0, 0), (false, 3, 0)]);
    }

    #[test]
    fn removes_leftover_names_before_pass() {
        let mut spec = RunBuilder::new(Workload::Metadata).files(3).build();
        spec.load.time_max_ms = 5;
        let passes = [Pass::Create, Pass::Stat, Pass::Rename, Pass::Remove, Pass::Create];
        let made = (true, 3, 0);
        // Passes that don't modify anything leave everything as it is.
        let expected = [(false, 0, 0), made, (false, 0, 0), made, (true, 0, 0)];
        assert_eq!(todo(&spec, &passes), expected);
        let passes = [Pass::Mkdir, Pass::RenameDirs, Pass::Rmdir, Pass::Mkdir];
        assert_eq!(todo(&spec, &passes), [(false, 0, 0), (true, 0, 3), (true, 0, 3), (true, 0, 0)]);
        spec.workload = Workload::Transactions;
        let passes = [Pass::Create, Pass::Transactions, Pass::Remove];
        assert_eq!(todo(&spec, &passes), [(false, 0, 0), made, made]);
    }

    #[test]
    fn prepares_or_removes_names_per_pass() {
        let spec = RunBuilder::new(Workload::Metadata).files(3).build();
        let passes = [Pass::Stat, Pass::Remove, Pass::Rename, Pass::Create, Pass::Rmdir];
        let expected = [(false, 3, 0), (false, 0, 0), (false, 3, 0), (true, 0, 0), (false, 0, 3)];
        assert_eq!(todo(&spec, &passes), expected);
    }

    #[test]
    fn rewrites_files_with_or_without_holes() {
        let spec = RunBuilder::new(Workload::DataOps).files(3).build();
        let set = FileSet::new(&spec);
        let made = PreparedFixtures::default();
        let before = |pass| {
            let make = made.before(&spec, pass, &set).make;
            (make.files, make.hole_bytes > 0)
        };
        assert_eq!([before(Pass::Copy), before(Pass::Clone)], [(3, false), (0, false)]);
        assert_eq!([before(Pass::Punch), before(Pass::Seek)], [(0, false), (0, true)]);
        assert_eq!([before(Pass::Allocate), before(Pass::ReadPlus)], [(3, false), (3, true)]);
    }

    #[test]
    fn prepares_missing_trees_of_developers() {
        let spec = RunBuilder::new(Workload::Developer).files(3).build();
        let set = FileSet::new(&spec);
        let made = PreparedFixtures::default();
        let before = |pass| {
            let todo = made.before(&spec, pass, &set);
            let files = (0..todo.make.files).filter(|file| set.is_in(todo.make.trees, *file));
            (todo.wipe, files.count())
        };
        assert_eq!(before(Pass::Unpack), (false, 0));
        assert_eq!(before(Pass::BuildReads), (false, 0));
        // Pack, its index and the index of the working tree.
        assert_eq!(before(Pass::GitStatus), (false, 3));
        assert_eq!(before(Pass::GitClone), (true, 0));
        assert_eq!(before(Pass::GitCheckout), (false, 0));
        // The packages.
        assert_eq!(before(Pass::RemoveTree), (false, 3));
        assert_eq!(before(Pass::Install), (false, 0));
        assert_eq!(before(Pass::SyncTree), (false, 3));
    }

    #[test]
    fn leaves_out_every_second_block() {
        let pieces = |bytes, hole_bytes| pieces_to_write(bytes, hole_bytes, 4).collect::<Vec<_>>();
        assert_eq!(pieces(10, 0), [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(pieces(29, 6), [(0, 4), (4, 2), (12, 4), (16, 2), (24, 4), (28, 1)]);
        assert_eq!(pieces(0, 0), []);
    }

    #[test]
    fn creates_pool_once_and_removes_rest() {
        let spec = RunBuilder::new(Workload::Transactions).files(3).build();
        let passes = [Pass::Create, Pass::Transactions, Pass::Remove, Pass::Transactions];
        assert_eq!(
            todo(&spec, &passes),
            [(false, 0, 0), (false, 0, 0), (false, 0, 0), (false, 3, 0)]
        );
        let again = [Pass::Transactions, Pass::Transactions];
        assert_eq!(todo(&spec, &again), [(false, 3, 0), (true, 3, 0)]);
    }
}
