//! Makes a host forget what it read, and proves it by what the kernel counts.
//!
//! **Source:** proc_sys_vm(5), `drop_caches`; fincore(1): bytes of files that are in the page
//! cache.

use std::fs;
use std::path::{Path, PathBuf};

use model::{Fact, Invalidation};

use crate::commands::{LONG, Runner, find};
use crate::error::LabError;
use crate::host::nfsd;

const DROP: &str = "/proc/sys/vm/drop_caches";
/// Files that fincore is requested about at once.
const AT_ONCE: usize = 200;

/// Drops the page cache, dentries and inodes of this host, and tells what was in memory before and
/// after. `directory` is what it serves; where its files are in memory only, they stay there.
///
/// # Errors
/// Where the kernel refuses.
pub fn drop_caches(
    runner: &mut Runner,
    how: Invalidation,
    directory: Option<&Path>,
) -> Result<Vec<Fact>, LabError> {
    if how <= Invalidation::Files {
        return Ok(Vec::new());
    }
    let mut facts = Vec::new();
    let mut count = |runner: &Runner, when: &str| -> Result<(), LabError> {
        let cached = cached_bytes().to_string();
        facts.push(Fact::new("host", format!("page cache {when}"), cached, "/proc/meminfo"));
        // Not every host has it.
        if let Some(directory) = directory.filter(|_| find("fincore").is_some()) {
            let resident = resident_bytes(runner, directory)?.to_string();
            facts.push(Fact::new("server", format!("files cached {when}"), resident, "fincore"));
        }
        Ok(())
    };
    count(runner, "before")?;
    if how >= Invalidation::ServerRestart && directory.is_some() {
        // One that ran before us; ours is stopped and started as an action.
        nfsd::restart(runner)?;
    }
    // Dirty pages stay where they are.
    rustix::fs::sync();
    runner.write(Path::new(DROP), "3")?;
    count(runner, "after")?;
    Ok(facts)
}

/// Bytes of all files in the page cache.
fn cached_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        number.unwrap_or(0_u64)
    };
    kib("Cached:").saturating_add(kib("Buffers:")).saturating_mul(1024)
}

/// Bytes of a directory's files that are in the page cache.
fn resident_bytes(runner: &Runner, directory: &Path) -> Result<u64, LabError> {
    let mut files = Vec::new();
    collect(directory, &mut files);
    let mut bytes = 0_u64;
    for some in files.chunks(AT_ONCE) {
        let names: Vec<String> = some.iter().map(|path| path.display().to_string()).collect();
        let mut argv = vec!["fincore", "--bytes", "--noheadings", "--output", "RES", "--"];
        argv.extend(names.iter().map(String::as_str));
        let text = runner.output(&argv, LONG)?.stdout;
        let numbers = text.lines().filter_map(|line| line.trim().parse::<u64>().ok());
        bytes = numbers.fold(bytes, u64::saturating_add);
    }
    Ok(bytes)
}

/// Files of a directory and of those below. What vanishes meanwhile isn't there.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
