//! Directories of this user: state, cache, and configuration.
//!
//! Nothing is made here; a directory that is named need not exist.
//!
//! **Source:** the XDG base directory specification.

use std::path::PathBuf;

/// Returns the directory of this host's undo log: one for root, else the user's own folder.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub fn state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/dfsbench");
    }
    records_dir()
}

/// Returns the directory for what this user's processes note about themselves.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub fn records_dir() -> PathBuf {
    user_dir("XDG_STATE_HOME", ".local/state")
        .unwrap_or_else(|| std::env::temp_dir().join("dfsbench"))
}

/// Returns the directory for what can be made again: compressed programs.
///
/// **Source:** the XDG base directory specification, `XDG_CACHE_HOME`.
pub fn cache_dir() -> Option<PathBuf> {
    user_dir("XDG_CACHE_HOME", ".cache")
}

/// Returns the path of the file with the user's defaults of flags.
///
/// **Source:** the XDG base directory specification, `XDG_CONFIG_HOME`.
pub fn config_file() -> Option<PathBuf> {
    Some(user_dir("XDG_CONFIG_HOME", ".config")?.join("config.toml"))
}

/// Returns our directory below that of a variable, else below the usual place in the home;
/// `None` without a home.
fn user_dir(variable: &str, usual: &str) -> Option<PathBuf> {
    let base = match absolute_path(variable) {
        Some(base) => base,
        None => absolute_path("HOME")?.join(usual),
    };
    Some(base.join("dfsbench"))
}

/// Reads a path from the environment; the specification says that relative ones are ignored.
fn absolute_path(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    if path.is_absolute() { Some(path) } else { None }
}
