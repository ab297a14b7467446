//! Finds things in the repository: its root, the build directory, the built binaries.
//!
//! Paths are found from where this crate was compiled and from `CARGO_TARGET_DIR`; nothing else
//! of the tools spells a path from the root by hand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this crate lies one folder below the root").to_path_buf()
}

/// Returns the build directory, as cargo itself would choose it.
pub fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Returns `cargo`, in the root of the workspace.
///
/// Programs that cargo runs have variables that describe their own package. They are removed: the
/// build scripts of some crates read them, and cargo would build these crates, and all that use
/// them, whenever another program calls it.
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

/// Names the two profiles that are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `cargo build`: what the tests use.
    Debug,
    /// `cargo build --release`: what is measured.
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

/// Returns the path of the `dfsbench` binary of one profile, built or not.
pub fn dfsbench_path(profile: Profile) -> PathBuf {
    profile.folder().join("dfsbench")
}

/// Returns the path of an example of one profile, built or not.
pub fn example_path(profile: Profile, name: &str) -> PathBuf {
    profile.folder().join("examples").join(name)
}
