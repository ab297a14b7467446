//! Splits a built program into the executable and its debug symbols.
//!
//! Main type: [`Program`]. The stripped program refers to its symbol file by name and CRC, so that
//! gdb finds it in the same directory or below `/usr/lib/debug`.
//!
//! **Source:** objcopy(1), `--only-keep-debug`; GDB's manual, "Debugging Information in Separate
//! Files".

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::proc;

/// The program of a release.
pub struct Program {
    /// The executable without symbols.
    pub stripped: Vec<u8>,
    /// The manual pages, by name, such as `dfsbench-run.1`.
    pub pages: Vec<(String, Vec<u8>)>,
    /// Completion scripts by shell.
    pub completions: Vec<(&'static str, Vec<u8>)>,
}

impl Program {
    /// Writes the symbols of a built program to a directory, and gets the pages from the program.
    pub fn split(built: &Path, stem: &str, folder: &Path) -> Result<Self> {
        let symbols = folder.join(format!("{stem}.debug"));
        let mut keep = Command::new("objcopy");
        keep.args(["--only-keep-debug", "--compress-debug-sections"]).arg(built).arg(&symbols);
        proc::run_command(&mut keep)?;
        let scratch = tempfile::tempdir()?;
        let stripped = scratch.path().join("dfsbench");
        let mut strip = Command::new("objcopy");
        strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display()));
        proc::run_command(strip.arg(built).arg(&stripped))?;

        let folder = scratch.path().join("man");
        fs::create_dir(&folder)?;
        let mut man = Command::new(&stripped);
        proc::run_command(man.arg("man").arg("--directory").arg(&folder))?;
        let mut completions = Vec::new();
        for shell in ["bash", "fish", "zsh"] {
            let mut print = Command::new(&stripped);
            completions.push((shell, proc::capture_stdout(print.args(["completions", shell]))?));
        }
        Ok(Self { stripped: fs::read(&stripped)?, pages: read_pages(&folder)?, completions })
    }
}

fn read_pages(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    for path in super::list_files(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).context("a page's name")?;
        pages.push((name.to_owned(), fs::read(&path)?));
    }
    Ok(pages)
}
