//! Managing a results file: list, show, note, tag, rm, import.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::cli::Cli;

const RUN: [&str; 7] = ["run", "null", "--duration", "100ms", "--trials", "1", "--quiet"];

fn cli() -> Cli {
    let cli = Cli::new();
    for _ in 0..2 {
        let end = cli.run(&RUN);
        assert!(end.code == 0, "{end:?}");
    }
    cli
}

#[test]
fn finds_campaign_by_tag_and_note() {
    let cli = cli();
    assert_eq!(cli.run(&["tag", "2", "nightly", "kernel=6.12"]).code, 0);
    assert_eq!(cli.run(&["note", "2", "disk <b>7</b>\u{1b}[31m was replaced"]).code, 0);
    let all = cli.run(&["list"]);
    assert!(all.code == 0 && all.stdout.contains("tags: kernel=6.12 nightly"), "{all:?}");
    assert!(all.stdout.lines().all(|line| line.chars().count() <= 100), "{all:?}");
    let one = cli.run(&["list", "--tag", "nightly", "--format", "csv"]);
    let lines: Vec<&str> = one.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("2,run,"), "{one:?}");
    let none = cli.run(&["list", "--state", "interrupted"]);
    assert_eq!(none.stdout, "no campaigns\n");
    let json = cli.run(&["list", "--name", "ru", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["campaigns"].as_array().unwrap().len(), 2);
    let shown = cli.run(&["show"]);
    assert!(shown.stdout.starts_with("campaign  2 run\n"), "{shown:?}");
    // A note does not move the cursor.
    assert!(shown.stdout.contains("disk <b>7</b>\u{fffd}[31m was replaced"), "{shown:?}");
    let plan = cli.run(&["show", "2", "--plan"]).stdout;
    std::fs::write(cli.folder().join("again.toml"), plan).unwrap();
    assert_eq!(cli.run(&["run", "again.toml", "--dry-run"]).code, 0);
    assert_eq!(cli.run(&["tag", "2", "--remove", "nightly"]).code, 0);
    assert_eq!(cli.run(&["list", "--tag", "nightly"]).stdout, "no campaigns\n");
}

#[test]
fn confirms_removal_by_number() {
    let cli = cli();
    cli.refused(&["rm", "1"], 2, &["3 runs with 3 trials", "--really 1"]);
    cli.refused(&["rm", "1", "--really", "2"], 2, &["--really 1"]);
    cli.refused(&["rm", "7", "--really", "7"], 2, &["no campaign 7"]);
    let end = cli.run(&["rm", "2", "--really", "2"]);
    assert!(end.code == 0 && end.stderr.contains("removed campaign 2"), "{end:?}");
    cli.refused(&["report", "2"], 2, &["no campaign 2"]);
    assert_eq!(cli.run(&RUN).code, 0);
    let list = cli.run(&["list", "--format", "csv"]).stdout;
    let ids: Vec<&str> = list.lines().skip(1).map(|line| &line[..2]).collect();
    assert_eq!(ids, ["1,", "3,"]);
}

#[test]
fn another_file_is_merged_once() {
    let other = cli();
    let cli = cli();
    std::fs::copy(other.folder().join("dfsbench.db"), cli.folder().join("other.db")).unwrap();
    let end = cli.run(&["import", "other.db"]);
    assert!(end.code == 0 && end.stdout.contains("campaign 2 (run) is campaign 4"), "{end:?}");
    let report = |cli: &Cli, id| cli.run(&["report", id, "--format", "csv"]).stdout;
    let figures = |text: &str| text.lines().skip(1).map(|line| line[1..].to_owned()).collect();
    let [here, there]: [Vec<String>; 2] =
        [figures(&report(&cli, "4")), figures(&report(&other, "2"))];
    assert!(!here.is_empty());
    assert_eq!(here, there);
    let again = cli.run(&["import", "other.db"]);
    assert!(again.stdout.contains("is already here as campaign 4"), "{again:?}");
    cli.refused(&["import", "nowhere.db"], 2, &["nowhere.db"]);
    std::fs::write(cli.folder().join("text.db"), "a list of apples").unwrap();
    cli.refused(&["import", "text.db"], 2, &["text.db", "not a dfsbench results file"]);
}

#[test]
fn rejects_files_without_campaigns() {
    let cli = Cli::new();
    for args in [
        &["list"][..],
        &["show"],
        &["note", "1", "x"],
        &["tag", "1", "x"],
        &["rm", "1", "--really", "1"],
    ] {
        cli.refused(args, 2, &["there is no results file"]);
    }
    std::fs::write(cli.folder().join("dfsbench.db"), "").unwrap();
    cli.refused(&["list"], 2, &["is empty"]);
    cli.refused(&["tag", "1", "x"], 2, &["is empty"]);
    std::fs::remove_file(cli.folder().join("dfsbench.db")).unwrap();
    let db = Connection::open(cli.folder().join("dfsbench.db")).unwrap();
    db.execute_batch("CREATE TABLE apples (n)").unwrap();
    drop(db);
    cli.refused(&["list"], 2, &["another program"]);
    cli.refused(&["note", "1", "x"], 2, &["another program"]);
}

#[test]
fn exports_tables_atomically() {
    let cli = cli();
    for (form, magic) in [("parquet", &b"PAR1"[..]), ("csv", b"id,"), ("json", b"[\n{\"id\":")] {
        let end = cli.run(&["export", form, "--format", form]);
        assert!(end.code == 0 && end.stdout.contains("passes"), "{end:?}");
        let file = cli.folder().join(form).join(format!("passes.{form}"));
        assert!(std::fs::read(file).unwrap().starts_with(magic), "{form}");
    }
    cli.refused(&["export", "csv"], 2, &["`csv` already exists"]);
    cli.refused(&["export", "new", "--campaign", "9"], 2, &["no campaign 9"]);
    cli.refused(&["export", "no/such/new"], 3, &["no/such/new"]);
}

#[test]
fn writes_events_line_by_line() {
    let cli = Cli::new();
    let end = cli.run(&[&RUN[..], &["--json-progress", "p.jsonl"]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let text = std::fs::read_to_string(cli.folder().join("p.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events[..2], ["campaign_begun", "trial_begun"]);
    assert_eq!(events.iter().filter(|event| **event == "trial_ended").count(), 3);
    let ended = lines.iter().find(|line| line["event"] == "trial_ended").unwrap();
    assert_eq!((&ended["state"], &ended["trials"]), (&"done".into(), &3.into()));
    assert!(ended["passes"][0]["ops"].as_u64().unwrap() > 0, "{ended}");
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["exit_code"]), (&"campaign_ended".into(), &0.into()));
    assert_eq!((&last["campaign"], &last["state"]), (&1.into(), &"complete".into()));
    // Then stderr contains nothing else.
    let end = cli.run(&["run", "null", "--duration", "100ms", "--json-progress", "-"]);
    assert!(end.stderr.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    cli.refused(&[&RUN[..], &["--json-progress", "no/such/p"]].concat(), 3, &["no/such/p"]);
}

#[test]
fn does_not_stall_with_event_reader() {
    let cli = Cli::new();
    let fifo = cli.folder().join("p");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    cli.refused(&[&RUN[..], &["--json-progress", "p"]].concat(), 3, &["p: it is a FIFO that no"]);
    // Open both ends, so that the pipe can be filled before anyone reads.
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut stalled = options.open(&fifo).unwrap();
    while stalled.write(&[b'\n'; 4096]).is_ok() {}
    let mut command = cli.command(&[&RUN[..], &["--json-progress", "p"]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ticks = 0;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if ticks == 600 => {
                child.kill().unwrap();
                panic!("the campaign waited for its reader");
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
        ticks += 1;
    };
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(status.success() && stderr.contains("`p`: its reader stalled"), "{stderr}");
    let end = cli.run(&["list"]);
    assert!(end.stdout.contains("complete"), "{end:?}");
}

/// Runs the program with a limit on the size of files, which acts like a full disk.
fn bounded(cli: &Cli, kib: u32, args: &[&str]) -> crate::cli::End {
    let program = env!("CARGO_BIN_EXE_dfsbench");
    // In blocks of 512 bytes. The signal is ignored, so that a write fails instead.
    let line = format!("trap '' XFSZ; ulimit -f {}; exec {program} \"$@\"", 2 * kib);
    let mut command = std::process::Command::new("sh");
    command.current_dir(cli.folder()).args(["-c", &line, "sh"]).args(args);
    command.env("XDG_STATE_HOME", cli.folder().join("state"));
    crate::cli::End::from_output(command.output().unwrap())
}

#[test]
fn keeps_old_page_on_full_disk() {
    let cli = cli();
    let page = cli.folder().join("page.html");
    std::fs::write(&page, "the old page").unwrap();
    let args = ["report", "--format", "html", "--output", "page.html"];
    let end = bounded(&cli, 16, &args);
    assert_eq!((end.code, end.stderr.matches("error: ").count()), (3, 1), "{end:?}");
    assert!(end.stderr.contains("can't write page.html") && end.stderr.contains("hint"), "{end:?}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "the old page");
    let names = std::fs::read_dir(cli.folder()).unwrap().flatten();
    assert!(names.into_iter().all(|n| !n.file_name().to_string_lossy().contains(".part")));
    assert_eq!(bounded(&cli, 16_384, &args).code, 0);
}

#[test]
fn results_without_room_are_one_sentence() {
    let cli = cli();
    let before = cli.run(&["list", "--format", "csv"]).stdout;
    let end = bounded(&cli, 16, &["tag", "1", "nightly"]);
    let end_of_run = bounded(&cli, 16, &RUN);
    for end in [end, end_of_run] {
        assert_eq!((end.code, end.stderr.matches("error: ").count()), (3, 1), "{end:?}");
        assert!(end.stderr.contains("dfsbench.db") && end.stderr.contains("hint"), "{end:?}");
    }
    assert_eq!(cli.run(&["list", "--format", "csv"]).stdout, before);
    let end = bounded(&cli, 4, &["export", "out", "--format", "json"]);
    assert_eq!(end.code, 3, "{end:?}");
    assert!(!cli.folder().join("out").exists());
}

#[test]
fn keeps_trials_on_full_disk() {
    let cli = cli();
    let bytes = std::fs::metadata(cli.folder().join("dfsbench.db")).unwrap().len();
    // Enough space for the header of the campaign and a few trials, but not for a thousand.
    let kib = u32::try_from(bytes / 1024 + 128).unwrap();
    let short = ["--workload", "mixed", "--duration", "10ms", "--warmup", "0s", "--quiet"];
    let end = bounded(&cli, kib, &[&["run", "null", "--trials", "1000"], &short[..]].concat());
    assert_eq!((end.code, end.stderr.matches("error: ").count()), (3, 1), "{end:?}");
    assert!(end.stderr.contains("the trials of campaign 3 stored so far"), "{end:?}");
    let list = cli.run(&["list", "--format", "csv"]).stdout;
    let last = list.lines().last().unwrap();
    assert!(last.starts_with("3,") && last.contains(",interrupted,"), "{list}");
    let report = cli.run(&["report", "--format", "json"]).stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let trials = report["runs"][0]["trials"].as_array().unwrap().len();
    assert!((1..1000).contains(&trials), "{trials} trials");
    assert!(cli.run(&["report"]).stdout.contains("next:    dfsbench resume 3"));
}
