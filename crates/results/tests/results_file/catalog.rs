//! Managing a results file: lists, tags, notes, removal.

use model::durability::{DurabilityReport, PromiseTier, StoredDurability, Tier};
use model::{CampaignState, Durability, Histogram, PassResult};
use results::{Note, Store, StoreError};
use rusqlite::Connection;

use crate::material::{campaign, filled, keep};

fn note(text: &str) -> Note {
    Note { written_unix_ms: 1_800_000_000_000, text: text.to_owned() }
}

fn tags(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

#[test]
fn keeps_and_extends_tags_and_notes() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    store.set_tags(1, &tags(&["nightly", "before"]), &[]).unwrap();
    store.set_tags(1, &tags(&["nightly", "a/b"]), &tags(&["before", "never-there"])).unwrap();
    store.add_note(1, &note("disk <b>7</b> was replaced")).unwrap();
    store.add_note(1, &note("=1+1")).unwrap();
    drop(store);
    let store = Store::open_existing(&path).unwrap();
    let line = store.line(1).unwrap();
    assert_eq!(line.tags, tags(&["a/b", "nightly"]));
    assert_eq!((line.runs, line.trials, line.trials_failed), (3, 3, 1));
    assert_eq!((line.state, line.uuid.len()), (CampaignState::Complete, 36));
    let notes = store.notes(1).unwrap();
    assert_eq!(notes, [note("disk <b>7</b> was replaced"), note("=1+1")]);
}

/// An outline is the campaign without data that verdicts don't need, and nothing else is missing.
#[test]
fn omits_large_parts_from_outline() {
    let (_directory, path) = filled();
    let store = Store::open_existing(&path).unwrap();
    let mut expected = store.load(1).unwrap();
    for pass in expected.runs.iter_mut().flat_map(|r| &mut r.trials).flat_map(|t| &mut t.passes) {
        let bare = PassResult::new(pass.pass);
        pass.cross_checks = bare.cross_checks;
        pass.clients = bare.clients;
        pass.hosts = bare.hosts;
        pass.interval_times = bare.interval_times;
        pass.intervals = bare.intervals;
        pass.fault_events = bare.fault_events;
        pass.scope = bare.scope;
        pass.telemetry = bare.telemetry;
        for kind in &mut pass.kinds {
            kind.service_time = Histogram::sparse();
            kind.response_time = Histogram::sparse();
            kind.errors.clear();
        }
    }
    let whole = store.load(1).unwrap();
    assert_ne!(expected, whole, "the campaign has nothing to leave out");
    assert_eq!(store.outline(1).unwrap(), expected);
}

/// The size of a campaign with thousands of runs is estimated from some of them; here all have the
/// same size.
#[test]
fn estimates_large_campaign_by_sample() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.db");
    let mut store = Store::open_or_create(&path).unwrap();
    let like = campaign();
    let id = store.begin_campaign(&like).unwrap();
    let run = store.add_run(id, 0, &like.runs[0].spec).unwrap();
    drop(store);
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
             WHERE i < 1299) SELECT i FROM n;
         INSERT INTO runs SELECT id + i, campaign_id, i, target_name, target, backend, workload,
             spec_json FROM runs, n WHERE id = {run};
         INSERT INTO settings SELECT run_id + i, name, value FROM settings, n WHERE run_id = {run}"
    ))
    .unwrap();
    let least: i64 = db
        .query_row(
            "SELECT (SELECT sum(length(spec_json)) FROM runs)
                 + (SELECT sum(length(name) + length(value)) FROM settings)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let least = least.unsigned_abs();
    let sized = Store::open_existing(&path).unwrap().size_bytes(id).unwrap();
    assert!(sized > least && sized < least * 6 / 5, "{sized} bytes, {least} of them in settings");
}

#[test]
fn changes_nothing_if_refused() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = [
        store.set_tags(1, &tags(&["fine", "two words"]), &[]),
        store.add_note(1, &note(" \n")),
        store.add_note(1, &note(&"x".repeat(10_001))),
        store.set_tags(7, &tags(&["fine"]), &[]),
        store.add_note(7, &note("x")),
        store.remove(7),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err().to_string();
        let words = if at < 3 { "cannot be" } else { "holds no campaign 7" };
        assert!(error.contains(words) || error.contains("a note must have"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn removes_campaign_without_reusing_number() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    assert_eq!(keep(&mut store, &campaign()), 2);
    store.set_tags(2, &tags(&["fine"]), &[]).unwrap();
    store.add_note(2, &note("x")).unwrap();
    store.finish(1, CampaignState::Complete).unwrap();
    store.finish(2, CampaignState::Complete).unwrap();
    let large = std::fs::metadata(&path).unwrap().len();
    store.remove(2).unwrap();
    store.compact().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < large);
    assert_eq!(store.load(1).unwrap(), campaign());
    assert!(matches!(store.load(2), Err(StoreError::NoCampaign { id: 2, .. })));
    assert_eq!(keep(&mut store, &campaign()), 3);
    store.finish(3, CampaignState::Complete).unwrap();
    store.remove(3).unwrap();
    store.remove(1).unwrap();
    drop(store);
    let db = Connection::open(&path).unwrap();
    let mut names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names.map(Result::unwrap).filter(|name| name != "removed") {
        let left: i64 =
            db.query_row(&format!("SELECT count(*) FROM {name}"), [], |r| r.get(0)).unwrap();
        assert_eq!(left, 0, "{name}");
    }
}

#[test]
fn refuses_to_remove_running_campaign() {
    let (_directory, path) = filled();
    let mut maker = Store::open_or_create(&path).unwrap();
    let id = maker.begin_campaign(&campaign()).unwrap();
    let mut other = Store::open_or_create(&path).unwrap();
    assert!(matches!(other.remove(id), Err(StoreError::Held { .. })));
    other.add_note(id, &note("watched it start")).unwrap();
    other.remove(1).unwrap();
    maker.finish(id, CampaignState::Complete).unwrap();
    other.remove(id).unwrap();
    assert_eq!(other.latest().unwrap(), None);
}

#[test]
fn estimates_size_in_file() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let mut large = campaign();
    for index in 0..200 {
        let mut trial = large.runs[0].trials[0].clone();
        trial.index = 10 + index;
        large.runs[0].trials.push(trial);
    }
    let before = std::fs::metadata(&path).unwrap().len();
    let id = keep(&mut store, &large);
    let grown = std::fs::metadata(&path).unwrap().len() - before;
    let size = store.size_bytes(id).unwrap();
    assert!(size > grown / 4 && size < grown, "{size} of {grown}");
    assert!(store.size_bytes(1).unwrap() < size / 50);
}

#[test]
fn removes_durability_with_campaign() {
    let (_directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let stored = |contender: &str, measured_unix_ms| StoredDurability {
        contender: contender.into(),
        measured_unix_ms,
        report: DurabilityReport {
            schema: 1,
            target: "nfs://h/e".into(),
            promises: vec!["sync: COMMIT was answered".into()],
            tiers: vec![PromiseTier { promise: Durability::Sync, tier: Tier::PowerLoss }],
            events: Vec::new(),
        },
    };
    // In the order of their times, no matter in which order they were added.
    store.add_durability(1, &stored("b", 2)).unwrap();
    store.add_durability(1, &stored("a", 1)).unwrap();
    let loaded = store.load(1).unwrap().durability;
    assert_eq!(loaded, [stored("a", 1), stored("b", 2)]);
    assert_eq!(loaded[0].tier_of(Durability::Sync), Tier::PowerLoss);
    assert_eq!(loaded[0].tier_of(Durability::None), Tier::Unknown);
    assert_eq!(store.outline(1).unwrap().durability.len(), 2);
    let error = store.add_durability(7, &stored("a", 1)).unwrap_err().to_string();
    assert!(error.contains("holds no campaign 7"), "{error}");
    store.finish(1, CampaignState::Complete).unwrap();
    store.remove(1).unwrap();
    drop(store);
    let db = Connection::open(&path).unwrap();
    let left = db.query_row("SELECT count(*) FROM durability", [], |row| row.get::<_, i64>(0));
    assert_eq!(left.unwrap(), 0);
}
