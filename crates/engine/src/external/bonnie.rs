//! bonnie++: six tests on one file in a single run, parsed from its CSV.
//!
//! Rates are in KiB/s or seeks per second, each with its CPU usage. For a test that took less than
//! half a second, bonnie++ prints `+++++`. We then only know a lower bound, which is reported with
//! a caveat. Of the latencies, only the maximum is known; it becomes a fact.
//!
//! Each test ends with an `fsync` of its file within the reported time, no matter what the plan
//! says. The option `-b` ("fsync after every write") only affects the seeks.
//!
//! **Source:** bonnie++'s documentation and `bon_csv2txt.1`; outputs of bonnie++ 2.00a, whose CSV
//! has version 1.98; its calls under strace, with `fsync` delayed; README-2.00 (syncs on close).

use model::{Caveat, CaveatCode, Durability, Evidence, Fact, OpKind, Pass, RunSpec};

use super::figures::{FailedPass, Figures, Kind, PassFigures};
use super::{RunReads, ToolContext, ended_well};
use crate::target::TargetError;

/// The tests in the order of their columns, with their kinds of ops.
const TESTS: [(Pass, OpKind); 6] = [
    (Pass::CharWrite, OpKind::PutChars),
    (Pass::Write, OpKind::Write),
    (Pass::Update, OpKind::Update),
    (Pass::CharRead, OpKind::GetChars),
    (Pass::Read, OpKind::Read),
    (Pass::Seeks, OpKind::Read),
];

/// Column with the number of seeks.
const SEEKS: usize = 7;
/// Column of the first rate. Each rate is followed by its CPU usage.
const RATES: usize = 9;
/// Column of the first maximum latency.
const LATENCIES: usize = 38;
/// Number of columns in CSV version 1.98.
const COLUMNS: usize = 50;

/// Tests that took less than this are printed as `+++++`, in nanoseconds.
const SHORTEST_NS: u64 = 500_000_000;

/// Size of the character tests in bytes, unless overridden by an option of bonnie++.
const CHARACTERS: u64 = 20 << 20;

/// bonnie++'s report on one test.
#[derive(Clone, Debug, PartialEq)]
struct TestReport {
    /// KiB/s or seeks/s; `None` if the test was too fast.
    rate: Option<f64>,
    /// CPU usage in percent.
    cpu_percent: Option<f64>,
    slowest: String,
}

/// Runs bonnie++ once for all passes.
///
/// # Errors
/// If bonnie++ fails or cannot do what the plan requires.
pub(super) fn run(bench: &ToolContext, spec: &RunSpec) -> Result<Vec<PassFigures>, FailedPass> {
    let command = arguments(spec).map_err(|why| FailedPass::NotRun(TargetError::Program(why)))?;
    let ended = bench.run_tool(&command)?;
    ended_well("bonnie++", &ended)?;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let Some((seeks, reports)) = parse_line(&printed) else {
        return Err(FailedPass::unread("bonnie++", &printed));
    };
    let line = Fact::new("target", "command", command.join(" "), "bonnie++");
    let used_ns = ended.usage.user_ns + ended.usage.system_ns;
    let whole_share = used_ns as f64 / ended.wall_ns as f64;
    let read_bytes: u64 = TESTS
        .into_iter()
        .zip(&reports)
        .filter(|((_, kind), report)| report.is_some() && kind.reads_data())
        .map(|((pass, _), _)| test_amount(spec, pass, seeks).1)
        .sum();
    let storage_read_bytes = ended.usage.storage_read_bytes;
    let whole_run = Some(RunReads { read_bytes, storage_read_bytes });
    let mut made = Vec::new();
    for ((pass, kind), report) in TESTS.into_iter().zip(&reports) {
        let Some(report) = report else { continue };
        if !spec.passes().contains(&pass) {
            continue;
        }
        let (ops, bytes) = test_amount(spec, pass, seeks);
        // Rates are in seeks or KiB per second.
        let of_rate = if pass == Pass::Seeks { ops as f64 } else { bytes as f64 / 1024.0 };
        let kind = Kind::counted(kind, ops, bytes);
        let mut figures = test_figures(report, kind, of_rate, whole_share);
        if pass.writes() {
            figures.kinds.push(Kind::counted(OpKind::Sync, 1, 0));
            figures.caveats.extend(check_durability(spec.durability));
        }
        figures.whole_run = whole_run;
        figures.caveats.extend(check_direct(spec.direct, pass));
        figures.facts.push(line.clone());
        figures.facts.push(Fact::new(
            "target",
            format!("slowest op of {pass}"),
            report.slowest.clone(),
            "bonnie++",
        ));
        made.push(PassFigures { pass, figures });
    }
    Ok(made)
}

/// Returns the ops and bytes of a test.
fn test_amount(spec: &RunSpec, pass: Pass, seeks: u64) -> (u64, u64) {
    let io_size = u64::from(spec.io_size_bytes);
    match pass {
        Pass::Seeks => (seeks, seeks * io_size),
        Pass::CharWrite | Pass::CharRead => {
            let bytes = CHARACTERS.min(spec.file_size_bytes);
            (bytes.div_ceil(io_size), bytes)
        }
        _ => (spec.file_size_bytes.div_ceil(io_size), spec.file_size_bytes),
    }
}

/// Computes the results of a test; `of_rate` is the amount counted by the rate, in KiB or seeks.
/// bonnie++ prints no CPU usage for tests that used less than half a second of CPU time.
/// `whole_share`, the usage of the whole process, is used for them.
fn test_figures(report: &TestReport, kind: Kind, of_rate: f64, whole_share: f64) -> Figures {
    let window_ns = report.rate.map_or(SHORTEST_NS, |rate| (of_rate / rate * 1e9) as u64);
    let mut figures = Figures { kinds: vec![kind], window_ns, ..Figures::default() };
    if report.rate.is_none() {
        let evidence = "bonnie++ printed +++++, so the test took less than 0.5 s and the result is \
                        a lower bound";
        let data = Evidence::nanos(SHORTEST_NS, SHORTEST_NS, "output of bonnie++");
        figures.caveats.push(CaveatCode::TooShort.because(evidence).with_data(data));
    }
    let share = report.cpu_percent.map_or(whole_share, |percent| percent / 100.0);
    figures.cpu_ns = (figures.window_ns as f64 * share) as u64;
    figures
}

/// Returns a caveat unless the plan's durability matches what bonnie++ does.
fn check_durability(wanted: Durability) -> Option<Caveat> {
    if wanted == Durability::Sync {
        return None;
    }
    Some(CaveatCode::OptionNotEffective.because(format!(
        "durability {} requested, sync effective: bonnie++ syncs its file in every test",
        wanted.name()
    )))
}

/// Returns a caveat if bonnie++ uses the page cache in spite of `-D`.
fn check_direct(is_wanted: bool, pass: Pass) -> Option<Caveat> {
    if !is_wanted || matches!(pass, Pass::Write | Pass::CharWrite) {
        return None;
    }
    let evidence = "direct true requested, but bonnie++ uses O_DIRECT only for its first write \
                    (option -D, seen with strace)";
    Some(CaveatCode::OptionNotEffective.because(evidence))
}

/// Returns the command for all passes.
fn arguments(spec: &RunSpec) -> Result<Vec<String>, String> {
    for pass in spec.passes() {
        if TESTS.iter().all(|(test, _)| test != pass) {
            return Err(format!("bonnie++ has no pass {pass}"));
        }
    }
    if spec.workers != 1 || spec.files != 1 {
        let workers = spec.workers;
        let files = spec.files;
        return Err(format!(
            "bonnie++ uses one worker and one file, not {workers} workers and {files} files"
        ));
    }
    if matches!(spec.durability, Durability::Dsync | Durability::Osync) {
        return Err(
            "bonnie++ cannot sync each write, not even with -b (hint: use durability sync)"
                .to_owned(),
        );
    }
    let mib = spec.file_size_bytes >> 20;
    if mib == 0 || !spec.file_size_bytes.is_multiple_of(1 << 20) {
        return Err(format!(
            "bonnie++ needs a file_size in whole MiB, not {} B",
            spec.file_size_bytes
        ));
    }
    let mut words: Vec<String> =
        ["bonnie++", "-d", ".", "-q", "-n", "0", "-m", "dfsbench", "-u"].map(str::to_owned).into();
    words.push(rustix::process::getuid().as_raw().to_string());
    words.extend(["-s".to_owned(), format!("{mib}:{}", spec.io_size_bytes)]);
    // bonnie++ rejects files smaller than twice the memory size. We have our own caveats about
    // caches.
    words.extend(["-r".to_owned(), (mib / 2).to_string()]);
    if !spec.passes().iter().any(|pass| matches!(pass, Pass::CharWrite | Pass::CharRead)) {
        words.push("-f".to_owned());
    }
    if spec.direct {
        words.push("-D".to_owned());
    }
    words.extend(spec.command.run.iter().cloned());
    Ok(words)
}

/// Parses the last line of CSV: the number of seeks, and the tests that were run.
fn parse_line(printed: &str) -> Option<(u64, [Option<TestReport>; 6])> {
    let line = printed.lines().rev().find(|line| line.starts_with("1.98,"))?;
    let columns: Vec<&str> = line.split(',').collect();
    if columns.len() != COLUMNS {
        return None;
    }
    let reports = std::array::from_fn(|test| {
        let [rate, cpu] = [columns[RATES + 2 * test], columns[RATES + 2 * test + 1]];
        // The columns of a skipped test are empty.
        if rate.is_empty() {
            return None;
        }
        let slowest = columns[LATENCIES + test].to_owned();
        Some(TestReport { rate: positive_number(rate), cpu_percent: positive_number(cpu), slowest })
    });
    Some((columns[SEEKS].parse().unwrap_or(0), reports))
}

/// Parses a positive number. Returns `None` for `+++++` and anything else.
fn positive_number(text: &str) -> Option<f64> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Workload;
    use model::testing::RunBuilder;

    const TOO_FAST: &str = "1.98,2.00a,dfsbench,1,1795316471,64M,,8192,5,,,+++++,+++,+++++,+++,,,\
        +++++,+++,5264,70,,,,,,,,,,,,,,,,,,,8097us,8069us,,8074us,48074us,,,,,,\n";

    fn spec() -> RunSpec {
        RunBuilder::new(Workload::Bonniexx).io_size_bytes(65536).file_size_bytes(3 << 30).build()
    }

    #[test]
    fn parses_bonnie_2_00a_output() {
        let (seeks, reports) = parse_line(include_str!("fixtures/bonnie.csv")).unwrap();
        assert_eq!(seeks, 8192);
        let rates =
            reports.each_ref().map(|reports| reports.as_ref().unwrap().rate.unwrap() as u64);
        assert_eq!(rates, [760, 654_179, 902_053, 890, 1_733_655, 6125]);
        let write = reports[1].as_ref().unwrap();
        assert_eq!((write.cpu_percent, write.slowest.as_str()), (Some(30.0), "50004us"));
        let (ops, bytes) = test_amount(&spec(), Pass::Write, seeks);
        let of_write =
            test_figures(write, Kind::counted(OpKind::Write, ops, bytes), (3 << 20) as f64, 0.9);
        assert_eq!((ops, of_write.window_ns / 1_000_000), (49_152, 4_808));
        assert_eq!(of_write.cpu_ns / 1_000_000, 1_442);
        let seek = reports[5].as_ref().unwrap();
        let of_seeks = test_figures(seek, Kind::counted(OpKind::Read, 8192, 0), 8192.0, 0.9);
        assert_eq!(of_seeks.window_ns / 1_000_000, 1_337);
    }

    #[test]
    fn reports_lower_bound_for_fast_test() {
        let (_, reports) = parse_line(TOO_FAST).unwrap();
        assert_eq!(reports[0], None);
        let write = reports[1].as_ref().unwrap();
        let of_write =
            test_figures(write, Kind::counted(OpKind::Write, 1024, 64 << 20), 65_536.0, 0.9);
        assert_eq!(of_write.window_ns, SHORTEST_NS);
        let share = of_write.cpu_ns as f64 / SHORTEST_NS as f64;
        assert!((share - 0.9).abs() < 1e-6, "without a printed share, that of the process");
        assert_eq!(of_write.caveats[0].code, CaveatCode::TooShort);
    }

    #[test]
    fn what_is_no_csv_is_refused() {
        for printed in ["", "1.98,", "1.97,2.00a", "Writing with putc()...done"] {
            assert_eq!(parse_line(printed), None, "{printed}");
        }
    }

    #[test]
    fn settings_become_arguments() {
        let line = |spec: &RunSpec| arguments(spec).map(|words| words.join(" "));
        let whole = line(&spec()).unwrap();
        assert!(whole.starts_with("bonnie++ -d . -q -n 0 -m dfsbench -u "), "{whole}");
        assert!(whole.ends_with(" -s 3072:65536 -r 1536"), "{whole}");
        let fast =
            RunBuilder::from(spec()).passes(vec![Pass::Write, Pass::Seeks]).direct(true).build();
        assert!(line(&fast).unwrap().ends_with(" -r 1536 -f -D"));
        let many = RunBuilder::from(spec()).workers(2).build();
        assert!(line(&many).unwrap_err().contains("one worker and one file"));
        let each = RunBuilder::from(spec()).durability(Durability::Dsync).build();
        assert!(line(&each).unwrap_err().contains("each write"));
        let small = RunBuilder::from(spec()).file_size_bytes(4096).build();
        assert!(line(&small).unwrap_err().contains("whole MiB"));
    }
}
