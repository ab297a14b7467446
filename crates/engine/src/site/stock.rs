//! What a pass expects to find, and what is there.
//!
//! [`Stock`] says what has to be made before a pass is timed; [`Made`] remembers what is there,
//! whether preparation made it or an earlier pass. What a pass may have left unwritten does not
//! count as made: it is written whole before anybody reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Opens, Pass, RunSpec, Workload};

/// Objects to be made, each numbered from 0 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    /// Files, whole.
    pub(super) files: u32,
    /// Directories that ops work on.
    pub(super) directories: u32,
    /// Symbolic links.
    pub(super) links: u32,
}

/// What has to be done before a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Todo {
    /// Remove everything that is there.
    pub(super) wipe: bool,
    /// Make this.
    pub(super) make: Stock,
}

/// What is there. Passes of a trial follow one another, so what one makes the next one finds.
#[derive(Debug, Default)]
pub(super) struct Made(Mutex<Present>);

#[derive(Clone, Copy, Debug, Default)]
struct Present {
    files: bool,
    directories: bool,
    links: bool,
    /// A pass left what only it knows: some files and not others.
    mixed: bool,
}

impl Made {
    /// Says what has to be done before a pass, and takes it and the pass as done.
    pub(super) fn before(&self, spec: &RunSpec, pass: Pass) -> Todo {
        let mut present = self.present();
        let mut todo = Todo::default();
        if present.must_go(spec, pass) {
            todo.wipe = true;
            *present = Present::default();
        }
        let needed = needs(spec, pass);
        // What is left of a pool is all that there is to remove.
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
        present.passed(spec, pass);
        todo
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    /// Says whether what is there stands in the way of a pass.
    const fn must_go(&self, spec: &RunSpec, pass: Pass) -> bool {
        match pass {
            Pass::Create | Pass::OpMix => self.files || self.mixed,
            Pass::Mkdir => self.directories,
            // The pool of an earlier pass is not the one that this pass begins with.
            Pass::Transactions => self.mixed,
            Pass::Remove => false,
            _ => self.mixed && !matches!(spec.workload, Workload::App),
        }
    }

    /// Takes note of what a pass leaves behind.
    fn passed(&mut self, spec: &RunSpec, pass: Pass) {
        match pass {
            // A pass that a bound cuts short has not written everything.
            Pass::Write | Pass::CharWrite | Pass::Create => self.files = is_whole(spec),
            Pass::Remove => (self.files, self.mixed) = (false, false),
            Pass::Mkdir => self.directories = is_whole(spec),
            Pass::Rmdir => self.directories = false,
            Pass::Transactions | Pass::OpMix => (self.files, self.mixed) = (false, true),
            _ => {}
        }
    }
}

/// Says whether only its end ends a pass that is bounded by its files.
const fn is_whole(spec: &RunSpec) -> bool {
    spec.load.ops_max == 0 && spec.load.bytes_max == 0
}

/// What a pass finds, where nothing went before it.
fn needs(spec: &RunSpec, pass: Pass) -> Stock {
    let names_files = matches!(pass, Pass::Stat | Pass::Rename | Pass::Remove | Pass::ReadFiles);
    let opens_files = matches!(pass.opens(), Opens::ToRead | Opens::Both);
    let names_directories = matches!(pass, Pass::StatDirs | Pass::RenameDirs | Pass::Rmdir);
    match pass {
        Pass::App => Stock::default(),
        Pass::OpMix => Stock { files: spec.files, directories: spec.files, links: spec.files },
        _ => Stock {
            files: if names_files || opens_files || pass.reads() { spec.files } else { 0 },
            directories: if names_directories { spec.files } else { 0 },
            links: 0,
        },
    }
}
