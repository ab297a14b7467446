//! Compares our results with the system calls actually made: dfsbench under strace, on tmpfs.
//!
//! Each worker is a thread of its own, so strace writes one file per thread, and one line per call.
//! The thread that creates the working directory prepares and cleans up; the calls of the others
//! are what was measured. Counts, bytes, offsets and lengths must match the results exactly.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use checks::{checks, strace};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use checks::made_paths::{self, Table};
use checks::ours::{self, Ours, Run, exit};
use checks::proc;
use checks::repo::{Profile, root};
use checks::strace::{Call, LISTED_PLUS, OPEN_DIRECTORY, OPEN_NEW, TRACED};

const OURS: Ours = Ours::new(Profile::Debug);

/// Size of one op in bytes, and of the buffer of a character stream.
const IO_BYTES: u64 = 64 << 10;
const STDIO_BYTES: u64 = 4096;

/// Workloads to run, each with its arguments.
const CASES: [(&str, &[&str]); 7] = [
    ("stream", &["--files", "2", "--workers", "2", "--file-size", "1MiB"]),
    ("mixed", &["--files", "2", "--workers", "2", "--file-size", "4MiB", "--duration", "300ms"]),
    (
        "metadata",
        &[
            "--passes=create+stat+read_files+rename+remove+mkdir+stat_dirs+rename_dirs+rmdir",
            "--workers=2",
            "--small-files=60",
            "--small-file-size=1KiB",
        ],
    ),
    ("bonnie", &["--files", "1", "--workers", "1", "--file-size", "1MiB"]),
    ("transactions", &["--small-files", "50", "--transactions", "200"]),
    ("op_mix", &["--workers", "2", "--rate", "500", "--set-per-rate", "16KiB"]),
    ("database", &["--workers", "2", "--file-size", "4MiB", "--duration", "200ms"]),
];

/// A mix of all kinds of ops; the braces are replaced by the target.
const ALL_KINDS: &str = r#"
name = "all kinds"
[[target]]
name = "dir"
path = "{}"
[[workload]]
kind = "op_mix"
io_size = 65536
workers = 2
rate = 1000
set_per_rate = "16KiB"
duration = "500ms"
[workload.shares]
null = 5
getattr = 5
setattr = 5
lookup = 5
lookup_missing = 5
access = 5
readlink = 3
link = 2
read = 5
write = 5
create = 5
mkdir = 5
symlink = 5
remove = 5
rmdir = 5
unlink = 5
rename = 5
readdir = 4
readdirplus = 4
fsstat = 4
fsinfo = 2
pathconf = 2
commit = 4
"#;

/// The results' figures for one kind of op.
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

checks! {
    matches_strace_of_stream: 120 s, compare("stream");
    matches_strace_of_mix: 120 s, compare("mixed");
    metadata_is_what_strace_saw: 120 s, compare("metadata");
    bonnie_is_what_strace_saw: 120 s, compare("bonnie");
    transactions_are_what_strace_saw: 120 s, compare("transactions");
    matches_strace_of_op_mix: 120 s, compare("op_mix");
    commits_are_what_strace_saw: 120 s, compare("database");
    matches_strace_of_all_kinds: 120 s, compare_all_kinds();
    documents_every_created_path: 120 s, made_paths_are_known();
    names_tracer_of_workers: 60 s, names_tracer();
    runs_tools_of_developers: 120 s, run_tools();
    imports_what_programs_did: 120 s, import_programs();
}

/// Programs whose I/O is known: 25 blocks of 4 KiB are written, doubled, and read again.
const PROGRAMS: &str = "dd if=/dev/zero of=a bs=4096 count=25 conv=fsync; cat a a >b; mkdir d; \
                        mv a d/a; cp b d/c; cat d/c >/dev/null; rm b; test -e none; ls d";

/// Imports the system calls of real programs, compares them with the lines that strace wrote and
/// with what the programs must have done, and replays them.
fn import_programs() -> Result<()> {
    let folder = TempDir::new_in("/dev/shm")?;
    let target = target_in(&folder)?;
    let text = folder.path().join("calls.txt");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-ttt", "-T", "-y", "-o"]).arg(&text);
    proc::capture_output(strace.args(["sh", "-c", PROGRAMS]).current_dir(&target))?;
    let lines = fs::read_to_string(&text)?;
    // A copy of nothing is only the end of a file.
    let made = |name: &str| {
        let is_made = |line: &&str| {
            let path = line.split_once(&format!(" {name}(")).map_or("", |(_, rest)| rest);
            let path = path.split_once(['<', '>']).map_or("", |(_, rest)| rest);
            let is_empty = name == "copy_file_range" && line.contains(") = 0 <");
            path.starts_with(&target) && !is_empty && !line.contains(" = -1")
        };
        lines.lines().filter(is_made).count() as u64
    };
    let at = |name: &str| folder.path().join(name);
    let mut import = OURS.command();
    import.args(["capture", "--from", "strace"]).arg(&text).args(["--root", &target, "-o"]);
    let said = proc::capture_output(import.arg(at("t.dfst")))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    // dd, cat and cp write 25, 50 and 50 blocks; both cats and cp read 50. The kernel copies some
    // of them.
    ensure!(said.contains("; 600 KiB read, 500 KiB written"), "{said}");
    let mut describe = OURS.command();
    let described = proc::capture_stdout(
        describe.arg("describe").arg(at("t.dfst")).args(["--format", "json"]),
    )?;
    let described: Value = serde_json::from_slice(&described)?;
    let ops = |kind: &str| {
        let kinds = described["kinds"].as_array().into_iter().flatten();
        kinds.filter(|it| it["kind"] == kind).filter_map(|it| it["ops"].as_u64()).sum::<u64>()
    };
    for (kind, calls) in [
        ("READ", made("read") + made("pread64")),
        ("WRITE", made("write")),
        ("COPY", made("copy_file_range")),
        ("READDIR", made("getdents64")),
        ("COMMIT", 1),
        ("CREATE", 1),
        ("RENAME", 1),
        ("REMOVE", 1),
    ] {
        ensure!(ops(kind) == calls, "{kind}: {} in the trace, {calls} by strace", ops(kind));
    }
    fs::create_dir(at("again"))?;
    let mut replay = OURS.command();
    replay.arg("replay").arg(at("t.dfst")).arg(at("again")).args(["--closed", "--format", "json"]);
    proc::capture_stdout(&mut replay)?;
    ensure!(fs::read_dir(at("again"))?.next().is_none(), "the replay left files");
    Ok(())
}

/// Runs the preset with the real tar, git, rsync and rm, whose five rows have figures.
fn run_tools() -> Result<()> {
    let folder = TempDir::new()?;
    let mut run = OURS.command();
    run.args(["run", "developer-tools", "--scale", "0.05", "--trials", "1", "--quiet"]);
    run.args(["--format", "csv", "--results"]).arg(folder.path().join("results.db"));
    ours::measure_rows(&mut run, 5)
}

/// Commands that create files, each with a row of the table that it must be seen to create.
/// `target` is the measured directory, `r.db` the results file.
const MAKERS: [(&[&str], &str); 5] = [
    (
        &["run", "target", "--workload", "metadata", "--small-files", "9"],
        "/.dfsbench-CAMPAIGN-N/...",
    ),
    (&["run", "target", "--workload", "metadata", "--small-files", "8"], "/run-CAMPAIGN"),
    (&["run", "target", "--workload", "stream", "--file-size", "64KiB"], "-campaign-N.lock"),
    (&["run", "embedded", "--xprtsec", "tls", "--file-size", "64KiB"], "/dfsbench-ca-NAME"),
    (&["clean"], "/undo.jsonl"),
];

/// Compares the paths created by some commands with the table of `docs/leftovers.md`, in both
/// directions: no path is missing there, and each command creates what its row says.
fn made_paths_are_known() -> Result<()> {
    let folder = TempDir::new()?;
    let at = |name: &str| folder.path().join(name);
    for name in ["target", "tmp", "home/.local/state", "calls"] {
        fs::create_dir_all(at(name))?;
    }
    let [target, tmp, results, own] = ["target", "tmp", "r.db", "home/.local/state/dfsbench"]
        .map(|name| at(name).display().to_string());
    let page_of_results = at("r.html").display().to_string();
    let page = fs::read_to_string(root().join("docs/leftovers.md"))?;
    let words = [
        ("TARGET", target.as_str()),
        ("RESULTS", &results),
        ("PAGE", &page_of_results),
        ("TMP", &tmp),
        ("STATE", "/var/lib/dfsbench"),
        ("OWN", &own),
    ];
    let table = Table::parse(&page, &words)?;
    for (number, (arguments, row)) in MAKERS.into_iter().enumerate() {
        let prefix = format!("{number}.");
        let mut strace = Command::new("strace");
        strace.args(["-ff", "-y", "-s", "4096", "-e", made_paths::TRACED, "-o"]);
        strace.arg(at("calls").join(number.to_string())).arg(OURS.command().get_program());
        strace.args(arguments).args(["--results", &results]).current_dir(folder.path());
        strace.env("TMPDIR", &tmp).env("HOME", at("home"));
        if arguments[0] == "run" {
            strace.args(["--trials", "1", "--quiet"]);
        }
        let output = proc::capture_output(&mut strace)?;
        let code = output.status.code();
        ensure!([Some(0), Some(exit::INVALID)].contains(&code), "{arguments:?}: {output:?}");
        let mut rows = Vec::new();
        for path in made_paths::read(&at("calls"), &prefix, folder.path())? {
            let found = table.find(&path);
            rows.push(found.with_context(|| {
                format!("{arguments:?} made {}, which docs/leftovers.md lacks", path.display())
            })?);
        }
        ensure!(
            rows.iter().any(|made| made.ends_with(row)),
            "{arguments:?}: {row} is not in {rows:?}"
        );
        ensure!(fs::read_dir(at("target"))?.next().is_none(), "{arguments:?} left files");
        ensure!(fs::read_dir(at("tmp"))?.next().is_none(), "{arguments:?} left temporary files");
    }
    Ok(())
}

/// Runs with and without strace: only the former has the caveat, which names strace.
fn names_tracer() -> Result<()> {
    let folder = TempDir::new()?;
    for traced in [true, false] {
        let results = folder.path().join(format!("{traced}.db"));
        let flags = ["--workload", "mixed", "--duration", "300ms", "--trials", "1", "--quiet"];
        let ours = OURS.run_command(&Run { target: "null", results: &results, flags: &flags });
        let mut command = Command::new(if traced { "strace" } else { "env" });
        if traced {
            command.args(["-f", "-o", "/dev/null", "-e", "trace=none"]);
        }
        proc::capture_output(command.arg(ours.get_program()).args(ours.get_args()))?;
        let evidence = OURS.evidence(&results, "traced")?;
        let named = evidence.as_deref().is_some_and(|text| text.starts_with("traced by strace ("));
        ensure!(named == traced && evidence.is_some() == traced, "{traced}: {evidence:?}");
    }
    Ok(())
}

fn compare(workload: &str) -> Result<()> {
    let case = CASES.iter().find(|(name, _)| *name == workload);
    let (_, flags) = case.context("no such case")?;
    let folder = TempDir::new_in("/dev/shm")?;
    let target = target_in(&folder)?;
    let io_size = IO_BYTES.to_string();
    let mut all = vec!["--workload", workload];
    // Files of a metadata run are written in one piece.
    if workload != "metadata" {
        all.extend(["--io-size", &io_size]);
    }
    all.extend(*flags);
    let calls = trace(&folder, &target, &all)?;
    check_offsets(workload, &calls)
}

fn compare_all_kinds() -> Result<()> {
    let folder = TempDir::new_in("/dev/shm")?;
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, ALL_KINDS.replace("{}", &target_in(&folder)?))?;
    trace(&folder, &plan.to_string_lossy(), &[]).map(drop)
}

fn target_in(folder: &TempDir) -> Result<String> {
    let target = folder.path().join("target");
    fs::create_dir(&target)?;
    Ok(target.to_string_lossy().into_owned())
}

/// Makes a run under strace, compares its results with the calls, and returns them.
fn trace(folder: &TempDir, target: &str, flags: &[&str]) -> Result<Vec<Call>> {
    let results = folder.path().join("dfsbench.db");
    let flags = [flags, &["--trials", "1", "--quiet"]].concat();
    let ours = OURS.run_command(&Run { target, results: &results, flags: &flags });
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-y", "-s", "0", "-e", TRACED, "-o"]).arg(folder.path().join("calls"));
    strace.arg(ours.get_program()).args(ours.get_args());
    // Caveats because of the short run don't matter here.
    let output = proc::capture_output(&mut strace)?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Report = serde_json::from_slice(&OURS.report(&results, "json")?).context(stderr)?;
    let calls = strace::read_workers(folder.path())?;
    ensure!(!calls.is_empty(), "no thread but the first made a call");
    let expected = expected(&report)?;
    let counted = counted(&calls);
    for (name, of_results) in &expected {
        let seen = counted[name];
        ensure!(*of_results == seen, "{name}: results {of_results:?}, strace {seen:?}");
    }
    Ok(calls)
}

/// Calls and bytes by name.
type Counts = BTreeMap<&'static str, (u64, u64)>;

/// Returns the calls that must have been made according to the results.
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
            "create" if bytes == 0 => &[(OPEN_NEW, done, 0)],
            "create" => &[(OPEN_NEW, done, 0), ("pwrite64", done, bytes)],
            "stat" | "stat_dir" => &[("newfstatat", done, 0)],
            "remove" | "unlink" | "rmdir" => &[("unlinkat", done, 0)],
            "rename" | "rename_dir" => &[("renameat", done, 0)],
            "mkdir" => &[("mkdirat", done, 0)],
            "symlink" => &[("symlinkat", done, 0)],
            "link" => &[("linkat", done, 0)],
            "null" => &[("getppid", done, 0)],
            "getattr" => &[("fstat", done, 0)],
            "setattr" => &[("fchmodat", done, 0)],
            "access" => &[("faccessat", done, 0)],
            "lookup" | "lookup_missing" => &[("statx", done, 0)],
            "readlink" => &[("readlinkat", done, 0)],
            "readdir" => &[(OPEN_DIRECTORY, done, 0), ("getdents64", done, 0)],
            "readdirplus" => &[(OPEN_DIRECTORY, done, 0), (LISTED_PLUS, done, 0)],
            "fsstat" | "fsinfo" | "pathconf" => &[("fstatfs", done, 0)],
            "commit" => &[("fdatasync", done, 0)],
            "log_append" => &[("pwrite64", done, bytes), ("fdatasync", done, 0)],
            other => anyhow::bail!("the calls of {other} are not in this table"),
        };
        for (name, calls, bytes) in pieces {
            let count = counts.entry(name).or_default();
            *count = (count.0 + calls, count.1 + bytes);
        }
    }
    Ok(counts)
}

/// Counts the calls that strace saw.
fn counted(calls: &[Call]) -> Counts {
    let mut counts = empty();
    for call in calls {
        // Other opens belong to the preparation of a pass, or to an op that moves data.
        if let Some(count) = counts.get_mut(call.name.as_str()) {
            *count = (count.0 + 1, count.1 + call.moved.map_or(0, |(len, _)| len));
        }
    }
    counts
}

fn empty() -> Counts {
    let names = [
        OPEN_NEW,
        OPEN_DIRECTORY,
        LISTED_PLUS,
        "getdents64",
        "pread64",
        "pwrite64",
        "fsync",
        "fdatasync",
        "fstat",
        "newfstatat",
        "statx",
        "fchmodat",
        "faccessat",
        "readlinkat",
        "fstatfs",
        "getppid",
        "mkdirat",
        "symlinkat",
        "linkat",
        "renameat",
        "unlinkat",
    ];
    names.into_iter().map(|name| (name, (0, 0))).collect()
}

/// Checks offsets and lengths: a stream goes through each file once, a mix uses whole blocks.
fn check_offsets(workload: &str, calls: &[Call]) -> Result<()> {
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
