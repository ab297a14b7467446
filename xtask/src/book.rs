//! `cargo xtask book`: builds the pages of `docs/` as a book with search, the manual of each
//! command, and pages of campaigns run for it.
//!
//! Uses the mdbook on PATH, or else installs one with cargo below the target directory, which takes
//! minutes the first time. The book is written to `target/book`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{gallery, proc, repo};

/// Version of mdbook that is installed if there is none.
const MDBOOK_VERSION: &str = "0.5.4";

/// Builds the book and prints its first page.
///
/// # Errors
/// If the program doesn't build, or mdbook is not available or reports an error.
pub fn build() -> Result<bool> {
    let mdbook = find_mdbook()?;
    let sources = repo::target_folder().join("book-sources");
    if sources.exists() {
        fs::remove_dir_all(&sources)?;
    }
    fs::create_dir_all(&sources)?;
    proc::run_command(Command::new("cp").arg("-r").arg(repo::root().join("docs")).arg(&sources))?;
    fs::copy(repo::root().join("book.toml"), sources.join("book.toml"))?;
    let commands = write_commands(&sources.join("docs"))?;
    gallery::write_pages(&sources.join("docs"))?;
    let built = repo::target_folder().join("book");
    let mut build = Command::new(&mdbook);
    proc::run_command(build.args(["build", "--dest-dir"]).arg(&built).arg(&sources))?;
    for page in ["index.html", "plan.html", "commands/run.html", "gallery/quick.html"] {
        if !built.join(page).is_file() {
            bail!("the book has no {page}");
        }
    }
    println!("{} ({commands} commands)", built.join("index.html").display());
    Ok(true)
}

fn find_mdbook() -> Result<PathBuf> {
    if proc::on_path("mdbook") {
        return Ok("mdbook".into());
    }
    let root = repo::target_folder().join("tools");
    let program = root.join("bin/mdbook");
    if !program.is_file() {
        println!("mdbook: is installed below {}", root.display());
        let mut cargo = repo::cargo();
        cargo.args(["install", "mdbook", "--version", MDBOOK_VERSION, "--locked", "--debug"]);
        cargo.args(["--no-default-features", "--features", "search", "--quiet", "--root"]);
        proc::run_command(cargo.arg(&root))
            .context("put mdbook on PATH, or make the registry reachable")?;
    }
    Ok(program)
}

/// Writes a page for each command from its help, and lists them; returns their number.
fn write_commands(docs: &Path) -> Result<usize> {
    let mut cargo = repo::cargo();
    cargo.args(["build", "--package", "dfsbench", "--quiet"]);
    proc::run_command(&mut cargo)?;
    let folder = docs.join("commands");
    fs::create_dir_all(&folder)?;
    let mut contents = String::from("\n# Commands\n\n");
    let names = command_names(&help(&[])?);
    for name in &names {
        let text = help(&[name])?;
        let page = format!("# dfsbench {name}\n\n```text\n{}\n```\n", text.trim_end());
        fs::write(folder.join(format!("{name}.md")), page)?;
        writeln!(contents, "- [dfsbench {name}](commands/{name}.md)")?;
    }
    let summary = docs.join("SUMMARY.md");
    let pages = fs::read_to_string(&summary)?;
    let Some((before, after)) = pages.split_once("\n# Design\n") else {
        bail!("docs/SUMMARY.md has no part `# Design`");
    };
    fs::write(&summary, format!("{before}{contents}\n# Design\n{after}"))?;
    Ok(names.len())
}

fn help(command: &[&String]) -> Result<String> {
    let mut program = Command::new(repo::dfsbench_path(repo::Profile::Debug));
    program.args(command).arg("--help").env("COLUMNS", "100");
    proc::capture_text(&mut program)
}

/// Parses the names of the commands in the general help.
fn command_names(help: &str) -> Vec<String> {
    let mut names = Vec::new();
    // Commands are under several headings, between the usage and the options.
    let lines = help.lines().skip_while(|line| !line.starts_with("Usage:"));
    for line in lines.take_while(|line| *line != "Options:") {
        // Continuation lines of a description are indented more.
        if let Some(text) = line.strip_prefix("  ")
            && !text.starts_with(' ')
            && let Some(name) = text.split(' ').next()
            && name != "help"
        {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::command_names;

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "A tool\n\nUsage: x\n\nMeasure:\n  run     Measure a\n          directory\n\n\
                    Setup:\n  report  Render\n  help    Print\n\nOptions:\n  -h\n";
        assert_eq!(command_names(help), ["run", "report"]);
    }
}
