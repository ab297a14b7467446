//! Our client with nfs-ganesha: other clients read what it writes, byte by byte.
//!
//! libnfs first reads what libnfs wrote, so that a failure of ours can't be due to the setup.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::{checks, durability};
use tempfile::TempDir;

use checks::ganesha::{Ganesha, MEM_FILE_MAX_BYTES};
use checks::libnfs::{self, Export};
use checks::noise;
use checks::ours::{self, Ours, Run};
use checks::proc::{self, Background};
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
/// Prefix of the directories that dfsbench creates for itself.
const OURS_FOLDER: &str = ".dfsbench-";
const SEED: u64 = 7;
const VFS_FILE: FileSize = FileSize { flag: "8MiB", bytes: 8 << 20 };
const MEM_FILE: FileSize = FileSize { flag: "1MiB", bytes: 1 << 20 };

/// Timeout until a run has created something in the export.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);
/// How long other groups may keep this host busy.
const CLEANS_WITHIN: Duration = Duration::from_secs(240);

/// Size of a file to write and compare.
struct FileSize {
    /// The size in the flag's syntax.
    flag: &'static str,
    bytes: u64,
}

static GANESHA: Fixture<Ganesha> = Fixture::new(Ganesha::start);

checks! {
    libnfs_reads_own_data_from_vfs: 60 s, self_check(&GANESHA.get()?.export("/vfs"));
    libnfs_reads_own_data_from_mem: 60 s, self_check(&GANESHA.get()?.export("/mem"));
    others_read_our_data_from_vfs: 120 s, {
        let server = GANESHA.get()?;
        compare_written(&server.export("/vfs"), &VFS_FILE, Some(server))
    };
    libnfs_reads_our_data_from_mem: 120 s, {
        compare_written(&GANESHA.get()?.export("/mem"), &MEM_FILE, None)
    };
    leaves_and_removes_nothing_else: 120 s, {
        check_nothing_is_left(&GANESHA.get()?.export("/vfs"))
    };
    cleans_up_after_killed_runs: 900 s, kill_runs();
    keeps_acknowledged_data_after_kill: 60 s, kill_server();
    lists_exports_for_wrong_one: 60 s, {
        wrong_export(&GANESHA.get()?.export("/nope"))
    };
    names_missing_layouts: 60 s, name_missing_layouts(&GANESHA.get()?.export("/vfs"));
}

/// A killed process loses nothing that it wrote to the page cache.
fn kill_server() -> Result<()> {
    let server = RefCell::new(Ganesha::start()?);
    let target = server.borrow().export("/vfs").for_us("");
    let folder = TempDir::new()?;
    let command = |_, stop: &str| {
        let mut command = OURS.command();
        command.args(["durability", &target, "--rounds", "2", "--kill-server", "--crashes", "1"]);
        command.args(["--stop-command", stop, "--start-command", "true"]);
        command.args(["--format", "json", "--quiet", "--results"]);
        command.arg(folder.path().join("results.db"));
        command
    };
    let reports = durability::measure(folder.path(), 1, &command, &|| server.borrow_mut().crash())?;
    let all = ["none", "close", "sync", "dsync", "osync"];
    durability::check_kept(&reports[0], &all, "survives server crash")?;
    let left = entries(server.borrow().vfs_folder())?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn kill_runs() -> Result<()> {
    for number in 0..kills() {
        check_killed_run_leaves_nothing(GANESHA.get()?, number)?;
    }
    Ok(())
}

fn self_check(export: &Export) -> Result<()> {
    let folder = TempDir::new()?;
    let content = noise::make_bytes(usize::try_from(MEM_FILE_MAX_BYTES)? - 4096 - 123);
    let local = folder.path().join("noise");
    fs::write(&local, &content)?;
    libnfs::copy_to(&local, export, "noise")?;
    libnfs::compare_bytes("noise", &libnfs::read_file(export, "noise")?, &content)?;
    let names = libnfs::list_files(export)?;
    ensure!(names.iter().any(|name| name == "noise"), "nfs-ls shows {names:?}");
    Ok(())
}

/// Writes files with our client and reads each of them with others.
fn compare_written(export: &Export, size: &FileSize, direct: Option<&Ganesha>) -> Result<()> {
    let seed = SEED.to_string();
    stream(export, size.flag, &["--seed", &seed, "--keep"])?;
    let names = libnfs::list_files(export)?;
    let mut compared = 0;
    for name in names.iter().filter(|name| name.starts_with(OURS_FOLDER)) {
        let Some(number) = ours::file_number(name) else { continue };
        let want = OURS.make_pattern(SEED, number, size.bytes)?;
        libnfs::compare_bytes(name, &libnfs::read_file(export, name)?, &want)?;
        if let Some(server) = direct {
            let path = server.vfs_folder().join(name);
            libnfs::compare_bytes("the same file in the exported folder", &read(&path)?, &want)?;
        }
        compared += 1;
    }
    ensure!(compared > 0, "no file of ours among {names:?}");
    Ok(())
}

/// Makes a run without `--keep`: afterwards the content is exactly as before.
fn check_nothing_is_left(export: &Export) -> Result<()> {
    let before = libnfs::list_files(export)?;
    stream(export, "1MiB", &[])?;
    let after = libnfs::list_files(export)?;
    ensure!(before == after, "before: {before:?}, after: {after:?}");
    Ok(())
}

/// Number of runs to kill; `DFSBENCH_KILLS` sets more.
fn kills() -> u64 {
    env::var("DFSBENCH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Kills a run on `/vfs` some time after it has started there; `clean` then leaves only what was
/// there before.
fn check_killed_run_leaves_nothing(server: &Ganesha, number: u64) -> Result<()> {
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    let before = entries(server.vfs_folder())?;
    let mut command = OURS.command();
    command.arg("run").arg(server.export("/vfs").for_us(""));
    command.args(["--workload", "metadata", "--small-files", "300", "--trials", "50", "--quiet"]);
    command.arg("--results").arg(&results);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Background::start(&mut command)?;
    let deadline = Instant::now() + BEGINS_WITHIN;
    while entries(server.vfs_folder())? == before {
        ensure!(Instant::now() < deadline && !run.has_ended(), "no run began in /vfs");
        thread::sleep(Duration::from_millis(1));
    }
    // Anywhere within the first trials.
    thread::sleep(Duration::from_millis(number * 149 % 900));
    run.kill();
    clean_up(&results)?;
    let after = entries(server.vfs_folder())?;
    ensure!(before == after, "kill {number}: before {before:?}, after {after:?}");
    // The preflight also creates a directory: either there are no results yet, or a killed first
    // transaction that is rolled back, or a file whose campaign has not been stored yet.
    let report = proc::capture_output(OURS.command().args(["report", "--results"]).arg(&results))?;
    let errors = String::from_utf8_lossy(&report.stderr);
    let is_empty = ["holds no results", "has no campaigns yet"].map(|text| errors.contains(text));
    let has_none = is_empty.contains(&true) || !results.exists();
    ensure!(report.status.success() || has_none, "kill {number}: {errors}");
    Ok(())
}

/// Cleans up after a killed run. Other groups set up this host at the same time, and `clean`
/// doesn't wait for them, so it is repeated until they are done.
fn clean_up(results: &Path) -> Result<()> {
    let deadline = Instant::now() + CLEANS_WITHIN;
    loop {
        let cleaned =
            proc::capture_output(OURS.command().args(["clean", "--results"]).arg(results))?;
        let errors = String::from_utf8_lossy(&cleaned.stderr);
        let is_busy = errors.contains("another dfsbench is setting up this host");
        if cleaned.status.success() {
            return Ok(());
        }
        ensure!(is_busy && Instant::now() < deadline, "clean: {}: {errors}", cleaned.status);
        thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the names in a directory, sorted.
fn entries(folder: PathBuf) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name());
    }
    names.sort();
    Ok(names)
}

fn stream(export: &Export, size: &str, more: &[&str]) -> Result<()> {
    let folder = TempDir::new()?;
    let flags =
        ["--workload", "stream", "--file-size", size, "--io-size", "64KiB", "--trials", "1"];
    let flags = [&flags, more].concat();
    let results = folder.path().join("results.db");
    OURS.run(&Run { target: &export.for_us(""), results: &results, flags: &flags })
}

fn wrong_export(export: &Export) -> Result<()> {
    let folder = TempDir::new()?;
    let results: PathBuf = folder.path().join("results.db");
    let flags = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1"];
    let output =
        OURS.try_run(&Run { target: &export.for_us(""), results: &results, flags: &flags })?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    ensure!(code == Some(ours::exit::LAB), "exit {code:?}, not {}: {stderr}", ours::exit::LAB);
    for name in ["/nope", "/vfs", "/mem"] {
        ensure!(stderr.contains(name), "the message doesn't name {name}: {stderr}");
    }
    Ok(())
}

/// Its file systems have no layouts: data goes through it although pNFS is requested.
fn name_missing_layouts(export: &Export) -> Result<()> {
    let folder = TempDir::new()?;
    let target = export.for_us("").replace("version=3", "version=4.1");
    for (pnfs, reason) in [("on", Some(": the server offers no layouts")), ("off", None)] {
        let results = folder.path().join(pnfs);
        let flags = ["--workload", "stream", "--file-size", "256KiB", "--trials", "1"];
        let flags = [&flags[..], &["--verify", "true", "--pnfs", pnfs]].concat();
        OURS.run(&Run { target: &target, results: &results, flags: &flags })?;
        let evidence = OURS.evidence(&results, "pnfs-fallback")?;
        println!("--pnfs {pnfs}: {evidence:?}");
        ensure!(evidence.is_some() == reason.is_some(), "{evidence:?}");
        ensure!(
            evidence.unwrap_or_default().ends_with(reason.unwrap_or_default()),
            "no {reason:?}"
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
