//! `cargo xtask dist`: all files of a release, below `target/dist`.
//!
//! Main type: [`Release`], the values shared by all artifacts. One program is built, static and
//! without symbols; packages, image and archive all contain it. Two builds of the same commit are
//! identical: times are those of the commit, archives are sorted, and paths are remapped.
//!
//! Nothing is uploaded; `.github/workflows/release.yml` does that.
//!
//! **Source:** reproducible-builds.org, "SOURCE_DATE_EPOCH" and "Archive metadata".

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sha2::{Digest as _, Sha256};

use crate::{portable, proc, repo, setup};

mod bare_root;
mod check;
mod contents;
mod image;
mod linked;
mod notes;
mod notices;
mod packages;
mod program;
mod sbom;
mod tree;

use program::Program;

/// Maximum size of the program.
const PROGRAM_MAX_BYTES: u64 = 15_000_000;
/// Maximum size of a package, the image or the archive.
const PACKED_MAX_BYTES: u64 = 6_000_000;
/// File with the hashes of all others.
const SUMS: &str = "SHA256SUMS";

/// Options of `cargo xtask dist`.
#[derive(Args)]
pub struct Options {
    /// Installs the package into bare roots of Debian 12 and 13, starts the image, and packs all of
    /// it a second time (root; some two minutes).
    #[arg(long)]
    check: bool,
    /// Builds the commit again, elsewhere and from nothing, and compares all bytes.
    #[arg(long, conflicts_with = "program")]
    reproduce: bool,
    /// Packs this program in place of building one; it must be static.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The values shared by all artifacts.
pub struct Release {
    /// Version of the program.
    version: String,
    /// Time of the commit in seconds since 1970, used for all files.
    epoch: u64,
    /// The commit being built.
    commit: String,
}

impl Release {
    fn from_commit() -> Result<Self> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => given,
            Err(_) => git(&["log", "-1", "--format=%ct"])?,
        };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: epoch.parse().context("SOURCE_DATE_EPOCH is not a number of seconds")?,
            commit: git(&["rev-parse", "HEAD"])?,
        })
    }

    /// Returns the time of the commit, such as `2026-11-25T06:54:10Z`.
    fn date(&self) -> Result<String> {
        let mut date = Command::new("date");
        date.args(["--utc", &format!("--date=@{}", self.epoch), "+%FT%TZ"]);
        Ok(proc::capture_text(&mut date)?.trim().to_owned())
    }

    /// Returns the prefix of file names for this architecture.
    fn stem(&self) -> String {
        format!("dfsbench-{}-{}", self.version, std::env::consts::ARCH)
    }
}

/// Makes the release, and checks it if requested.
///
/// # Errors
/// If a step fails; the message names it.
pub fn run(options: &Options) -> Result<bool> {
    setup::install_packages(&["dpkg", "rpm", "binutils", "xz-utils"])?;
    let release = Release::from_commit()?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    if !changes.is_empty() {
        println!("dist: there are uncommitted changes, but the artifacts name the last commit");
    }
    let folder = repo::target_folder().join("dist");
    let built = match &options.program {
        Some(program) => program.clone(),
        None => build(&repo::root(), &repo::target_folder().join("dist-build"))?,
    };
    pack(&release, &built, &repo::root(), &folder)?;
    print_sizes(&folder)?;
    if options.check {
        check::run(&release, &folder)?;
    }
    if options.reproduce {
        reproduce(&release, &folder)?;
    } else if options.check {
        pack_again(&release, &built, &folder)?;
    }
    Ok(true)
}

/// Builds the program of a release and returns its path.
fn build(sources: &Path, folder: &Path) -> Result<PathBuf> {
    let begun = Instant::now();
    let built = portable::build_release(sources, folder)?;
    println!("dist: built in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(built)
}

/// Creates all artifacts from a built program, in an empty directory.
fn pack(release: &Release, built: &Path, sources: &Path, folder: &Path) -> Result<()> {
    let begun = Instant::now();
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let program = Program::split(built, &release.stem(), folder)?;
    let linked = linked::find(sources)?;
    let tree = contents::stage(release, &program, &linked, sources)?;

    // Each is packed by one thread, so that it is identical on any machine.
    thread::scope(|scope| -> Result<()> {
        let jobs = [
            scope.spawn(|| packages::write_deb(release, &tree, sources, folder)),
            scope.spawn(|| packages::write_rpm(release, &tree, sources, folder)),
            scope.spawn(|| image::write(release, &program, &tree, folder)),
            scope.spawn(|| contents::write_archive(release, &tree, folder)),
        ];
        for job in jobs {
            match job.join() {
                Ok(outcome) => outcome?,
                Err(_) => bail!("packing panicked"),
            }
        }
        Ok(())
    })?;
    let bill = sbom::render(release, &linked)?;
    fs::write(folder.join(format!("dfsbench-{}.cdx.json", release.version)), bill)?;
    let changelog = String::from_utf8(read(sources, "CHANGELOG.md")?)?;
    fs::write(folder.join("NOTES.md"), notes::find(&changelog, &release.version)?)?;
    fs::write(folder.join(SUMS), sums(folder)?)?;
    println!("dist: packed in {:.1} s", begun.elapsed().as_secs_f64());
    check_sizes(&program, folder)
}

/// Returns the hash and name of each file, in the format of `sha256sum --check`.
fn sums(folder: &Path) -> Result<String> {
    let mut lines = String::new();
    for path in list_files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != SUMS {
            writeln!(lines, "{}  {name}", sha256(&fs::read(&path)?))?;
        }
    }
    Ok(lines)
}

fn check_sizes(program: &Program, folder: &Path) -> Result<()> {
    let bytes = program.stripped.len() as u64;
    ensure!(
        bytes <= PROGRAM_MAX_BYTES,
        "the program has {bytes} bytes (limit {PROGRAM_MAX_BYTES})"
    );
    for path in list_files(folder)? {
        let is_debug = path.extension() == Some("debug".as_ref());
        let bytes = fs::metadata(&path)?.len();
        let name = path.display();
        ensure!(
            is_debug || bytes <= PACKED_MAX_BYTES,
            "{name} has {bytes} bytes (limit {PACKED_MAX_BYTES})"
        );
    }
    Ok(())
}

fn print_sizes(folder: &Path) -> Result<()> {
    for path in list_files(folder)? {
        let mb = fs::metadata(&path)?.len() as f64 / 1e6;
        println!("{mb:8.2} MB  {}", path.display());
    }
    Ok(())
}

/// Builds the last commit in other directories, and compares the hashes of all files.
fn reproduce(release: &Release, folder: &Path) -> Result<()> {
    let elsewhere = tempfile::TempDir::with_prefix("dfsbench-reproduce-")?;
    let sources = elsewhere.path().join("another-name");
    git(&["clone", "--quiet", "--no-checkout", ".", &sources.display().to_string()])?;
    let mut checkout = Command::new("git");
    checkout.args(["checkout", "--quiet", &release.commit]).current_dir(&sources);
    proc::run_command(&mut checkout)?;
    let again = elsewhere.path().join("dist");
    let built = build(&sources, &elsewhere.path().join("build"))?;
    pack(release, &built, &sources, &again)?;
    compare_sums(folder, &again)?;
    println!("dist: rebuilt elsewhere, and every byte is the same");
    Ok(())
}

/// Packs the built program again and compares every byte.
fn pack_again(release: &Release, built: &Path, folder: &Path) -> Result<()> {
    let again = tempfile::TempDir::with_prefix("dfsbench-again-")?;
    let at = again.path().join("dist");
    pack(release, built, &repo::root(), &at)?;
    compare_sums(folder, &at)?;
    println!("dist: repacked, and every byte is the same");
    Ok(())
}

/// Fails if two directories don't have identical files.
fn compare_sums(one: &Path, other: &Path) -> Result<()> {
    let ours = sums(one)?;
    let again = sums(other)?;
    for line in ours.lines() {
        ensure!(again.contains(line), "`{line}` has different bytes the second time:\n{again}");
    }
    ensure!(ours.len() == again.len(), "the files differ the second time:\n{again}");
    Ok(())
}

/// Lists the files in a directory, sorted by name.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a file of the sources.
///
/// # Errors
/// If it can't be read; the message names it.
fn read(sources: &Path, name: &str) -> Result<Vec<u8>> {
    fs::read(sources.join(name)).with_context(|| format!("cannot read {name}"))
}

/// Returns the SHA-256 of some bytes, as printed by `sha256sum`.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn git(args: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    Ok(proc::capture_text(git.args(args).current_dir(repo::root()))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_changed_or_missing_file() {
        let one = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        for folder in [&one, &other] {
            fs::write(folder.path().join("a"), "same").unwrap();
            fs::write(folder.path().join(SUMS), "is not compared").unwrap();
        }
        compare_sums(one.path(), other.path()).unwrap();
        fs::write(other.path().join("a"), "else").unwrap();
        let error = compare_sums(one.path(), other.path()).unwrap_err().to_string();
        assert!(error.contains("  a` has different bytes"), "{error}");
        fs::write(other.path().join("a"), "same").unwrap();
        fs::write(other.path().join("b"), "more").unwrap();
        let error = compare_sums(one.path(), other.path()).unwrap_err().to_string();
        assert!(error.contains("files differ"), "{error}");
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea"), "FIPS 180-2, B.1");
    }
}
