//! `cargo xtask static`: a `dfsbench` that needs no library of the machine it runs on.
//!
//! The virtual machines of the tests are Debian of three ages, and none has the C library of the
//! machine that built the program. Releases are linked the same way (`cargo xtask dist`), so that
//! the program that is copied to hosts is the released one. Each build has a folder of its own
//! below the target folder, because its flags would make cargo build everything else again.
//!
//! **Source:** The rustc book, "Remap source paths"; gcc(1), `-ffile-prefix-map`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{proc, repo};

/// Makes the C library part of the program.
const LINKED_STATICALLY: &str = "-C target-feature=+crt-static";

/// Keeps the addresses that are adjusted at the start in a table of bits: 0.3 MB less. Linkers that
/// don't know it ignore it, with a warning. **Source:** glibc 2.36, NEWS, `DT_RELR`.
const SHORT_RELOCATIONS: [&str; 2] = ["-C", "link-arg=-Wl,-z,pack-relative-relocs"];

/// Leaves out what SQLite has for searching texts and places, which results don't use.
const SQLITE_WITHOUT: &str = "-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS \
                              -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE";

/// Names the platform of this machine, as rustc does. To name a target keeps the flags from build
/// scripts.
pub fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the program, in the debug profile, and returns its path.
///
/// # Errors
/// Where it doesn't build.
pub fn build_dfsbench() -> Result<PathBuf> {
    let folder = repo::target_folder().join("static");
    // Line tables would be most of what is copied into a machine.
    let flags = format!("{LINKED_STATICALLY} -C strip=symbols");
    let mut cargo = cargo("build", &repo::root(), &folder);
    cargo.env("RUSTFLAGS", flags);
    proc::run_command(&mut cargo)?;
    Ok(folder.join(target()).join("debug/dfsbench"))
}

/// Builds the program as it is released, with its line tables, and returns its path.
///
/// Its bytes are the same wherever the sources, the toolchain and cargo's folder are: all paths
/// in it are those of [`remapped_paths`].
///
/// # Errors
/// Where it doesn't build.
pub fn build_release(sources: &Path, folder: &Path) -> Result<PathBuf> {
    let (mut rust, mut c) = (LINKED_STATICALLY.to_owned(), Vec::new());
    for (from, to) in remapped_paths(sources, folder)? {
        // Flags are divided at blanks; a path with one would become two.
        write!(rust, " --remap-path-prefix={from}={to}")?;
        c.push(format!("-ffile-prefix-map={from}={to}"));
    }
    let mut cargo = cargo("rustc", sources, folder);
    cargo.args(["--profile", "dist", "--features", "parquet", "--locked"]);
    cargo.env("RUSTFLAGS", rust).env("CFLAGS", c.join(" "));
    cargo.env("LIBSQLITE3_FLAGS", SQLITE_WITHOUT);
    // Whatever else would get into the program from the surroundings of this build.
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

/// Lists the folders of this machine that a program would name, each with what it names instead.
fn remapped_paths(sources: &Path, build: &Path) -> Result<Vec<(String, &'static str)>> {
    let mut rustc = Command::new("rustc");
    let sysroot = proc::capture_text(rustc.args(["--print", "sysroot"]))?;
    let home = match std::env::var("CARGO_HOME") {
        Ok(folder) => folder,
        Err(_) => format!("{}/.cargo", std::env::var("HOME").context("HOME isn't set")?),
    };
    // The last one that fits wins: the sources may lie below cargo's folder, and the folder of the
    // build, where build scripts write sources, too, below that.
    Ok(vec![
        (sysroot.trim().to_owned(), "/rust"),
        (home, "/cargo"),
        (sources.display().to_string(), "/dfsbench"),
        (build.display().to_string(), "/build"),
    ])
}

/// Builds the program and prints its path.
///
/// # Errors
/// Where it doesn't build.
pub fn build_and_print() -> Result<bool> {
    println!("{}", build_dfsbench()?.display());
    Ok(true)
}
