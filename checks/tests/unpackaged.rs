//! File servers that recipes set up on hosts over real sshd, and that take minutes to build: unfs3
//! and ZeroFS.
//!
//! They have to be on PATH: unfs3 built from source, and ZeroFS (`cargo install zerofs`). So only
//! `cargo xtask real unpackaged` runs it.

use anyhow::Result;
use checks::check::Fixture;
use checks::checks;
use checks::hosts::Lab;
use checks::systems::Subject;

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(4));

checks! {
    unfs3_is_measured: 600 s, measured(&UNFS3, 1);
    unfs3_is_killed_and_cleaned: 600 s, UNFS3.kill_and_clean(LAB.get()?);
    zerofs_is_measured: 600 s, measured(&ZEROFS, 1);
    zerofs_is_killed_and_cleaned: 600 s, ZEROFS.kill_and_clean(LAB.get()?);
}

const ZEROFS: Subject = Subject {
    system: "zerofs",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20498,
    is_mounted: false,
};

const UNFS3: Subject = Subject {
    system: "unfs3",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20495,
    is_mounted: false,
};

fn measured(subject: &Subject, settings: usize) -> Result<()> {
    subject.measure_short(LAB.get()?, settings)
}
