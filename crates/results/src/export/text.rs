//! Tables as text: comma-separated values, or an array of JSON objects.
//!
//! In CSV a missing value is empty and an empty text is `""`; in JSON numbers are numbers, and a
//! missing value is null.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use model::csv::quoted;
use rusqlite::types::Value;

use crate::tree::Table;

/// Writes one table.
pub(super) struct Writer {
    out: BufWriter<File>,
    /// The column names as JSON, for objects.
    keys: Option<Vec<String>>,
    empty: bool,
}

impl Writer {
    /// Creates a file of comma-separated values.
    pub(super) fn begin_csv(path: &Path, table: &Table) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create_new(path)?);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, keys: None, empty: true })
    }

    /// Creates a JSON file.
    pub(super) fn begin_json(path: &Path, table: &Table) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create_new(path)?);
        out.write_all(b"[")?;
        let keys = table.columns.iter().map(|column| format!("\"{}\":", column.name)).collect();
        Ok(Self { out, keys: Some(keys), empty: true })
    }

    /// Writes rows as text.
    pub(super) fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        for row in rows {
            let mut cells = Vec::with_capacity(row.len());
            let Some(keys) = &self.keys else {
                cells.extend(row.iter().map(csv_cell));
                writeln!(self.out, "{}", cells.join(","))?;
                continue;
            };
            cells.extend(
                std::iter::zip(keys, row).map(|(key, value)| format!("{key}{}", json_value(value))),
            );
            // The comma precedes each object except the first, because the last one is not known
            // yet.
            let comma = if self.empty { "" } else { "," };
            write!(self.out, "{comma}\n{{{}}}", cells.join(","))?;
            self.empty = false;
        }
        Ok(())
    }

    /// Closes the file and syncs it to disk.
    pub(super) fn close(mut self) -> io::Result<()> {
        if self.keys.is_some() {
            self.out.write_all(b"\n]\n")?;
        }
        self.out.flush()?;
        self.out.get_ref().sync_all()
    }
}

fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null | Value::Blob(_) => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) if text.is_empty() => "\"\"".to_owned(),
        Value::Text(text) => quoted(text),
    }
}

fn json_value(value: &Value) -> String {
    let json = match value {
        Value::Null | Value::Blob(_) => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
    };
    json.to_string()
}
