//! Directories of this user: state, cache and configuration.
//!
//! Nothing is created here, and the directories returned may not exist.
//!
//! **Source:** the XDG base directory specification.

use std::path::PathBuf;

/// Returns the directory of this host's undo log. Root has a system directory, other users their
/// own.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub(crate) fn state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/dfsbench");
    }
    records_dir()
}

/// Returns the directory in which this user's processes record their state.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub(crate) fn records_dir() -> PathBuf {
    user_dir("XDG_STATE_HOME", ".local/state")
        .unwrap_or_else(|| std::env::temp_dir().join("dfsbench"))
}

/// Returns the directory for data that can be recreated, which are compressed programs.
///
/// **Source:** the XDG base directory specification, `XDG_CACHE_HOME`.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    user_dir("XDG_CACHE_HOME", ".cache")
}

/// Returns the path of the file with the user's default flags.
///
/// **Source:** the XDG base directory specification, `XDG_CONFIG_HOME`.
pub(crate) fn config_file() -> Option<PathBuf> {
    Some(user_dir("XDG_CONFIG_HOME", ".config")?.join("config.toml"))
}

/// Returns our directory below the one in the variable, or below the usual place in the home
/// directory; `None` without a home directory.
fn user_dir(variable: &str, usual: &str) -> Option<PathBuf> {
    let base = match absolute_path(variable) {
        Some(base) => base,
        None => absolute_path("HOME")?.join(usual),
    };
    Some(base.join("dfsbench"))
}

/// Reads a path from the environment. The specification requires ignoring relative paths.
fn absolute_path(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    if path.is_absolute() { Some(path) } else { None }
}
