//! Ctrl-C and SIGTERM in every phase: saved, cleaned, exit code 4.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use nfs_client::{Mount, MountOptions};

use crate::rig::{End, Rig, Served};

/// Starts a campaign, signals it a while after its working directory appeared, and waits.
fn interrupted(args: &[&str], after: Duration, signal: Signal) -> (Rig, End) {
    let rig = Rig::new();
    let args: Vec<&str> = ["run", "target", "--quiet"].iter().chain(args).copied().collect();
    let mut command = rig.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // The first directory is that of the preflight, which is gone in a moment.
    let in_trial = || {
        let mut names = std::fs::read_dir(rig.target()).unwrap().flatten();
        names.any(|entry| !entry.file_name().to_string_lossy().contains("check"))
    };
    while !in_trial() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no trial began");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    std::thread::park_timeout(after);
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
    let end = End::of(child.wait_with_output().unwrap());
    (rig, end)
}

fn saved_and_cleaned(args: &[&str], after_ms: u64) {
    for signal in [Signal::INT, Signal::TERM] {
        let (rig, end) = interrupted(args, Duration::from_millis(after_ms), signal);
        assert_eq!(end.code, 4, "{args:?}: {end:?}");
        assert!(end.stdout.contains("interrupted"), "{args:?}: {}", end.stdout);
        rig.assert_target_is_empty();
        let report = rig.run(&["report"]);
        assert_eq!(report.code, 0);
        assert!(report.stdout.contains("interrupted"), "{}", report.stdout);
    }
}

#[test]
fn while_files_are_prepared() {
    saved_and_cleaned(&["--workload", "mixed", "--file-size", "2GiB"], 50);
}

#[test]
fn while_a_mix_runs() {
    let args = ["--workload", "mixed", "--file-size", "8MiB", "--duration", "60s"];
    saved_and_cleaned(&args, 500);
    let args = [&args[..], &["--backend", "uring"]].concat();
    saved_and_cleaned(&args, 500);
}

#[test]
fn while_files_are_written() {
    saved_and_cleaned(&["--workload", "stream", "--file-size", "3GiB"], 200);
}

#[test]
fn while_names_are_made() {
    saved_and_cleaned(&["--workload", "metadata", "--small-files", "1000000"], 300);
}

#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    let plan = ["--workload", "mixed", "--file-size", "1MiB", "--duration", "300ms"];
    let factors = ["--read-percent", "0,100", "--trials", "3", "--seed", "5"];
    let (rig, end) =
        interrupted(&[plan, factors].concat(), Duration::from_millis(900), Signal::KILL);
    assert_eq!(end.code, -1, "{end:?}");
    let resumed = rig.run(&["resume", "--quiet", "--format", "json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let report: serde_json::Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(report["campaign"]["state"], "complete");
    let runs = report["runs"].as_array().unwrap();
    let trials = runs.iter().map(|run| run["trials"].as_array().unwrap());
    let mut order: Vec<(u64, u64, u64)> = trials
        .enumerate()
        .flat_map(|(run, trials)| {
            trials.iter().map(move |trial| {
                let number = |key: &str| trial[key].as_u64().unwrap();
                (number("position"), number("started_unix_ms"), run as u64)
            })
        })
        .collect();
    order.sort_unstable();
    let positions: Vec<u64> = order.iter().map(|(position, ..)| *position).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4, 5]);
    assert!(order.is_sorted_by_key(|(_, started, _)| *started), "{order:?}");
    let nothing = rig.run(&["resume"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert!(nothing.stderr.contains("complete: nothing is missing"), "{nothing:?}");
}

/// Names in the root of the export.
pub fn names(served: &Served) -> Vec<String> {
    let port = Some(served.port());
    let options =
        MountOptions { port, mount_port: port, ..MountOptions::new("127.0.0.1", "/export") };
    let mut mount = Mount::connect(&options).unwrap();
    let root = mount.root();
    let entries = mount.readdir(root).unwrap().into_iter();
    let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
    names.filter(|name| name != "." && name != "..").collect()
}

#[test]
fn on_an_nfs_server_in_every_phase() {
    let random = ["--workload", "mixed", "--duration", "60s", "--file-size"];
    for (args, after_ms) in [
        ([&random[..], &["700MiB"]].concat(), 50),
        ([&random[..], &["8MiB"]].concat(), 700),
        (vec!["--workload", "stream", "--file-size", "900MiB", "--io-size", "4KiB"], 300),
        (vec!["--workload", "metadata", "--small-files", "500000"], 500),
    ] {
        let rig = Rig::new();
        let served = Served::start(&rig, &["--memory", "4GiB"]);
        let args = [&["run", &served.url, "--quiet"], &args[..]].concat();
        let mut command = rig.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while !names(&served).iter().any(|name| !name.contains("check")) {
            assert!(begun.elapsed() < Duration::from_secs(20), "no trial began");
        }
        std::thread::park_timeout(Duration::from_millis(after_ms));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let end = End::of(child.wait_with_output().unwrap());
        assert_eq!(end.code, 4, "{args:?}: {end:?}");
        assert!(end.stdout.contains("interrupted"), "{args:?}: {}", end.stdout);
        assert_eq!(names(&served), [""; 0], "{args:?} left something on the server");
    }
}
