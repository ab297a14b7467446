//! Several processes and one results file: which process runs which campaign, and what remains
//! after a kill.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use model::random::{SplitMix64, below};
use rusqlite::{Connection, OpenFlags};

use crate::cli::{Cli, End};

const PATIENCE: Duration = Duration::from_secs(60);

/// Mixes of `ms` milliseconds under two settings, the given number of times each.
fn plan<'a>(duration: &'a str, trials: &'a str, results: &'a str) -> Vec<&'a str> {
    let what = ["run", "target", "--workload", "mixed", "--file-size", "64KiB", "--quiet"];
    let matrix = ["--read-percent", "0,100", "--seed", "5", "--duration", duration];
    let matrix = [&matrix[..], &["--interference", "keep"]].concat();
    [&what[..], &matrix, &["--trials", trials, "--results", results]].concat()
}

fn start(cli: &Cli, args: &[&str]) -> Child {
    cli.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the rows of a query as numbers; none if there is no file or no table yet. It may write,
/// because SQLite must roll back a half-committed transaction of a killed process before it can
/// read.
fn numbers<const N: usize>(results: &Path, sql: &str) -> Vec<[u32; N]> {
    let read = || {
        let db = Connection::open_with_flags(results, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(PATIENCE)?;
        let mut query = db.prepare(sql)?;
        let rows = query.query_map([], |row| {
            let mut numbers = [0; N];
            for (column, number) in numbers.iter_mut().enumerate() {
                *number = row.get(column)?;
            }
            Ok(numbers)
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    read().unwrap_or_default()
}

/// Completed trials, in the order in which they were stored: position, run, number within the run.
fn made(results: &Path) -> Vec<[u32; 3]> {
    let sql = "SELECT position, run_index, trial_index
               FROM trials JOIN runs ON runs.id = run_id ORDER BY trials.id";
    numbers(results, sql)
}

fn has_a_campaign(results: &Path) -> bool {
    !numbers::<1>(results, "SELECT id FROM campaigns").is_empty()
}

/// Waits until the given number of trials are stored; false if the process ended before.
fn reaches(child: &mut Child, results: &Path, trials: usize) -> bool {
    let begun = Instant::now();
    while made(results).len() < trials {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begun.elapsed() < PATIENCE, "no {trials} trials");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    true
}

#[test]
fn rejects_second_process_on_campaign() {
    let cli = Cli::new();
    let results = cli.folder().join("dfsbench.db");
    let mut first = start(&cli, &plan("300ms", "20", "dfsbench.db"));
    assert!(reaches(&mut first, &results, 1));
    let refused = cli.run(&["resume", "--quiet"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let holder = format!("campaign 1 of `dfsbench.db` is being measured by process {}", first.id());
    assert!(refused.stderr.contains(&holder), "{refused:?}");
    // Meanwhile another one may be run in the same file.
    let second = cli.run(&plan("20ms", "2", "dfsbench.db"));
    assert_eq!(second.code, 0, "{second:?}");
    assert!(second.stdout.contains("campaign 2"), "{second:?}");
    assert!(first.try_wait().unwrap().is_none(), "the first campaign ended too early");
    // A kill frees it immediately.
    first.kill().unwrap();
    first.wait().unwrap();
    let before = made(&results).len();
    let mut go_on = start(&cli, &["resume", "1", "--quiet"]);
    assert!(reaches(&mut go_on, &results, before + 1));
    go_on.kill().unwrap();
    go_on.wait().unwrap();
}

#[test]
fn starts_two_campaigns_in_new_file() {
    let cli = Cli::new();
    let campaigns = [0, 1].map(|_| start(&cli, &plan("30ms", "5", "dfsbench.db")));
    let mut named = campaigns.map(|child| {
        let end = End::from_output(child.wait_with_output().unwrap());
        assert_eq!(end.code, 0, "{end:?}");
        end.stdout.contains("campaign 2")
    });
    named.sort_unstable();
    assert_eq!(named, [false, true]);
    assert_eq!(made(&cli.folder().join("dfsbench.db")).len(), 20);
    let entries = std::fs::read_dir(cli.folder()).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    // The one that ended later has its own page.
    names.retain(|name| !name.to_string_lossy().ends_with(".html"));
    names.sort_unstable();
    assert_eq!(names, ["dfsbench.db", "state", "target"]);
    assert_eq!(std::fs::read_dir(cli.folder().join("state")).unwrap().count(), 0);
}

#[test]
fn resumes_after_twenty_kills() {
    let cli = Cli::new();
    let twin = cli.folder().join("twin.db");
    let killed = cli.folder().join("killed.db");
    let end = cli.run(&plan("15ms", "24", "twin.db"));
    assert_eq!(end.code, 0, "{end:?}");
    let seed = 20;
    let mut random = SplitMix64::new(seed);
    let mut draw = |bound| below(random.next(), bound);
    let begin = plan("15ms", "24", "killed.db");
    let go_on = ["resume", "--quiet", "--results", "killed.db"];
    for kill in 0..20 {
        let begun = has_a_campaign(&killed);
        let before = made(&killed);
        let mut child = start(&cli, if begun { &go_on } else { &begin });
        let more = before.len() + draw(2) as usize;
        assert!(reaches(&mut child, &killed, more), "kill {kill} of seed {seed}: no new trial");
        std::thread::park_timeout(Duration::from_millis(draw(60)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(made(&killed).starts_with(&before), "kill {kill} of seed {seed} lost a trial");
    }
    let end = cli.run(&go_on);
    assert_eq!(end.code, 0, "{end:?}");
    assert_eq!(made(&twin).len(), 48);
    assert_eq!(made(&killed), made(&twin), "seed {seed}");
}
