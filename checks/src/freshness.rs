//! Refuses to test programs that are missing, or older than their sources.
//!
//! `cargo test` builds a test, but not the programs it runs: those of an earlier build would be
//! tested, and nobody would notice. Cargo lists the sources of each program in a file next to it.
//!
//! **Source:** The Cargo book, "Build cache", dep-info files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};

use crate::repo::{self, Profile};
use crate::test_programs::LIST_VARIABLE;

/// Command that builds the programs used by checks.
const ADVICE: &str = "run `cargo build --workspace --bins --examples`, or use `cargo xtask real`";

/// The result, shared by all checks of a process.
static OUTCOME: LazyLock<Result<(), String>> =
    LazyLock::new(|| find_stale().map_err(|error| format!("{error:#}")));

/// Fails the calling check if one of our programs is missing or outdated.
///
/// # Panics
/// In that case.
pub fn require() {
    if let Err(error) = &*OUTCOME {
        panic!("{error}");
    }
}

fn find_stale() -> Result<()> {
    // `cargo xtask` has just built them, and a source may change while checks run.
    if env::var_os(LIST_VARIABLE).is_some() {
        return Ok(());
    }
    check(&repo::dfsbench_path(Profile::Debug))?;
    for example in ["interop", "lab_real"] {
        check(&repo::example_path(Profile::Debug, example))?;
    }
    Ok(())
}

/// Compares a program with its sources.
fn check(program: &Path) -> Result<()> {
    let name = program.display();
    let built = modified(program).with_context(|| format!("{name} is missing: {ADVICE}"))?;
    let list = program.with_extension("d");
    let list = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let sources = read_sources(&list);
    ensure!(!sources.is_empty(), "{name}: cargo lists no sources of it");
    for source in sources {
        // A removed source counts as changed.
        let is_older = modified(&source).is_ok_and(|changed| changed <= built);
        ensure!(is_older, "{name} is older than {}: {ADVICE}", source.display());
    }
    Ok(())
}

fn modified(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

/// Parses the sources in a dep-info file: `PROGRAM: SOURCE SOURCE`, with `\ ` for a space in a
/// path.
fn read_sources(list: &str) -> Vec<PathBuf> {
    let sources = list.lines().next().and_then(|line| line.split_once(": "));
    let sources = sources.map_or("", |(_, sources)| sources).replace("\\ ", "\0");
    sources.split_whitespace().map(|path| path.replace('\0', " ").into()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn refuses_stale_and_missing_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let error = || check(&path("tool")).unwrap_err().to_string();
        assert!(error().contains("tool is missing"), "{}", error());

        let built = SystemTime::now();
        for name in ["tool", "a b.rs", "c.rs"] {
            File::create(path(name)).unwrap().set_modified(built).unwrap();
        }
        let folder = folder.path().display();
        fs::write(path("tool.d"), format!("{folder}/tool: {folder}/a\\ b.rs {folder}/c.rs\n"))
            .unwrap();
        check(&path("tool")).unwrap();

        let changed = built + Duration::from_secs(1);
        File::options().write(true).open(path("a b.rs")).unwrap().set_modified(changed).unwrap();
        assert!(error().contains("older than") && error().contains("a b.rs"), "{}", error());

        File::options().write(true).open(path("tool")).unwrap().set_modified(changed).unwrap();
        check(&path("tool")).unwrap();
        fs::remove_file(path("c.rs")).unwrap();
        assert!(error().contains("c.rs"), "{}", error());
        fs::write(path("tool.d"), "").unwrap();
        assert!(error().contains("no sources"), "{}", error());
    }
}
