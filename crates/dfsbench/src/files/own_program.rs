//! Finds this program's own file, to start it again as an agent or a client or to copy it to hosts.

use std::env;
use std::io;
use std::path::PathBuf;

use crate::exit::Failure;

/// Returns a path from which this program can be started and read while this process runs.
///
/// An upgrade during a campaign may replace or remove the program's file. The kernel keeps the old
/// file available to the running process under a separate path, so that child processes always have
/// the same version as their parent. **Source:** proc(5), `/proc/pid/exe`.
///
/// # Errors
/// If the system can't determine the file, for example without /proc.
pub(crate) fn find() -> io::Result<PathBuf> {
    let installed = env::current_exe()?;
    // If the file was removed, the kernel appends a marker to its name, so the path doesn't exist.
    if installed.exists() {
        return Ok(installed);
    }
    Ok(PathBuf::from(format!("/proc/{}/exe", std::process::id())))
}

/// Returns the path of this program's file, for processes that are started later or elsewhere.
///
/// # Errors
/// If the system can't determine it, for example without /proc.
pub(crate) fn installed() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::Lab(format!("can't find this program's file: {error}")))
}

/// Returns the path of a file next to this program's, which may not exist.
pub(crate) fn find_beside(name: &str) -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(name))
}
