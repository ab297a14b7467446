//! `cargo xtask static`: a `dfsbench` that needs no libraries of the machine it runs on.
//!
//! The virtual machines of the tests have three Debian releases, and none has the C library of the
//! machine that built the program. Releases are linked the same way (`cargo xtask dist`), so the
//! program copied to hosts is the released one. Each build has its own directory below the target
//! directory, because its flags would make cargo rebuild everything else.
//!
//! **Source:** The rustc book, "Remap source paths"; gcc(1), `-ffile-prefix-map`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{proc, repo};

/// Links the C library statically.
const LINKED_STATICALLY: &str = "-C target-feature=+crt-static";

/// Stores the addresses that are relocated at startup as a bitmap: 0.3 MB less. Linkers that don't
/// support it ignore it, with a warning. **Source:** glibc 2.36, NEWS, `DT_RELR`.
const SHORT_RELOCATIONS: [&str; 2] = ["-C", "link-arg=-Wl,-z,pack-relative-relocs"];

/// Leaves out SQLite's full-text and spatial search, which results don't use.
const SQLITE_WITHOUT: &str = "-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS \
                              -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE";

/// Returns rustc's name for this machine's platform. Specifying a target keeps the flags from build
/// scripts.
pub fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the program, in the debug profile, and returns its path.
pub fn build_dfsbench() -> Result<PathBuf> {
    let folder = repo::target_folder().join("static");
    // Line tables would be most of the data copied to a machine.
    let flags = format!("{LINKED_STATICALLY} -C strip=symbols");
    let mut cargo = cargo("build", &repo::root(), &folder);
    cargo.env("RUSTFLAGS", flags);
    proc::run_command(&mut cargo)?;
    Ok(folder.join(target()).join("debug/dfsbench"))
}

/// Builds the program for a release, with line tables, and returns its path.
///
/// Its bytes don't depend on the locations of the sources, the toolchain and cargo's home: all
/// paths in it are those of [`remapped_paths`].
pub fn build_release(sources: &Path, folder: &Path) -> Result<PathBuf> {
    let mut rust = LINKED_STATICALLY.to_owned();
    let mut c = Vec::new();
    for (from, to) in remapped_paths(sources, folder)? {
        // Flags are split at spaces; a path with one would become two flags.
        write!(rust, " --remap-path-prefix={from}={to}")?;
        c.push(format!("-ffile-prefix-map={from}={to}"));
    }
    let mut cargo = cargo("rustc", sources, folder);
    cargo.args(["--profile", "dist", "--features", "parquet", "--locked"]);
    cargo.env("RUSTFLAGS", rust).env("CFLAGS", c.join(" "));
    cargo.env("LIBSQLITE3_FLAGS", SQLITE_WITHOUT);
    // Excludes everything else that could get into the program from this build's environment.
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_INCREMENTAL", "0");
    proc::run_command(cargo.arg("--").args(SHORT_RELOCATIONS))?;
    Ok(folder.join(target()).join("dist/dfsbench"))
}

fn cargo(command: &str, sources: &Path, folder: &Path) -> Command {
    let mut cargo = repo::cargo();
    cargo.args([command, "--package", "dfsbench", "--quiet", "--target", &target()]);
    cargo.arg("--target-dir").arg(folder).current_dir(sources);
    cargo
}

/// Lists the directories of this machine that the program would contain, each with its replacement.
fn remapped_paths(sources: &Path, build: &Path) -> Result<Vec<(String, &'static str)>> {
    let mut rustc = Command::new("rustc");
    let sysroot = proc::capture_text(rustc.args(["--print", "sysroot"]))?;
    let home = match std::env::var("CARGO_HOME") {
        Ok(folder) => folder,
        Err(_) => format!("{}/.cargo", std::env::var("HOME").context("HOME isn't set")?),
    };
    // The last match wins: the sources may be below cargo's home, and the build directory, where
    // build scripts also write sources, below that.
    Ok(vec![
        (sysroot.trim().to_owned(), "/rust"),
        (home, "/cargo"),
        (sources.display().to_string(), "/dfsbench"),
        (build.display().to_string(), "/build"),
    ])
}

/// Builds the program and prints its path.
pub fn build_and_print() -> Result<bool> {
    println!("{}", build_dfsbench()?.display());
    Ok(true)
}
