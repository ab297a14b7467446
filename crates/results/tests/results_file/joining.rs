//! A campaign that was continued in two files: nothing is lost from either, and joining twice
//! changes nothing.

use std::path::{Path, PathBuf};

use model::{Campaign, CampaignState, OpKind, Pass, Target, Trial, TrialState};
use results::{JoinedCounts, Merged, Note, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::material::{campaign, filled, pass, spec, trial};

/// A file with a campaign, and a copy of it.
fn two() -> (TempDir, PathBuf, PathBuf) {
    let (directory, path) = filled();
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    (directory, path, copy)
}

fn done(index: u32, started_unix_ms: u64) -> Trial {
    let passes = vec![pass(Pass::Write, OpKind::Write), pass(Pass::Read, OpKind::Read)];
    Trial { started_unix_ms, ..trial(index, TrialState::Done, passes) }
}

fn gained(store: &mut Store, other: &Path) -> JoinedCounts {
    match store.import(other).unwrap()[0].to {
        Merged::Known { id: 1, gained } => gained,
        other => panic!("{other:?}"),
    }
}

fn note(text: &str) -> Note {
    Note { written_unix_ms: 9, text: text.to_owned() }
}

/// Trials of a run with their numbers.
fn trials(campaign: &Campaign, run: usize) -> Vec<&Trial> {
    let mut trials: Vec<&Trial> = campaign.runs[run].trials.iter().collect();
    trials.sort_by_key(|trial| trial.index);
    trials
}

#[test]
fn makes_both_files_complete() {
    let (_directory, path, copy) = two();
    let mut here = Store::open_or_create(&path).unwrap();
    here.add_note(1, &note("here")).unwrap();
    here.set_tags(1, &["here".to_owned()], &[]).unwrap();
    let mut there = Store::open_or_create(&copy).unwrap();
    there.add_note(1, &note("there")).unwrap();
    there.add_note(1, &note("here")).unwrap();
    there.set_tags(1, &["there".to_owned()], &[]).unwrap();
    let standing = there.reopen(1).unwrap();
    there.add_trial(standing[0].run_id, &done(7, 70)).unwrap();
    there.add_trial(standing[2].run_id, &done(0, 80)).unwrap();
    let run = there.add_run(1, 3, &spec(Target::Null)).unwrap();
    there.add_trial(run, &done(0, 90)).unwrap();
    there.finish(1, CampaignState::Complete).unwrap();

    let first = JoinedCounts { runs: 1, trials: 3, notes: 1, tags: 1, differ: 0 };
    assert_eq!(gained(&mut here, &copy), first);
    assert_eq!(gained(&mut here, &copy), JoinedCounts::default(), "joining twice changes nothing");
    let joined = here.load(1).unwrap();
    assert_eq!(joined.runs.len(), 4);
    assert_eq!(trials(&joined, 0).last().unwrap(), &&done(7, 70));
    assert_eq!(joined.runs[2].trials, [done(0, 80)]);
    assert_eq!(joined.runs[3].trials, [done(0, 90)]);
    assert_eq!(trials(&joined, 0)[..3], trials(&campaign(), 0), "existing rows are kept");

    // The stopped trial was replaced; importing back adds the new content to the other file.
    let second = JoinedCounts { trials: 1, tags: 1, ..JoinedCounts::default() };
    assert_eq!(gained(&mut there, &path), second);
    let back = there.load(1).unwrap();
    for run in 0..4 {
        assert_eq!(trials(&back, run), trials(&joined, run));
    }
    let tags = |store: &Store| store.line(1).unwrap().tags;
    assert_eq!((tags(&here), tags(&there)), (tags(&there), vec!["here".into(), "there".into()]));
    assert_eq!(here.notes(1).unwrap().len(), 2);
    let db = Connection::open(&path).unwrap();
    let broken = "SELECT count(*) FROM pragma_foreign_key_check";
    assert_eq!(db.query_row(broken, [], |row| row.get(0)), Ok(0));
}

#[test]
fn replaces_stopped_trial() {
    let (_directory, path, copy) = two();
    let mut there = Store::open_or_create(&copy).unwrap();
    let standing = there.reopen(1).unwrap();
    there.add_trial(standing[0].run_id, &done(2, 70)).unwrap();
    there.finish(1, CampaignState::Complete).unwrap();
    let mut here = Store::open_or_create(&path).unwrap();
    assert_eq!(gained(&mut here, &copy), JoinedCounts { trials: 1, ..JoinedCounts::default() });
    let joined = here.load(1).unwrap();
    assert_eq!(trials(&joined, 0)[2], &done(2, 70));
    assert_eq!(joined.state, CampaignState::Complete);
}

#[test]
fn keeps_own_trials_and_reports_conflicts() {
    let (_directory, path, copy) = two();
    for (file, started) in [(&path, 70), (&copy, 71)] {
        let mut store = Store::open_or_create(file).unwrap();
        let standing = store.reopen(1).unwrap();
        store.add_trial(standing[0].run_id, &done(5, started)).unwrap();
    }
    let mut here = Store::open_or_create(&path).unwrap();
    assert_eq!(gained(&mut here, &copy), JoinedCounts { differ: 1, ..JoinedCounts::default() });
    assert_eq!(trials(&here.load(1).unwrap(), 0).last().unwrap(), &&done(5, 70));
}
