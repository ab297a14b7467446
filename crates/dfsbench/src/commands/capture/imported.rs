//! `dfsbench capture --from`: a trace of a program's own I/O, from strace or fio.

use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use model::units::Size;
use trace::{ImportError, ImportSettings, ImportSource, ImportSummary, Names, TraceError, import};

use super::name_of;
use crate::args::{CaptureArgs, ImportKind};
use crate::exit::{End, Failure};
use crate::files::input_file;
use crate::files::output_file::StreamedFile;
use crate::terminal::output;

/// Size of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// Maximum number of calls without a counterpart to name.
const NAMED_MAX: usize = 8;

/// Imports a text.
///
/// # Errors
/// If it can't be read, has no calls below the root, or the trace can't be written.
pub(super) fn run(args: &CaptureArgs, kind: ImportKind, path: &Path) -> Result<ExitCode, Failure> {
    let [text] = args.captures.as_slice() else {
        return Err(Failure::Usage("--from: imports one file at a time".to_owned()));
    };
    let source = match kind {
        ImportKind::Strace => ImportSource::Strace,
        ImportKind::Iolog => ImportSource::Iolog,
    };
    for (flag, given) in [("--root", &args.root), ("--cwd", &args.cwd)] {
        if let Some(given) = given.as_ref().filter(|given| !given.starts_with('/')) {
            return Err(Failure::Usage(format!(
                "{flag}: `{given}` is not an absolute path (hint: it is that of the traced host)"
            )));
        }
    }
    if kind == ImportKind::Strace && args.root.is_none() {
        return Err(Failure::Usage(
            "--from strace: name the directory whose files are imported with --root (hint: \
             everything else, such as libraries, is left out)"
                .to_owned(),
        ));
    }
    let settings = ImportSettings {
        source,
        root: args.root.clone(),
        directory: args.cwd.clone().or_else(|| args.root.clone()),
        names: if args.keep_names { Names::Kept } else { Names::Hashed },
        made_by: format!(
            "dfsbench {} from {}",
            env!("CARGO_PKG_VERSION"),
            match kind {
                ImportKind::Strace => "strace",
                ImportKind::Iolog => "an iolog of fio",
            }
        ),
    };
    let name = name_of(text);
    let input = BufReader::with_capacity(BUFFER_BYTES, input_file::open_stream(text, "file")?);
    let mut file = StreamedFile::create(path)?;
    let summary = match import(input, &settings, &mut file) {
        Ok(summary) => summary,
        Err(ImportError::Trace(TraceError::Write(error))) => return Err(file.failure(&error)),
        Err(ImportError::Trace(error)) => return Err(Failure::lab(error)),
        Err(error @ ImportError::Line { .. }) => {
            return Err(Failure::Usage(format!("`{name}`, {error}")));
        }
        Err(error) => return Err(Failure::Usage(format!("`{name}` {error}"))),
    };
    if summary.calls == 0 {
        return Err(Failure::Usage(format!(
            "`{name}` has no calls on files below {}, but {} elsewhere (hint: is --root the \
             directory as the program names it?)",
            summary.root, summary.outside
        )));
    }
    file.commit()?;
    if !args.quiet {
        for line in describe(&summary) {
            output::message(&line);
        }
    }
    Ok(End::Ok.into())
}

/// Describes what the trace contains and what it lacks.
fn describe(summary: &ImportSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "{} calls of {} processes on {} files and directories of {}; {} read, {} written",
        summary.calls,
        summary.processes,
        summary.files,
        summary.root,
        Size(summary.read_bytes),
        Size(summary.written_bytes)
    )];
    if summary.mapped_files > 0 {
        lines.push(format!(
            "warning: mapped files: {}; what is read and written through mmap makes no system \
             calls and is not in the trace",
            summary.mapped_files
        ));
    }
    if !summary.skipped.is_empty() {
        let mut named: Vec<String> = Vec::new();
        for (name, count) in summary.skipped.iter().take(NAMED_MAX) {
            named.push(format!("{count} {name}"));
        }
        let rest = summary.skipped.len().saturating_sub(NAMED_MAX);
        let more = if rest > 0 { format!(" and {rest} more kinds") } else { String::new() };
        lines.push(format!("warning: calls without a counterpart: {}{more}", named.join(", ")));
    }
    if summary.inherited > 0 {
        lines.push(format!(
            "note: {} file descriptors were open before the trace; their offsets count from 0",
            summary.inherited
        ));
    }
    if summary.unreadable > 0 {
        lines.push(format!(
            "warning: {} lines could not be read, the first is line {}",
            summary.unreadable, summary.first_unreadable
        ));
    }
    if summary.unfinished > 0 {
        lines.push(format!("note: {} calls had not ended at the end", summary.unfinished));
    }
    lines
}
