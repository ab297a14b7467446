//! Results files that are not ours, newer, locked or empty.

use rusqlite::Connection;

use crate::cli::Cli;

const RUN: [&str; 6] = ["run", "null", "--duration", "100ms", "--results", "r.db"];

#[test]
fn stores_results_in_empty_file() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("r.db"), "").unwrap();
    cli.refused(&["report", "--results", "r.db"], 2, &["`r.db` is empty", "hint"]);
    let end = cli.run(&RUN);
    assert!([0, 4].contains(&end.code), "{end:?}");
    assert_eq!(cli.run(&["report", "--results", "r.db"]).code, 0);
}

#[test]
fn a_file_that_is_not_ours() {
    let cli = Cli::new();
    let path = cli.folder().join("r.db");
    std::fs::write(&path, "a shopping list, and quite a long one, with apples and pears").unwrap();
    cli.refused(&RUN, 2, &["r.db"]);
    cli.refused(&["report", "--results", "r.db"], 2, &["r.db"]);
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE apples (n)").unwrap();
    cli.refused(&RUN, 2, &["r.db", "dfsbench"]);
    assert_eq!(
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM apples", [], |r| r.get(0)),
        Ok(0)
    );
}

#[test]
fn a_file_of_a_newer_version() {
    let cli = Cli::new();
    assert_eq!(cli.run(&RUN).code, 0);
    let db = Connection::open(cli.folder().join("r.db")).unwrap();
    db.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(db);
    cli.refused(&RUN, 2, &["99", "hint"]);
    cli.refused(&["report", "--results", "r.db"], 2, &["99"]);
}

#[test]
fn a_file_that_is_locked() {
    let cli = Cli::new();
    assert_eq!(cli.run(&RUN).code, 0);
    let db = Connection::open(cli.folder().join("r.db")).unwrap();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let end = cli.run(&RUN);
    assert_eq!(end.code, 2, "{end:?}");
    assert!(end.stderr.contains("locked") || end.stderr.contains("in use"), "{end:?}");
}

#[test]
fn no_file_and_no_campaign() {
    let cli = Cli::new();
    cli.refused(&["report"], 2, &["dfsbench.db"]);
    assert_eq!(cli.run(&RUN).code, 0);
    cli.refused(&["report", "--results", "r.db", "7"], 2, &["7"]);
    cli.refused(&["run", "null", "--results", "no/such/folder/r.db"], 2, &["no/such/folder"]);
}

#[test]
fn does_not_replace_other_file() {
    let cli = Cli::new();
    let strange = cli.folder().join("r.html");
    std::fs::write(&strange, "<p>my notes").unwrap();
    cli.refused(&RUN, 2, &["r.html", "hint"]);
    assert_eq!(std::fs::read_to_string(&strange).unwrap(), "<p>my notes");
    std::fs::remove_file(&strange).unwrap();
    let mut onto_itself = RUN;
    onto_itself[5] = "r.html";
    cli.refused(&onto_itself, 2, &["r.html", "results file"]);
    // Our own page is overwritten.
    assert_eq!((cli.run(&RUN).code, cli.run(&RUN).code), (0, 0));
}
