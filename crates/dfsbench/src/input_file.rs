//! Input files: plans, mixes and lists of hosts, read whole and of bounded size.
//!
//! A plan may come from a pipe: stdin by the name `-`, or `<(...)` of a shell, which is
//! /dev/fd/N. A FIFO on a disk is refused, because opening it waits for a writer that may never
//! come, and so is whatever else is no regular file.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use crate::exit::Failure;
use crate::output_file::kind_name;
use crate::presets::Preset;

/// The name of stdin.
pub const STDIN: &str = "-";

/// The directories where the system shows the open files of this process as files.
const DESCRIPTORS: [&str; 4] =
    ["/dev/fd/", "/dev/stdin", "/proc/self/fd/", "/proc/thread-self/fd/"];

/// The largest plan; those of 10,000 hosts take a tenth of it.
const PLAN_BYTES_MAX: u64 = 16 << 20;

/// The largest file of a mix.
const MIX_BYTES_MAX: u64 = 1 << 20;

/// Says whether a path stands for a pipe that is open already, as `<(...)` does.
pub fn is_pipe(path: &Path) -> bool {
    is_descriptor(path)
        && std::fs::metadata(path).is_ok_and(|found| file_kind(&found) == FileType::Fifo)
}

/// Says whether a path can't be read by another process, or again by this one.
pub fn is_read_once(path: &Path) -> bool {
    path.as_os_str() == STDIN || is_descriptor(path)
}

/// Reads the text of a plan, or of a preset where there is no such file.
///
/// # Errors
/// When it is no file or pipe, can't be read, is no text, or is too large.
pub fn read_plan(path: &Path) -> Result<String, Failure> {
    if let Some(preset) = path.to_str().and_then(Preset::named) {
        return Ok(preset.text.to_owned());
    }
    let read = if path.as_os_str() == STDIN {
        read_bounded(io::stdin().lock(), PLAN_BYTES_MAX)
    } else {
        read_file(path, PLAN_BYTES_MAX)
    };
    read.map_err(|why| Failure::Usage(format!("can't read plan `{}`: {why}", path.display())))
}

/// Reads the text of a mix.
///
/// # Errors
/// As [`read_plan`], in a sentence without the path.
pub fn read_mix(path: &str) -> Result<String, String> {
    read_file(Path::new(path), MIX_BYTES_MAX)
}

/// Reads the text of a recipe.
///
/// # Errors
/// As [`read_plan`], in a sentence without the path.
pub fn read_recipe(path: &Path) -> Result<String, String> {
    read_file(path, PLAN_BYTES_MAX)
}

/// Reads the list of hosts that a scheduler wrote.
///
/// # Errors
/// As [`read_plan`], in a sentence without the path.
pub fn read_host_list(path: &Path) -> Result<String, String> {
    read_file(path, PLAN_BYTES_MAX)
}

fn read_file(path: &Path, bytes_max: u64) -> Result<String, String> {
    read_bounded(open_input(path)?, bytes_max)
}

/// Opens a file of any length, or stdin; `sort` is what it should be, for the message.
///
/// # Errors
/// When it is no file or pipe, or can't be opened.
pub fn open_stream(path: &Path, sort: &str) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == STDIN {
        return Ok(Box::new(io::stdin().lock()));
    }
    match open_input(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(why) => Err(Failure::Usage(format!("can't read {sort} `{}`: {why}", path.display()))),
    }
}

/// Opens a regular file, or a pipe that is open already.
///
/// # Errors
/// When it is neither, or can't be opened: a sentence without the path.
pub fn open_input(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true);
    if !is_descriptor(path) {
        // Opening a FIFO waits for its writer, unless it is opened so.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path).map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    match file_kind(&found) {
        FileType::RegularFile => Ok(file),
        FileType::Fifo | FileType::CharacterDevice if is_descriptor(path) => Ok(file),
        FileType::Fifo => {
            Err(format!("it is a FIFO (hint: `cat {} | dfsbench ... -`)", path.display()))
        }
        other => Err(format!("it is {} (hint: name a file, or `-` for stdin)", kind_name(other))),
    }
}

fn read_bounded(from: impl Read, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    // One byte more tells a file of the largest size from a larger one.
    from.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
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
