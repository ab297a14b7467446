//! Our results against what the kernel was really asked for: dfsbench under strace, on tmpfs.
//!
//! Each worker is a thread of its own, so strace writes a file per thread, and a call is one line.
//! The thread that makes the working directory prepares and cleans up; what the others ask for is
//! what was measured. Counts, bytes, offsets and lengths have to be those of the results, exactly.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::Checks;
use super::ours::{Ours, Run, file_number};
use crate::proc;
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);

/// Calls that move data or work on names.
const CALLS: &str = "trace=mkdir,openat,pread64,pwrite64,fsync,newfstatat,unlinkat";

/// Bytes of one op, and of the buffer of a stream of characters.
const IO_BYTES: u64 = 64 << 10;
const STDIO_BYTES: u64 = 4096;

/// Workloads, and how each is asked for.
const CASES: [(&str, &[&str]); 5] = [
    ("stream", &["--files", "2", "--workers", "2", "--file-size", "1MiB"]),
    ("mixed", &["--files", "2", "--workers", "2", "--file-size", "4MiB", "--duration", "300ms"]),
    ("metadata", &["--workers", "2", "--small-files", "100", "--small-file-size", "1KiB"]),
    ("bonnie", &["--files", "1", "--workers", "1", "--file-size", "1MiB"]),
    ("transactions", &["--small-files", "50", "--transactions", "200"]),
];

/// What the results say of one kind of op.
#[derive(Deserialize)]
struct Kind {
    kind: String,
    done: u64,
    bytes: u64,
}

#[derive(Deserialize)]
struct Pass {
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Trial {
    state: String,
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
struct Measured {
    trials: Vec<Trial>,
}

#[derive(Deserialize)]
struct Report {
    runs: Vec<Measured>,
}

/// One call of a worker.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    name: String,
    /// Number of the data file.
    file: Option<u32>,
    /// Of a transfer: length and offset, in bytes.
    moved: Option<(u64, u64)>,
    /// Of an open: creates a file that must not be there.
    is_new: bool,
}

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    for (workload, flags) in CASES {
        checks.run(&format!("{workload} is what strace saw"), || compare(workload, flags));
    }
}

fn compare(workload: &str, flags: &[&str]) -> Result<()> {
    let folder = TempDir::new_in("/dev/shm")?;
    let (target, results) = (folder.path().join("target"), folder.path().join("dfsbench.db"));
    fs::create_dir(&target)?;
    let io_size = IO_BYTES.to_string();
    let mut all = vec!["--workload", workload, "--trials", "1", "--quiet"];
    // Files of a metadata run are written whole.
    if workload != "metadata" {
        all.extend(["--io-size", &io_size]);
    }
    all.extend(flags);
    let path = target.to_string_lossy();
    let ours = OURS.run_command(&Run { target: &path, results: &results, flags: &all });
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-y", "-s", "0", "-e", CALLS, "-o"]).arg(folder.path().join("calls"));
    strace.arg(ours.get_program()).args(ours.get_args());
    // Whatever is doubted of so short a run is no matter here.
    let said = proc::output(&mut strace)?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let report: Report = serde_json::from_slice(&OURS.report(&results, "json")?).context(said)?;
    let calls = calls_of_workers(folder.path())?;
    ensure!(!calls.is_empty(), "no thread but the first asked for anything");
    let expected = expected(&report)?;
    ensure!(expected == counted(&calls), "results {expected:?}, strace {:?}", counted(&calls));
    places(workload, &calls)
}

/// The calls of all threads but the one that makes directories.
fn calls_of_workers(folder: &Path) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("calls.") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        if !text.contains("mkdir(") {
            calls.extend(text.lines().filter_map(parse).filter(|call| call.file.is_some()));
        }
    }
    Ok(calls)
}

/// Reads a line such as `pread64(5</w/f00000001>, ""..., 65536, 131072) = 65536`; nothing where the
/// call failed.
fn parse(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") = ").or_else(|| rest.rsplit_once(" = "))?;
    if result.starts_with('-') {
        return None;
    }
    let words: Vec<&str> = arguments.trim_end().trim_end_matches(')').split(", ").collect();
    let by_name = words.get(1).map(|name| name.trim_matches('"'));
    let of_handle = words[0].split_once('<').map(|(_, path)| path.trim_end_matches('>'));
    let file = by_name.and_then(file_number).or_else(|| of_handle.and_then(file_number));
    let moved = name.ends_with("64").then(|| {
        let [.., len, offset] = words.as_slice() else { return None };
        Some((len.parse().ok()?, offset.parse().ok()?))
    });
    let is_new = arguments.contains("O_EXCL");
    Some(Call { name: name.to_owned(), file, moved: moved.flatten(), is_new })
}

/// Calls and bytes by name.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// What the results say that was asked for.
fn expected(report: &Report) -> Result<Counts> {
    let trials: Vec<&Trial> = report.runs.iter().flat_map(|run| &run.trials).collect();
    ensure!(trials.len() == 1 && trials[0].state == "done", "the trial was not made");
    let mut counts = empty();
    for kind in trials[0].passes.iter().flat_map(|pass| &pass.kinds) {
        let Kind { done, bytes, .. } = *kind;
        let characters = bytes.div_ceil(STDIO_BYTES);
        let pieces: &[(&'static str, u64, u64)] = match kind.kind.as_str() {
            "read" | "read_file" => &[("pread64", done, bytes)],
            "write" | "append" => &[("pwrite64", done, bytes)],
            "update" => &[("pread64", done, bytes), ("pwrite64", done, bytes)],
            "put_chars" => &[("pwrite64", characters, bytes)],
            "get_chars" => &[("pread64", characters, bytes)],
            "sync" => &[("fsync", done, 0)],
            "create" => &[("openat", done, 0), ("pwrite64", done, bytes)],
            "stat" => &[("newfstatat", done, 0)],
            "remove" => &[("unlinkat", done, 0)],
            other => anyhow::bail!("nobody said what {other} asks for"),
        };
        for (name, calls, bytes) in pieces {
            let count = counts.entry(name).or_default();
            *count = (count.0 + calls, count.1 + bytes);
        }
    }
    Ok(counts)
}

/// What strace saw.
fn counted(calls: &[Call]) -> Counts {
    let mut counts = empty();
    for call in calls {
        // Opens that make no new file belong to the preparation of a pass, or to another op.
        let counts_here = call.name != "openat" || call.is_new;
        let known = counts.iter_mut().find(|(name, _)| **name == call.name);
        if let Some((_, count)) = known.filter(|_| counts_here) {
            *count = (count.0 + 1, count.1 + call.moved.map_or(0, |(len, _)| len));
        }
    }
    counts
}

fn empty() -> Counts {
    let names = ["openat", "pread64", "pwrite64", "fsync", "newfstatat", "unlinkat"];
    names.into_iter().map(|name| (name, (0, 0))).collect()
}

/// Checks offsets and lengths: a stream goes through each file once, a mix hits whole blocks.
fn places(workload: &str, calls: &[Call]) -> Result<()> {
    for name in ["pread64", "pwrite64"] {
        for file in 0..2 {
            let of_file = calls.iter().filter(|call| call.name == name && call.file == Some(file));
            let moved: Vec<(u64, u64)> = of_file.filter_map(|call| call.moved).collect();
            let is_right = match workload {
                "stream" => {
                    moved == (0..16).map(|at| (IO_BYTES, at * IO_BYTES)).collect::<Vec<_>>()
                }
                "mixed" => moved.iter().all(|(len, offset)| {
                    *len == IO_BYTES && offset % IO_BYTES == 0 && offset + len <= 4 << 20
                }),
                _ => true,
            };
            ensure!(is_right, "{name} of file {file}: {moved:?}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_strace_are_read() {
        let read = parse("pread64(5</w/.dfsbench-0/f00000001>, \"\"..., 65536, 131072) = 65536");
        let call = |name: &str, moved, is_new| {
            Some(Call { name: name.to_owned(), file: Some(1), moved, is_new })
        };
        assert_eq!(read, call("pread64", Some((65_536, 131_072)), false));
        let made = "openat(4</w/.dfsbench-0>, \"f00000001\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 9<x>";
        assert_eq!(parse(made), call("openat", None, true));
        let synced = "fsync(5</w/.dfsbench-0/f00000001>)        = 0";
        assert_eq!(parse(synced), call("fsync", None, false));
        assert_eq!(parse("unlinkat(4</w>, \"f00000001\", 0) = -1 ENOENT (No such file)"), None);
        assert_eq!(parse("+++ exited with 0 +++"), None);
    }
}
