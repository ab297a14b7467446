//! Exports: other programs can read the contents of the results file from them.

use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use results::{ExportError, ExportFormat, Store, StoreError};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::material::{campaign, filled, keep};

/// Rows of a table or view as text, without columns that only dfsbench can read; `None` is NULL.
fn stored(path: &Path, table: &str, names: &[String]) -> Vec<Vec<Option<String>>> {
    let db = Connection::open(path).unwrap();
    let mut rows = db.prepare(&format!("SELECT {} FROM {table}", names.join(", "))).unwrap();
    let found = rows.query_map([], |row| {
        let cells = (0..names.len()).map(|at| {
            Ok(match row.get(at)? {
                Value::Null => None,
                Value::Integer(number) => Some(number.to_string()),
                Value::Real(number) => Some(format!("{number:.6e}")),
                Value::Text(text) => Some(text),
                Value::Blob(_) => panic!("{table}: a blob was exported"),
            })
        });
        cells.collect::<rusqlite::Result<_>>()
    });
    found.unwrap().map(Result::unwrap).collect()
}

fn of_parquet(path: &Path) -> (Vec<String>, Vec<Vec<Option<String>>>) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => None,
            Field::Long(number) => Some(number.to_string()),
            Field::Double(number) => Some(format!("{number:.6e}")),
            Field::Str(text) => Some(text.clone()),
            other => panic!("{other:?}"),
        });
        cells.collect()
    });
    (names, rows.collect())
}

fn of_json(path: &Path, names: &[String]) -> Vec<Vec<Option<String>>> {
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&text).unwrap();
    let cell = |value: &serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        value if value.is_i64() => Some(value.to_string()),
        value => Some(format!("{:.6e}", value.as_f64().unwrap())),
    };
    rows.iter().map(|row| names.iter().map(|name| cell(&row[name])).collect()).collect()
}

/// Parses CSV according to RFC 4180. Only texts are compared, so quotes are dropped.
fn of_csv(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

#[test]
fn exports_all_rows_in_every_format() {
    let (directory, path) = filled();
    keep(&mut Store::open_or_create(&path).unwrap(), &campaign());
    let store = Store::open_existing(&path).unwrap();
    let at = |name: &str| directory.path().join(name);
    let exported = store.export(&[], &at("parquet"), ExportFormat::Parquet).unwrap();
    assert_eq!(store.export(&[], &at("json"), ExportFormat::Json).unwrap(), exported);
    assert_eq!(store.export(&[], &at("csv"), ExportFormat::Csv).unwrap(), exported);
    assert!(exported.iter().any(|table| table.table == "hosts"));
    for table in &exported {
        let name = &table.table;
        let (names, rows) = of_parquet(&at("parquet").join(format!("{name}.parquet")));
        assert_eq!(rows.len() as u64, table.rows, "{name}");
        assert!(
            table.rows > 0 || ["durability", "notes", "tags"].contains(&name.as_str()),
            "{name}"
        );
        assert_eq!(of_json(&at("json").join(format!("{name}.json")), &names), rows, "{name}");
        let csv = of_csv(&at("csv").join(format!("{name}.csv")));
        assert_eq!((&csv[0], csv.len() as u64), (&names, table.rows + 1), "{name}");
        if name != "buckets" {
            let sorted = |mut rows: Vec<Vec<Option<String>>>| {
                rows.sort();
                rows
            };
            assert_eq!(sorted(rows), sorted(stored(&path, name, &names)), "{name}");
        }
    }
}

#[test]
fn exports_every_op_in_buckets() {
    let (directory, path) = filled();
    let store = Store::open_existing(&path).unwrap();
    store.export(&[1], &directory.path().join("out"), ExportFormat::Parquet).unwrap();
    let (names, rows) = of_parquet(&directory.path().join("out/buckets.parquet"));
    assert_eq!(names, ["kind_id", "time", "from_ns", "count"]);
    let number = |cell: &Option<String>| cell.as_ref().unwrap().parse::<u64>().unwrap();
    let of_first =
        rows.iter().filter(|row| number(&row[0]) == 1 && row[1] == Some("service".into()));
    let sum: u64 = of_first.map(|row| number(&row[3])).sum();
    assert_eq!(sum, campaign().runs[0].trials[0].passes[0].kinds[0].service_time.count());
}

#[test]
fn exports_one_campaign_unchanged() {
    let (directory, path) = filled();
    keep(&mut Store::open_or_create(&path).unwrap(), &campaign());
    let before = fs::read(&path).unwrap();
    let store = Store::open_existing(&path).unwrap();
    let out = directory.path().join("out");
    store.export(&[2], &out, ExportFormat::Csv).unwrap();
    let campaigns = of_csv(&out.join("campaigns.csv"));
    assert!(campaigns.len() == 2 && campaigns[1][0] == "2", "{campaigns:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(matches!(store.export(&[2], &out, ExportFormat::Csv), Err(ExportError::Exists(_))));
    assert!(matches!(
        store.export(&[9], &directory.path().join("nine"), ExportFormat::Csv),
        Err(ExportError::Store(StoreError::NoCampaign { id: 9, .. }))
    ));
}

#[test]
fn defuses_formulas_in_names() {
    let (directory, path) = filled();
    let mut hostile = campaign();
    hostile.name = "=cmd|' /C calc'!A0".into();
    hostile.runs[0].spec.target_name = "+1,\"x\"\n<script>".into();
    let mut store = Store::open_or_create(&path).unwrap();
    let id = keep(&mut store, &hostile);
    let out = directory.path().join("out");
    store.export(&[id], &out, ExportFormat::Csv).unwrap();
    assert_eq!(of_csv(&out.join("campaigns.csv"))[1][1], "'=cmd|' /C calc'!A0");
    let runs = of_csv(&out.join("runs.csv"));
    assert_eq!((runs.len(), runs[1][3].as_str()), (4, "'+1,x\n<script>"));
}

#[test]
fn what_fails_leaves_no_directory_behind() {
    let (directory, path) = filled();
    let names = || fs::read_dir(directory.path()).unwrap().count();
    let before = names();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE kinds SET response_time = x'ff' WHERE id = 2").unwrap();
    let store = Store::open_existing(&path).unwrap();
    let error = store.export(&[], &directory.path().join("out"), ExportFormat::Parquet);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("not a histogram"), "{error}");
    let nowhere = directory.path().join("no/such/out");
    let error = store.export(&[], &nowhere, ExportFormat::Csv).unwrap_err().to_string();
    assert!(error.contains("no/such/out") && error.contains("cannot write"), "{error}");
    assert_eq!(names(), before);
}
