//! Merging results files: without loss, without duplicates, completely or not at all.

use std::path::{Path, PathBuf};

use model::durability::{DurabilityReport, PromiseTier, StoredDurability, Tier};
use model::{Campaign, CampaignState, Durability};
use results::{JoinedCounts, Merged, Note, Store, StoreError};
use rusqlite::Connection;

use crate::material::{campaign, filled, keep};

/// A file with two campaigns, the second of which has tags and notes, next to another file.
fn other(directory: &Path) -> PathBuf {
    let path = directory.join("other.db");
    let mut store = Store::open_or_create(&path).unwrap();
    let mut second = campaign();
    (second.name, second.ceiling, second.state) =
        ("second".into(), None, CampaignState::Interrupted);
    for campaign in [campaign(), second] {
        keep(&mut store, &campaign);
    }
    store.set_tags(2, &["kept".to_owned()], &[]).unwrap();
    store.add_note(2, &Note { written_unix_ms: 5, text: "kept, too".into() }).unwrap();
    let report = DurabilityReport {
        schema: 1,
        target: "nfs://h/e".into(),
        promises: Vec::new(),
        tiers: vec![PromiseTier { promise: Durability::Sync, tier: Tier::None }],
        events: Vec::new(),
    };
    let stored = StoredDurability { contender: "nfs".into(), measured_unix_ms: 1, report };
    store.add_durability(2, &stored).unwrap();
    path
}

/// A campaign that already existed here and lacked nothing.
fn as_it_was(id: i64) -> Merged {
    Merged::Known { id, gained: JoinedCounts::default() }
}

fn load(store: &Store, id: i64) -> Campaign {
    store.load(id).unwrap()
}

fn tables(path: &Path) -> Vec<(String, i64)> {
    let db = Connection::open(path).unwrap();
    let mut names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    names
        .map(|name| {
            let name = name.unwrap();
            let sql = format!("SELECT count(*) FROM {name}");
            let rows = db.query_row(&sql, [], |row| row.get(0)).unwrap();
            (name, rows)
        })
        .collect()
}

#[test]
fn merges_every_row_of_every_table() {
    let (directory, path) = filled();
    let other = other(directory.path());
    let before = tables(&path);
    let added = tables(&other);
    let untouched = std::fs::read(&other).unwrap();
    let mut store = Store::open_or_create(&path).unwrap();
    let merged = store.import(&other).unwrap();
    let numbers: Vec<Merged> = merged.iter().map(|merged| merged.to).collect();
    assert_eq!(numbers, [Merged::New(2), Merged::New(3)]);
    for (sum, (before, added)) in tables(&path).iter().zip(before.iter().zip(&added)) {
        assert_eq!((&sum.0, sum.1), (&before.0, before.1 + added.1));
        assert!(added.1 > 0 || sum.0 == "removed", "the test campaign has no row of {}", sum.0);
    }
    let source = Store::open_existing(&other).unwrap();
    for (from, to) in [(1, 2), (2, 3)] {
        assert_eq!(load(&store, to), Campaign { id: to, ..load(&source, from) });
        assert_eq!(store.notes(to).unwrap(), source.notes(from).unwrap());
        let old = source.line(from).unwrap();
        let new = store.line(to).unwrap();
        assert_eq!((old.tags, old.uuid), (new.tags, new.uuid));
    }
    assert_eq!(load(&store, 1), campaign());
    assert_eq!(std::fs::read(&other).unwrap(), untouched);
    let db = Connection::open(&path).unwrap();
    let broken = "SELECT count(*) FROM pragma_foreign_key_check";
    assert_eq!(db.query_row(broken, [], |row| row.get(0)), Ok(0));
    // A merged file can be resumed and extended.
    assert_eq!(store.reopen(3).unwrap().len(), 3);
    assert_eq!(keep(&mut store, &campaign()), 4);
}

#[test]
fn never_merges_campaign_twice() {
    let (directory, path) = filled();
    let other = other(directory.path());
    let third = directory.path().join("third.db");
    let mut store = Store::open_or_create(&path).unwrap();
    store.import(&other).unwrap();
    let again = store.import(&other).unwrap();
    let known: Vec<Merged> = again.iter().map(|merged| merged.to).collect();
    assert_eq!(known, [as_it_was(2), as_it_was(3)]);
    Store::open_or_create(&third).unwrap().import(&path).unwrap();
    assert!(store.import(&third).unwrap().iter().all(|m| matches!(m.to, Merged::Known { .. })));
    assert_eq!(store.list().unwrap().len(), 3);
    let error = store.import(&path).unwrap_err().to_string();
    assert!(error.contains("into itself"), "{error}");
}

#[test]
fn refuses_lossy_or_damaged_merge() {
    let (directory, path) = filled();
    let before = std::fs::read(&path).unwrap();
    let mut store = Store::open_or_create(&path).unwrap();
    let other = other(directory.path());
    let mut refused = |change: &str, words: &str| {
        let broken = directory.path().join("broken.db");
        std::fs::copy(&other, &broken).unwrap();
        Connection::open(&broken).unwrap().execute_batch(change).unwrap();
        let error = store.import(&broken).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("broken.db"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{change}");
    };
    refused("CREATE TABLE moods (campaign_id INTEGER)", "moods");
    refused("UPDATE passes SET pass = 'sideways'", "sideways");
    refused("UPDATE kinds SET service_time = x'ff'", "histogram");
    refused(
        "PRAGMA foreign_keys = 0; UPDATE facts SET trial_id = 99 WHERE trial_id IS NOT NULL",
        "refer to rows that do not exist",
    );
    refused(
        "PRAGMA foreign_keys = 0; UPDATE facts SET id = 9223372036854775807 WHERE id = 1;
         UPDATE facts SET id = -9223372036854775807 WHERE id = 2",
        "",
    );
    let text = directory.path().join("text.db");
    std::fs::write(&text, "no database, but longer than a hundred bytes. ".repeat(9)).unwrap();
    assert!(matches!(store.import(&text), Err(StoreError::NotSqlite(_))));
    assert!(matches!(store.import(&directory.path().join("none.db")), Err(StoreError::Missing(_))));
}
