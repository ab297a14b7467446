//! Files that earlier dfsbench wrote open, are read whole, and become files of today.
//!
//! Each file under `files` was written by the program of its time and is named for what its schema
//! had come to: `first` has the tables of the first release, each other one more.

use std::fs;
use std::path::{Path, PathBuf};

use model::Campaign;
use results::{ExportFormat, Merged, Store};
use rusqlite::Connection;
use tempfile::TempDir;

/// Name, and how many campaigns, runs, trials, passes and kinds of op it holds.
const FILES: [(&str, [usize; 5]); 5] = [
    ("first", [2, 2, 2, 5, 6]),
    ("clients", [7, 33, 33, 95, 151]),
    ("scopes", [1, 2, 10, 10, 30]),
    ("telemetry", [2, 2, 2, 4, 4]),
    ("hosts", [1, 1, 1, 2, 3]),
];

/// The file as it was written, in a directory of its own.
fn unpacked(name: &str) -> (TempDir, PathBuf) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/files/{name}.db.zst"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dfsbench.db");
    fs::write(&path, zstd::decode_all(&fs::read(packed).unwrap()[..]).unwrap()).unwrap();
    (directory, path)
}

fn campaigns(store: &Store) -> Vec<Campaign> {
    store.list().unwrap().iter().map(|line| store.load(line.id).unwrap()).collect()
}

fn sizes(campaigns: &[Campaign]) -> [usize; 5] {
    let runs = || campaigns.iter().flat_map(|campaign| &campaign.runs);
    let trials = || runs().flat_map(|run| &run.trials);
    let passes = || trials().flat_map(|trial| &trial.passes);
    let kinds = passes().map(|pass| pass.kinds.len()).sum();
    [campaigns.len(), runs().count(), trials().count(), passes().count(), kinds]
}

fn schema(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut names = db.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
    names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_earlier_file_is_read_whole_and_is_not_changed_by_that() {
    for (name, expected) in FILES {
        let (directory, path) = unpacked(name);
        let before = fs::read(&path).unwrap();
        let store = Store::open_existing(&path).unwrap();
        assert_eq!(sizes(&campaigns(&store)), expected, "{name}");
        let out = directory.path().join("out");
        let exported = store.export(&[], &out, ExportFormat::Parquet).unwrap();
        let rows = |table: &str| exported.iter().find(|e| e.table == table).map(|e| e.rows);
        assert_eq!(rows("passes"), Some(expected[3] as u64), "{name}");
        assert!(store.size_bytes(1).unwrap() > 1_000, "{name}");
        drop(store);
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
    }
}

#[test]
fn every_earlier_file_becomes_one_of_today_when_it_is_added_to() {
    let (_new, today) = unpacked("first");
    Store::open_or_create(&today).unwrap();
    for (name, _) in FILES {
        let (_directory, path) = unpacked(name);
        let store = Store::open_existing(&path).unwrap();
        let (before, lines) = (campaigns(&store), store.list().unwrap());
        drop(store);
        let mut store = Store::open_or_create(&path).unwrap();
        assert_eq!(campaigns(&store), before, "{name}");
        // Who it is does not depend on when it was upgraded.
        assert_eq!(store.list().unwrap(), lines, "{name}");
        store.set_tags(1, &["old".to_owned()], &[]).unwrap();
        store.reopen(1).unwrap();
        drop(store);
        assert_eq!(schema(&path), schema(&today), "{name}");
    }
}

#[test]
fn all_earlier_files_merge_into_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open_or_create(&directory.path().join("all.db")).unwrap();
    let mut expected = Vec::new();
    for (name, [count, ..]) in FILES {
        let (_directory, path) = unpacked(name);
        let merged = store.import(&path).unwrap();
        assert!(merged.iter().all(|merged| matches!(merged.to, Merged::New(_))), "{name}");
        assert_eq!(merged.len(), count);
        expected.extend(campaigns(&Store::open_existing(&path).unwrap()));
    }
    for (at, campaign) in expected.iter_mut().enumerate() {
        campaign.id = i64::try_from(at).unwrap() + 1;
    }
    assert_eq!(campaigns(&store), expected);
}
