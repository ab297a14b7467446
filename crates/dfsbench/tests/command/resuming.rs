//! Cases that `dfsbench resume` refuses: running programs of a stored plan without consent, and
//! campaigns that were never stored.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Cli, End, ServedProcess};

/// Time limit for a program that was started, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn await_that(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "the condition was not met in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many times the program of the plan was started.
fn starts(folder: &Path) -> usize {
    fs::read_to_string(folder.join("started")).unwrap_or_default().lines().count()
}

#[test]
fn runs_stored_programs_only_with_consent() {
    let cli = Cli::new();
    let folder = cli.folder();
    let script = "echo x >> \"$0/started\"; test -e \"$0/quick\" || sleep 600";
    let plan = format!(
        "name = \"p\"\ntrials = 2\n[[target]]\nname = \"t\"\npath = \"target\"\n\
         [[workload]]\nkind = \"app\"\nrun = [\"sh\", \"-c\", {script:?}, {folder:?}]\n"
    );
    fs::write(folder.join("plan.toml"), plan).unwrap();
    let mut command = cli.command(&["run", "plan.toml", "--quiet"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_that(|| starts(folder) > 0);
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("next:    dfsbench resume 1 --allow-program\n"), "{end:?}");
    fs::write(folder.join("quick"), "").unwrap();
    let before = starts(folder);

    let refused = cli.run(&["resume", "--quiet"]);
    assert_eq!((refused.code, starts(folder)), (2, before), "{refused:?}");
    for part in ["sh -c ", "sleep 600", "--allow-program"] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    let resumed = cli.run(&["resume", "--quiet", "--allow-program"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(starts(folder), before + 2);
}

#[test]
fn reports_unstored_last_campaign() {
    let cli = Cli::new();
    let small = ["--workload", "metadata", "--small-files", "10", "--trials", "1", "--quiet"];
    let end = cli.run(&[&["run", "target"], &small[..]].concat());
    assert_eq!(end.code, 0, "{end:?}");
    let complete = cli.run(&["resume"]);
    assert!(complete.code == 2 && complete.stderr.contains("no trial is missing"), "{complete:?}");

    // Its preflight check takes longer than it takes to kill it.
    let served = ServedProcess::start(&cli, &["--fault", "service_time 1500ms on MKDIR"]);
    let mut child = cli.command(&["run", &served.url, "--quiet"]).spawn().unwrap();
    let has_record = || {
        let mut entries = fs::read_dir(cli.folder()).unwrap().flatten();
        entries.any(|entry| {
            let is_record = entry.file_name().to_string_lossy().contains("-work-");
            is_record && entry.metadata().is_ok_and(|found| found.len() > 0)
        })
    };
    await_that(has_record);
    child.kill().unwrap();
    child.wait().unwrap();
    let unstored = cli.run(&["resume"]);
    assert_eq!(unstored.code, 2, "{unstored:?}");
    let port = served.port().to_string();
    insta::assert_snapshot!(unstored.stderr.replace(&port, "[port]"));
    // If a campaign is named, only that one is considered.
    let named = cli.run(&["resume", "1"]);
    assert!(named.code == 2 && named.stderr.contains("no trial is missing"), "{named:?}");
    assert!(!named.stderr.contains("was killed"), "{named:?}");
}
