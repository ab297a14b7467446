//! fio: one job per worker, each with its own files; results are parsed from its JSON.
//!
//! fio keeps a histogram of completion latencies. We add its bins (`json+`) to our histogram; a bin
//! covers at most 1/64 of its value. Durations are whole milliseconds, because that is what fio
//! prints. They include a sync at the end but not the close.
//!
//! **Source:** fio's HOWTO, "JSON output" and "JSON+ output"; outputs of fio 3.33.

use std::collections::BTreeMap;

use model::{BackendKind, Durability, Fact, Fill, Histogram, OpKind, Pass, RunSpec};
use serde::Deserialize;

use super::figures::{FailedPass, Figures, Kind};
use super::{ToolContext, ended_well};

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    error: i64,
    read: Side,
    write: Side,
    #[serde(default)]
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Side {
    io_bytes: u64,
    total_ios: u64,
    /// Run time in milliseconds.
    runtime: u64,
    clat_ns: Times,
}

#[derive(Deserialize)]
struct Times {
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Runs fio for one pass.
pub(super) fn run(bench: &ToolContext, spec: &RunSpec, pass: Pass) -> Result<Figures, FailedPass> {
    let Some(command) = arguments(spec, pass) else {
        return Err(FailedPass::no_such_pass(spec.workload, pass));
    };
    let ended = bench.run_tool(&command)?;
    ended_well("fio", &ended)?;
    let mut figures = parse_output(&ended.stdout).map_err(|why| FailedPass::unread("fio", &why))?;
    let files = spec.files.div_ceil(spec.workers.max(1)) * spec.workers;
    figures.kinds.extend(Kind::syncs(spec.durability, pass, files));
    figures.facts.push(Fact::new("target", "command", command.join(" "), "fio"));
    figures.storage_read_bytes = Some(ended.usage.storage_read_bytes);
    Ok(figures)
}

/// Returns the command for a pass, or `None` if fio doesn't support it.
fn arguments(spec: &RunSpec, pass: Pass) -> Option<Vec<String>> {
    let how = match pass {
        Pass::Write | Pass::Rewrite => "write",
        Pass::Read | Pass::Reread => "read",
        Pass::RandomRead => "randread",
        Pass::RandomWrite => "randwrite",
        Pass::Mix => "randrw",
        _ => return None,
    };
    let engine = if spec.backend == BackendKind::Uring { "io_uring" } else { "psync" };
    // Every worker has its own files, so round up to whole files per worker.
    let files = spec.files.div_ceil(spec.workers.max(1)).max(1);
    let mut words: Vec<String> =
        ["fio", "--name=dfsbench", "--output-format=json+"].map(str::to_owned).into();
    let mut set = |name: &str, value: &str| words.push(format!("--{name}={value}"));
    set("directory", ".");
    set("filename_format", "f$jobnum.$filenum");
    set("rw", how);
    set("ioengine", engine);
    set("iodepth", &spec.queue_depth.to_string());
    set("numjobs", &spec.workers.to_string());
    set("nrfiles", &files.to_string());
    set("filesize", &spec.file_size_bytes.to_string());
    set("size", &(spec.file_size_bytes * u64::from(files)).to_string());
    set("bs", &spec.io_size_bytes.to_string());
    set("file_service_type", "sequential");
    set("fallocate", "none");
    set("direct", if spec.direct { "1" } else { "0" });
    set("invalidate", if spec.invalidate { "1" } else { "0" });
    match spec.durability {
        Durability::Sync => set("end_fsync", "1"),
        Durability::Dsync => set("sync", "dsync"),
        Durability::Osync => set("sync", "sync"),
        Durability::None | Durability::Close => {}
    }
    if pass == Pass::Mix {
        set("time_based", "1");
        set("runtime", &format!("{}ms", spec.duration_ms));
        set("rwmixread", &spec.read_percent.to_string());
        set("percentage_random", &spec.layout.random_percent.to_string());
    }
    // The default is random bytes, which fio changes slightly for each write.
    if spec.data.fill == Fill::Zeros {
        set("zero_buffers", "1");
    }
    if spec.data.compress_percent > 0 {
        set("buffer_compress_percentage", &spec.data.compress_percent.to_string());
    }
    if spec.data.dedup_percent > 0 {
        set("dedupe_percentage", &spec.data.dedup_percent.to_string());
    }
    words.extend(spec.command.run.iter().cloned());
    Some(words)
}

/// Parses fio's JSON, skipping messages before it.
fn parse_output(printed: &[u8]) -> Result<Figures, String> {
    let start = printed.iter().position(|byte| *byte == b'{').ok_or("no JSON")?;
    let output: Output =
        serde_json::from_slice(&printed[start..]).map_err(|error| error.to_string())?;
    if output.jobs.is_empty() {
        return Err("no jobs".to_owned());
    }
    for job in &output.jobs {
        if job.error != 0 {
            return Err(format!("a job failed with error {}", job.error));
        }
    }
    let mut figures = Figures::default();
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for job in &output.jobs {
        reads.push(&job.read);
        writes.push(&job.write);
        // The window ends with the slowest job.
        let window_ns = job.read.runtime.max(job.write.runtime).saturating_mul(1_000_000);
        figures.window_ns = figures.window_ns.max(window_ns);
        let first_ns = figures.first_done_ns.unwrap_or(u64::MAX);
        figures.first_done_ns = Some(first_ns.min(window_ns));
        figures.cpu_ns += cpu_ns(job);
    }
    figures.kinds.extend(sum_sides(OpKind::Read, &reads)?);
    figures.kinds.extend(sum_sides(OpKind::Write, &writes)?);
    figures.facts = vec![Fact::new("target", "window", "whole milliseconds", "runtime of fio")];
    Ok(figures)
}

/// Returns the CPU time of a job. fio prints it as a percentage of the job's run time.
fn cpu_ns(job: &Job) -> u64 {
    ((job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime as f64 * 1e6) as u64
}

/// Adds up the reads or the writes of all jobs. Returns `None` if there were none.
fn sum_sides(kind: OpKind, jobs: &[&Side]) -> Result<Option<Kind>, String> {
    let mut ops = 0_u64;
    let mut bytes = 0_u64;
    let mut times = Histogram::new();
    for job in jobs {
        ops = ops.checked_add(job.total_ios).ok_or("too many ops")?;
        bytes = bytes.checked_add(job.io_bytes).ok_or("too many bytes")?;
        for (value_ns, count) in &job.clat_ns.bins {
            let value_ns = value_ns.parse().map_err(|_| format!("a bin of {value_ns}"))?;
            // A corrupt count must not yield more latencies than ops.
            times.record_n(value_ns, (*count).min(job.total_ios));
        }
    }
    if ops > 0 { Ok(Some(Kind { kind, ops, bytes, times })) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    #[test]
    fn parses_fio_3_33_output() {
        let figures = parse_output(include_bytes!("fixtures/fio-write.json")).unwrap();
        let [write] = figures.kinds.as_slice() else { panic!("{figures:?}") };
        assert_eq!((write.kind, write.ops, write.bytes), (OpKind::Write, 128, 8 << 20));
        assert_eq!((figures.window_ns, figures.first_done_ns), (4_000_000, Some(3_000_000)));
        assert_eq!(write.times.count(), 128);

        let figures = parse_output(include_bytes!("fixtures/fio-mix.json")).unwrap();
        let [read, write] = figures.kinds.as_slice() else { panic!("{figures:?}") };
        assert_eq!((read.kind, write.kind), (OpKind::Read, OpKind::Write));
        assert_eq!(read.times.count(), read.ops);
        let share = read.ops as f64 / (read.ops + write.ops) as f64;
        assert!((share - 0.7).abs() < 0.01, "{share}");
        // The median that fio printed for the reads of each job.
        assert!(read.times.quantile(0.5).abs_diff(14_912) < 300);
        assert!(figures.cpu_ns > 0);
    }

    #[test]
    fn what_is_no_output_is_refused() {
        for printed in ["", "{", "fio: killed", "{\"jobs\": []}", "{\"jobs\": 7}"] {
            assert!(parse_output(printed.as_bytes()).is_err(), "{printed}");
        }
    }

    #[test]
    fn settings_become_arguments() {
        let spec = RunBuilder::new(Workload::Fio)
            .workers(2)
            .files(3)
            .queue_depth(4)
            .backend(BackendKind::Uring)
            .read_percent(70)
            .duration_ms(1500)
            .durability(Durability::Sync)
            .build();
        let line = arguments(&spec, Pass::Mix).unwrap().join(" ");
        for word in [
            "--rw=randrw",
            "--ioengine=io_uring",
            "--iodepth=4",
            "--numjobs=2",
            "--nrfiles=2",
            "--filesize=4096",
            "--size=8192",
            "--end_fsync=1",
            "--runtime=1500ms",
            "--rwmixread=70",
        ] {
            assert!(line.contains(word), "{word} is not in {line}");
        }
        assert_eq!(arguments(&spec, Pass::Stat), None);
    }
}
