//! Exports the tables of other commands, with the writers used for campaigns.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::types::{Type, Value};

use super::{ExportError, ExportFormat, Exported, Pieces, Sink, make_table, name_part};

/// A column of an exported table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportColumn {
    /// A number in each row.
    Integer(&'static str),
    /// A number that may be missing.
    MaybeInteger(&'static str),
    /// A text in each row.
    Text(&'static str),
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportCell {
    /// A number.
    Integer(i64),
    Text(String),
    /// No value.
    Null,
}

/// Files of tables in a directory that appears only when it is complete.
pub struct TableFiles {
    directory: PathBuf,
    part: PathBuf,
    format: ExportFormat,
    tables: Vec<OpenTable>,
    is_complete: bool,
}

struct OpenTable {
    name: &'static str,
    pieces: Pieces,
}

impl TableFiles {
    /// Starts a directory.
    ///
    /// # Errors
    /// If it exists or can't be created, or this program can't write the format.
    pub fn begin(directory: &Path, format: ExportFormat) -> Result<Self, ExportError> {
        if format == ExportFormat::Parquet && !cfg!(feature = "parquet") {
            return Err(ExportError::NoParquet);
        }
        let directory = directory.components().as_path().to_owned();
        let part = name_part(&directory)?;
        let tables = Vec::new();
        let files = Self { directory, part, format, tables, is_complete: false };
        fs::create_dir(&files.part).map_err(|source| files.failed(source))?;
        Ok(files)
    }

    /// Adds a table and returns its number.
    pub fn add(
        &mut self,
        name: &'static str,
        columns: &[ExportColumn],
    ) -> Result<usize, ExportError> {
        let described: Vec<_> = columns
            .iter()
            .map(|column| match *column {
                ExportColumn::Integer(name) => (name, Type::Integer, false),
                ExportColumn::MaybeInteger(name) => (name, Type::Integer, true),
                ExportColumn::Text(name) => (name, Type::Text, false),
            })
            .collect();
        let table = make_table(name, &described);
        let sink =
            Sink::open(&self.part, &table, self.format).map_err(|source| self.failed(source))?;
        self.tables.push(OpenTable { name, pieces: Pieces::new(sink) });
        Ok(self.tables.len() - 1)
    }

    /// Adds a row, with one cell per column.
    pub fn push(&mut self, table: usize, row: Vec<ExportCell>) -> Result<(), ExportError> {
        let cells: Vec<_> = row
            .into_iter()
            .map(|cell| match cell {
                ExportCell::Integer(number) => Value::Integer(number),
                ExportCell::Text(text) => Value::Text(text),
                ExportCell::Null => Value::Null,
            })
            .collect();
        let pushed = self.tables[table].pieces.push(cells);
        pushed.map_err(|source| self.failed(source))
    }

    /// Closes all files, and renames the directory.
    pub fn finish(mut self) -> Result<Vec<Exported>, ExportError> {
        let mut exported = Vec::new();
        for OpenTable { name, pieces } in std::mem::take(&mut self.tables) {
            let rows = pieces.close().map_err(|source| self.failed(source))?;
            exported.push(Exported { table: name.to_owned(), rows });
        }
        fs::rename(&self.part, &self.directory).map_err(|source| self.failed(source))?;
        self.is_complete = true;
        Ok(exported)
    }

    fn failed(&self, source: io::Error) -> ExportError {
        ExportError::Write { path: self.directory.clone(), source }
    }
}

impl Drop for TableFiles {
    fn drop(&mut self) {
        if !self.is_complete {
            // If the partial directory can't be removed, its name shows what it is.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_directory_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("out");
        let columns = [ExportColumn::Text("kind"), ExportColumn::MaybeInteger("status")];
        let row = |status: ExportCell| vec![ExportCell::Text("READ".to_owned()), status];
        let mut files = TableFiles::begin(&directory, ExportFormat::Csv).unwrap();
        let table = files.add("ops", &columns).unwrap();
        files.push(table, row(ExportCell::Integer(5))).unwrap();
        drop(files);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut files = TableFiles::begin(&directory, ExportFormat::Csv).unwrap();
        let table = files.add("ops", &columns).unwrap();
        files.push(table, row(ExportCell::Integer(5))).unwrap();
        files.push(table, row(ExportCell::Null)).unwrap();
        let exported = files.finish().unwrap();
        assert_eq!(exported, [Exported { table: "ops".to_owned(), rows: 2 }]);
        let text = fs::read_to_string(directory.join("ops.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["kind,status", "READ,5", "READ,"]);
        let again = TableFiles::begin(&directory, ExportFormat::Csv);
        assert!(matches!(again, Err(ExportError::Exists(_))));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_has_the_same_rows() {
        use ::parquet::file::reader::{FileReader as _, SerializedFileReader};

        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("out");
        let mut files = TableFiles::begin(&directory, ExportFormat::Parquet).unwrap();
        let table = files.add("calls", &[ExportColumn::Integer("number")]).unwrap();
        for number in 0..30_000 {
            files.push(table, vec![ExportCell::Integer(number)]).unwrap();
        }
        files.finish().unwrap();
        let file = fs::File::open(directory.join("calls.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 30_000);
    }
}
