//! `dfsbench durability`: servers that keep their promises, servers that lie, and invalid input.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::{Cli, End};

/// Runs a measurement and returns the findings as JSON.
fn measured(cli: &Cli, code: i32, flags: &[&str]) -> Value {
    let end = cli.run(&[&["durability", "--quiet", "--format", "json"], flags].concat());
    assert_eq!((end.code, end.stderr.as_str()), (code, ""), "{flags:?}: {end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

/// Returns the rows of the first event.
fn rows(report: &Value) -> &[Value] {
    report["events"][0]["rows"].as_array().unwrap()
}

/// Returns the row of a promise and a kind of work.
fn row<'r>(report: &'r Value, promise: &str, kind: &str) -> &'r Value {
    let mut rows = rows(report).iter();
    rows.find(|row| row["promise"] == promise && row["kind"] == kind).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the acknowledged and lost ops of a row.
fn ops(row: &Value) -> (u64, u64) {
    (number(&row["acked_ops"]), number(&row["lost_ops"]))
}

fn tier(report: &Value, promise: &str) -> String {
    let mut tiers = report["tiers"].as_array().unwrap().iter();
    let tier = tiers.find(|tier| tier["promise"] == promise).unwrap();
    tier["tier"].as_str().unwrap().to_owned()
}

#[test]
fn says_that_nothing_was_at_risk() {
    let cli = Cli::new();
    for version in ["3", "4.1"] {
        let flags = ["--kill-server", "--rounds", "4", "--nfsvers", version];
        let report = measured(&cli, 0, &flags);
        assert_eq!(rows(&report).len(), 25, "{report}");
        for row in rows(&report) {
            assert_eq!(number(&row["lost_ops"]), 0, "{row}");
            assert!(number(&row["acked_ops"]) >= 8, "{row}");
        }
        for promise in ["none", "close", "sync", "dsync", "osync"] {
            assert_eq!(tier(&report, promise), "not measured");
        }
        // Repeating a crash that can't destroy anything would be pointless.
        let event = &report["events"][0];
        assert!(event["nothing_at_risk"].is_string(), "{event}");
        assert_eq!(number(&event["crashes"]), 1, "{event}");
    }
    let text = cli.run(&["durability", "--kill-server", "--rounds", "1", "--quiet"]).stdout;
    assert!(text.contains(" at risk in kill-server: "), "{text}");
    assert!(text.contains("--fault lose-unstable"), "{text}");
    assert!(!text.contains("survives") && text.contains("kept, not at risk"), "{text}");
    // If the server can lose data, the same promises get a tier.
    let risky = ["--kill-server", "--rounds", "1", "--crashes", "1", "--fault", "lose-unstable"];
    let report = measured(&cli, 0, &risky);
    assert!(report["events"][0]["nothing_at_risk"].is_null(), "{report}");
    for promise in ["sync", "dsync", "osync"] {
        assert_eq!(tier(&report, promise), "survives server crash");
    }
}

#[test]
fn stores_findings_with_page() {
    let cli = Cli::new();
    let crash = ["durability", "--kill-server", "--rounds", "1", "--crashes", "1", "--quiet"];
    let unstable = ["--fault", "lose-unstable", "--results", "kept.db"];
    let end = cli.run(&[&crash[..], &unstable].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.contains("results: kept.db\npage:    kept.html\n"), "{end:?}");
    assert!(!cli.folder().join("dfsbench.db").exists());
    let shown = cli.run(&["report", "--results", "kept.db"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.contains("Tier of "), "{shown:?}");
    let json = cli.run(&["report", "--results", "kept.db", "--format", "json"]);
    let found = serde_json::from_str::<Value>(&json.stdout).unwrap()["found"].clone();
    assert_eq!(found["asked"]["question"], "durability", "{found}");
    for promise in ["none", "close"] {
        assert_eq!(tier(&found["figures"][0], promise), "none");
    }
    assert_eq!(tier(&found["figures"][0], "osync"), "survives server crash");
    let csv = cli.run(&["report", "--results", "kept.db", "--format", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 26, "{csv}");
    let page = std::fs::read_to_string(cli.folder().join("kept.html")).unwrap();
    assert!(page.contains("What survives") && page.contains("survives server crash"), "{page}");
    assert!(page.contains("lost-0-kill-server"), "no picture");
    let printed = cli.run(&[&crash[..], &unstable, &["--format", "html"]].concat());
    assert!(printed.stdout.starts_with("<!DOCTYPE html>"), "{printed:?}");
    for refused in [&["resume"][..], &["contenders"]] {
        let end = cli.run(&[refused, &["--results", "kept.db"]].concat());
        assert_eq!(end.code, 2, "{end:?}");
    }
    // If findings can't be stored, nothing is measured.
    let end = cli.run(&[&crash[..], &["--results", "/no/such/folder/kept.db"]].concat());
    assert!([2, 3].contains(&end.code) && end.stdout.is_empty(), "{end:?}");
    std::fs::write(cli.folder().join("other.db"), "text").unwrap();
    let end = cli.run(&[&crash[..], &["--results", "other.db"]].concat());
    assert!(end.code != 0 && end.stdout.is_empty(), "{end:?}");
}

#[test]
fn keeps_promises_despite_uncommitted_loss() {
    let cli = Cli::new();
    for version in ["3", "4.1"] {
        let load = ["--crashes", "1", "--nfsvers", version];
        let flags = [&["--kill-server", "--fault", "lose-unstable"], &load[..]].concat();
        // The event happens while ops are in flight.
        let report = measured(&cli, 0, &flags);
        for kind in ["small-file", "large-file", "overwrite", "rename"] {
            for promise in ["none", "close"] {
                let row = row(&report, promise, kind);
                let (acked, lost) = ops(row);
                assert!(acked >= 16 && lost == acked, "{row}");
                assert_eq!(row["lost_bytes"], row["acked_bytes"], "{row}");
                assert!(number(&row["window_ns"]) > 0, "{row}");
                let cause = if kind == "overwrite" { "old_data" } else { "wrong_size" };
                assert_eq!(number(&row[cause]), lost, "{row}");
            }
            for promise in ["sync", "dsync", "osync"] {
                assert_eq!(ops(row(&report, promise, kind)).1, 0, "{report}");
            }
        }
        assert_eq!(ops(row(&report, "none", "create")).1, 0, "{report}");
        assert_eq!((tier(&report, "none"), tier(&report, "close")), ("none".into(), "none".into()));
        assert_eq!(tier(&report, "sync"), "survives server crash");
    }
}

#[test]
fn detects_lost_commit() {
    let cli = Cli::new();
    let host = ["--power-cut", "embedded", "--confirm-power-cut", "embedded"];
    let flags = ["--fault", "lose-committed", "--idle", "10ms"];
    let report = measured(&cli, 4, &[&host[..], &flags[..]].concat());
    // Eight rounds of four small files, four writes and two renames. Files written once are lost
    // completely. Of the others, the last batch is lost: a single write if each write is durable.
    for (promise, kind, acked, lost, cause) in [
        ("sync", "small-file", 32, 32, "wrong_size"),
        ("sync", "large-file", 32, 4, "wrong_size"),
        ("sync", "overwrite", 32, 4, "old_data"),
        ("sync", "rename", 16, 16, "wrong_size"),
        ("sync", "create", 16, 0, "missing"),
        ("osync", "small-file", 32, 32, "wrong_size"),
        ("osync", "large-file", 32, 1, "wrong_size"),
        ("osync", "overwrite", 32, 1, "old_data"),
        ("osync", "rename", 16, 16, "wrong_size"),
        ("osync", "create", 16, 0, "missing"),
    ] {
        let row = row(&report, promise, kind);
        assert_eq!((ops(row), number(&row[cause])), ((acked, lost), lost), "{row}");
    }
    assert_eq!(number(&row(&report, "sync", "large-file")["lost_bytes"]), 4 << 16);
    assert_eq!((tier(&report, "sync"), tier(&report, "osync")), ("none".into(), "none".into()));
}

#[test]
fn detects_lost_last_write_every_time() {
    let cli = Cli::new();
    let flags = ["--kill-server", "--rounds", "1", "--fault", "lose-last 1"];
    for promise in ["sync", "osync"] {
        for _ in 0..10 {
            let all = ["--promise", &format!("none,{promise}")];
            let report = measured(&cli, 4, &[&flags[..], &all[..]].concat());
            assert_eq!(tier(&report, promise), "none", "{report}");
            let lost: u64 = rows(&report).iter().map(|row| ops(row).1).sum();
            assert!(lost >= 1, "{report}");
        }
    }
}

#[test]
fn counts_last_writes_of_kept_promises() {
    let cli = Cli::new();
    let load = ["--kill-server", "--rounds", "1", "--crashes", "2", "--promise", "sync,osync"];
    let flags = [&load[..], &["--fault", "lose-unstable"]].concat();
    let report = measured(&cli, 0, &flags);
    let event = &report["events"][0];
    assert!(number(&event["crashes"]) >= 4, "{event}");
    for last in event["last_writes"].as_array().unwrap() {
        assert!(number(&last["crashes"]) >= 2, "{event}");
        assert!(number(&last["missed_permille"]) <= 250, "{event}");
    }
    assert_eq!(event["last_writes"].as_array().unwrap().len(), 2, "{event}");
    let text = cli.run(&[&["durability", "--quiet"], &flags[..]].concat()).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("in every second crash"), "{text}");
}

#[test]
fn loses_nothing_after_kill_or_cut() {
    let cli = Cli::new();
    let flags = ["--kill-client", "--cut-network", "--cut-for", "100ms", "--rounds", "3"];
    let report = measured(&cli, 0, &flags);
    let events = report["events"].as_array().unwrap();
    assert_eq!(
        (&events[0]["event"], &events[1]["event"]),
        (&"kill-client".into(), &"cut-network".into())
    );
    // Neither result applies to a server crash.
    assert_eq!(tier(&report, "sync"), "not measured");
    // A local file system keeps the data that a process wrote before it was killed.
    let target = cli.target().display().to_string();
    let report = measured(&cli, 0, &[&target, "--kill-client", "--rounds", "1"]);
    for row in rows(&report) {
        assert_eq!(number(&row["lost_ops"]), 0, "{row}");
    }
    cli.assert_target_is_empty();
}

/// Returns the flags for an event that damages the files in a directory with shell commands.
fn damaged(cli: &Cli, commands: &str) -> Vec<String> {
    let target = cli.target().display().to_string();
    let stop = format!("cd '{target}'/.dfsbench-* && {commands}");
    let flags = ["--kill-server", "--stop-command", &stop, "--start-command", "true"];
    let load = ["--idle", "10ms", "--rounds", "2", "--crashes", "1", "--promise", "sync,osync"];
    [&[target.as_str()], &flags[..], &load].concat().into_iter().map(str::to_owned).collect()
}

#[test]
fn shows_how_ops_were_lost() {
    let cli = Cli::new();
    let flags = damaged(
        &cli,
        "rm sync-create-000001 sync-rename-000000 && : >sync-small-file-000003 && \
         dd if=/dev/zero of=sync-large-file-000000 bs=65536 count=1 conv=notrunc && \
         printf damage | dd of=sync-large-file-000000 bs=1 seek=70000 conv=notrunc && \
         truncate -s 131072 osync-large-file-000000",
    );
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let report = measured(&cli, 4, &flags);
    for (promise, kind, cause, lost) in [
        ("sync", "create", "missing", 1),
        ("sync", "rename", "missing", 1),
        ("sync", "small-file", "wrong_size", 1),
        ("sync", "overwrite", "old_data", 0),
        ("osync", "large-file", "wrong_size", 6),
        ("osync", "rename", "missing", 0),
    ] {
        let row = row(&report, promise, kind);
        assert_eq!((number(&row["lost_ops"]), number(&row[cause])), (lost, lost), "{row}");
    }
    // Of eight writes, the first is zeros and the second is torn; the later ones were kept.
    let large = row(&report, "sync", "large-file");
    assert_eq!(ops(large), (8, 2), "{large}");
    let [zeros, torn, reordered] = ["zeros", "torn", "reordered"].map(|key| number(&large[key]));
    assert_eq!((zeros, torn, reordered), (1, 1, 6), "{large}");
    cli.assert_target_is_empty();
    // The same directory, not changed.
    let flags = damaged(&cli, "true");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let report = measured(&cli, 0, &flags);
    assert_eq!(tier(&report, "sync"), "survives server crash");
}

#[test]
fn verifies_after_program_upgrade() {
    let cli = Cli::new();
    let installed = cli.folder().join("dfsbench");
    std::fs::hard_link(env!("CARGO_BIN_EXE_dfsbench"), &installed).unwrap();
    // Replace the program like a package manager, between writing and reading back.
    let upgrade = format!("printf new >'{0}.new' && mv '{0}.new' '{0}'", installed.display());
    let target = cli.target().display().to_string();
    let flags = ["durability", "--quiet", "--format", "json", &target, "--rounds", "1"];
    let mut command = cli.command(&flags);
    command.args(["--kill-server", "--stop-command", &upgrade, "--start-command", "true"]);
    let mut upgraded = Command::new(&installed);
    upgraded.args(command.get_args()).current_dir(cli.folder()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => upgraded.env(name, value),
            None => upgraded.env_remove(name),
        };
    }
    let end = End::from_output(upgraded.output().unwrap());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert_eq!(std::fs::read_to_string(&installed).unwrap(), "new");
    let report: Value = serde_json::from_str(&end.stdout).unwrap();
    assert!(report["events"][0]["unverified"].is_null(), "{report}");
    assert!(ops(row(&report, "sync", "large-file")).0 > 0, "{report}");
}

#[test]
fn does_not_verify_late_target() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let away = cli.folder().join("away");
    let stop = format!("mv '{target}' '{}'", away.display());
    let flags = ["--kill-server", "--stop-command", &stop, "--start-command", "true"];
    let more = ["--rounds", "1", "--back-within", "100ms", "--kill-client", "--promise", "sync"];
    let end = cli.run(&[&["durability", "--quiet", &target], &flags[..], &more].concat());
    std::fs::rename(&away, cli.target()).unwrap();
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("VERIFIED: cannot open"), "{end:?}");
    assert!(end.stdout.contains("could not be verified"), "{end:?}");
    assert!(end.stdout.contains("Tier of sync: not measured."), "{end:?}");
    assert!(end.stderr.contains("warning: the working directory `.dfsbench-"), "{end:?}");
}

#[test]
fn counts_unreadable_file_as_lost() {
    let cli = Cli::new();
    // Reading a directory as a file fails even for root.
    let flags = damaged(&cli, "rm sync-small-file-000001 && mkdir sync-small-file-000001");
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--back-within", "100ms"]);
    let report = measured(&cli, 4, &flags);
    assert!(report["events"][0]["unverified"].is_null(), "{report}");
    // One crash is enough: its last write was made under osync.
    assert_eq!(number(&report["events"][0]["crashes"]), 1);
    let small = row(&report, "sync", "small-file");
    assert_eq!((number(&small["unreadable"]), number(&small["missing"])), (1, 0), "{small}");
    assert_eq!(ops(small).1, 1, "{small}");
    assert_eq!(tier(&report, "sync"), "none");
    assert_eq!(tier(&report, "osync"), "survives server crash");
    cli.assert_target_is_empty();
    // If no file can be read, the target is not back.
    let flags = damaged(&cli, "for file in *; do rm $file && mkdir $file; done");
    let mut all = vec!["durability", "--quiet"];
    all.extend(flags.iter().map(String::as_str));
    all.extend(["--back-within", "100ms"]);
    let end = cli.run(&all);
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("VERIFIED: cannot read"), "{end:?}");
}

#[test]
fn exports_tiers_and_kinds() {
    let cli = Cli::new();
    let flags = ["durability", "--kill-server", "--rounds", "2", "--fault", "lose-unstable"];
    let end = cli.run(&[&flags[..], &["--quiet"]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    for words in [
        "Tier of sync, dsync and osync: survives server crash.",
        "Tier of none and close: none.",
        // The rest of the cell is in the line below: the table is 80 columns wide.
        "lost (not  ",
        "Lost, by kind of work",
        "old data back",
    ] {
        assert!(end.stdout.contains(words), "{words}: {}", end.stdout);
    }
    let csv = cli.run(&[&flags[..], &["--format", "csv", "--quiet"]].concat()).stdout;
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 25, "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{csv}");
    let markdown = cli.run(&[&flags[..], &["--format", "markdown"]].concat());
    assert!(markdown.stdout.contains("| kill-server | sync |"), "{}", markdown.stdout);
    assert!(
        markdown.stderr.contains("kill-server: writing with promises none, close"),
        "{markdown:?}"
    );
}

/// Starts a measurement that is still waiting for its event, which creates a file.
fn waiting(cli: &Cli, made: &Path) -> Child {
    let target = cli.target().display().to_string();
    let stop = format!("touch '{}'", made.display());
    let flags = ["--kill-server", "--stop-command", &stop, "--start-command", &stop];
    let load = ["durability", &target, "--rounds", "1", "--idle", "10min", "--promise", "none"];
    let mut command = cli.command(&[&load[..], &flags].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let is_begun = || -> bool {
        let entries: Vec<PathBuf> =
            std::fs::read_dir(cli.target()).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.iter().any(|folder| folder.join("none-rename-000001").exists())
    };
    while !is_begun() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    child
}

fn kill(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn leaves_nothing_after_early_interrupt() {
    let cli = Cli::new();
    let made = cli.folder().join("made");
    let child = waiting(&cli, &made);
    kill(&child, Signal::INT);
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stderr.contains("interrupted"), "{end:?}");
    assert!(!made.exists(), "neither the event nor its undo may run");
    cli.assert_target_is_empty();
}

#[test]
fn cleans_up_after_killed_measurement() {
    let cli = Cli::new();
    let made = cli.folder().join("made");
    let mut child = waiting(&cli, &made);
    kill(&child, Signal::KILL);
    child.wait().unwrap();
    let cleaned = cli.run(&["clean"]);
    assert_eq!(cleaned.code, 0, "{cleaned:?}");
    assert!(cleaned.stdout.contains(".dfsbench-"), "{cleaned:?}");
    assert!(!made.exists(), "no event was made");
    cli.assert_target_is_empty();
}

/// Creates a program `ssh` in a directory that simulates a host with its boot id in a file; sysrq
/// resets it.
fn make_ssh(cli: &Cli, on_reset: &str) -> PathBuf {
    let folder = cli.folder().join("bin");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("boot"), "1").unwrap();
    let boot = folder.join("boot").display().to_string();
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncase $last in\n*sysrq-trigger*) {on_reset} ;;\n\
         *boot_id*) cat '{boot}' ;;\nesac\n"
    )
    .replace("BOOT", &boot);
    let ssh = folder.join("ssh");
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn resets_confirmed_host_over_ssh() {
    let cli = Cli::new();
    let bin = make_ssh(&cli, "echo $(($(cat 'BOOT') + 1)) >'BOOT'; exit 255");
    let target = cli.target().display().to_string();
    let power = ["--power-cut", "storage", "--confirm-power-cut", "storage"];
    let load = ["durability", &target, "--quiet", "--rounds", "1", "--promise", "sync"];
    let once = ["--crashes", "1"];
    let mut command = cli.command(&[&load[..], &power, &once].concat());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let end = End::from_output(command.env("PATH", path).output().unwrap());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.contains("sync: survives power loss."), "{end:?}");
    assert!(end.stdout.contains("(sysrq b)"), "{end:?}");
    // With and without ops in flight.
    assert_eq!(std::fs::read_to_string(bin.join("boot")).unwrap(), "3\n");
    cli.assert_target_is_empty();
}

#[test]
fn does_not_reset_unreachable_host() {
    let cli = Cli::new();
    let bin = make_ssh(&cli, "echo 2 >'BOOT'");
    let ssh = "#!/bin/sh\necho 'ssh: connect to host storage: refused' >&2\nexit 255\n";
    std::fs::write(bin.join("ssh"), ssh).unwrap();
    let target = cli.target().display().to_string();
    let power = ["--power-cut", "storage", "--confirm-power-cut", "storage"];
    let load = ["durability", &target, "--quiet", "--rounds", "1", "--promise", "none"];
    let mut command = cli.command(&[&load[..], &power].concat());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let end = End::from_output(command.env("PATH", path).output().unwrap());
    assert_eq!(end.code, 3, "{end:?}");
    assert!(end.stderr.contains("power-cut: storage: ssh: "), "{end:?}");
    cli.assert_target_is_empty();
}

#[test]
fn takes_no_tier_of_dead_server() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let lose = ["--lose-server", "node3", "--confirm-lose-server", "node3", "--lose-command"];
    let load = [&target, "--rounds", "2", "--promise", "sync"];
    let kept = measured(&cli, 0, &[&load[..], &lose, &["true"]].concat());
    assert_eq!(tier(&kept, "sync"), "survives loss of a server");
    assert_eq!(kept["events"][0]["event"], "lose-server");
    // As on a server that was the only one with the small files.
    let command = format!("find '{target}' -name 'sync-small-file-*' -delete");
    let taken = measured(&cli, 4, &[&load[..], &lose, &[&command]].concat());
    assert_eq!(tier(&taken, "sync"), "none");
    let small = row(&taken, "sync", "small-file");
    assert!(ops(small).1 > 0 && ops(small).1 == number(&small["missing"]), "{small}");
    assert_eq!(ops(row(&taken, "sync", "large-file")).1, 0, "{taken}");
    cli.assert_target_is_empty();
}

#[test]
fn kills_only_named_targets() {
    let cli = Cli::new();
    let cases = [
        "durability",
        "durability target --kill-server",
        "durability --power-cut embedded",
        "durability nfs://h/e --power-cut h --confirm-power-cut g",
        "durability --confirm-power-cut h",
        "durability target --power-cut embedded --confirm-power-cut embedded",
        "durability nfs://h/e --power-cut=-oProxyCommand=x --confirm-power-cut=-oProxyCommand=x",
        "durability target --lose-server h",
        "durability --confirm-lose-server h",
        "durability target --lose-server h --confirm-lose-server h",
        "durability --lose-server h --confirm-lose-server h",
        "durability target --lose-command true --kill-client",
        "durability target --cut-network",
        "durability --kill-server --stop-command true --start-command true",
        "durability null --kill-client",
        "durability target --kill-client --fault lose-unstable",
        "durability --kill-server --fault lose-everything",
        "durability --kill-server --idle soon",
    ]
    .map(|line| line.split(' ').collect::<Vec<_>>());
    insta::assert_snapshot!(cli.errors_of(&cases.each_ref().map(Vec::as_slice)));
}

#[test]
fn limits_events_for_plan_with_systems() {
    let cli = Cli::new();
    let plan = "name = \"p\"\n[[host]]\nname = \"s\"\n[[target]]\nname = \"ours\"\nserver = \"s\"\n\
                system = \"dfsbench\"\nbackend = \"nfs\"\n[target.settings]\nthreads = [1, 2]\n\
                [[workload]]\nkind = \"stream\"\n";
    std::fs::write(cli.folder().join("plan.toml"), plan).unwrap();
    let shared = "name = \"p\"\nhost = [{ name = \"s\", address = \"10.0.0.1\" }, \
                  { name = \"c\", address = \"10.0.0.2\", ssh = \"c\" }]\n\
                  [[target]]\nname = \"disk\"\n\
                  server = \"s\"\nclient = \"c\"\nsystem = \"gfs2\"\n[[workload]]\nkind = \"stream\"\n";
    std::fs::write(cli.folder().join("shared.toml"), shared).unwrap();
    // The recipe of a path is read as well.
    let by_path = plan.replace("system = \"dfsbench\"", "system = \"./none.toml\"");
    std::fs::write(cli.folder().join("by-path.toml"), by_path).unwrap();
    let mixed = format!("{plan}[[target]]\nname = \"d\"\npath = \"/tmp\"\n");
    std::fs::write(cli.folder().join("mixed.toml"), mixed).unwrap();
    let cases = [
        "durability plan.toml",
        "durability plan.toml --kill-server --stop-command true --start-command true",
        "durability plan.toml --power-cut s --confirm-power-cut s",
        "durability plan.toml --power-cut s",
        "durability plan.toml --power-cut t --confirm-power-cut t",
        "durability shared.toml --power-cut s --confirm-power-cut s",
        "durability plan.toml --kill-server --contender theirs",
        "durability plan.toml --kill-server --allow-destroy /dev/x",
        "durability plan.toml --kill-server --campaign last",
        "durability by-path.toml --kill-server",
        "durability mixed.toml --kill-server",
    ]
    .map(|line| line.split(' ').collect::<Vec<_>>());
    insta::assert_snapshot!(cli.errors_of(&cases.each_ref().map(Vec::as_slice)));
}

#[test]
fn reports_failed_command_once() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let started = cli.folder().join("started");
    let start = format!("touch '{}'", started.display());
    let stop = "echo no such process >&2; exit 1";
    let flags = ["--kill-server", "--stop-command", stop, "--start-command", &start];
    let load = ["durability", &target, "--quiet", "--rounds", "1", "--promise", "none"];
    let end = cli.run(&[&load[..], &flags].concat());
    assert_eq!(end.code, 3, "{end:?}");
    assert!(end.stderr.contains("kill-server: `echo no such"), "{end:?}");
    assert!(end.stderr.contains("no such process"), "{end:?}");
    assert!(started.exists(), "the start command undoes a failed stop");
    cli.assert_target_is_empty();
}

#[test]
fn shows_tier_beside_contender_figures() {
    let cli = Cli::new();
    let work = ["--file-size", "64KiB", "--durability", "none,sync", "--trials", "1", "--quiet"];
    let run = cli.run(&[&["run", "embedded", "--workload", "stream"], &work[..]].concat());
    assert!([0, 4].contains(&run.code), "{run:?}");
    let shown = cli.run(&["contenders"]);
    assert!(shown.stdout.contains("Durability was not tested: nfs."), "{shown:?}");
    let kept = ["--campaign", "last", "--contender"];
    let load = ["durability", "--quiet", "--rounds", "1", "--kill-server", "--promise"];
    let end = cli.run(&[&load[..], &["none,sync"], &kept[..], &["nobody"]].concat());
    assert_eq!((end.code, end.stdout.as_str()), (2, ""), "{end:?}");
    insta::assert_snapshot!(
        end.stderr,
        @"error: --contender: there is no contender `nobody` (hint: available: `nfs`)"
    );
    let tier = || {
        let report = cli.run(&["contenders", "--format", "json"]);
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        report["contenders"][0]["tier"].as_str().unwrap().to_owned()
    };
    // The weaker of the promises that its runs request, according to the latest measurement. A
    // measurement without any risk does not hide an earlier one.
    let unstable = ["--fault", "lose-unstable"];
    for fault in [&unstable[..], &[]] {
        let end = cli.run(&[&load[..], &["none,sync"], &kept[..], &["nfs"], fault].concat());
        assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
        assert_eq!(tier(), "none");
    }
    let end = cli.run(&[&load[..], &["sync"], &kept[..], &["nfs"], &unstable].concat());
    assert_eq!(end.code, 0, "{end:?}");
    assert_eq!(tier(), "not measured", "the promise none was not measured");
    let wrong = cli.run(&["contenders", "--baseline", "other"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("--baseline: ") && wrong.stderr.contains("`other`"), "{wrong:?}");
}
