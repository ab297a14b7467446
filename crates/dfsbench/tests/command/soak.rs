//! `dfsbench soak`: a server that survives, one that loses data, and one that never comes back.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::rig::{End, Rig};

/// A soak of seconds at a rate that any machine keeps up with.
const SHORT: [&str; 9] =
    ["soak", "--rate", "200", "--files", "8", "--file-size", "256KiB", "--quiet", "--interval"];

fn soaked(rig: &Rig, flags: &[&str]) -> End {
    rig.run(&[&SHORT[..], &["100ms"], flags].concat())
}

/// The answer, as programs read it.
fn answer(rig: &Rig) -> Value {
    let report = rig.run(&["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    report["found"].clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_server_that_restarts_and_stalls_and_keeps_its_word_survives() {
    let rig = Rig::new();
    let disturb =
        ["--disturb", "server-restart at 1500ms", "--disturb", "server-stall at 5s for 1s"];
    let end = soaked(&rig, &[&["--duration", "8s", "--segment", "4s"], &disturb[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.contains("It survives: "), "{}", end.stdout);
    assert!(end.stdout.contains("server-stall at 5.00 s: noticed within "), "{}", end.stdout);
    let found = answer(&rig);
    let figures = &found["figures"];
    assert_eq!((&figures["verdict"], number(&figures["kept"]["lost"])), (&"survives".into(), 0));
    // Both segments, each with all of its 8 x 64 blocks.
    assert_eq!(
        (number(&figures["segments_read_back"]), number(&figures["kept"]["blocks"])),
        (2, 1024)
    );
    assert!(number(&figures["recovery"]["reconnects"]) >= 1, "{figures}");
    let [restart, stall] = figures["disturbances"].as_array().unwrap().as_slice() else {
        panic!("{figures}");
    };
    assert_eq!(
        (&restart["blow"], &stall["blow"]),
        (&"server-restart".into(), &"server-stall".into())
    );
    // What was not committed when the server restarted was lost there, and written again.
    assert!(number(&restart["uncommitted_blocks"]) > 0, "{restart}");
    assert!(number(&figures["recovery"]["resent_bytes"]) > 0, "{figures}");
    assert!(number(&stall["stall_ns"]) >= 500_000_000, "{stall}");
    assert!(number(&stall["recover_ns"]) >= 700_000_000, "{stall}");
    assert!(number(&stall["longest_ns"]) >= 700_000_000, "{stall}");
    assert_eq!((number(&stall["errors"]), number(&figures["failed_ops"])), (0, 0));
}

#[test]
fn a_session_that_the_server_forgot_is_made_anew_and_no_op_fails() {
    let rig = Rig::new();
    let disturb = ["--disturb", "server-restart at 1500ms", "--nfsvers", "4.1"];
    let end = soaked(&rig, &[&["--duration", "4s", "--segment", "4s"], &disturb[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let figures = &answer(&rig)["figures"];
    assert_eq!((number(&figures["kept"]["lost"]), number(&figures["lost_state"])), (0, 0));
}

/// A server that takes back what it said to be safe, by COMMIT or at once.
fn liar(flags: &[&str]) {
    let rig = Rig::new();
    let fault = ["--fault", "lose-committed", "--disturb", "server-restart at 2s"];
    let end = soaked(&rig, &[&["--duration", "4s", "--segment", "4s"], &fault[..], flags].concat());
    assert_eq!((end.code, end.stderr.as_str()), (4, ""), "{end:?}");
    assert!(end.stdout.contains("It LOSES DATA: "), "{}", end.stdout);
    assert!(end.stdout.contains("data-mismatch"), "{}", end.stdout);
    let figures = &answer(&rig)["figures"];
    assert_eq!(figures["verdict"], "loses-data");
    let findings = figures["kept"]["findings"].as_array().unwrap();
    let lost = findings.iter().find(|finding| finding["fate"] == "lost").unwrap();
    assert!(lost["file"].as_str().unwrap().starts_with("f0"), "{lost}");
    assert!(number(&lost["offset_bytes"]).is_multiple_of(4096), "{lost}");
    assert!(lost["found"].is_null() || number(&lost["found"]) < number(&lost["safe"]), "{lost}");
}

#[test]
fn a_server_that_loses_what_was_committed_is_caught() {
    liar(&[]);
}

#[test]
fn a_server_that_loses_what_was_written_file_sync_is_caught() {
    liar(&["--stable", "file_sync"]);
}

#[test]
fn a_server_that_never_comes_back_ends_the_campaign_and_is_named() {
    let rig = Rig::new();
    let gone = ["--timeout", "1s", "--disturb", "server-stall at 1s for 8s"];
    let end = soaked(&rig, &[&["--duration", "10s", "--segment", "10s"], &gone[..]].concat());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("It does NOT RECOVER: "), "{}", end.stdout);
    assert_eq!(answer(&rig)["figures"]["verdict"], "never-recovers");
}

#[test]
fn a_soak_goes_on_where_it_was_stopped() {
    let rig = Rig::new();
    let flags = ["--duration", "6s", "--segment", "1s", "--disturb", "none"];
    let mut command = rig.command(&[&SHORT[..], &["100ms"], &flags[..]].concat());
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    // The first segments are stored by then; a slow machine stops before, and makes all of them.
    std::thread::park_timeout(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let stopped = End::of(child.wait_with_output().unwrap());
    if stopped.code == 4 && Path::new(&rig.folder().join("dfsbench.db")).exists() {
        let resumed = rig.run(&["resume", "--quiet"]);
        assert_eq!((resumed.code, resumed.stderr.as_str()), (0, ""), "{resumed:?}");
        assert_eq!(number(&answer(&rig)["figures"]["segments_made"]), 6);
    }
}

#[test]
fn what_a_soak_can_t_do_is_refused_before_it_starts() {
    let rig = Rig::new();
    let refused = |flags: &[&str], words: &[&str]| {
        rig.refused(&[&["soak"], flags].concat(), 2, words);
    };
    let of = |disturbance: &str| ["--disturb".to_owned(), disturbance.to_owned()];
    for (disturbance, words) in [
        ("earthquake at 1s", ["unknown disturbance `earthquake`", "server-restart"]),
        ("server-stall at 1s", ["how long", "for TIME"]),
        ("server-stall for 1s", ["its times can't be read", "such as"]),
        ("server-restart at 31s", ["server-restart at 31.0 s", "30.0 s only"]),
        ("server-stall at 14s for 2s", ["not over before its segment", "--segment"]),
        ("nfsd-stop on server at 1s for 1s", ["nfsd-stop on server", "[[host]]"]),
    ] {
        let [flag, text] = of(disturbance);
        refused(&[&flag, &text], &words);
    }
    let target = rig.target().display().to_string();
    refused(&[&target, "--disturb", "server-restart at 1s"], &["right", "in-memory"]);
    refused(&["--trials", "3"], &["--trials has no meaning for a soak", "--segment"]);
    refused(&["--io-size", "4KiB,8KiB"], &["a soak is one run, and this plan makes 2"]);
    refused(&["--workers", "4", "--files", "3"], &["3 files for 4 workers", "--files 4"]);
    refused(&["--segment", "40s"], &["--segment", "30.0 s"]);
    refused(&["null"], &["`null` keeps nothing"]);
    refused(&["--fault", "lose-everything"], &["unknown fault"]);
}

#[test]
fn a_soak_that_outlasts_its_job_is_refused() {
    let rig = Rig::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut command = rig.command(&["soak", "--duration", "2h"]);
    let end =
        End::of(command.env("SLURM_JOB_END_TIME", (now + 3_600).to_string()).output().unwrap());
    assert_eq!((end.code, end.stdout.as_str()), (2, ""), "{end:?}");
    let words = ["the soak takes about 8640 s", "SLURM_JOB_END_TIME", "a longer --time"];
    for word in words {
        assert!(end.stderr.contains(word), "`{word}` not in {}", end.stderr);
    }
}

#[test]
fn a_dry_run_says_what_is_done_to_the_server() {
    let rig = Rig::new();
    let end = rig.run(&["soak", "--dry-run"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let last: Vec<&str> = end.stdout.lines().rev().take(3).collect();
    assert_eq!(last[2], "soak: 30.0 s in 2 segments of 15.0 s, all read back after each");
    assert_eq!(last[1], "  server-restart at 5.00 s");
    assert_eq!(last[0], "  server-stall at 20.0 s for 3.00 s");
}
