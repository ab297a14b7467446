//! iozone: all passes in a single run. We use its throughput mode, which works for any number of
//! workers.
//!
//! iozone prints the total KiB/s of all children, and the wall and CPU time of each test (`-+u`).
//! The window is the number of bytes divided by that rate. Latencies of single ops are not known,
//! and reads from storage are only known for the whole run. Stonewalling is disabled (`-x`): every
//! child processes its whole file.
//!
//! **Source:** iozone's documentation of `-t`, `-x`, `-+u`; outputs of iozone 3.489.

use model::{Durability, Fact, OpKind, Pass, RunSpec};
use workload::Name;

use super::figures::{FailedPass, Figures, Kind, PassFigures};
use super::{RunReads, ToolContext, ended_well};
use crate::target::TargetError;

/// Name of a test in the output, the corresponding pass, and the option that selects it.
const TESTS: [(&str, Pass, &str); 8] = [
    ("initial writers", Pass::Write, "0"),
    ("rewriters", Pass::Rewrite, "0"),
    ("readers", Pass::Read, "1"),
    ("re-readers", Pass::Reread, "1"),
    ("random readers", Pass::RandomRead, "2"),
    ("random writers", Pass::RandomWrite, "2"),
    ("reverse readers", Pass::BackwardRead, "3"),
    ("stride readers", Pass::StrideRead, "5"),
];

/// iozone's report on one test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TestReport {
    pass: Pass,
    kib_per_s: f64,
    cpu_s: f64,
}

/// Runs iozone once for all passes.
///
/// # Errors
/// If iozone fails or cannot do what the plan requires.
pub(super) fn run(bench: &ToolContext, spec: &RunSpec) -> Result<Vec<PassFigures>, FailedPass> {
    let command = arguments(spec).map_err(|why| FailedPass::NotRun(TargetError::Program(why)))?;
    let ended = bench.run_tool(&command)?;
    ended_well("iozone", &ended)?;
    let line = command.join(" ");
    let bytes = spec.file_size_bytes * u64::from(spec.workers);
    let ops = bytes.div_ceil(u64::from(spec.io_size_bytes));
    let reports = parse_output(&String::from_utf8_lossy(&ended.stdout));
    let reading = reports.iter().filter(|report| !report.pass.writes()).count() as u64;
    let storage_read_bytes = ended.usage.storage_read_bytes;
    let whole_run = Some(RunReads { read_bytes: bytes * reading, storage_read_bytes });
    let mut passes = Vec::new();
    for report in reports {
        let pass = report.pass;
        // Some tests come in pairs, and the plan may only contain one of them.
        if !spec.passes().contains(&pass) {
            continue;
        }
        let kind = if pass.writes() { OpKind::Write } else { OpKind::Read };
        let mut kinds = vec![Kind::counted(kind, ops, bytes)];
        kinds.extend(Kind::syncs(spec.durability, pass, spec.workers));
        let figures = Figures {
            kinds,
            window_ns: (bytes as f64 / 1024.0 / report.kib_per_s * 1e9) as u64,
            cpu_ns: (report.cpu_s * 1e9) as u64,
            whole_run,
            facts: vec![Fact::new("target", "command", line.clone(), "iozone")],
            ..Figures::default()
        };
        passes.push(PassFigures { pass, figures });
    }
    Ok(passes)
}

/// Returns the command for all passes.
fn arguments(spec: &RunSpec) -> Result<Vec<String>, String> {
    let io_size = u64::from(spec.io_size_bytes);
    let file_size = spec.file_size_bytes;
    if !io_size.is_multiple_of(1024) || !file_size.is_multiple_of(io_size) {
        return Err(format!(
            "iozone needs an io_size in whole KiB and a file_size that is a multiple of it, not \
             {io_size} B and {file_size} B"
        ));
    }
    let mut words: Vec<String> = ["iozone", "-x", "-+u"].map(str::to_owned).into();
    let mut set = |option: &str, value: String| words.extend([option.to_owned(), value]);
    set("-t", spec.workers.to_string());
    set("-s", format!("{}k", file_size / 1024));
    set("-r", format!("{}k", io_size / 1024));
    let mut options = vec!["0"];
    for pass in spec.passes() {
        let Some((.., option)) = TESTS.iter().find(|(_, test, _)| test == pass) else {
            return Err(format!("iozone has no pass {pass}"));
        };
        if !options.contains(option) {
            options.push(option);
        }
    }
    for option in options {
        set("-i", option.to_owned());
    }
    if spec.passes().contains(&Pass::StrideRead) {
        set("-j", spec.layout.stride.to_string());
    }
    let flags: &[&str] = match spec.durability {
        Durability::None => &[],
        Durability::Close => &["-c"],
        Durability::Sync => &["-e", "-c"],
        Durability::Dsync => &["-+D"],
        Durability::Osync => &["-o"],
    };
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    if spec.direct {
        words.push("-I".to_owned());
    }
    if spec.layout.mmap {
        words.push("-B".to_owned());
    }
    words.extend(spec.command.run.iter().cloned());
    words.push("-F".to_owned());
    words.extend((0..spec.workers).map(|file| Name::file(file).as_str().to_owned()));
    Ok(words)
}

/// Parses the tests for which iozone printed results.
fn parse_output(printed: &str) -> Vec<TestReport> {
    let mut tests: Vec<TestReport> = Vec::new();
    for line in printed.lines() {
        if let Some(rest) = line.trim().strip_prefix("Children see throughput for") {
            tests.extend(parse_throughput(rest));
        } else if line.contains("CPU time")
            && let Some(last) = tests.last_mut()
        {
            last.cpu_s = cpu_time(line).unwrap_or(0.0);
        }
    }
    tests
}

/// Parses `  2 initial writers = 2094843.75 kB/sec`. Returns `None` if the rate is invalid.
fn parse_throughput(rest: &str) -> Option<TestReport> {
    let (what, figure) = rest.split_once('=')?;
    let name = what.trim().trim_start_matches(|sign: char| sign.is_ascii_digit()).trim();
    let (_, pass, _) = TESTS.iter().find(|(test, ..)| *test == name)?;
    let kib_per_s: f64 = figure.split_whitespace().next()?.parse().ok()?;
    if !kib_per_s.is_finite() || kib_per_s <= 0.0 {
        return None;
    }
    Some(TestReport { pass: *pass, kib_per_s, cpu_s: 0.0 })
}

/// Parses `CPU utilization: Wall time    0.003    CPU time    0.006    ...`.
fn cpu_time(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("CPU time")?;
    let seconds: f64 = rest.split_whitespace().next()?.parse().ok()?;
    if seconds.is_finite() { Some(seconds) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    #[test]
    fn parses_iozone_3_489_output() {
        let reports = parse_output(include_str!("fixtures/iozone.txt"));
        let passes: Vec<Pass> = reports.iter().map(|report| report.pass).collect();
        // In iozone's order.
        let order = [0, 1, 2, 3, 6, 7, 4, 5].map(|test| TESTS[test].1);
        assert_eq!(passes, order);
        let first = TestReport { pass: Pass::Write, kib_per_s: 4_898_201.0, cpu_s: 0.007 };
        assert_eq!(reports[0], first);
        assert!((reports[5].cpu_s - 0.004).abs() < 1e-9);
    }

    #[test]
    fn skips_missing_iozone_figures() {
        let line = |figure: &str| {
            parse_output(&format!("Children see throughput for 1 readers = {figure}"))
        };
        assert_eq!(line("7.00 kB/sec").len(), 1);
        for figure in ["0.00 kB/sec", "nan kB/sec", "inf kB/sec", "-1 kB/sec", ""] {
            assert_eq!(line(figure), [], "{figure}");
        }
        assert_eq!(parse_output("Children see throughput for 1 dreamers = 7.00 kB/sec"), []);
    }

    #[test]
    fn settings_become_arguments() {
        let mut spec = RunBuilder::new(Workload::Iozone)
            .workers(2)
            .io_size_bytes(65536)
            .file_size_bytes(8 << 20)
            .durability(Durability::Sync)
            .passes(vec![Pass::Write, Pass::RandomRead])
            .build();
        assert_eq!(
            arguments(&spec).unwrap().join(" "),
            "iozone -x -+u -t 2 -s 8192k -r 64k -i 0 -i 2 -e -c -F f00000000 f00000001"
        );
        spec.passes = vec![Pass::Stat];
        assert_eq!(arguments(&spec).unwrap_err(), "iozone has no pass stat");
        spec.passes = Vec::new();
        spec.io_size_bytes = 1000;
        assert!(arguments(&spec).unwrap_err().contains("whole KiB"));
    }
}
