//! Tables as Apache Parquet: integers as INT64, texts as UTF-8, nullable columns as optional,
//! compressed with Snappy.
//!
//! Uses only the crate's column writer: its record batches would multiply the build time and copy
//! the rows from SQLite once more.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type as Schema;
use rusqlite::types::{Type, Value};

use crate::tree::{Column, Table};

/// Writes one table.
pub(super) struct Writer {
    file: SerializedFileWriter<File>,
    columns: Vec<Column>,
}

impl Writer {
    /// Creates a file.
    pub(super) fn open(path: &Path, table: &Table) -> io::Result<Self> {
        let file = File::create_new(path)?;
        Self::begin(file, table).map_err(unwrap_io_error)
    }

    fn begin(file: File, table: &Table) -> Result<Self, ParquetError> {
        let mut fields = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            fields.push(Arc::new(column_schema(column)?));
        }
        let schema = Schema::group_type_builder(&table.name).with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("dfsbench {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        Ok(Self { file, columns: table.columns.clone() })
    }

    /// Writes rows as a separate row group.
    pub(super) fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        self.write_group(rows).map_err(unwrap_io_error)
    }

    fn write_group(&mut self, rows: &[Vec<Value>]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        // Parquet stores the values of a column together, so each column is written for all rows.
        for (index, column) in self.columns.iter().enumerate() {
            let mut writer = group.next_column()?.expect("there is one writer per column");
            write_column(&mut writer, column, rows, index)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Closes the file and syncs it to disk.
    pub(super) fn close(self) -> io::Result<()> {
        self.file.into_inner().map_err(unwrap_io_error)?.sync_all()
    }
}

fn column_schema(column: &Column) -> Result<Schema, ParquetError> {
    let (physical, logical) = match column.kind {
        Type::Integer => (Physical::INT64, None),
        Type::Real => (Physical::DOUBLE, None),
        _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.may_be_null { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Schema::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

/// Writes the values of one column, which is at `index` in each row.
fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[Vec<Value>],
    index: usize,
) -> Result<(), ParquetError> {
    // Missing values are omitted: a level of 0 marks their rows, 1 marks the others.
    let mut levels: Vec<i16> = Vec::with_capacity(rows.len());
    let mut integers = Vec::new();
    let mut reals = Vec::new();
    let mut texts = Vec::new();
    for row in rows {
        levels.push(i16::from(row[index] != Value::Null));
        match &row[index] {
            Value::Integer(number) => integers.push(*number),
            Value::Real(number) => reals.push(*number),
            Value::Text(text) => texts.push(ByteArray::from(text.as_bytes().to_vec())),
            Value::Null | Value::Blob(_) => {}
        }
    }
    let levels = if column.may_be_null { Some(&levels[..]) } else { None };
    match column.kind {
        Type::Integer => writer.typed::<Int64Type>().write_batch(&integers, levels, None)?,
        Type::Real => writer.typed::<DoubleType>().write_batch(&reals, levels, None)?,
        _ => writer.typed::<ByteArrayType>().write_batch(&texts, levels, None)?,
    };
    Ok(())
}

/// Returns the underlying system error, if there is one: a full disk should be reported as such.
fn unwrap_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
