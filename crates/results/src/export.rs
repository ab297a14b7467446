//! Exports campaigns for other programs: one file per table, as Parquet, CSV or JSON.
//!
//! See [`Store::export`]. The tables are those of the results file (`docs/results.md`) without
//! content that only this program can read: histograms become the table `buckets`, and the view
//! `figures` is included, for readers who want rates right away. All files reflect one state of the
//! results, and the directory appears only when it is complete.

#[cfg(feature = "parquet")]
mod parquet;
mod tables;
mod text;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::Histogram;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Row};

use crate::error::{StoreError, explain};
use crate::row::damaged_value;
use crate::store::Store;
use crate::tree::{Column, ROOT, Table, Tree};

pub use tables::{ExportCell, ExportColumn, TableFiles};

/// Maximum number of rows held in memory, which also form one row group of a Parquet file.
const ROWS_MAX: usize = 20_000;

/// The format of the exported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects, one object per line.
    Json,
}

impl ExportFormat {
    const fn file_extension(self) -> &'static str {
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
    pub rows: u64,
}

/// Reason why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The program was built without the feature `parquet`.
    #[error(
        "this dfsbench was built without Parquet (hint: `--format csv` and `--format json` write \
         the same tables; `cargo build --release --features parquet` adds Parquet)"
    )]
    NoParquet,
    /// The results can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target already exists.
    #[error("`{}` already exists (hint: choose a new directory)", .0.display())]
    Exists(PathBuf),
    /// The directory can't be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The target directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The writer of one table's file.
enum Sink {
    Text(text::Writer),
    #[cfg(feature = "parquet")]
    Parquet(parquet::Writer),
}

impl Sink {
    /// Creates the file of a table in a directory.
    fn open(directory: &Path, table: &Table, format: ExportFormat) -> io::Result<Self> {
        let path = &directory.join(format!("{}.{}", table.name, format.file_extension()));
        Ok(match format {
            #[cfg(feature = "parquet")]
            ExportFormat::Parquet => Self::Parquet(parquet::Writer::open(path, table)?),
            #[cfg(not(feature = "parquet"))]
            ExportFormat::Parquet => return Err(io::ErrorKind::Unsupported.into()),
            ExportFormat::Csv => Self::Text(text::Writer::begin_csv(path, table)?),
            ExportFormat::Json => Self::Text(text::Writer::begin_json(path, table)?),
        })
    }

    fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        match self {
            Self::Text(writer) => writer.write(rows),
            #[cfg(feature = "parquet")]
            Self::Parquet(writer) => writer.write(rows),
        }
    }

    fn close(self) -> io::Result<()> {
        match self {
            Self::Text(writer) => writer.close(),
            #[cfg(feature = "parquet")]
            Self::Parquet(writer) => writer.close(),
        }
    }
}

/// An error while exporting a table.
enum TableExportError {
    Read(rusqlite::Error),
    Write(io::Error),
}

impl From<rusqlite::Error> for TableExportError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for TableExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Store {
    /// Exports campaigns, or all if none are given, as files in a new directory.
    ///
    /// # Errors
    /// If there is no such campaign, the directory exists or can't be written, or the results are
    /// damaged; no directory is left behind.
    pub fn export(
        &self,
        campaigns: &[i64],
        directory: &Path,
        format: ExportFormat,
    ) -> Result<Vec<Exported>, ExportError> {
        if format == ExportFormat::Parquet && !cfg!(feature = "parquet") {
            return Err(ExportError::NoParquet);
        }
        for id in campaigns {
            self.check_campaign(*id)?;
        }
        let directory = directory.components().as_path();
        let part = name_part(directory)?;
        let trouble = match self.write_directory(campaigns, directory, &part, format) {
            Ok(tables) => return Ok(tables),
            Err(trouble) => trouble,
        };
        // Report the original error; if the partial directory can't be removed, its name shows what
        // it is.
        let _ = fs::remove_dir_all(&part);
        match trouble {
            TableExportError::Read(error) => Err(explain(&self.path, error).into()),
            TableExportError::Write(source) => {
                Err(ExportError::Write { path: directory.to_owned(), source })
            }
        }
    }

    /// Writes all tables to the directory `part`, which becomes `directory` when it is complete.
    fn write_directory(
        &self,
        campaigns: &[i64],
        directory: &Path,
        part: &Path,
        format: ExportFormat,
    ) -> Result<Vec<Exported>, TableExportError> {
        fs::create_dir(part)?;
        let tables = self.write_tables(campaigns, part, format)?;
        fs::rename(part, directory)?;
        Ok(tables)
    }

    fn write_tables(
        &self,
        campaigns: &[i64],
        directory: &Path,
        format: ExportFormat,
    ) -> Result<Vec<Exported>, TableExportError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let tree = Tree::own_schema();
        let wanted = campaign_list(campaigns);
        let is_wanted = format!("id IN ({wanted})");
        let mut exported = Vec::new();
        let mut kinds_below = None;
        for table in &tree.tables {
            let below = tree.below(table, ROOT, &is_wanted, "");
            let below = below.expect("every table refers to a campaign");
            let shown = readable_columns(table);
            let sink = Sink::open(directory, &shown, format)?;
            let rows = copy_rows(&snapshot, &shown, &below, sink)?;
            exported.push(Exported { table: shown.name, rows });
            if table.name == "kinds" {
                kinds_below = Some(below);
            }
        }
        let figures = figures_table();
        let sink = Sink::open(directory, &figures, format)?;
        let below = format!("campaign_id IN ({wanted})");
        let rows = copy_rows(&snapshot, &figures, &below, sink)?;
        exported.push(Exported { table: figures.name, rows });
        if let Some(below) = kinds_below {
            let buckets = buckets_table();
            let sink = Sink::open(directory, &buckets, format)?;
            let rows = unpack_buckets(&snapshot, &below, sink)?;
            exported.push(Exported { table: buckets.name, rows });
        }
        Ok(exported)
    }
}

/// Returns the name used for a directory until it is complete; refuses an existing directory. The
/// caller has removed a trailing slash, which would put the partial directory elsewhere.
fn name_part(directory: &Path) -> Result<PathBuf, ExportError> {
    if directory.symlink_metadata().is_ok() {
        return Err(ExportError::Exists(directory.to_owned()));
    }
    let mut part = directory.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    Ok(PathBuf::from(part))
}

/// The campaigns as SQL; keys are numbers, so injection is impossible.
fn campaign_list(campaigns: &[i64]) -> String {
    if campaigns.is_empty() {
        return "SELECT id FROM campaigns".to_owned();
    }
    campaigns.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns a table without the columns that only this program can read.
fn readable_columns(table: &Table) -> Table {
    let mut readable = table.clone();
    readable.columns.retain(|column| column.kind != Type::Blob);
    readable
}

fn make_table(name: &str, columns: &[(&str, Type, bool)]) -> Table {
    let mut table = Table { name: name.to_owned(), columns: Vec::new() };
    for (name, kind, may_be_null) in columns {
        table.columns.push(Column {
            name: (*name).to_owned(),
            kind: *kind,
            may_be_null: *may_be_null,
            parent: None,
        });
    }
    table
}

/// The view of the same name: one row per trial and pass.
fn figures_table() -> Table {
    let text = Type::Text;
    let integer = Type::Integer;
    let real = Type::Real;
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

/// The histograms of the table `kinds`: number of times between `from_ns` and the next bucket.
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

/// Writes the rows of a table in pieces and returns their number.
fn copy_rows(
    connection: &Connection,
    table: &Table,
    below: &str,
    sink: Sink,
) -> Result<u64, TableExportError> {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    // Tables with a key are written in key order, so that equal results produce equal files.
    let order = if names[0] == "id" { " ORDER BY id" } else { "" };
    let sql = format!("SELECT {} FROM {} WHERE {below}{order}", names.join(", "), table.name);
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut pieces = Pieces::new(sink);
    while let Some(row) = found.next()? {
        let mut cells = Vec::with_capacity(table.columns.len());
        for (index, column) in table.columns.iter().enumerate() {
            cells.push(read_cell(row, index, column)?);
        }
        pieces.push(cells)?;
    }
    Ok(pieces.close()?)
}

/// Reads a cell of the type required by the column; anything else is damage.
fn read_cell(row: &Row<'_>, at: usize, column: &Column) -> rusqlite::Result<Value> {
    let value: Value = row.get(at)?;
    let fits = value.data_type() == column.kind || value == Value::Null && column.may_be_null;
    if fits {
        Ok(value)
    } else {
        Err(damaged_value(format!("{} has no {}", column.name, column.kind)))
    }
}

fn unpack_buckets(
    connection: &Connection,
    below: &str,
    sink: Sink,
) -> Result<u64, TableExportError> {
    let sql =
        format!("SELECT id, service_time, response_time FROM kinds WHERE {below} ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut pieces = Pieces::new(sink);
    while let Some(row) = found.next()? {
        let kind_id: i64 = row.get(0)?;
        for (at, time) in [(1, "service"), (2, "response")] {
            let bytes: Vec<u8> = row.get(at)?;
            let Some(histogram) = Histogram::from_bytes(&bytes) else {
                return Err(damaged_value(format!("{time}_time is not a histogram")).into());
            };
            for (from_ns, count) in histogram.buckets() {
                pieces.push(vec![
                    Value::Integer(kind_id),
                    Value::Text(time.into()),
                    Value::Integer(from_ns.cast_signed()),
                    Value::Integer(count.cast_signed()),
                ])?;
            }
        }
    }
    Ok(pieces.close()?)
}

/// A buffer of at most [`ROWS_MAX`] rows to be written to a file.
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
