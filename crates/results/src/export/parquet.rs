//! Tables as Apache Parquet: integers as INT64, texts as UTF-8, columns that may be null as
//! optional ones, Snappy between.
//!
//! Only the writer of columns is used: with Arrow beneath it the crate would take several times as
//! long to build, and rows of SQLite would be copied once more.

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
pub struct Writer {
    file: SerializedFileWriter<File>,
    columns: Vec<Column>,
}

impl Writer {
    /// Begins a file.
    pub fn open(path: &Path, table: &Table) -> io::Result<Self> {
        let fields = table.columns.iter().map(|column| column_schema(column).map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(unwrap_io_error)?;
        let schema = Schema::group_type_builder(&table.name).with_fields(fields).build();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("dfsbench {}", env!("CARGO_PKG_VERSION")))
            .build();
        let schema = Arc::new(schema.map_err(unwrap_io_error)?);
        let file = File::create_new(path)?;
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties))
            .map_err(unwrap_io_error)?;
        Ok(Self { file, columns: table.columns.clone() })
    }

    /// Writes rows as a row group of their own.
    pub fn write(&mut self, rows: &[Vec<Value>]) -> io::Result<()> {
        let columns = &self.columns;
        let write = |file: &mut SerializedFileWriter<File>| {
            let mut group = file.next_row_group()?;
            for (at, column) in columns.iter().enumerate() {
                let cells: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
                let mut writer = group.next_column()?.expect("there is a writer per column");
                write_column(&mut writer, column, &cells)?;
                writer.close()?;
            }
            group.close().map(|_| ())
        };
        write(&mut self.file).map_err(unwrap_io_error)
    }

    /// Ends the file; it is on the disk then.
    pub fn close(self) -> io::Result<()> {
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

/// Values without the missing ones, which the levels tell.
fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    cells: &[&Value],
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(**cell != Value::Null)).collect();
    let levels = column.may_be_null.then_some(&levels[..]);
    let there = cells.iter().copied();
    let written = match column.kind {
        Type::Integer => {
            let values: Vec<i64> = there.filter_map(integer_value).collect();
            writer.typed::<Int64Type>().write_batch(&values, levels, None)
        }
        Type::Real => {
            let values: Vec<f64> = there.filter_map(real_value).collect();
            writer.typed::<DoubleType>().write_batch(&values, levels, None)
        }
        _ => {
            let values: Vec<ByteArray> = there.filter_map(text_value).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, levels, None)
        }
    };
    written.map(|_| ())
}

const fn integer_value(value: &Value) -> Option<i64> {
    if let Value::Integer(number) = value { Some(*number) } else { None }
}

const fn real_value(value: &Value) -> Option<f64> {
    if let Value::Real(number) = value { Some(*number) } else { None }
}

fn text_value(value: &Value) -> Option<ByteArray> {
    if let Value::Text(text) = value { Some(text.as_bytes().to_vec().into()) } else { None }
}

/// Unwraps the system's error, where it is the cause: a full disk should be reported as one.
fn unwrap_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
