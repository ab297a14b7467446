//! `dfsbench compare --bisect`: its exit codes, and a search by git.

use std::fs;
use std::process::Command;

use rusqlite::Connection;

use crate::cli::{Cli, End, ServedProcess};

/// Small trials whose rate is that of the server's bandwidth, whatever else the machine does.
const FLAGS: [&str; 10] = [
    "--workload",
    "mixed",
    "--duration",
    "150ms",
    "--warmup",
    "0s",
    "--file-size",
    "128KiB",
    "--queue-depth",
    "64",
];

/// Stores a campaign of trials that take this long in percent, without any noise but 0.1 %.
fn store(cli: &Cli, to: &str, percent: u32) {
    let path = cli.folder().join(to);
    if !cli.folder().join("usual.db").exists() {
        let work = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--trials", "9"];
        let end = cli.run(&[&work[..], &["--results", "usual.db", "--quiet"]].concat());
        assert_eq!(end.code, 0, "{end:?}");
    }
    fs::copy(cli.folder().join("usual.db"), &path).unwrap();
    let db = Connection::open(path).unwrap();
    let times = "UPDATE passes SET window_ns = ops * 10 * ?1 + ops * (id % 9)";
    assert!(db.execute(times, [percent]).unwrap() >= 9);
    // What else the machine did must not cast doubt on the planted times.
    db.execute("DELETE FROM caveats", []).unwrap();
}

fn bisect(cli: &Cli, good: &str, now: &str, more: &[&str]) -> End {
    cli.run(&[&["compare", "--bisect", good, now], more].concat())
}

#[test]
fn exits_as_git_expects() {
    let cli = Cli::new();
    for (file, percent) in [("good.db", 100), ("slow.db", 112), ("between.db", 105)] {
        store(&cli, file, percent);
    }
    for (now, code, word) in [("slow.db", 1, "bad: "), ("between.db", 125, "undecided: ")] {
        let end = bisect(&cli, "good.db", now, &[]);
        assert_eq!((end.code, end.stdout.starts_with(word)), (code, true), "{end:?}");
        assert_eq!(end.stdout.lines().count(), 1, "{end:?}");
    }
    let same = bisect(&cli, "slow.db", "good.db", &[]);
    assert_eq!((same.code, same.stdout.starts_with("good: ")), (0, true), "{same:?}");
    // The same difference is small if a larger one is searched for.
    let quiet = bisect(&cli, "good.db", "slow.db", &["--difference", "50%", "--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    // A result from the client's cache is no evidence.
    let db = Connection::open(cli.folder().join("slow.db")).unwrap();
    let caveat = "INSERT INTO caveats (pass_id, code, severity, evidence) \
                  SELECT id, 'cached', 'degraded', 'all' FROM passes";
    assert_eq!(db.execute(caveat, []).unwrap(), 9);
    let cached = bisect(&cli, "good.db", "slow.db", &[]);
    assert_eq!(cached.code, 125, "{cached:?}");
    assert!(cached.stdout.contains("`cached`"), "{cached:?}");
}

#[test]
fn errors_stop_git() {
    let cli = Cli::new();
    let to = |more: &[&'static str]| [&["compare", "--bisect"][..], more].concat();
    for (args, code, words) in [
        (to(&["null"]), 130, "<AFTER>"),
        (to(&["null", "null"]), 130, "given twice"),
        (to(&["null", "target", "--metric", "speed"]), 130, "service-p99"),
        (to(&["null", "target", "--metric", "walk.rate"]), 130, "mix, read"),
        (to(&["null", "target", "--max-trials", "5"]), 130, "--max-trials 1"),
        (to(&["null", "target", "--max-loss", "5%"]), 130, "cannot be used with"),
        (to(&["null", "target", "--plan", "target"]), 130, "plan `target`: it is a directory"),
        (to(&["null", "target", "--", "--trials", "3"]), 130, "sets it itself"),
        (to(&["null", "target", "--", "--like", "job.fio"]), 130, "--as-plan"),
    ] {
        cli.refused(&args, code, &[words]);
    }
    // Git would take a commit for a good one if help ended with 0.
    for args in [to(&["null", "target", "--", "--help"]), to(&["null", "--help"])] {
        let end = cli.run(&args);
        assert_eq!((end.code, end.stdout.contains("Usage:")), (130, true), "{end:?}");
    }
}

#[test]
fn obeys_configuration_of_run() {
    let cli = Cli::new();
    let folder = cli.folder().join("config/dfsbench");
    fs::create_dir_all(&folder).unwrap();
    let configure = |text: &str| fs::write(folder.join("config.toml"), text).unwrap();
    configure("[run]\nworkload = 'mixed'\nio_size = 'large'\n");
    let step = ["compare", "--bisect", "null", "target"];
    cli.refused(&step, 130, &["--io-size", "`large`", "config.toml:3"]);
    // What a bisect sets itself is ignored, and a flag wins.
    configure(
        "[compare]\ndifference = '9%'\n[run]\nworkload = 'mixed'\nduration = '20ms'\n\
         warmup = '0s'\nio_size = '8KiB'\nfile_size = '1MiB'\ntrials = 2\nquick = true\n\
         format = 'csv'\nresults = 'of-run.db'\n",
    );
    fs::create_dir(cli.folder().join("other")).unwrap();
    let step = ["compare", "--bisect", "target", "other", "--within", "300ms"];
    let end = cli.run(&[&step[..], &["--", "--file-size", "128KiB"]].concat());
    // Too few trials for an answer.
    assert_eq!(end.code, 125, "{end:?}");
    assert!(!cli.folder().join("of-run.db").exists());
    let plan = cli.run(&["show", "--plan"]).stdout;
    assert!(plan.contains("8KiB") && plan.contains("128KiB"), "{plan}");
    let shown = cli.run(&["show", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let command = shown["command"].as_str().unwrap_or_default();
    let flags = "--difference=9% -- --file-size 128KiB --duration=20ms --io-size=8KiB";
    assert!(command.contains(flags), "{shown}");
}

#[test]
fn skips_failed_build_but_not_good() {
    let cli = Cli::new();
    let good = ServedProcess::start(&cli, &[]);
    let mut now = ServedProcess::start(&cli, &[]);
    now.kill();
    let skipped = bisect(&cli, &good.url, &now.url, &[&["--"], &FLAGS[..]].concat());
    assert_eq!(skipped.code, 125, "{skipped:?}");
    assert!(skipped.stdout.contains("Connection refused"), "{skipped:?}");
    let stopped = bisect(&cli, &now.url, &good.url, &[&["--"], &FLAGS[..]].concat());
    assert_eq!((stopped.code, stopped.stdout.as_str()), (131, ""), "{stopped:?}");
    assert!(stopped.stderr.contains("the good build can't be measured"), "{stopped:?}");
}

#[test]
#[ignore = "takes half a minute: runs every night"]
fn git_finds_planted_commit() {
    let cli = Cli::new();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(args);
        let end = End::from_output(command.current_dir(cli.target()).output().unwrap());
        assert_eq!(end.code, 0, "{args:?}: {end:?}");
        end.stdout
    };
    git(&["init", "--quiet"]);
    for commit in 1..=10 {
        // From commit 7 on, the server's bandwidth is 10 % lower.
        let bandwidth = if commit < 7 { "2.5MB/s" } else { "2.25MB/s" };
        fs::write(cli.target().join("fault"), format!("bandwidth {bandwidth}")).unwrap();
        fs::write(cli.target().join("version"), commit.to_string()).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", &format!("commit {commit}")]);
    }
    let good = ServedProcess::start(&cli, &["--fault", "bandwidth 2.5MB/s"]);
    let program = env!("CARGO_BIN_EXE_dfsbench");
    let flags = FLAGS.join(" ");
    let step = format!(
        "{program} serve --fault \"$(cat fault)\" > ../url & \
         while ! [ -s ../url ]; do sleep 0.02; done; \
         {program} compare --bisect '{}' \"$(cat ../url)\" --results ../steps.db -- {flags}; \
         code=$?; kill $!; rm ../url; exit $code",
        good.url
    );
    git(&["bisect", "start", "HEAD", "HEAD~9"]);
    let found = git(&["bisect", "run", "sh", "-c", &step]);
    assert!(found.contains("is the first bad commit"), "{found}");
    assert_eq!(git(&["log", "-1", "--format=%s", "refs/bisect/bad"]).trim(), "commit 7");
    assert!(!git(&["bisect", "log"]).contains("git bisect skip"), "{found}");
}
