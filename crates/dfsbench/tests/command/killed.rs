//! Leftovers of kill -9 at a target, and who removes them.
//!
//! Each kill comes at a random moment of a run, drawn from a seed that is printed. `DFSBENCH_KILLS`
//! requests more kills than the default few.
#![allow(clippy::print_stderr, reason = "a failed test is repeated by its seed")]

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use engine::target::mount_options;
use model::random::SplitMix64;
use model::{NfsTarget, Target};
use nfs_client::Mount;
use plan::{Surroundings, parse_target};

use crate::cli::{Cli, End, ServedProcess};
use crate::traces::write_pcap;

const RUN: [&str; 10] = [
    "--workload",
    "metadata",
    "--small-files",
    "300",
    "--trials",
    "50",
    "--results",
    "r.db",
    "--quiet",
    "--timeout",
];

/// The file to which a run reports its progress.
const PROGRESS: &str = "progress.jsonl";

/// Kills happen between the start of the program and well into its trials.
const KILL_WITHIN_MS: u64 = 900;

fn kills() -> u64 {
    std::env::var("DFSBENCH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Starts a run on a target, which may be followed by flags.
fn start_run(cli: &Cli, target: &str) -> Child {
    let mut args = vec!["run"];
    args.extend(target.split(' '));
    args.extend(RUN);
    args.extend(["5s", "--json-progress", PROGRESS]);
    cli.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Starts a run on a target and kills it after a while.
fn kill_a_run(cli: &Cli, target: &str, after: Duration) {
    let mut child = start_run(cli, target);
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Starts a run on a directory and kills it during a trial, as soon as the directory contains
/// files.
fn kill_a_run_at_work(cli: &Cli, target: &Path) {
    let mut child = start_run(cli, target.to_str().unwrap());
    let has_begun = || {
        let progress = std::fs::read_to_string(cli.folder().join(PROGRESS)).unwrap_or_default();
        progress.contains("trial_begun")
    };
    let is_at_work = || has_begun() && std::fs::read_dir(target).unwrap().next().is_some();
    while child.try_wait().unwrap().is_none() && !is_at_work() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Kills runs at random moments, and calls `check` with the number of the kill after each.
fn kill_runs(cli: &Cli, target: &str, mut check: impl FnMut(u64)) {
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for number in 0..kills() {
        let after_ms = random.next() % KILL_WITHIN_MS;
        eprintln!("kill {number} after {after_ms} ms");
        kill_a_run(cli, target, Duration::from_millis(after_ms));
        check(number);
    }
}

/// Returns how many records of runs are next to the results.
fn records(cli: &Cli) -> usize {
    let entries = std::fs::read_dir(cli.folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("-work-")).count()
}

#[test]
fn removes_directories_of_killed_runs() {
    let cli = Cli::new();
    let target = cli.target();
    let mut removed = 0;
    kill_runs(&cli, target.to_str().unwrap(), |_| {
        let end = cli.run(&["clean", "--results", "r.db"]);
        assert_eq!(end.code, 0, "{end:?}");
        removed += end.stdout.matches("removed: ").count();
        cli.assert_target_is_empty();
        assert_eq!(records(&cli), 0);
    });
    eprintln!("{removed} working directories removed");
    // Files of another owner are kept.
    let theirs = target.join(".dfsbench-notes");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("dear"), "dear").unwrap();
    assert_eq!(cli.run(&["clean", "--results", "r.db"]).code, 0);
    assert!(theirs.join("dear").exists());
    // All kills may have come before there were any results. If one came between the creation of
    // the file and the commit of its tables, SQLite leaves an empty file.
    if cli.folder().join("r.db").exists() {
        let list = cli.run(&["list", "--results", "r.db"]);
        let is_empty = list.code == 2 && list.stderr.contains("`r.db` is empty");
        assert!(list.code == 0 || is_empty, "{list:?}");
    }
}

/// Kills runs on the target until one leaves files there: a trial may end, and remove its
/// directory, between the check and the kill.
fn leave_files(cli: &Cli) {
    let target = cli.target();
    for _ in 0..20 {
        let _ = std::fs::remove_file(cli.folder().join(PROGRESS));
        kill_a_run_at_work(cli, &target);
        if std::fs::read_dir(&target).unwrap().next().is_some() {
            return;
        }
        cli.run(&["clean", "--results", "r.db"]);
    }
    panic!("no run left anything");
}

#[test]
fn clean_finds_leftovers_without_results_file() {
    let cli = Cli::new();
    leave_files(&cli);
    // From a directory that contains neither the results nor a record.
    let elsewhere = tempfile::tempdir().unwrap();
    let clean =
        || End::from_output(cli.command(&["clean"]).current_dir(&elsewhere).output().unwrap());
    let end = clean();
    assert_eq!((end.code, records(&cli)), (0, 0), "{end:?}");
    assert!(end.stdout.contains("removed: "), "{end:?}");
    cli.assert_target_is_empty();
    assert_eq!(std::fs::read_dir(cli.folder().join("state")).unwrap().count(), 0);
    assert!(!clean().stdout.contains("removed: "));
}

#[test]
fn reports_leftovers_and_resumes() {
    let cli = Cli::new();
    let target = cli.target();
    let is_left = || std::fs::read_dir(&target).unwrap().next().is_some();
    leave_files(&cli);
    let small = ["--workload", "metadata", "--small-files", "10", "--trials", "1"];
    let mut args = vec!["run", target.to_str().unwrap(), "--results", "r.db"];
    args.extend(small);
    let next = cli.run(&args);
    assert!(next.stderr.contains("was killed"), "{next:?}");
    assert!(next.stderr.contains("dfsbench clean --results r.db"), "{next:?}");
    assert!(is_left(), "a run must not remove files of another one");
    let list = cli.run(&["list", "--results", "r.db", "--format", "csv"]);
    let interrupted = list.stdout.lines().skip(1).filter(|line| line.contains("interrupted"));
    let mut interrupted = interrupted;
    let first = interrupted.find_map(|line| line.split(',').next());
    let Some(first) = first else { panic!("no campaign was interrupted: {list:?}") };
    // Finishing its trials would take too long for this test.
    let mut resume = cli
        .command(&["resume", first, "--results", "r.db"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    let mut lines = std::io::BufReader::new(resume.stderr.take().unwrap());
    while !output.lines().any(|line| line.starts_with("removed ")) {
        let read = std::io::BufRead::read_line(&mut lines, &mut output).unwrap();
        assert!(read > 0, "{output}");
    }
    resume.kill().unwrap();
    resume.wait().unwrap();
    assert_eq!(cli.run(&["clean", "--results", "r.db"]).code, 0);
    cli.assert_target_is_empty();
}

/// Converts the URL of an export to the target of a run.
pub fn export_target(url: &str) -> NfsTarget {
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
    let what = parse_target(url).unwrap();
    let plan = plan::Plan::resolve(&plan::RawPlan::for_target(what), &around).unwrap();
    let Target::Nfs(target) = &plan.runs[0].target else { panic!("{url} is no NFS target") };
    target.clone()
}

/// Lists the contents of an export.
fn list_export(url: &str) -> Vec<String> {
    let mut mount = Mount::connect(&mount_options(&export_target(url))).unwrap();
    let root = mount.root();
    let names = mount.readdir(root).unwrap();
    let names = names.into_iter().map(|entry| String::from_utf8(entry.name).unwrap());
    names.filter(|name| name != "." && name != "..").collect()
}

#[test]
fn removes_nfs_files_of_killed_runs() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    for version in ["3", "4.1"] {
        let target = format!("{} --nfsvers {version}", served.url);
        kill_runs(&cli, &target, |_| {
            let end = cli.run(&["clean", "--results", "r.db"]);
            assert_eq!((end.code, records(&cli)), (0, 0), "{end:?}");
            assert_eq!(list_export(&served.url), [""; 0], "{end:?}");
        });
    }
    // A server that is gone can't be cleaned: its record is kept, and that is reported.
    kill_a_run(&cli, &served.url, Duration::from_millis(800));
    let before = records(&cli);
    drop(served);
    let end = cli.run(&["clean", "--results", "r.db"]);
    assert_eq!((end.code, records(&cli)), (if before > 0 { 3 } else { 0 }, before), "{end:?}");
}

#[test]
fn removes_tree_of_killed_replay() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    // The tree exists, and its maker waits for the answer.
    let slow = ["MKDIR", "CREATE"].map(|call| format!("service_time 1500ms on {call}"));
    let served = ServedProcess::start(&cli, &["--fault", &slow[0], "--fault", &slow[1]]);
    let records = || match std::fs::read_dir(cli.folder().join("state/dfsbench")) {
        Ok(entries) => entries.count(),
        Err(_) => 0,
    };
    for version in ["3", "4.1"] {
        let words = ["replay", "nfs.dfst", &served.url, "--nfsvers", version, "--quiet"];
        let mut replay = cli.command(&words).stdout(Stdio::null()).spawn().unwrap();
        while list_export(&served.url).is_empty() {
            assert!(
                replay.try_wait().unwrap().is_none(),
                "the replay ended before its tree appeared"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its own record is locked: a clean at the same time does not touch the tree.
        let beside = cli.run(&["clean", "--results", "r.db"]);
        assert!(!beside.stdout.contains("removed: "), "{beside:?}");
        replay.kill().unwrap();
        replay.wait().unwrap();
        let left = list_export(&served.url);
        assert!(left[0].starts_with("dfsbench-replay-") && left.len() == 1, "{left:?}");
        assert_eq!(records(), 1);
        let end = cli.run(&["clean", "--results", "r.db"]);
        assert_eq!((end.code, records()), (0, 0), "{end:?}");
        assert!(end.stdout.contains(&format!("/{}", left[0])), "{end:?}");
        assert_eq!(list_export(&served.url), [""; 0], "{end:?}");
    }
    // A replay that is not killed removes its own record.
    let end = cli.run(&["replay", "nfs.dfst", &served.url, "--quiet"]);
    assert_eq!((end.code, records()), (0, 0), "{end:?}");
}
