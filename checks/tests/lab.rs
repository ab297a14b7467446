//! The lab's actions on this very machine: each check in its own namespaces.
//!
//! The checks are those of `crates/lab/examples/lab_real`, which links the lab; each is a test here
//! (`build.rs` makes the table).

use std::path::PathBuf;

use anyhow::Result;
use checks::check::Fixture;
use checks::{checks, lab_real};

static PROGRAM: Fixture<PathBuf> = Fixture::new(lab_real::find);

include!(concat!(env!("OUT_DIR"), "/lab_here.rs"));

checks! {
    tests_every_lab_check: 300 s, {
        lab_real::compare_names(PROGRAM.get()?, "here", NAMES)
    };
}

fn run_one(name: &str) -> Result<()> {
    lab_real::run_here(PROGRAM.get()?, name)
}
