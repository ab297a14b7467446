//! Settings that don't go together.
//!
//! Each check sees one run and names the setting that is best changed, with the line or flag
//! where its level was written. Single values were judged when they were read.

use model::{RunSpec, Target, Workload};

use crate::error::{Fault, Place, PlanError};
use crate::limits::{self, show_size};
use crate::raw::Settings;
use crate::setting::{Setting, Value};
use crate::{defaults, text};

/// What was written for a run: by its workload, which wins, or as a factor of the plan.
pub(crate) struct Written<'a> {
    pub workload: &'a Settings,
    pub factors: &'a Settings,
    /// What the in-memory server may hold, in bytes.
    pub server_memory_bytes: u64,
}

impl Written<'_> {
    /// The levels of a setting, or its default in `run`.
    pub fn levels(&self, setting: Setting, run: &RunSpec) -> Vec<Value> {
        match self.workload.get(setting).or_else(|| self.factors.get(setting)) {
            Some(levels) => levels.iter().map(|level| level.value).collect(),
            None => vec![defaults::of(setting, run)],
        }
    }

    /// Where the level that `run` has was written.
    fn place(&self, setting: Setting, run: &RunSpec) -> Place {
        let levels = self.workload.get(setting).or_else(|| self.factors.get(setting));
        let level = setting.get(run);
        levels
            .and_then(|levels| levels.iter().find(|spot| spot.value == level))
            .map_or(Place::Whole, |spot| spot.place)
    }

    /// Lays a fault to the first of `settings` that was written.
    fn fault(&self, run: &RunSpec, settings: &[Setting], fault: Fault) -> PlanError {
        let written = settings.iter().find(|s| self.place(**s, run) != Place::Whole);
        let setting = *written.unwrap_or(&settings[0]);
        let place = self.place(setting, run);
        Fault { message: format!("{} workload: {}", run.workload.name(), fault.message), ..fault }
            .of(setting.key(), place)
    }
}

/// Refuses a run whose settings contradict each other.
pub(crate) fn check(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    check_files(run, written)?;
    if run.workload != Workload::Metadata {
        check_data(run, written)?;
        check_direct(run, written)?;
    }
    check_buffers(run, written)?;
    check_server(run, written)
}

/// The settings that say how many files the run has, and how large they are.
fn set_of(run: &RunSpec) -> [Setting; 2] {
    match run.workload {
        Workload::Stream | Workload::Random => [Setting::Files, Setting::FileSize],
        Workload::Metadata => [Setting::SmallFiles, Setting::SmallFileSize],
    }
}

fn check_files(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let [files, _] = set_of(run);
    // Workers of a mix share all files; elsewhere each works on files of its own.
    if run.workload == Workload::Random || run.files >= run.workers {
        return Ok(());
    }
    let what = format!("{} files are too few for {} workers", run.files, run.workers);
    let hint = format!("each worker has files of its own: at least {}", run.workers);
    Err(written.fault(run, &[files, Setting::Workers], Fault::new(what).hint(hint)))
}

fn check_data(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let (file, io) = (run.file_size_bytes, u64::from(run.io_size_bytes));
    let sizes = [Setting::IoSize, Setting::FileSize];
    if io > file {
        let what =
            format!("io_size {} is larger than file_size {}", show_size(io), show_size(file));
        let fault = Fault::new(what).hint(format!("at most \"{}\"", text::size(file)));
        return Err(written.fault(run, &sizes, fault));
    }
    if !file.is_multiple_of(io) {
        let what =
            format!("file_size {} is no multiple of io_size {}", text::size(file), text::size(io));
        let near = text::size(file - file % io);
        let fault =
            Fault::new(what).hint(format!("every op has the same size: \"{near}\" would do"));
        return Err(written.fault(run, &[Setting::FileSize, Setting::IoSize], fault));
    }
    Ok(())
}

fn check_direct(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let io = u64::from(run.io_size_bytes);
    if !run.direct || io.is_multiple_of(limits::DIRECT_ALIGNMENT) {
        return Ok(());
    }
    let what = format!("direct I/O can't move {} at a time", show_size(io));
    let hint = format!(
        "O_DIRECT needs an io_size that is a multiple of {} bytes, such as \"{}\"",
        limits::DIRECT_ALIGNMENT,
        text::size(io.next_multiple_of(limits::DIRECT_ALIGNMENT))
    );
    Err(written.fault(run, &[Setting::IoSize, Setting::Direct], Fault::new(what).hint(hint)))
}

fn check_buffers(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let in_flight = u64::from(run.workers) * u64::from(run.queue_depth);
    let bytes = in_flight * u64::from(run.io_size_bytes);
    if bytes <= limits::BUFFERS_MAX {
        return Ok(());
    }
    let what = format!("{in_flight} ops in flight need {} of buffers", show_size(bytes));
    // A small file is written with one op.
    let [_, file_size] = set_of(run);
    let size = if run.workload == Workload::Metadata { file_size } else { Setting::IoSize };
    let hint = format!(
        "workers x queue_depth x {} may be {} at most",
        size.key(),
        show_size(limits::BUFFERS_MAX)
    );
    let settings = [Setting::QueueDepth, Setting::Workers, size];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Refuses a file set that the in-memory server could not hold.
fn check_server(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let memory = written.server_memory_bytes;
    let files = u64::from(run.files);
    let data = files * server_bytes(run.file_size_bytes);
    let overhead = files * limits::SERVER_FILE_OVERHEAD;
    let embedded = matches!(&run.target, Target::Nfs(nfs) if nfs.embedded);
    if !embedded || data.saturating_add(overhead) <= memory {
        return Ok(());
    }
    let what = format!(
        "{} x {} of files, with their inodes, do not fit in the {} of the in-memory server",
        run.files,
        show_size(run.file_size_bytes),
        show_size(memory)
    );
    let [files, file_size] = set_of(run);
    let hint = format!(
        "raise `memory` in [server] or --server-memory, or lower {} or {}",
        file_size.key(),
        files.key()
    );
    let settings = [file_size, files, Setting::Workers];
    Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
}

/// Memory that the data of one file takes there.
fn server_bytes(file_size_bytes: u64) -> u64 {
    let rest = file_size_bytes % limits::SERVER_BLOCK;
    let last = match rest {
        0 => 0,
        _ => rest.next_power_of_two().max(limits::SERVER_BLOCK_MIN),
    };
    file_size_bytes - rest + last
}
