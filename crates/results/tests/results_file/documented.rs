//! The pages on results match the file: every table, view and column, and queries that run.

use std::collections::BTreeSet;

use results::{Note, Store};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::material::{campaign, filled, keep};

const PAGE: &str = include_str!("../../../../docs/results.md");
const TABLES: &str = include_str!("../../../../docs/design/results-file.md");

/// A file in which every query returns something: two campaigns, one of them tagged.
fn file() -> (tempfile::TempDir, Connection) {
    let (directory, path) = filled();
    let mut store = Store::open_or_create(&path).unwrap();
    let mut second = campaign();
    second.runs[1].spec.file_size_bytes /= 2;
    let trials = campaign().runs[0].trials[..1].to_vec();
    second.runs[1].trials = trials;
    let id = keep(&mut store, &second);
    store.set_tags(id, &["nightly".to_owned()], &[]).unwrap();
    store.add_note(id, &Note { written_unix_ms: 1, text: "kept".into() }).unwrap();
    drop(store);
    (directory, Connection::open(path).unwrap())
}

fn names(db: &Connection, sql: &str) -> Vec<String> {
    let mut names = db.prepare(sql).unwrap();
    let found = names.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

#[test]
fn documents_all_tables_and_columns() {
    let (_directory, db) = file();
    let made = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')";
    let made: BTreeSet<String> = names(&db, made).into_iter().collect();
    let views = PAGE.split_once("## Tables and views").unwrap().1;
    let views = views.split_once("## Queries").unwrap().0;
    let tables = TABLES.split_once("## Tables").unwrap().1;
    let rows = tables.lines().chain(views.lines());
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|row| row.0.to_owned()).collect();
    assert_eq!(documented, made);
    for table in names(&db, "SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let row = TABLES.lines().find(|line| line.starts_with(&format!("| `{table}` | ")));
        let row = row.unwrap_or_else(|| panic!("{table} is not on the page"));
        for column in names(&db, &format!("SELECT name FROM pragma_table_info('{table}')")) {
            assert!(row.contains(&format!("`{column}`")), "{table}.{column} is not on the page");
        }
    }
}

#[test]
fn runs_every_documented_query() {
    let (_directory, db) = file();
    let queries: Vec<&str> =
        PAGE.split("```sql\n").skip(1).map(|part| part.split_once("```").unwrap().0).collect();
    assert_eq!(queries.len(), 6);
    for query in queries {
        let mut statement = db.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(statement.readonly(), "{query}");
        let columns = statement.column_count();
        let rows: Vec<Vec<Value>> = statement
            .query_map([], |row| (0..columns).map(|at| row.get(at)).collect())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!rows.is_empty(), "{query} finds nothing");
        for column in 0..columns {
            let any = rows.iter().any(|row| row[column] != Value::Null);
            assert!(any, "{query}: column {column} is always NULL");
        }
    }
}
