//! Memory for reading a large campaign, on which a report of 100,000 runs depends.

#[path = "results_file/material.rs"]
mod material;

use material::filled;
use results::Store;
use rusqlite::Connection;

/// Number of copies of the material's runs.
const COPIES: u32 = 2_000;

/// Maximum memory in KiB. Each has seven passes of histograms that span six decades: with room for
/// every value between its ends, a copy would take about 150 KiB.
const MEMORY_KIB_MAX: u64 = 120 * 1_024;

/// Every table below runs, parents first, and the keys that differ between copies.
const TABLES: [&str; 14] = [
    "runs",
    "settings",
    "trials",
    "passes",
    "kinds",
    "op_errors",
    "samples",
    "interval_times",
    "caveats",
    "cross_checks",
    "clients",
    "scopes",
    "telemetry",
    "metrics",
];
const KEYS: [&str; 6] = ["id", "run_id", "trial_id", "pass_id", "kind_id", "telemetry_id"];

/// Copies all runs with everything below them.
fn grow(db: &Connection) {
    db.execute_batch("BEGIN").unwrap();
    for table in TABLES {
        let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
        let mut columns = db.prepare(sql).unwrap();
        let columns = columns.query_map([table], |row| row.get::<_, String>(0)).unwrap();
        let value = |name: String| match name.as_str() {
            "run_index" => "run_index + n.i * 100".to_owned(),
            key if KEYS.contains(&key) => format!("{key} + n.i * 1000"),
            _ => name,
        };
        let values: Vec<String> = columns.map(|name| value(name.unwrap())).collect();
        let values = values.join(", ");
        db.execute_batch(&format!(
            "CREATE TEMP TABLE first AS SELECT * FROM {table};
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COPIES})
             INSERT INTO {table} SELECT {values} FROM temp.first, n;
             DROP TABLE temp.first"
        ))
        .unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

/// Maximum memory of this process so far, in KiB.
///
/// **Source:** `proc_pid_status(5)`, `VmHWM`.
fn memory_most_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn reads_many_runs_in_little_memory() {
    let (_directory, path) = filled();
    let db = Connection::open(&path).unwrap();
    grow(&db);
    drop(db);
    let store = Store::open_existing(&path).unwrap();
    let before_kib = memory_most_kib();
    let campaign = store.load(1).unwrap();
    let grown_kib = memory_most_kib() - before_kib;
    assert_eq!(campaign.runs.len(), 3 * (COPIES as usize + 1));
    let first = &campaign.runs[0];
    let last = &campaign.runs[3 * COPIES as usize];
    let passes = |run: &model::Run| {
        run.trials.iter().flat_map(|trial| trial.passes.clone()).collect::<Vec<_>>()
    };
    let without_hosts = |mut passes: Vec<model::PassResult>| {
        for pass in &mut passes {
            pass.hosts = Vec::new();
            pass.intervals = Vec::new();
            pass.fault_events = Vec::new();
        }
        passes
    };
    assert_eq!(without_hosts(passes(first)), without_hosts(passes(last)));
    assert!(grown_kib < MEMORY_KIB_MAX, "{grown_kib} KiB");
}
