//! The results file as its users see it: everything written can be read back. A file that is not a
//! results file is refused with a clear message, and is not changed.

use std::fs;
use std::path::Path;

use model::{Campaign, CampaignState, Ceiling, OpKind, Pass, Target, TrialState};
use results::{APPLICATION_ID, SCHEMA_VERSION, Store, StoreError};
use rusqlite::Connection;

use crate::material::{campaign, filled, keep, pass, spec, trial};

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Both ways of opening refuse the file with this message, and change neither the file nor its
/// directory.
fn refused(path: &Path, words: &str) {
    let before = (fs::read(path).ok(), names(path.parent().unwrap()));
    for error in [Store::open_existing(path).unwrap_err(), Store::open_or_create(path).unwrap_err()]
    {
        let sentence = error.to_string();
        assert!(sentence.contains(words) && sentence.contains("hint"), "{sentence}");
        assert!(sentence.contains(path.to_str().unwrap()), "{sentence}");
    }
    assert_eq!((fs::read(path).ok(), names(path.parent().unwrap())), before);
}

#[test]
fn round_trips_campaign() {
    let (_directory, path) = filled();
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.latest().unwrap(), Some(1));
    assert_eq!(store.load(1).unwrap(), campaign());
}

#[test]
fn rejects_file_with_missing_table() {
    let (_directory, path) = filled();
    Connection::open(&path).unwrap().execute_batch("DROP TABLE clients").unwrap();
    refused(&path, "the table `clients` is missing");
}

/// Removes the times of all intervals from a campaign.
fn without_interval_times(mut campaign: Campaign) -> Campaign {
    for pass in campaign.runs.iter_mut().flat_map(|run| &mut run.trials).flat_map(|t| &mut t.passes)
    {
        pass.interval_times.clear();
    }
    campaign
}

#[test]
fn reads_file_from_before_interval_times() {
    let (directory, path) = filled();
    let drop_table = "DROP TABLE interval_times";
    Connection::open(&path).unwrap().execute_batch(drop_table).unwrap();
    let before = fs::read(&path).unwrap();
    let older = without_interval_times(campaign());
    let store = Store::open_existing(&path).unwrap();
    assert_eq!((store.load(1).unwrap(), store.list().unwrap().len()), (older.clone(), 1));
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), before, "reading changes nothing");
    let mut other = Store::open_or_create(&directory.path().join("other.db")).unwrap();
    other.import(&path).unwrap();
    assert_eq!(other.load(1).unwrap(), older);
    // Writing adds the table, and what is added has times.
    let mut store = Store::open_or_create(&path).unwrap();
    keep(&mut store, &campaign());
    drop(store);
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.load(1).unwrap(), older);
    assert_eq!(store.load(2).unwrap().runs, campaign().runs);
}

#[test]
fn counts_what_transactions_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.db");
    let size = || fs::metadata(&path).unwrap().len();
    let mut store = Store::open_or_create(&path).unwrap();
    let created_bytes = size();
    assert!(store.written_bytes() >= created_bytes && created_bytes > 0);
    let before_bytes = store.written_bytes();
    keep(&mut store, &campaign());
    // The journal also contains the changed pages.
    assert!(store.written_bytes() - before_bytes > size() - created_bytes);
    assert_eq!(Store::open_existing(&path).unwrap().written_bytes(), 0);
}

#[test]
fn drops_only_stopped_trials_on_resume() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    assert_eq!(keep(&mut store, &campaign()), 2);
    let standing = store.reopen(1).unwrap();
    let trials: Vec<_> = standing.iter().map(|run| run.trials.clone()).collect();
    // In the order in which they were executed.
    assert_eq!(trials, [vec![(1, false), (0, true)], Vec::new(), Vec::new()]);
    let mut expected = campaign();
    expected.state = CampaignState::Running;
    expected.runs[0].trials.truncate(2);
    assert_eq!(store.load(1).unwrap(), expected);
    assert_eq!(store.load(2).unwrap().runs, campaign().runs);
    // No row is left without its parent, and the trial can be stored again.
    let run_id = standing[0].run_id;
    let again = trial(2, TrialState::Done, vec![pass(Pass::Write, OpKind::Write)]);
    store.add_trial(run_id, &again).unwrap();
    let db = Connection::open(&path).unwrap();
    let broken = "SELECT count(*) FROM pragma_foreign_key_check";
    assert_eq!(db.query_row(broken, [], |row| row.get(0)), Ok(0));
    let passes = "SELECT count(*) FROM passes";
    let before = campaign().runs[0].trials.iter().map(|trial| trial.passes.len()).sum::<usize>();
    assert_eq!(
        db.query_row(passes, [], |row| row.get::<_, i64>(0)),
        Ok(2 * before.cast_signed() as i64)
    );
}

#[test]
fn several_campaigns_share_a_file() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let mut second = campaign();
    second.id = 2;
    second.ceiling = None;
    second.state = CampaignState::Running;
    assert_eq!(keep(&mut store, &second), 2);
    assert_eq!(store.load(2).unwrap(), second);
    let ceiling = Ceiling { ops_per_s: 1, service_time_p50_ns: 2 };
    store.set_ceiling(2, ceiling).unwrap();
    store.finish(2, CampaignState::Interrupted).unwrap();
    second.ceiling = Some(ceiling);
    second.state = CampaignState::Interrupted;
    assert_eq!(store.load(2).unwrap(), second);
    assert_eq!(store.load(1).unwrap(), campaign());
    let lines = store.list().unwrap();
    assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((lines[1].state, lines[1].runs, lines[1].trials), (second.state, 3, 3));
    let missing = store.load(3).unwrap_err().to_string();
    assert!(missing.contains("no campaign 3"), "{missing}");
}

#[test]
fn creates_file_without_campaigns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    let store = Store::open_or_create(&path).unwrap();
    assert_eq!((store.list().unwrap().len(), store.latest().unwrap()), (0, None));
    drop(store);
    let other = Connection::open(&path).unwrap();
    let pragma = |name| other.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(
        (pragma("application_id"), pragma("user_version")),
        (APPLICATION_ID, SCHEMA_VERSION)
    );
    assert_eq!(names(directory.path()), ["dfsbench.db"]);
}

#[test]
fn leaves_file_unchanged_after_reading() {
    let (directory, path) = filled();
    let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let mut store = Store::open_existing(&path).unwrap();
    store.load(1).unwrap();
    let error = store.finish(1, CampaignState::Running).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    drop(store);
    let after = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    assert_eq!(after, before);
    assert_eq!(names(directory.path()), ["dfsbench.db"]);
}

#[test]
fn shows_figures_in_views() {
    let (_directory, path) = filled();
    let other = Connection::open(&path).unwrap();
    let (rate, caveats): (f64, String) = other
        .query_row("SELECT rate_bytes_per_s, caveats FROM figures WHERE pass = 'read'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!((rate - 10_485_760.0 / 1.000_000_007).abs() < 1e-3, "{rate}");
    assert_eq!(caveats, "cached,errors");
    let reasons: i64 =
        other.query_row("SELECT count(reason) FROM failures", [], |row| row.get(0)).unwrap();
    assert_eq!(reasons, 1);
    let set: String = other
        .query_row("SELECT value FROM settings WHERE run_id = 1 AND name = 'file_size'", [], |r| {
            r.get(0)
        })
        .unwrap();
    assert_eq!(set, "1 GiB");
}

#[test]
fn does_not_create_file_by_reading() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    let error = Store::open_existing(&path).unwrap_err().to_string();
    assert!(error.contains("there is no results file"), "{error}");
    assert!(names(directory.path()).is_empty());
    let lost = directory.path().join("nowhere/dfsbench.db");
    for error in
        [Store::open_existing(&lost).unwrap_err(), Store::open_or_create(&lost).unwrap_err()]
    {
        assert!(matches!(error, StoreError::DirectoryMissing(_)), "{error}");
    }
}

#[test]
fn other_files_are_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let text = "not a database, but longer than the hundred bytes of a header: ".repeat(20);
    fs::write(at("text"), &text).unwrap();
    refused(&at("text"), "not a dfsbench results file");
    fs::write(at("short"), "short").unwrap();
    refused(&at("short"), "not a dfsbench results file");
    refused(directory.path(), "is not a file");

    let foreign = Connection::open(at("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    drop(foreign);
    refused(&at("foreign"), "another program");
    let marked = Connection::open(at("marked")).unwrap();
    marked.pragma_update(None, "application_id", 77).unwrap();
    drop(marked);
    refused(&at("marked"), "another program");
}

#[test]
fn names_versions_of_newer_schema() {
    let (_directory, path) = filled();
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    drop(other);
    refused(&path, "schema version 2, but this dfsbench only supports version 1");
}

#[test]
fn names_versions_of_unknown_schema() {
    let (_directory, path) = filled();
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", 0).unwrap();
    drop(other);
    refused(&path, "schema version 0, but this dfsbench only supports version 1");
}

#[test]
fn rejects_other_schema_of_same_version() {
    for (sql, missing) in [
        ("DROP TABLE tags", "the table `tags` is missing"),
        (
            "ALTER TABLE notes RENAME COLUMN text TO remark",
            "the table `notes` has no column `text`",
        ),
    ] {
        let (_directory, path) = filled();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = Store::open_existing(&path).unwrap_err();
        assert!(matches!(error, StoreError::OtherSchema { version: 1, .. }), "{error}");
        refused(&path, missing);
    }
}

#[test]
fn accepts_empty_file_for_writing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty");
    fs::write(&path, "").unwrap();
    let error = Store::open_existing(&path).unwrap_err();
    assert!(matches!(error, StoreError::Empty(_)), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert!(Store::open_or_create(&path).unwrap().list().unwrap().is_empty());
}

#[test]
fn waits_for_lock_then_reports() {
    let (_directory, path) = filled();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    refused(&path, "locked by another process");
    // A process that only prepares to write does not block readers.
    other.execute_batch("ROLLBACK; BEGIN IMMEDIATE").unwrap();
    assert!(Store::open_existing(&path).unwrap().load(1).is_ok());
    let mut store = Store::open_or_create(&path).unwrap();
    let error = store.finish(1, CampaignState::Running).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    store.finish(1, CampaignState::Running).unwrap();
}

#[test]
fn rolls_back_write_after_crash() {
    let (directory, path) = filled();
    // With a cache of one page, SQLite writes to the file before the commit; a copy of both files
    // at this moment is the state after a crash.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE").unwrap();
    other
        .execute_batch("DELETE FROM samples; DELETE FROM cross_checks; DELETE FROM settings")
        .unwrap();
    other.execute_batch("UPDATE kinds SET service_time = zeroblob(100000)").unwrap();
    let crashed = directory.path().join("crashed.db");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(
        directory.path().join("dfsbench.db-journal"),
        directory.path().join("crashed.db-journal"),
    )
    .unwrap();
    assert_ne!(fs::metadata(&crashed).unwrap().len(), 0);
    let store = Store::open_existing(&crashed).unwrap();
    assert_eq!(store.load(1).unwrap(), campaign());
    assert!(!directory.path().join("crashed.db-journal").exists());
}

#[test]
fn rejects_bad_values_and_reports_damage() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let mut far = trial(7, TrialState::Done, vec![pass(Pass::Write, OpKind::Write)]);
    far.passes[0].window_ns = u64::MAX;
    let error = store.add_trial(1, &far).unwrap_err();
    assert!(matches!(error, StoreError::NotStorable { .. }), "{error}");
    assert_eq!(store.load(1).unwrap(), campaign());

    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE kinds SET service_time = x'ff'").unwrap();
    let error = store.load(1).unwrap_err().to_string();
    assert!(error.contains("damaged: service_time "), "{error}");
    other.execute_batch("UPDATE caveats SET code = 'moon-phase'").unwrap();
    other.execute_batch("DELETE FROM op_errors; DELETE FROM kinds").unwrap();
    let error = store.load(1).unwrap_err().to_string();
    assert!(error.contains("code `moon-phase`"), "{error}");
}

#[cfg(unix)]
#[test]
fn rejects_path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let odd = std::ffi::OsString::from_vec(vec![b'/', 0xff]);
    let error = store.add_run(1, 9, &spec(Target::Directory { path: odd.into() })).unwrap_err();
    assert!(matches!(error, StoreError::NotStorable { .. }), "{error}");
}
