//! Compiles the few C files of `xtask/peers/`: for functions that only a C library has.
//!
//! The results are in `target/xtask/` and are rebuilt only if a source is newer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{proc, repo};

const STRICT: [&str; 4] = ["-O2", "-Wall", "-Wextra", "-Werror"];

/// Builds the shim that lets an NFS server start without rpcbind; returns the shared object.
///
/// # Errors
/// If `cc` fails.
pub fn rpcb_shim() -> Result<PathBuf> {
    compile_program("rpcb_shim.c", "rpcb_shim.so", &["-shared", "-fPIC"])
}

/// Builds the load generator with libnfs; returns the program.
///
/// # Errors
/// If `cc` fails, or libnfs-dev is missing.
pub fn libnfs_load() -> Result<PathBuf> {
    compile_program("libnfs_load.c", "libnfs_load", &["-lnfs"])
}

/// Builds the checks of a server with libnfs, over v3 and v4; returns the program.
///
/// # Errors
/// If `cc` fails, or libnfs-dev is missing.
pub fn libnfs_checks() -> Result<PathBuf> {
    compile_program("libnfs_checks.c", "libnfs_checks", &["-lnfs"])
}

/// Builds the checks of a server with libnfs, over v2; returns the program.
///
/// # Errors
/// If `cc` fails, or libnfs-dev is missing.
pub fn libnfs2_checks() -> Result<PathBuf> {
    compile_program("libnfs2_checks.c", "libnfs2_checks", &["-lnfs"])
}

/// Builds the echo program; returns it.
///
/// # Errors
/// If `cc` fails.
pub fn tcp_echo() -> Result<PathBuf> {
    compile_program("tcp_echo.c", "tcp_echo", &[])
}

/// Builds the program that only copies; returns it.
///
/// # Errors
/// If `cc` fails.
pub fn tcp_copy() -> Result<PathBuf> {
    compile_program("tcp_copy.c", "tcp_copy", &[])
}

fn compile_program(source: &str, product: &str, last: &[&str]) -> Result<PathBuf> {
    let source = repo::root().join("xtask/peers").join(source);
    let folder = repo::target_folder().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let product = folder.join(product);
    if !is_fresh(&product, &source)? {
        let mut cc = Command::new("cc");
        cc.args(STRICT).arg("-o").arg(&product).arg(&source).args(last);
        proc::run_command(&mut cc)?;
    }
    Ok(product)
}

fn is_fresh(product: &Path, source: &Path) -> Result<bool> {
    let changed = fs::metadata(source).with_context(|| format!("no {}", source.display()))?;
    let Ok(made) = fs::metadata(product) else { return Ok(false) };
    Ok(made.modified()? > changed.modified()?)
}
