//! Campaigns as files of other programs: one file per table, as Parquet, CSV or JSON.
//!
//! [`Store::export`] is the way in. The tables are those of the results file (`docs/results.md`)
//! without what only we can read: histograms become the table `buckets`, and the view `figures`
//! comes along, for whoever wants rates at once. All files come from one state of the results, and
//! the directory appears when it is complete or not at all.

mod parquet;
mod text;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::Histogram;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Row};

use crate::error::{StoreError, explain};
use crate::row::damaged;
use crate::store::Store;
use crate::tree::{Column, ROOT, Table, Tree};

/// Rows that are held in memory at once, and that make one row group of a Parquet file.
const ROWS_MAX: usize = 20_000;

/// The format of the exported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// Comma-separated values with a line of names.
    Csv,
    /// One array of objects, an object a line.
    Json,
}

impl ExportFormat {
    /// How the names of its files end.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Name of the table.
    pub table: String,
    /// Number of its rows.
    pub rows: u64,
}

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The results can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is something where the directory should be.
    #[error("`{}` exists already (hint: name a directory that does not)", .0.display())]
    Exists(PathBuf),
    /// The directory can't be written.
    #[error("`{}` can't be written: {source}", path.display())]
    Write {
        /// The target directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Takes the rows of one table.
enum Sink {
    Text(text::Writer),
    Parquet(parquet::Writer),
}

impl Sink {
    fn open(path: &Path, table: &Table, format: ExportFormat) -> io::Result<Self> {
        match format {
            ExportFormat::Parquet => parquet::Writer::open(path, table).map(Self::Parquet),
            ExportFormat::Csv => text::Writer::csv(path, table).map(Self::Text),
            ExportFormat::Json => text::Writer::json(path, table).map(Self::Text),
        }
    }

    fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        match self {
            Self::Text(writer) => writer.write(rows),
            Self::Parquet(writer) => writer.write(rows),
        }
    }

    fn close(self) -> io::Result<()> {
        match self {
            Self::Text(writer) => writer.close(),
            Self::Parquet(writer) => writer.close(),
        }
    }
}

/// An error while one table is exported.
enum Trouble {
    Read(rusqlite::Error),
    Write(io::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Store {
    /// Writes campaigns, or all of them where none is named, as files in a new directory.
    ///
    /// # Errors
    /// When there is no such campaign, the directory exists or can't be written, or the results are
    /// damaged; no directory is left behind.
    pub fn export(
        &self,
        campaigns: &[i64],
        directory: &Path,
        format: ExportFormat,
    ) -> Result<Vec<Exported>, ExportError> {
        for id in campaigns {
            self.check_campaign(*id)?;
        }
        // Without a slash at its end, behind which the name of the part would be another one.
        let directory = directory.components().as_path();
        if directory.symlink_metadata().is_ok() {
            return Err(ExportError::Exists(directory.to_owned()));
        }
        let failed = |source| ExportError::Write { path: directory.to_owned(), source };
        let mut part = directory.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        fs::create_dir(&part).map_err(failed)?;
        let written = self.write_tables(campaigns, &part, format);
        let written = written.and_then(|tables| {
            fs::rename(&part, directory)?;
            Ok(tables)
        });
        written.map_err(|trouble| {
            let _ = fs::remove_dir_all(&part);
            match trouble {
                Trouble::Read(error) => explain(&self.path, error).into(),
                Trouble::Write(source) => failed(source),
            }
        })
    }

    fn write_tables(
        &self,
        campaigns: &[i64],
        directory: &Path,
        format: ExportFormat,
    ) -> Result<Vec<Exported>, Trouble> {
        let snapshot = self.connection.unchecked_transaction()?;
        let tree = Tree::of(&snapshot, "main")?;
        let wanted = campaign_list(campaigns);
        let path = |table: &str| directory.join(format!("{table}.{}", format.ending()));
        let mut exported = Vec::new();
        for table in &tree.tables {
            let below = tree.below(table, ROOT, &format!("id IN ({wanted})"), "");
            let below = below.unwrap_or_else(|| "0".to_owned());
            let shown = readable_columns(table);
            let sink = Sink::open(&path(&table.name), &shown, format)?;
            let rows = copy_rows(&snapshot, &shown, &below, sink)?;
            exported.push(Exported { table: table.name.clone(), rows });
        }
        let figures = figures_table();
        let sink = Sink::open(&path(&figures.name), &figures, format)?;
        let below = format!("campaign_id IN ({wanted})");
        let rows = copy_rows(&snapshot, &figures, &below, sink)?;
        exported.push(Exported { table: figures.name, rows });
        if let Some(kinds) = tree.tables.iter().find(|table| table.name == "kinds") {
            let below = tree.below(kinds, ROOT, &format!("id IN ({wanted})"), "");
            let below = below.unwrap_or_else(|| "0".to_owned());
            let buckets = buckets_table();
            let sink = Sink::open(&path(&buckets.name), &buckets, format)?;
            let rows = unpack_buckets(&snapshot, &below, sink)?;
            exported.push(Exported { table: buckets.name, rows });
        }
        Ok(exported)
    }
}

/// The campaigns as SQL; keys are numbers, so nothing can be smuggled in.
fn campaign_list(campaigns: &[i64]) -> String {
    if campaigns.is_empty() {
        return "SELECT id FROM campaigns".to_owned();
    }
    campaigns.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// A table without the columns that only we can read.
fn readable_columns(table: &Table) -> Table {
    let columns = table.columns.iter().filter(|column| column.kind != Type::Blob);
    Table { name: table.name.clone(), columns: columns.cloned().collect() }
}

fn make_table(name: &str, columns: &[(&str, Type, bool)]) -> Table {
    let column = |(name, kind, may_be_null): &(&str, Type, bool)| Column {
        name: (*name).to_owned(),
        kind: *kind,
        may_be_null: *may_be_null,
        parent: None,
    };
    Table { name: name.to_owned(), columns: columns.iter().map(column).collect() }
}

/// The view of the same name: one row per trial and pass.
fn figures_table() -> Table {
    let (text, integer, real) = (Type::Text, Type::Integer, Type::Real);
    make_table(
        "figures",
        &[
            ("campaign_id", integer, false),
            ("campaign", text, false),
            ("run", integer, false),
            ("target", text, false),
            ("backend", text, false),
            ("workload", text, false),
            ("pass", text, false),
            ("trial", integer, false),
            ("state", text, false),
            ("rate_bytes_per_s", real, true),
            ("rate_ops_per_s", real, true),
            ("window_ns", integer, false),
            ("ops", integer, false),
            ("bytes", integer, false),
            ("caveats", text, true),
        ],
    )
}

/// The histograms of the table `kinds`: how many times lie from `from_ns` to the next bucket.
fn buckets_table() -> Table {
    make_table(
        "buckets",
        &[
            ("kind_id", Type::Integer, false),
            ("time", Type::Text, false),
            ("from_ns", Type::Integer, false),
            ("count", Type::Integer, false),
        ],
    )
}

/// Writes the rows of a table in pieces and returns how many they were.
fn copy_rows(
    connection: &Connection,
    table: &Table,
    below: &str,
    sink: Sink,
) -> Result<u64, Trouble> {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let order = if names[0] == "id" { " ORDER BY id" } else { "" };
    let sql = format!("SELECT {} FROM {} WHERE {below}{order}", names.join(", "), table.name);
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut pieces = Pieces::new(sink);
    while let Some(row) = found.next()? {
        let cells = table.columns.iter().enumerate().map(|(at, column)| read_cell(row, at, column));
        pieces.push(cells.collect::<rusqlite::Result<_>>()?)?;
    }
    Ok(pieces.close()?)
}

/// A cell of the kind that the column says; anything else is damage.
fn read_cell(row: &Row<'_>, at: usize, column: &Column) -> rusqlite::Result<Value> {
    let value: Value = row.get(at)?;
    let fits = value.data_type() == column.kind || value == Value::Null && column.may_be_null;
    if fits { Ok(value) } else { Err(damaged(format!("{} has no {}", column.name, column.kind))) }
}

fn unpack_buckets(connection: &Connection, below: &str, sink: Sink) -> Result<u64, Trouble> {
    let sql =
        format!("SELECT id, service_time, response_time FROM kinds WHERE {below} ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut pieces = Pieces::new(sink);
    while let Some(row) = found.next()? {
        let kind_id: i64 = row.get(0)?;
        for (at, time) in [(1, "service"), (2, "response")] {
            let bytes: Vec<u8> = row.get(at)?;
            let histogram = Histogram::from_bytes(&bytes)
                .ok_or_else(|| damaged(format!("{time}_time is not a histogram")))?;
            for (from_ns, count) in histogram.buckets() {
                let [from_ns, count] = [from_ns, count].map(|n| Value::Integer(n.cast_signed()));
                let cells = vec![Value::Integer(kind_id), Value::Text(time.into()), from_ns, count];
                pieces.push(cells)?;
            }
        }
    }
    Ok(pieces.close()?)
}

/// Rows on their way into a file, some at a time.
struct Pieces {
    sink: Sink,
    rows: Vec<Vec<Value>>,
    written: u64,
}

impl Pieces {
    const fn new(sink: Sink) -> Self {
        Self { sink, rows: Vec::new(), written: 0 }
    }

    fn push(&mut self, row: Vec<Value>) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == ROWS_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.write(&self.rows)?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    fn close(mut self) -> io::Result<u64> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.sink.close()?;
        Ok(self.written)
    }
}
