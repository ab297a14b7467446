//! Drops a host's caches and reports the kernel's counters as evidence.
//!
//! **Source:** proc_sys_vm(5), `drop_caches`; fincore(1): bytes of files that are in the page
//! cache.

use std::fs;
use std::path::{Path, PathBuf};

use model::{Fact, Invalidation};

use crate::commands::{LONG, Runner, find};
use crate::error::LabError;
use crate::facts::meminfo_bytes;
use crate::host::nfsd;

const DROP: &str = "/proc/sys/vm/drop_caches";
/// Number of files per call of fincore.
const AT_ONCE: usize = 200;

/// Drops the page cache, dentries and inodes of this host. Returns what was cached before and
/// after. `directory` is the exported directory; if its files exist only in memory, they are kept.
///
/// # Errors
/// If the kernel does not allow it.
pub(crate) fn drop_caches(
    runner: &mut Runner,
    how: Invalidation,
    directory: Option<&Path>,
) -> Result<Vec<Fact>, LabError> {
    if how <= Invalidation::Files {
        return Ok(Vec::new());
    }
    let mut facts = cached(runner, "before", directory)?;
    if how >= Invalidation::ServerRestart && directory.is_some() {
        // A server that was already running. Our own servers are restarted by actions.
        nfsd::restart(runner)?;
    }
    // Dropping only affects clean pages, so write back dirty ones first.
    rustix::fs::sync();
    // 1 drops the page cache, 2 dentries and inodes, 3 both.
    runner.write(Path::new(DROP), "3")?;
    facts.extend(cached(runner, "after", directory)?);
    Ok(facts)
}

/// Reports how much is cached in total and of a directory's files.
fn cached(runner: &Runner, when: &str, directory: Option<&Path>) -> Result<Vec<Fact>, LabError> {
    let cached = cached_bytes().to_string();
    let mut facts = vec![Fact::new("host", format!("page cache {when}"), cached, "/proc/meminfo")];
    // Not every host has fincore.
    if let Some(directory) = directory
        && find("fincore").is_some()
    {
        let resident = resident_bytes(runner, directory)?.to_string();
        facts.push(Fact::new("server", format!("files cached {when}"), resident, "fincore"));
    }
    Ok(facts)
}

/// Returns the bytes in the page cache: for files, and for block devices (`Buffers`).
fn cached_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cached = meminfo_bytes(&text, "Cached:").unwrap_or(0);
    cached.saturating_add(meminfo_bytes(&text, "Buffers:").unwrap_or(0))
}

/// Returns how many bytes of a directory's files are in the page cache.
fn resident_bytes(runner: &Runner, directory: &Path) -> Result<u64, LabError> {
    let mut files = Vec::new();
    collect_files(directory, &mut files);
    let mut bytes = 0_u64;
    for some in files.chunks(AT_ONCE) {
        let mut argv = ["fincore", "--bytes", "--noheadings", "--output", "RES", "--"]
            .map(str::to_owned)
            .to_vec();
        for path in some {
            argv.push(path.display().to_string());
        }
        // fincore reports an error if a file has been removed, but still prints the others.
        for line in runner.output(&argv, LONG)?.stdout.lines() {
            bytes = bytes.saturating_add(line.trim().parse().unwrap_or(0));
        }
    }
    Ok(bytes)
}

/// Collects the files in and below a directory, ignoring those that disappear in the meantime.
fn collect_files(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}
