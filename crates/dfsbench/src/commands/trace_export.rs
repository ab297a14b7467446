//! `dfsbench export --trace`: exports a trace as tables for other programs.

use std::io::BufReader;
use std::path::Path;

use results::{ExportCell, ExportColumn, ExportError, ExportFormat, Exported, TableFiles};
use trace::{Call, Connection, Entry, Op, Section, TraceError, TraceReader, Transport};

use crate::exit::Failure;
use crate::files::input_file;

/// Size of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;

const CONNECTIONS: [ExportColumn; 8] = [
    ExportColumn::Integer("number"),
    ExportColumn::Integer("client"),
    ExportColumn::Integer("server"),
    ExportColumn::Text("client_address"),
    ExportColumn::Text("server_address"),
    ExportColumn::Integer("server_port"),
    ExportColumn::Text("transport"),
    ExportColumn::Integer("ip"),
];
const NAMES: [ExportColumn; 2] = [ExportColumn::Integer("hash"), ExportColumn::Text("text")];
const CALLS: [ExportColumn; 9] = [
    ExportColumn::Integer("number"),
    ExportColumn::Integer("start_ns"),
    ExportColumn::MaybeInteger("response_ns"),
    ExportColumn::Integer("connection"),
    ExportColumn::Text("version"),
    ExportColumn::Integer("flags"),
    ExportColumn::Integer("retransmissions"),
    ExportColumn::Integer("call_bytes"),
    ExportColumn::Integer("reply_bytes"),
];
const OPS: [ExportColumn; 19] = [
    ExportColumn::Integer("call"),
    ExportColumn::Integer("position"),
    ExportColumn::Text("kind"),
    ExportColumn::MaybeInteger("status"),
    ExportColumn::Integer("file"),
    ExportColumn::Integer("other"),
    ExportColumn::Integer("result"),
    ExportColumn::Integer("name"),
    ExportColumn::Integer("other_name"),
    ExportColumn::Integer("offset"),
    ExportColumn::Integer("source_offset"),
    ExportColumn::Integer("length"),
    ExportColumn::Integer("count"),
    ExportColumn::Integer("how"),
    ExportColumn::Integer("committed"),
    ExportColumn::Integer("file_type"),
    ExportColumn::MaybeInteger("size"),
    ExportColumn::MaybeInteger("size_before"),
    ExportColumn::Integer("flags"),
];
const ENTRIES: [ExportColumn; 6] = [
    ExportColumn::Integer("call"),
    ExportColumn::Integer("dir"),
    ExportColumn::Integer("name"),
    ExportColumn::Integer("file"),
    ExportColumn::Integer("file_type"),
    ExportColumn::MaybeInteger("size"),
];

/// Reason why a trace can't be exported.
enum TraceExportFailure {
    Trace(TraceError),
    Files(ExportError),
}

impl From<TraceError> for TraceExportFailure {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<ExportError> for TraceExportFailure {
    fn from(error: ExportError) -> Self {
        Self::Files(error)
    }
}

/// Writes the tables of a trace to a new directory.
///
/// # Errors
/// If the trace can't be read or the directory can't be created.
pub(crate) fn export(
    path: &Path,
    directory: &Path,
    format: ExportFormat,
) -> Result<Vec<Exported>, Failure> {
    let source = input_file::open_stream(path, "trace")?;
    let source = BufReader::with_capacity(BUFFER_BYTES, source);
    write_tables(source, directory, format).map_err(|refused| match refused {
        TraceExportFailure::Trace(error) => {
            Failure::Usage(format!("trace `{}` {error}", path.display()))
        }
        TraceExportFailure::Files(error) => error.into(),
    })
}

fn write_tables(
    source: impl std::io::Read,
    directory: &Path,
    format: ExportFormat,
) -> Result<Vec<Exported>, TraceExportFailure> {
    let mut reader = TraceReader::new(source)?;
    let mut files = TableFiles::begin(directory, format)?;
    let ops = files.add("ops", &OPS)?;
    let calls = files.add("calls", &CALLS)?;
    let entries = files.add("entries", &ENTRIES)?;
    let connections = files.add("connections", &CONNECTIONS)?;
    let names = files.add("names", &NAMES)?;
    while let Some(section) = reader.next_section()? {
        match section {
            Section::Connections(found) => {
                for connection in &found {
                    files.push(connections, connection_row(connection))?;
                }
            }
            Section::Names(found) => {
                for name in found {
                    files.push(names, vec![integer(name.hash), ExportCell::Text(name.text)])?;
                }
            }
            Section::Block { calls: found, entries: listed } => {
                for call in &found {
                    files.push(calls, call_row(call))?;
                    for (position, op) in call.ops.iter().enumerate() {
                        files.push(ops, op_row(call, position, op))?;
                    }
                }
                for entry in &listed {
                    files.push(entries, entry_row(entry))?;
                }
            }
            Section::End(_) => {}
        }
    }
    Ok(files.finish()?)
}

/// Converts a number to a cell. Numbers beyond 63 bits, such as the end of a lock, become the
/// maximum that tables support.
fn integer(number: impl Into<u64>) -> ExportCell {
    ExportCell::Integer(i64::try_from(number.into()).unwrap_or(i64::MAX))
}

fn optional(number: Option<impl Into<u64>>) -> ExportCell {
    number.map_or(ExportCell::Null, integer)
}

fn text(text: &str) -> ExportCell {
    ExportCell::Text(text.to_owned())
}

fn connection_row(connection: &Connection) -> Vec<ExportCell> {
    vec![
        integer(connection.number),
        integer(connection.client),
        integer(connection.server),
        text(&connection.client_address),
        text(&connection.server_address),
        integer(connection.server_port),
        text(match connection.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }),
        integer(connection.ip),
    ]
}

fn call_row(call: &Call) -> Vec<ExportCell> {
    vec![
        integer(call.number),
        integer(call.start_ns),
        optional(call.response_ns),
        integer(call.connection),
        text(call.version.name()),
        integer(call.flags),
        integer(call.retransmissions),
        integer(call.call_bytes),
        integer(call.reply_bytes),
    ]
}

fn op_row(call: &Call, position: usize, op: &Op) -> Vec<ExportCell> {
    vec![
        integer(call.number),
        integer(position as u64),
        text(call.version.kind_name(op.kind)),
        optional(op.status),
        integer(op.file),
        integer(op.other),
        integer(op.result),
        integer(op.name),
        integer(op.other_name),
        integer(op.offset),
        integer(op.source_offset),
        integer(op.length),
        integer(op.count),
        integer(op.how),
        integer(op.committed),
        integer(op.file_type),
        optional(op.size),
        optional(op.size_before),
        integer(op.flags),
    ]
}

fn entry_row(entry: &Entry) -> Vec<ExportCell> {
    vec![
        integer(entry.call),
        integer(entry.dir),
        integer(entry.name),
        integer(entry.file),
        integer(entry.file_type),
        optional(entry.size),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use trace::{End, Header, TraceWriter, Version};

    use super::*;

    fn trace_bytes() -> Vec<u8> {
        let call = Call {
            number: 7,
            start_ns: 100,
            response_ns: None,
            connection: 0,
            version: Version::V4_1,
            flags: 0,
            retransmissions: 1,
            call_bytes: 200,
            reply_bytes: 0,
            ops: vec![
                Op { kind: 22, file: 3, status: Some(0), ..Op::default() },
                Op { kind: 25, file: 3, offset: u64::MAX, length: 10, ..Op::default() },
            ],
        };
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, &Header::default()).unwrap();
        writer.block([call].iter(), &[]).unwrap();
        writer.finish(&End::default()).unwrap();
        bytes
    }

    #[test]
    fn exports_row_per_operation() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("tables");
        let made = write_tables(&trace_bytes()[..], &directory, ExportFormat::Csv);
        let Ok(exported) = made else { panic!("not exported") };
        let rows = |name: &str| exported.iter().find(|table| table.table == name).unwrap().rows;
        assert_eq!((rows("ops"), rows("calls"), rows("entries"), rows("names")), (2, 1, 0, 0));
        let ops = fs::read_to_string(directory.join("ops.csv")).unwrap();
        let last = ops.lines().last().unwrap();
        assert!(last.starts_with("7,1,READ,,3,0,0,0,0,9223372036854775807,0,10,"), "{last}");
    }

    #[test]
    fn leaves_nothing_of_truncated_trace() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("tables");
        let bytes = trace_bytes();
        let made = write_tables(&bytes[..bytes.len() - 1], &directory, ExportFormat::Csv);
        assert!(matches!(made, Err(TraceExportFailure::Trace(TraceError::Cut { .. }))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
