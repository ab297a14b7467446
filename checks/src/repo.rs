//! Locations in the repository: its root, the build directory, the built binaries.
//!
//! Paths are derived from where this crate was compiled and from `CARGO_TARGET_DIR`; the rest of
//! the tools never spells out a path from the root.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this crate is one folder below the root").to_path_buf()
}

/// Returns the build directory that cargo itself would choose.
pub fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Returns the Python environment with programs of file systems that Debian doesn't package. The
/// hosts of a lab find those in its folder `bin`.
pub fn systems_environment() -> PathBuf {
    target_folder().join("tools/systems")
}

/// Returns a command for `cargo`, in the root of the workspace.
///
/// Programs run by cargo have variables that describe their own package. They are removed: the
/// build scripts of some crates read them, and cargo would rebuild these crates, and everything
/// that uses them, whenever it is called from another program.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command.current_dir(root());
    command
}

/// The two profiles that are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `cargo build`: used by tests.
    Debug,
    /// `cargo build --release`: used for measurements.
    Release,
}

impl Profile {
    fn folder(self) -> PathBuf {
        target_folder().join(match self {
            Self::Debug => "debug",
            Self::Release => "release",
        })
    }
}

/// Returns the path of the `dfsbench` binary of a profile, whether or not it is built.
pub fn dfsbench_path(profile: Profile) -> PathBuf {
    profile.folder().join("dfsbench")
}

/// Returns the path of an example of a profile, whether or not it is built.
pub fn example_path(profile: Profile, name: &str) -> PathBuf {
    profile.folder().join("examples").join(name)
}
