//! `cargo xtask fuzz`: builds the fuzz targets of `fuzz/` and runs them for a while.
//!
//! cargo-fuzz isn't needed: the flags below are those it passes to the compiler for `--sanitizer
//! none`, and they work on stable. A sanitizer would look for errors that safe code can't make; the
//! targets themselves limit memory. A target starts with the corpus in the repository, which is one
//! archive, the inputs that once failed, and those found by earlier runs on this machine.
//!
//! As part of all checks, each target runs a fixed number of inputs, given in `fuzz/Cargo.toml`,
//! however long that takes: it yields to all other checks, so time would not be a useful limit.
//!
//! **Source:** cargo-fuzz 0.13, `src/project.rs`; LLVM, "libFuzzer", "Options".

use std::cmp::Reverse;
use std::fs::{self, File};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::proc::{self, Background};
use crate::repo;
use crate::steps::{Count, Failure, last_lines};

/// Compiler flags that let libFuzzer see which code an input reaches.
const FLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];
/// Line numbers in backtraces, which a release build lacks.
const DEBUG: &str = "profile.release.debug=\"line-tables-only\"";
/// Memory limit of a target, in MiB, and time limit of one input, in seconds.
///
/// Inputs take milliseconds; their time includes waiting for a CPU.
const LIMITS: [&str; 2] = ["-rss_limit_mb=512", "-timeout=120"];
/// Time limit for building the targets.
const BUILD_MAX: Duration = Duration::from_secs(30 * 60);
/// How much a run may exceed its time, for reading the corpus and writing statistics.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a fixed number of inputs, which takes ten seconds on an otherwise idle machine.
const INPUTS_MAX: Duration = Duration::from_secs(20 * 60);
/// Maximum number of lines shown from the end of a failed target's log.
const LOG_LINES: usize = 60;
/// Maximum number of inputs per target kept in the repository.
const KEPT_MAX: usize = 100;
/// The archive of the corpus in `fuzz/`, with a directory per target.
const ARCHIVE: &str = "corpus.tar.gz";
/// Options that make archives of the same files identical.
const REPRODUCIBLE: [&str; 5] =
    ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--mode=u=rwX,go=rX"];
/// Seed of `run_everything`, so that a failure is due to a change, not to chance. Targets without a
/// hash table repeat themselves exactly.
const SEED: NonZeroU32 = NonZeroU32::MIN;

/// When a target ends.
#[derive(Clone, Copy)]
enum FuzzLimit {
    /// After this many seconds.
    Seconds(u64),
    /// After the number of inputs given in the manifest.
    Inputs,
}

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// Runs only the targets whose name contains this.
    target: Option<String>,
    /// How long each target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Draws inputs from this seed; left out: from another one each time.
    #[arg(long)]
    seed: Option<NonZeroU32>,
    /// Replaces the corpus in the repository, using real messages if a target has them, and inputs
    /// found by earlier runs here. Runs nothing.
    #[arg(long)]
    keep: bool,
}

/// Executes the options; returns `false` if a target failed.
pub fn run(options: &Options) -> Result<bool> {
    let fuzzer = Fuzzer::build()?;
    let targets = fuzzer.targets(options.target.as_deref())?;
    if options.keep {
        for target in &targets {
            fuzzer.keep(target)?;
        }
        fuzzer.pack()?;
        return Ok(true);
    }
    let count = fuzzer.run_all(&targets, FuzzLimit::Seconds(options.seconds), options.seed);
    Ok(count.failures.is_empty())
}

/// Runs a number of inputs of every target with a fixed seed, one target per CPU at a time.
pub fn run_everything() -> Result<Count> {
    let fuzzer = Fuzzer::build()?;
    Ok(fuzzer.run_all(&fuzzer.targets(None)?, FuzzLimit::Inputs, Some(SEED)))
}

/// The built targets.
struct Fuzzer {
    source: PathBuf,
    build: PathBuf,
    programs: PathBuf,
}

impl Fuzzer {
    fn build() -> Result<Self> {
        let host = host()?;
        let source = repo::root().join("fuzz");
        let build = repo::target_folder().join("fuzz");
        let mut cargo = repo::cargo();
        cargo.args(["build", "--quiet", "--release", "--package", "fuzz", "--bins"]);
        cargo.args(["--target", &host, "--config", DEBUG]);
        cargo.env("CARGO_TARGET_DIR", &build).env("RUSTFLAGS", FLAGS.join(" "));
        proc::run_within(BUILD_MAX, cargo.current_dir(&source))?;
        let programs = build.join(host).join("release");
        let fuzzer = Self { source, build, programs };
        fuzzer.unpack()?;
        Ok(fuzzer)
    }

    /// Unpacks the corpus of the repository.
    fn unpack(&self) -> Result<()> {
        let folder = self.unpacked();
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let archive = self.source.join(ARCHIVE);
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(folder);
        proc::capture_stdout(&mut tar).map(drop)
    }

    /// Packs the corpus for the repository.
    fn pack(&self) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(REPRODUCIBLE).args(["--create", "--use-compress-program=gzip -n9"]);
        tar.arg("--file").arg(self.source.join(ARCHIVE));
        proc::capture_stdout(tar.arg("--directory").arg(self.unpacked()).arg(".")).map(drop)
    }

    /// Returns the names of the targets from the manifest.
    fn targets(&self, filter: Option<&str>) -> Result<Vec<String>> {
        let manifest = self.manifest()?;
        let mut targets = Vec::new();
        for bin in manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten() {
            let name = bin.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            if filter.is_none_or(|filter| name.contains(filter)) {
                targets.push(name.to_owned());
            }
        }
        ensure!(!targets.is_empty(), "no such target in fuzz/Cargo.toml");
        Ok(targets)
    }

    fn manifest(&self) -> Result<toml::Table> {
        fs::read_to_string(self.source.join("Cargo.toml"))?.parse().context("fuzz/Cargo.toml")
    }

    /// Returns the number of inputs of a target that run with all other checks.
    fn inputs(&self, target: &str) -> Result<u64> {
        let manifest = self.manifest()?;
        let inputs = manifest["package"]["metadata"].get("inputs").and_then(|it| it.get(target));
        let inputs = inputs.and_then(toml::Value::as_integer).and_then(|it| it.try_into().ok());
        inputs.with_context(|| format!("fuzz/Cargo.toml has no number of inputs for {target}"))
    }

    fn run_all(&self, targets: &[String], bound: FuzzLimit, seed: Option<NonZeroU32>) -> Count {
        let waiting = Mutex::new(targets.iter());
        let count = Mutex::new(Count::default());
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        // The lock is released before the target runs.
                        let next = waiting.lock().expect("no panic").next();
                        let Some(target) = next else { return };
                        let result = self.run_and_print(target, bound, seed);
                        count.lock().expect("no panic").add(result);
                    }
                });
            }
        });
        count.into_inner().expect("no panic")
    }

    fn run_and_print(&self, target: &str, bound: FuzzLimit, seed: Option<NonZeroU32>) -> Count {
        match self.run_target(target, bound, seed) {
            Ok(summary) => {
                println!("fuzz: {target} ... ok ({summary})");
                Count::PASSED
            }
            Err(error) => {
                println!("fuzz: {target} ... FAILED\n{error:#}");
                let name = format!("fuzz target {target}");
                Count::failed(Failure { name, output: format!("{error:#}") })
            }
        }
    }

    /// Runs one target and returns a summary of its statistics.
    fn run_target(
        &self,
        target: &str,
        bound: FuzzLimit,
        seed: Option<NonZeroU32>,
    ) -> Result<String> {
        let corpus = self.found(target);
        let artifacts = self.build.join("artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let log = artifacts.join("log");
        let mut command = self.command(target);
        let (end, patience) = match bound {
            FuzzLimit::Seconds(seconds) => {
                let patience = Duration::from_secs(seconds) + PATIENCE;
                (format!("-max_total_time={seconds}"), patience)
            }
            FuzzLimit::Inputs => (format!("-runs={}", self.inputs(target)?), INPUTS_MAX),
        };
        command.args([&end, "-print_final_stats=1"]);
        // For libFuzzer 0 means "draw one".
        command.arg(format!("-seed={}", seed.map_or(0, NonZeroU32::get)));
        command.args(LIMITS).arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.arg(&corpus).arg(self.kept(target));
        let regressions = self.regressions(target);
        if regressions.exists() {
            command.arg(regressions);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let ended = Background::start(&mut command)?.await_end(patience);
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let last = || last_lines(&text, LOG_LINES).join("\n");
        let code = ended.with_context(last)?;
        ensure!(code == Some(0), "it exited with {code:?}:\n{}", last());
        summarize(&text, self.corpus_len(target)?)
    }

    /// Replaces the corpus in the repository.
    fn keep(&self, target: &str) -> Result<()> {
        let seeds = TempDir::new()?;
        let merged = TempDir::new()?;
        let mut cargo = repo::cargo();
        cargo.args(["run", "--quiet", "--example", "seeds", "--"]).arg(seeds.path());
        cargo.env("CARGO_TARGET_DIR", &self.build);
        proc::run_within(BUILD_MAX, cargo.current_dir(&self.source))?;
        let seeds = seeds.path().join(target);
        let from = if seeds.is_dir() { seeds } else { self.found(target) };
        let mut merge = self.command(target);
        // Coverage counts, not hit counts: otherwise hundreds would be kept.
        merge.args(["-set_cover_merge=1", "-use_counters=0"]).args(LIMITS);
        merge.arg(merged.path()).arg(from);
        proc::capture_stdout(&mut merge)?;
        let kept = self.kept(target);
        fs::create_dir_all(&kept)?;
        for old in list_files(&kept)? {
            fs::remove_file(&old)?;
        }
        let mut found = list_files(merged.path())?;
        // The longest reach furthest; too many would only make the repository large.
        found.sort_by_key(|path| match fs::metadata(path) {
            Ok(metadata) => Reverse(metadata.len()),
            Err(_) => Reverse(0),
        });
        for new in found.iter().take(KEPT_MAX) {
            fs::copy(new, kept.join(new.file_name().unwrap_or_default()))?;
        }
        println!("fuzz: {target}: {} inputs kept", list_files(&kept)?.len());
        Ok(())
    }

    /// Returns a command for a target's program that yields the CPUs to everything else.
    fn command(&self, target: &str) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(self.programs.join(target));
        command
    }

    /// Returns the directory of inputs found by runs on this machine.
    fn found(&self, target: &str) -> PathBuf {
        self.build.join("corpus").join(target)
    }

    /// Returns the directory of a target's inputs from the repository's archive.
    fn kept(&self, target: &str) -> PathBuf {
        self.unpacked().join(target)
    }

    fn unpacked(&self) -> PathBuf {
        self.build.join("packed")
    }

    /// Returns the directory of inputs on which a target once failed; most have none.
    fn regressions(&self, target: &str) -> PathBuf {
        self.source.join("regressions").join(target)
    }

    fn corpus_len(&self, target: &str) -> Result<u64> {
        Ok(list_files(&self.kept(target))?.len() as u64)
    }
}

/// Returns the compiler's default platform.
fn host() -> Result<String> {
    let text = proc::capture_text(Command::new("rustc").arg("-vV"))?;
    for line in text.lines() {
        if let Some(host) = line.strip_prefix("host: ") {
            return Ok(host.to_owned());
        }
    }
    bail!("`rustc -vV` does not name the host")
}

fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("no corpus in {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    Ok(paths)
}

/// Summarizes a log; a run that only read its corpus has fuzzed nothing, and is an error.
fn summarize(log: &str, corpus_len: u64) -> Result<String> {
    let runs = read_statistic(log, "stat::number_of_executed_units");
    let runs = runs.context("libFuzzer printed no statistics")?;
    let memory = read_statistic(log, "stat::peak_rss_mb").unwrap_or_default();
    let edges = read_coverage(log).context("no coverage was seen")?;
    ensure!(runs > 2 * corpus_len, "only {runs} runs from {corpus_len} inputs of the corpus");
    ensure!(edges > 0, "no coverage was seen");
    Ok(format!("{runs} runs, {edges} edges, {memory} MiB"))
}

/// Returns the number in the line that starts with a name.
fn read_statistic(log: &str, name: &str) -> Option<u64> {
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix(name) {
            return rest.trim_start_matches(':').trim().parse().ok();
        }
    }
    None
}

/// Returns the number of edges in the last line that has one.
fn read_coverage(log: &str) -> Option<u64> {
    for line in log.lines().rev() {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            return rest.split(' ').next()?.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::summarize;

    const LOG: &str = "#12\tINITED cov: 243 ft: 479 corp: 11/2460b exec/s: 0 rss: 28Mb\n\
        stat::number_of_executed_units: 1000\nstat::peak_rss_mb:              33\n";

    #[test]
    fn a_run_is_summed_up() {
        assert_eq!(summarize(LOG, 11).unwrap(), "1000 runs, 243 edges, 33 MiB");
    }

    #[test]
    fn rejects_run_without_new_inputs() {
        assert!(summarize(LOG, 500).is_err());
        assert!(summarize("killed", 1).is_err());
        assert!(summarize(&LOG.replace("cov: 243", "cov: 0"), 1).is_err());
    }
}
