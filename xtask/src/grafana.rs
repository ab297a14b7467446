//! `cargo xtask grafana`: checks the dashboard against the schema published by Grafana.
//!
//! The schema is Go types (`grafana-foundation-sdk`), and the checker in
//! `integrations/grafana/check` a Go program: it needs Go 1.22 and the Go module proxy, so this is
//! not part of `cargo xtask test`. The names of metrics in the panels are checked in the tests of
//! `dfsbench`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps::Steps;
use crate::{proc, repo};

/// Runs the checker and its tests, which plant errors, and counts.
pub fn run() -> bool {
    let mut steps = Steps::new();
    let folder = repo::root().join("integrations/grafana");
    steps.one("planted mistakes", || run_go(&folder, &["test", "./..."]));
    steps.one("dashboard", || run_go(&folder, &["run", ".", "../dfsbench.json"]));
    steps.finish()
}

fn run_go(folder: &Path, words: &[&str]) -> Result<()> {
    let mut go = Command::new("go");
    go.args(words).env("GOFLAGS", "-mod=readonly").current_dir(folder.join("check"));
    proc::run_command(&mut go).context("Go 1.22 or newer is needed (Debian: apt install golang)")
}
