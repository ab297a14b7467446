//! Input files: plans, mixes and lists of hosts, read as a whole and limited in size.
//!
//! A plan may come from a pipe: stdin, named `-`, or a shell's `<(...)`, which is /dev/fd/N. A FIFO
//! in a file system is refused because opening it waits for a writer that may never come;
//! everything else that is not a regular file is refused as well.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use crate::exit::Failure;
use crate::files::output_file::kind_name;
use crate::plans::presets::Preset;

/// Name that stands for stdin.
pub(crate) const STDIN: &str = "-";

/// Directories in which the system exposes the open files of this process.
const DESCRIPTORS: [&str; 4] =
    ["/dev/fd/", "/dev/stdin", "/proc/self/fd/", "/proc/thread-self/fd/"];

/// Maximum size of a plan. A plan for 10,000 hosts takes a tenth of it.
const PLAN_BYTES_MAX: u64 = 16 << 20;

/// Maximum size of a mix, or of a job file.
const MIX_BYTES_MAX: u64 = 1 << 20;

/// Returns true if a path refers to a pipe that is already open, like `<(...)`.
pub(crate) fn is_pipe(path: &Path) -> bool {
    is_descriptor(path) && fs::metadata(path).is_ok_and(|found| file_kind(&found) == FileType::Fifo)
}

/// Returns true if no other process can read a path, and this one can only read it once.
pub(crate) fn is_read_once(path: &Path) -> bool {
    path.as_os_str() == STDIN || is_descriptor(path)
}

/// Reads a plan, or a preset of that name if there is no such file.
///
/// # Errors
/// If it is not a file or pipe, can't be read, is not text, or is too large.
pub(crate) fn read_plan(path: &Path) -> Result<String, Failure> {
    if let Some(preset) = path.to_str().and_then(Preset::find_by_name) {
        return Ok(preset.text.to_owned());
    }
    let read = read_file_or_stdin(path, PLAN_BYTES_MAX);
    read.map_err(|why| Failure::Usage(format!("can't read plan `{}`: {why}", path.display())))
}

/// Reads a job file of fio.
pub(crate) fn read_job(path: &Path) -> Result<String, Failure> {
    let read = read_file_or_stdin(path, MIX_BYTES_MAX);
    read.map_err(|why| Failure::Usage(format!("can't read job file `{}`: {why}", path.display())))
}

/// Reads a mix.
///
/// # Errors
/// Same as [`read_plan`]; the message is a sentence without the path.
pub(crate) fn read_mix(path: &str) -> Result<String, String> {
    read_file(Path::new(path), MIX_BYTES_MAX)
}

/// Reads a recipe, or a list of hosts written by a scheduler.
///
/// # Errors
/// Same as [`read_plan`]; the message is a sentence without the path.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    read_file(path, PLAN_BYTES_MAX)
}

fn read_file(path: &Path, bytes_max: u64) -> Result<String, String> {
    read_bounded(open_input(path)?, bytes_max)
}

fn read_file_or_stdin(path: &Path, bytes_max: u64) -> Result<String, String> {
    if path.as_os_str() == STDIN {
        return read_bounded(io::stdin().lock(), bytes_max);
    }
    read_bounded(open_input(path).map_err(|why| hint_at_stdin(path, why))?, bytes_max)
}

/// Adds advice for a command that also reads stdin.
fn hint_at_stdin(path: &Path, why: String) -> String {
    match fs::metadata(path).map(|found| file_kind(&found)) {
        Err(_) | Ok(FileType::RegularFile) => why,
        Ok(FileType::Fifo) => format!("{why} (hint: `cat {} | dfsbench ... -`)", path.display()),
        Ok(_) => format!("{why} (hint: name a file, or `-` for stdin)"),
    }
}

/// Opens a file of any length, or stdin. `sort` names what it should contain, for the message.
///
/// # Errors
/// If it is not a file or pipe, or can't be opened.
pub(crate) fn open_stream(path: &Path, sort: &str) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == STDIN {
        return Ok(Box::new(io::stdin().lock()));
    }
    match open_input(path).map_err(|why| hint_at_stdin(path, why)) {
        Ok(file) => Ok(Box::new(file)),
        Err(why) => Err(Failure::Usage(format!("can't read {sort} `{}`: {why}", path.display()))),
    }
}

/// Opens a regular file, or a pipe that is already open.
///
/// # Errors
/// If it is neither or can't be opened; the message is a sentence without the path.
pub(crate) fn open_input(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true);
    if !is_descriptor(path) {
        // Without this flag, opening a FIFO would wait for its writer.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    match file_kind(&found) {
        FileType::RegularFile => Ok(file),
        FileType::Fifo | FileType::CharacterDevice if is_descriptor(path) => Ok(file),
        other => Err(format!("it is {}", kind_name(other))),
    }
}

fn read_bounded(from: impl Read, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    // Read one byte more to distinguish a file of the maximum size from a larger one.
    from.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => "it is not text in UTF-8".to_owned(),
        _ => error.to_string(),
    })?;
    if text.len() as u64 > bytes_max {
        return Err(format!("it is larger than {} MiB", bytes_max >> 20));
    }
    Ok(text)
}

fn is_descriptor(path: &Path) -> bool {
    let text = path.to_string_lossy();
    DESCRIPTORS.iter().any(|begin| text.starts_with(begin))
}

fn file_kind(found: &Metadata) -> FileType {
    FileType::from_raw_mode(found.mode())
}
