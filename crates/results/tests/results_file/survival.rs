//! Events that a results file survives: kill -9 at any moment, a full disk, two writers.
//!
//! The test starts itself again as the writer that is killed; see [`writer`].
#![allow(clippy::disallowed_methods, reason = "starts and stops processes")]

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::{Campaign, CampaignState, TrialState};
use results::{Note, Store, StoreError};
use rusqlite::Connection;

use crate::material::{campaign, filled, keep, trial};

/// Passes the file to the writer.
const FILE: &str = "DFSBENCH_TEST_FILE";

/// How often to kill the writer.
const KILLS: u64 = 40;

/// Writes as fast as possible and reports its progress after each commit, until it is killed or a
/// write fails. It is not a real test: it does nothing unless the other tests start it.
#[test]
fn writer() {
    let Ok(path) = env::var(FILE) else { return };
    let path = Path::new(&path);
    let mut out = std::io::stdout();
    let mut say = |what: &str| out.write_all(format!("wrote {what}\n").as_bytes()).unwrap();
    let result = write_on(path, &mut say);
    say(&format!("error {}", result.unwrap_err()));
}

fn write_on(path: &Path, say: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let material = campaign();
    loop {
        let mut store = Store::open_or_create(path)?;
        let id = store.begin_campaign(&material)?;
        say("begun");
        let run = store.add_run(id, 0, &material.runs[0].spec)?;
        for index in 0..6 {
            let passes = material.runs[0].trials[0].passes.clone();
            store.add_trial(run, &trial(index, TrialState::Done, passes))?;
            say("trial");
        }
        store.set_tags(id, &["kept".to_owned()], &[])?;
        store.add_note(id, &Note { written_unix_ms: 1, text: "kept".into() })?;
        store.finish(id, CampaignState::Complete)?;
        if id % 5 == 0 {
            store.remove(id - 1)?;
            say("removed");
            store.compact()?;
        }
    }
}

fn start(path: &Path, around: Option<&str>) -> std::process::Child {
    let own = env::current_exe().unwrap();
    let args = ["--exact", "survival::writer", "--nocapture", "--test-threads=1"];
    let mut command = match around {
        None => Command::new(own),
        Some(around) => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{around} exec \"$0\" \"$@\"")]).arg(own);
            command
        }
    };
    command.args(args).env(FILE, path).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Returns the words that the writer prints after `wrote`.
fn lines_of_writer(child: &mut std::process::Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines = lines.map_while(Result::ok);
    lines.filter_map(|line| Some(line.split_once("wrote ")?.1.to_owned()))
}

/// Number of stored trials, after reading everything; panics if anything is incomplete.
fn trials(path: &Path) -> usize {
    let Ok(store) = Store::open_existing(path) else {
        // Killed before the schema was created: an empty file, or none.
        assert_eq!(std::fs::metadata(path).map_or(0, |file| file.len()), 0);
        return 0;
    };
    let campaigns: Vec<Campaign> =
        store.list().unwrap().iter().map(|line| store.load(line.id).unwrap()).collect();
    drop(store);
    let db = Connection::open(path).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let broken = "SELECT count(*) FROM pragma_foreign_key_check";
    assert_eq!(db.query_row(broken, [], |row| row.get(0)), Ok(0));
    let material = &campaign().runs[0].trials[0].passes;
    let trials = campaigns.iter().flat_map(|campaign| &campaign.runs).flat_map(|run| &run.trials);
    trials.map(|trial| assert_eq!(trial.passes, *material)).count()
}

#[test]
fn survives_kill_9_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    let mut most = 0;
    for kill in 0..KILLS {
        let before = if path.exists() { trials(&path) } else { 0 };
        let mut child = start(&path, None);
        let mut lines = lines_of_writer(&mut child);
        // Every fourth is killed while it starts and creates the file; the others after some of
        // their commits, while they write, remove and compact.
        let mut words = Vec::new();
        if kill % 4 > 0 {
            words.extend(lines.by_ref().take(1 + (kill % 23) as usize));
        }
        std::thread::sleep(Duration::from_micros(model::random::draw(7, kill) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        words.extend(lines);
        assert!(words.iter().all(|what| !what.starts_with("error")), "{words:?}");
        // A removal includes the six trials of a campaign; the last change may not have been
        // reported.
        let count = |word: &str| words.iter().filter(|what| *what == word).count();
        let written = count("trial");
        let removed = 6 * count("removed");
        let after = trials(&path);
        let known = before + written;
        let least = known.saturating_sub(removed + 6);
        assert!(after >= least && after <= known + 1, "{before} {words:?} {after}");
        if removed == 0 && words.last().is_some_and(|what| what == "trial") && written < 6 {
            assert!(after >= known, "{before} {words:?} {after}");
        }
        most = most.max(written);
    }
    assert!(most > 0, "no writer was killed while it wrote");
}

#[test]
fn leaves_nothing_half_written_when_full() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    // Blocks of 512 bytes; the signal is ignored, like in a shell, so that the write fails.
    let mut child = start(&path, Some("trap '' XFSZ; ulimit -f 700;"));
    let words: Vec<String> = lines_of_writer(&mut child).collect();
    child.wait().unwrap();
    let error = words.last().unwrap();
    assert!(error.starts_with("error cannot write to `") && error.contains("(hint: "), "{error}");
    assert!(error.contains("dfsbench.db") && error.contains("disk"), "{error}");
    let written = words.iter().filter(|what| *what == "trial").count();
    let removed = 6 * words.iter().filter(|what| *what == "removed").count();
    assert!(written > 0, "{words:?}");
    assert_eq!(trials(&path), written - removed);
    // With free space it continues.
    keep(&mut Store::open_or_create(&path).unwrap(), &campaign());
}

#[test]
fn two_writers_keep_everything_of_both() {
    let (_directory, path) = filled();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut store = Store::open_or_create(&path).unwrap();
                let id = store.begin_campaign(&campaign()).unwrap();
                let run = store.add_run(id, 0, &campaign().runs[0].spec).unwrap();
                for index in 0..25 {
                    let passes = campaign().runs[0].trials[0].passes.clone();
                    store.add_trial(run, &trial(index, TrialState::Done, passes)).unwrap();
                }
                store.finish(id, CampaignState::Complete).unwrap();
            });
        }
    });
    let store = Store::open_existing(&path).unwrap();
    let trials: Vec<u32> = store.list().unwrap().iter().map(|line| line.trials).collect();
    assert_eq!(trials, [3, 25, 25]);
    for id in [2, 3] {
        let loaded = store.load(id).unwrap();
        let indices: Vec<u32> = loaded.runs[0].trials.iter().map(|trial| trial.index).collect();
        assert_eq!(indices, (0..25).collect::<Vec<_>>());
    }
}
