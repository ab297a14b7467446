//! Comparisons with fio on this machine: the tool's own ceiling, system calls, io_uring.
//!
//! Both sides read a file of the same size on the same file system, fully written before.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::fio::Job;
use super::ours::{self, Reads};
use crate::{noise, repo};

const FILE_BYTES: u64 = 256 << 20;
const URING: &str = "io_uring";

/// The null backend against fio's null engine: the overhead of the tools themselves.
pub fn compare_null(setting: &Setting) -> Vec<Row> {
    let mut rows = Vec::new();
    for depth in [1, 32] {
        let seconds = setting.seconds;
        let job = Job {
            engine: "null",
            depth,
            file: None,
            size_bytes: FILE_BYTES,
            direct: false,
            seconds,
            extra: &[],
        };
        let reads = Reads { target: "null", backend: "null", depth, direct: false, seconds };
        let case = Case {
            name: format!("null backend, queue depth {depth}"),
            unit: Unit::Ops,
            ours: Box::new(|| ours::random_reads(&reads, setting)),
            rivals: vec![Rival {
                name: "fio null".to_owned(),
                rate_target: 2.0,
                cpu_target: None,
                measure: Box::new(|| job.run(setting.folder.path())),
            }],
        };
        rows.extend(case::run(case, setting.rounds));
    }
    rows
}

/// System calls on a file in memory.
pub fn compare_posix(setting: &Setting) -> Vec<Row> {
    let disk = Disk::in_memory();
    let against = ReadSettings { backend: "posix", engine: "psync", depth: 1, direct: false };
    let claim = ComparisonClaim { name: "posix, 4 KiB random reads, tmpfs", rate: 1.1, cpu: None };
    compare(setting, &disk, &against, &claim)
}

/// io_uring, on a file in memory and on one on disk, bypassing the page cache.
pub fn compare_uring(setting: &Setting) -> Vec<Row> {
    let depth = 32;
    let memory = ReadSettings { backend: "uring", engine: URING, depth, direct: false };
    let name = "uring, 4 KiB random reads, queue depth 32, tmpfs";
    let mut rows = compare(
        setting,
        &Disk::in_memory(),
        &memory,
        &ComparisonClaim { name, rate: 1.0, cpu: Some(1.0) },
    );
    let disk = ReadSettings { direct: true, ..memory };
    let name = "uring, 4 KiB random reads, queue depth 32, disk, O_DIRECT";
    rows.extend(compare(
        setting,
        &Disk::on_disk(),
        &disk,
        &ComparisonClaim { name, rate: 1.0, cpu: Some(1.0) },
    ));
    rows
}

/// How both sides read.
struct ReadSettings {
    backend: &'static str,
    engine: &'static str,
    depth: u32,
    direct: bool,
}

struct ComparisonClaim {
    name: &'static str,
    rate: f64,
    cpu: Option<f64>,
}

/// A directory for the files of both sides, with fio's file.
struct Disk {
    folder: TempDir,
    file: PathBuf,
}

impl Disk {
    /// Creates the files on tmpfs.
    fn in_memory() -> Result<Self> {
        Self::in_folder(Path::new("/dev/shm"))
    }

    /// Creates the files next to the build directory.
    fn on_disk() -> Result<Self> {
        Self::in_folder(&repo::target_folder())
    }

    fn in_folder(parent: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix_in("dfsbench-peers-", parent)
            .with_context(|| format!("no folder in {}", parent.display()))?;
        let file = folder.path().join("peer");
        noise::write_file(&file, FILE_BYTES)?;
        Ok(Self { folder, file })
    }
}

fn compare(
    setting: &Setting,
    disk: &Result<Disk>,
    against: &ReadSettings,
    claim: &ComparisonClaim,
) -> Vec<Row> {
    let mut fastest = None;
    let rival = Rival {
        name: format!("fio {}", against.engine),
        rate_target: claim.rate,
        cpu_target: claim.cpu,
        measure: Box::new(|| measure_fio(setting, disk, against, &mut fastest)),
    };
    let case = Case {
        name: claim.name.to_owned(),
        unit: Unit::Ops,
        ours: Box::new(|| {
            let target = &made(disk)?.folder.path().to_string_lossy();
            let ReadSettings { backend, depth, direct, .. } = *against;
            let reads = Reads { target, backend, depth, direct, seconds: setting.seconds };
            ours::random_reads(&reads, setting)
        }),
        rivals: vec![rival],
    };
    case::run(case, setting.rounds)
}

/// Returns files that were made.
fn made(disk: &Result<Disk>) -> Result<&Disk> {
    disk.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))
}

/// Measures fio once; the first time, determines which of its options are faster.
fn measure_fio(
    setting: &Setting,
    disk: &Result<Disk>,
    against: &ReadSettings,
    fastest: &mut Option<FioOptions>,
) -> Result<SideResult> {
    let file = &made(disk)?.file;
    let folder = setting.folder.path();
    // Chosen once: the best of two in every round would measure luck as well as speed.
    let extra = match *fastest {
        Some(extra) => extra,
        None => *fastest.insert(faster_of_fio(setting, file, against)?),
    };
    fio_job(setting, file, against, extra).run(folder)
}

/// Options in addition to fio's plain ones.
type FioOptions = &'static [&'static str];

/// io_uring with everything it can register in advance, like ours.
const REGISTERED: FioOptions = &["--registerfiles", "--fixedbufs"];

fn fio_job<'a>(
    setting: &Setting,
    file: &'a Path,
    against: &'a ReadSettings,
    extra: FioOptions,
) -> Job<'a> {
    Job {
        engine: against.engine,
        depth: against.depth,
        file: Some(file),
        size_bytes: FILE_BYTES,
        direct: against.direct,
        seconds: setting.seconds,
        extra,
    }
}

/// Determines whether fio's io_uring is faster plain or registered.
fn faster_of_fio(setting: &Setting, file: &Path, against: &ReadSettings) -> Result<FioOptions> {
    if against.engine != URING {
        return Ok(&[]);
    }
    let folder = setting.folder.path();
    let plain = fio_job(setting, file, against, &[]).run(folder)?;
    let registered = fio_job(setting, file, against, REGISTERED).run(folder)?;
    Ok(if registered.rate > plain.rate { REGISTERED } else { &[] })
}
