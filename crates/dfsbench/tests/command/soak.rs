//! `dfsbench soak`: a server that survives, one that loses data, and one that never comes back.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::cli::{Cli, End};

/// A soak of a few seconds at a rate that any machine can sustain.
const SHORT: [&str; 9] =
    ["soak", "--rate", "200", "--files", "8", "--file-size", "256KiB", "--quiet", "--interval"];

fn soaked(cli: &Cli, flags: &[&str]) -> End {
    cli.run(&[&SHORT[..], &["100ms"], flags].concat())
}

/// Returns the JSON answer.
fn answer(cli: &Cli) -> Value {
    let report = cli.run(&["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    report["found"].clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn survives_restarts_and_stalls() {
    let cli = Cli::new();
    let disturb =
        ["--disturb", "server-restart at 1500ms", "--disturb", "server-stall at 5s for 1s"];
    let end = soaked(&cli, &[&["--duration", "8s", "--segment", "4s"], &disturb[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.starts_with("soak: complete, "), "{}", end.stdout);
    assert!(end.stdout.contains("It survives: "), "{}", end.stdout);
    // The report contains its actual start, which is later than planned if others use the CPUs.
    let mut lines = end.stdout.lines().filter(|line| line.contains("  server-stall at "));
    assert!(lines.any(|line| line.contains(" s: detected within ")), "{}", end.stdout);
    let found = answer(&cli);
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
        (&restart["fault"], &stall["fault"]),
        (&"server-restart".into(), &"server-stall".into())
    );
    // Uncommitted data was lost when the server restarted, and was written again.
    assert!(number(&restart["uncommitted_blocks"]) > 0, "{restart}");
    assert!(number(&figures["recovery"]["resent_bytes"]) > 0, "{figures}");
    assert!(number(&stall["stall_ns"]) >= 500_000_000, "{stall}");
    assert!(number(&stall["recover_ns"]) >= 700_000_000, "{stall}");
    assert!(number(&stall["longest_ns"]) >= 700_000_000, "{stall}");
    assert_eq!((number(&stall["errors"]), number(&figures["failed_ops"])), (0, 0));
}

#[test]
fn faults_with_an_instant_are_events() {
    let cli = Cli::new();
    let faults = ["--fault", "restart at 1s", "--fault", "stall 500ms at 2s"];
    let end = soaked(&cli, &[&["--duration", "4s", "--segment", "4s"], &faults[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let found = answer(&cli);
    let events = found["figures"]["disturbances"].as_array().unwrap();
    let names: Vec<&Value> = events.iter().map(|event| &event["fault"]).collect();
    assert_eq!(names, ["server-restart", "server-stall"], "{found}");
    assert!(number(&events[1]["stall_ns"]) >= 200_000_000, "{found}");
    assert!(number(&found["figures"]["recovery"]["reconnects"]) >= 1, "{found}");
}

#[test]
fn both_flags_take_both_vocabularies() {
    let cli = Cli::new();
    let planned = |flags: &[&str]| {
        let end = cli.run(&[&["soak", "--duration", "30s", "--dry-run"], flags].concat());
        assert_eq!(end.code, 0, "{end:?}");
        let lines = end.stdout.lines().skip_while(|line| !line.starts_with("soak: "));
        lines.skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let both = ["  server-restart at 3.00 s", "  server-stall at 9.00 s for 2.00 s"];
    for flags in [
        ["--fault", "restart at 3s", "--fault", "stall 2s at 9s"],
        ["--disturb", "restart at 3s", "--disturb", "stall 2s at 9s"],
        ["--disturb", "server-restart at 3s", "--fault", "server-stall at 9s for 2s"],
    ] {
        assert_eq!(planned(&flags), both, "{flags:?}");
    }
    // Faults of a plan's server count as well; a flag adds to them.
    let head = "name = \"p\"\n[[target]]\nname = \"nfs\"\nembedded = true\n\
                [[workload]]\nkind = \"mixed\"\n";
    let plan = cli.folder().join("faults.toml");
    std::fs::write(&plan, format!("{head}[server.faults]\nrestart = \"at 3s\"\n")).unwrap();
    let plan = plan.display().to_string();
    assert_eq!(planned(&[&plan, "--disturb", "none"]), both[..1]);
    assert_eq!(planned(&[&plan, "--fault", "stall 2s at 9s"]), both);
}

#[test]
fn recreates_forgotten_session() {
    let cli = Cli::new();
    let disturb = ["--disturb", "server-restart at 1500ms", "--nfsvers", "4.1"];
    let end = soaked(&cli, &[&["--duration", "4s", "--segment", "4s"], &disturb[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let figures = &answer(&cli)["figures"];
    assert_eq!((number(&figures["kept"]["lost"]), number(&figures["lost_state"])), (0, 0));
}

/// A server that loses data that it acknowledged as safe, by COMMIT or immediately.
fn liar(flags: &[&str]) {
    let cli = Cli::new();
    let fault = ["--fault", "lose-committed", "--disturb", "server-restart at 2s"];
    let end = soaked(&cli, &[&["--duration", "4s", "--segment", "4s"], &fault[..], flags].concat());
    assert_eq!((end.code, end.stderr.as_str()), (4, ""), "{end:?}");
    assert!(end.stdout.contains("It LOSES DATA: "), "{}", end.stdout);
    assert!(end.stdout.contains("data-mismatch"), "{}", end.stdout);
    let figures = &answer(&cli)["figures"];
    assert_eq!(figures["verdict"], "loses-data");
    let findings = figures["kept"]["findings"].as_array().unwrap();
    let lost = findings.iter().find(|finding| finding["state"] == "lost").unwrap();
    assert!(lost["file"].as_str().unwrap().starts_with("f0"), "{lost}");
    assert!(number(&lost["offset_bytes"]).is_multiple_of(4096), "{lost}");
    assert!(lost["found"].is_null() || number(&lost["found"]) < number(&lost["safe"]), "{lost}");
}

#[test]
fn detects_server_losing_commits() {
    liar(&[]);
}

#[test]
fn detects_server_losing_file_sync() {
    liar(&["--stable", "file_sync"]);
}

#[test]
fn names_server_that_stays_away() {
    let cli = Cli::new();
    let gone = ["--timeout", "1s", "--disturb", "server-stall at 1s for 8s"];
    let end = soaked(&cli, &[&["--duration", "10s", "--segment", "10s"], &gone[..]].concat());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("It does NOT RECOVER: "), "{}", end.stdout);
    assert_eq!(answer(&cli)["figures"]["verdict"], "never-recovers");
}

#[test]
fn keeps_memory_steady_across_segments() {
    let cli = Cli::new();
    let work = ["--rate", "0", "--files", "8", "--file-size", "256KiB", "--interval", "100ms"];
    let long = ["--duration", "16s", "--segment", "1s", "--disturb", "none", "--quiet"];
    let end = cli.run(&[&["soak"], &work[..], &long[..]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let memory = &answer(&cli)["figures"]["memory"];
    let early = number(&memory["early_bytes"]);
    let late = number(&memory["late_bytes"]);
    assert!(early > 1 << 20 && late < early + (8 << 20), "{memory}");
}

#[test]
fn resumes_stopped_soak() {
    let cli = Cli::new();
    let flags = ["--duration", "6s", "--segment", "1s", "--disturb", "none"];
    let mut command = cli.command(&[&SHORT[..], &["100ms"], &flags[..]].concat());
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    // Usually the first segments are stored by then. On a slow machine, resume has to run all of
    // them.
    std::thread::park_timeout(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let stopped = End::from_output(child.wait_with_output().unwrap());
    if stopped.code == 4 && Path::new(&cli.folder().join("dfsbench.db")).exists() {
        let resumed = cli.run(&["resume", "--quiet"]);
        assert_eq!((resumed.code, resumed.stderr.as_str()), (0, ""), "{resumed:?}");
        assert_eq!(number(&answer(&cli)["figures"]["segments_made"]), 6);
    }
}

#[test]
fn rejects_impossible_soak_early() {
    let cli = Cli::new();
    insta::assert_snapshot!(cli.errors_of(&[
        &["soak", "--disturb", "earthquake at 1s"],
        &["soak", "--disturb", "server-stall at 1s"],
        &["soak", "--disturb", "server-stall for 1s"],
        &["soak", "--disturb", "server-restart at 31s"],
        &["soak", "--disturb", "server-stall at 14s for 2s"],
        &["soak", "--disturb", "nfsd-stop on server at 1s for 1s"],
        &["soak", "target", "--disturb", "server-restart at 1s"],
        &["soak", "--trials", "3"],
        &["soak", "--io-size", "4KiB,8KiB"],
        &["soak", "--workers", "4", "--files", "3"],
        &["soak", "--segment", "40s"],
        &["soak", "--duration", "20s", "--segment", "15s"],
        &["soak", "--quick"],
        &["soak", "null"],
        &["soak", "--fault", "lose-everything"],
        &["soak", "--fault", "restart at 1h"],
        &["soak", "target", "--fault", "restart at 1s"],
        &["soak", "--disturb", "drop 1%"],
    ]));
}

/// Two agents on this host that share a directory; `lines` are further lines of the plan.
fn shared(cli: &Cli, lines: &str) -> String {
    let path = cli.folder().join("shared.toml");
    let text = format!(
        "name = \"t\"\n[[host]]\nname = \"one\"\n[[host]]\nname = \"two\"\nslots = 1\n\
         [[target]]\nname = \"all\"\npath = \"{}\"\nhosts = [\"one\", \"two\"]\n\
         [[workload]]\nkind = \"mixed\"\nworkers = 1\n{lines}",
        cli.target().display()
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn notices_killed_client_and_verifies() {
    let cli = Cli::new();
    let kill = "[[disturb]]\nkind = \"client-kill\"\nhost = \"one\"\nat = \"1500ms\"\n";
    let plan = shared(&cli, kill);
    let end = soaked(&cli, &["--duration", "5s", "--segment", "5s", &plan]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let figures = &answer(&cli)["figures"];
    assert_eq!((&figures["verdict"], number(&figures["kept"]["lost"])), (&"survives".into(), 0));
    // All blocks of both agents are journaled and read back: 8 files of 64 blocks each.
    assert_eq!(number(&figures["kept"]["blocks"]), 512, "{figures}");
    let killed = &figures["disturbances"][0];
    assert_eq!((&killed["fault"], &killed["host"]), (&"client-kill".into(), &"one".into()));
    assert!(number(&killed["noticed_ns"]) < 5_000_000_000, "{killed}");
    assert!(number(&killed["read_back_ops"]) >= 256, "{killed}");
    assert!(killed["failed"].is_null(), "{killed}");
    let flat = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("another agent took over"), "{flat}");
    let left: Vec<_> = std::fs::read_dir(cli.target()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Damages the data of a soak that runs in a directory once, as soon as it has any.
fn damaged(cli: &Cli, flags: &[&str], file: &str, damage: fn(&std::fs::File)) -> End {
    let mut command = cli.command(&[&SHORT[..], &["100ms"], flags].concat());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = std::time::Instant::now();
    let found = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "the soak has no `{file}`");
        std::thread::park_timeout(Duration::from_millis(50));
        let works = std::fs::read_dir(cli.target()).unwrap().flatten();
        let mut files = works.map(|work| work.path().join(file));
        let whole = |path: &std::path::PathBuf| {
            std::fs::metadata(path).is_ok_and(|meta| meta.len() == 256 << 10)
        };
        // The files are created in order, so check the last one.
        let is_made = |path: &std::path::PathBuf| whole(&path.with_file_name("f00000007"));
        if let Some(path) = files.find(|path| whole(path) && is_made(path)) {
            break path;
        }
    };
    std::thread::park_timeout(Duration::from_millis(1_500));
    damage(&std::fs::File::options().write(true).open(found).unwrap());
    End::from_output(child.wait_with_output().unwrap())
}

#[test]
fn detects_directory_losing_synced_data() {
    use std::os::unix::fs::FileExt as _;
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let flags = ["--duration", "4s", "--segment", "4s", "--disturb", "none", &target];
    let end = damaged(&cli, &flags, "f00000003", |file| {
        // Every block, so that none is overwritten by chance before it is read.
        (0..64).for_each(|block| file.write_all_at(b"damage", block * 4096).unwrap());
    });
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("It LOSES DATA: "), "{}", end.stdout);
    let figures = &answer(&cli)["figures"];
    let findings = figures["kept"]["findings"].as_array().unwrap();
    let of_file = findings.iter().all(|finding| finding["file"] == "f00000003");
    assert!(of_file && number(&figures["kept"]["lost"]) > 0, "{figures}");
}

#[test]
fn merges_timeline_of_two_hosts() {
    let cli = Cli::new();
    let plan = shared(&cli, "");
    let flags = ["--duration", "4s", "--segment", "4s", &plan];
    // Eight files are dealt to two workers alternately, so the fourth belongs to the second.
    let end = damaged(&cli, &flags, "f00000003", |file| file.set_len(0).unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    let figures = &answer(&cli)["figures"];
    assert_eq!(figures["verdict"], "loses-data");
    assert_eq!(number(&figures["kept"]["blocks"]), 512, "{figures}");
    let findings = figures["kept"]["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["file"] == "f00000003"), "{figures}");
}

#[test]
fn never_sets_own_clock() {
    let cli = Cli::new();
    let step = "[[disturb]]\nkind = \"clock-step\"\nhost = \"two\"\nat = \"1s\"\nfor = \"1s\"\n\
                by = \"-5s\"\n";
    let plan = shared(&cli, step);
    cli.refused(&["soak", &plan], 2, &["`clock-step on two", "host two shares its clock"]);
    let alone = ["--disturb", "client-kill on one at 1s"];
    let directory = cli.target().display().to_string();
    cli.refused(
        &["soak", &directory, alone[0], alone[1]],
        2,
        &["unknown host `one`", "the plan has no hosts except this one"],
    );
}

/// Writes a plan for the in-memory server with disturbances, which begin on line 7.
fn disturbed(cli: &Cli, disturbances: &str) -> String {
    let head = "name = \"t\"\n[[target]]\nname = \"n\"\nembedded = true\n\
                [[workload]]\nkind = \"mixed\"\n";
    let path = cli.folder().join("disturbed.toml");
    std::fs::write(&path, format!("{head}{disturbances}")).unwrap();
    path.display().to_string()
}

#[test]
fn prefers_flags_over_plan_faults() {
    let cli = Cli::new();
    let plan = disturbed(&cli, "[[disturb]]\nkind = \"server-stall\"\nat = \"4s\"\nfor = \"2s\"\n");
    let last = |flags: &[&str]| {
        let end = cli.run(&[&["soak", &plan, "--dry-run"], flags].concat());
        assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
        end.stdout.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(last(&[]), "  server-stall at 4.00 s for 2.00 s");
    assert_eq!(last(&["--disturb", "server-restart at 7s"]), "  server-restart at 7.00 s");
    assert!(last(&["--disturb", "none"]).starts_with("soak: 30.0 s in 2 segments"));
    // Segments are not cut short: 20 s are not split into two of 15 s.
    let lasts_20_s = last(&["--disturb", "none", "--duration", "20s"]);
    assert!(lasts_20_s.starts_with("soak: 20.0 s in 1 segment "), "{lasts_20_s}");
    cli.refused(&["run", &plan], 2, &["disturbed.toml:8:8: ", "only for a soak", "[[disturb]]"]);
}

#[test]
fn rejects_impossible_disturbance_with_line() {
    let cli = Cli::new();
    let table = |lines: &str| format!("[[disturb]]\n{lines}\n");
    let errors = [
        "kind = \"server-restart\"\nat = \"31s\"",
        "kind = \"server-stall\"\nat = \"14s\"\nfor = \"2s\"",
        "kind = \"server-stall\"\nat = \"1s\"\nfor = \"3s\"\n[[disturb]]\n\
         kind = \"server-restart\"\nat = \"2s\"",
        "kind = \"nfsd-stop\"\nat = \"1s\"\nfor = \"1s\"",
        "kind = \"client-kill\"\nat = \"1s\"",
        "kind = \"client-kill\"\nhost = \"x\"\nat = \"1s\"",
    ]
    .map(|lines| cli.refused(&["soak", &disturbed(&cli, &table(lines))], 2, &[]));
    insta::assert_snapshot!(cli.hide_folder(&errors.concat()));
}

#[test]
fn rejects_soak_beyond_job_end() {
    let cli = Cli::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut command = cli.command(&["soak", "--duration", "2h"]);
    let end = End::from_output(
        command.env("SLURM_JOB_END_TIME", (now + 3_600).to_string()).output().unwrap(),
    );
    assert_eq!((end.code, end.stdout.as_str()), (2, ""), "{end:?}");
    let words = ["the soak takes about 8640 s", "SLURM_JOB_END_TIME", "a longer --time"];
    for word in words {
        assert!(end.stderr.contains(word), "`{word}` not in {}", end.stderr);
    }
}

#[test]
fn requires_duration_without_job_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let cli = Cli::new();
    let squeue = cli.folder().join("squeue");
    std::fs::write(
        &squeue,
        "#!/bin/sh\n[ \"$*\" = \"--noheader --format %L --jobs 77\" ] && echo 1:00:00\n",
    )
    .unwrap();
    std::fs::set_permissions(&squeue, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = cli.command(&["soak", "--duration", "2h"]);
    command.env_remove("SLURM_JOB_END_TIME").env("SLURM_JOB_ID", "77");
    let end = End::from_output(command.env("PATH", cli.folder()).output().unwrap());
    assert_eq!((end.code, end.stdout.as_str()), (2, ""), "{end:?}");
    assert!(end.stderr.contains(" 3600 s (squeue)"), "{}", end.stderr);
}

#[test]
fn describes_server_faults_in_dry_run() {
    let cli = Cli::new();
    let end = cli.run(&["soak", "--dry-run"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let soak = end.stdout.find("soak: ").unwrap_or_else(|| panic!("{end:?}"));
    insta::assert_snapshot!(&end.stdout[soak..], @"
    soak: 30.0 s in 2 segments of 15.0 s, with all data read back after each
      server-restart at 5.00 s
      server-stall at 20.0 s for 3.00 s
    ");
}
