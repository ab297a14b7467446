//! This program's own file, which is started again as an agent or a client, or copied to hosts.

use std::env;
use std::io;
use std::path::PathBuf;

use crate::exit::Failure;

/// Returns a path by which this program can be started and read while this process runs.
///
/// An upgrade during a campaign puts another file in the place of this one, or removes it. The
/// kernel keeps the old file for the process, under a path of its own. So what is started is always
/// of the version that started it. **Source:** proc(5), `/proc/pid/exe`.
///
/// # Errors
/// When the system does not know the file, such as without /proc.
pub fn find() -> io::Result<PathBuf> {
    let installed = env::current_exe()?;
    // The kernel marks a file that is gone in its name, which then leads nowhere.
    if installed.exists() {
        return Ok(installed);
    }
    Ok(PathBuf::from(format!("/proc/{}/exe", std::process::id())))
}

/// Returns the path of this program's file for processes that are started later or elsewhere.
///
/// # Errors
/// When the system does not know it, such as without /proc.
pub fn installed() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::Lab(format!("can't find this program's file: {error}")))
}

/// Returns the path of a file beside this program's, whether or not there is one.
///
/// # Errors
/// As [`find`].
pub fn find_beside(name: &str) -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(name))
}
