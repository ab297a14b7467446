//! Why fio and dfsbench disagree: both did the same work in the same campaign.
//!
//! [`ToolComparisons::from_sheet`] pairs each pass of fio with the only one of ours on the same
//! target. Every reason is checked against what was measured, the settings of our run and the
//! options that fio got, and says whether the tools differ in it ([`Finding`]). A default of fio is
//! used for options that are not given.
//!
//! **Source:** fio(1) of fio 3.33 (defaults of options); fio's `filesetup.c` and `ioengines.c`
//! (what is done before its clock starts).

use model::units::Size;
use model::{
    BackendKind, CaveatCode, Durability, Fill, OpKind, Pass, PassResult, RunSpec, Workload,
    fio_option_role,
};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{BootstrapDraws, Outcome, criteria, median};

use super::measure::ComparedFigure;
use super::rows::KeyedRow;
use super::{ComparisonRules, Measure, RowPair};
use crate::document::{Block, Section, Term, TermKind};
use crate::humanize;
use crate::question::trial_result;
use crate::table::{Row, Sheet};

/// Share of the shortest pass from which fio's clock of whole milliseconds matters.
const CLOCK_SHARE_MIN: f64 = 0.01;

/// Smallest ratio of two medians of times or CPU times that is a difference.
const RATIO_MIN: f64 = 1.1;

/// Caveats that explain a difference if only one of the tools has them.
const TELLING: [CaveatCode; 8] = [
    CaveatCode::Cached,
    CaveatCode::ProcessorContention,
    CaveatCode::TooShort,
    CaveatCode::Unsynchronised,
    CaveatCode::NotSteady,
    CaveatCode::Burst,
    CaveatCode::BelowOffered,
    CaveatCode::Compressible,
];

/// What a check of a reason found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ToolFinding")]
pub(crate) enum Finding {
    /// The tools differ in it.
    Differs,
    /// Both do the same.
    Same,
}

/// A known reason for different results, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ToolReason")]
pub(crate) struct ToolReason {
    finding: Finding,
    text: String,
}

/// A pass done by both tools.
struct ToolComparison {
    target: String,
    pass: Pass,
    /// fio before, dfsbench after.
    pair: RowPair,
    reasons: Vec<ToolReason>,
}

/// The passes that fio and dfsbench both did.
pub(crate) struct ToolComparisons(Vec<ToolComparison>);

impl ToolComparisons {
    /// Pairs the passes of fio with ours. A pass with several partners is left out.
    pub(crate) fn from_sheet(sheet: &Sheet<'_>) -> Self {
        let mut comparisons = Vec::new();
        let mut draws = BootstrapDraws::new(criteria::BOOTSTRAP_SEED);
        let of_pass = |row: &Row<'_>, fio: &Row<'_>| {
            row.judged.pass == fio.judged.pass
                && row.run.spec.target_name == fio.run.spec.target_name
        };
        let is_fio = |row: &Row<'_>| row.run.spec.workload == Workload::Fio;
        for fio in sheet.rows.iter().filter(|row| is_fio(row)) {
            let rivals = sheet.rows.iter().filter(|row| is_fio(row) && of_pass(row, fio)).count();
            let own: Vec<&Row<'_>> = sheet
                .rows
                .iter()
                .filter(|row| !row.run.spec.workload.is_external() && of_pass(row, fio))
                .collect();
            let ([own], 1) = (own.as_slice(), rivals) else { continue };
            let keyed = |row| KeyedRow::new(sheet, row, &[]);
            let rules = ComparisonRules::default();
            if let Ok(pair) = keyed(fio).compare_with(&keyed(own), &rules, &mut draws) {
                comparisons.push(ToolComparison {
                    target: fio.run.spec.target_name.clone(),
                    pass: fio.judged.pass,
                    reasons: Reasons::collect(fio, own, &pair),
                    pair,
                });
            }
        }
        Self(comparisons)
    }

    /// Returns a sentence for each pass: both rates, their ratio and whether that is more than
    /// noise.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.iter().map(ToolComparison::sentence).collect()
    }

    /// Builds the section with the reasons.
    pub(crate) fn section(&self) -> Option<Section> {
        let mut terms = Vec::new();
        for comparison in &self.0 {
            for (finding, name) in [(Finding::Differs, "differs"), (Finding::Same, "the same")] {
                let of_finding = comparison.reasons.iter().filter(|it| it.finding == finding);
                let lines: Vec<String> = of_finding.map(|it| it.text.clone()).collect();
                if lines.is_empty() {
                    continue;
                }
                let name = if self.0.len() > 1 {
                    format!("{} {}: {name}", comparison.target, comparison.pass)
                } else {
                    name.to_owned()
                };
                terms.push(Term { name, code: None, lines });
            }
        }
        if terms.is_empty() {
            return None;
        }
        let heading = "Why fio and dfsbench may differ".to_owned();
        let blocks = vec![Block::Terms(TermKind::Conditions, terms)];
        Some(Section { id: "tools", heading, blocks, ..Section::default() })
    }
}

impl ToolComparison {
    fn rate(&self) -> &ComparedFigure {
        // The rate is the first measure of every pair.
        &self.pair.figures[0]
    }

    fn sentence(&self) -> String {
        let rate = self.rate();
        let (lo, hi) = rate.comparison.possible_ratios();
        let verdict = match rate.comparison.outcome() {
            Outcome::Same => "the same within 5 %",
            Outcome::Higher => "dfsbench is faster",
            Outcome::Lower => "fio is faster",
            Outcome::Unclear => "undecided",
        };
        let unit = if self.pass.is_byte_rate() {
            format!("; fio itself prints {:.0} MiB/s", rate.medians[0] / f64::from(1 << 20))
        } else {
            String::new()
        };
        format!(
            "{} {}: fio {}, dfsbench {} (ratio {:.2}; 95 %: {lo:.2} to {hi:.2}; {verdict}{unit}).",
            self.target,
            self.pass,
            rate.shown(0),
            rate.shown(1),
            rate.comparison.ratio,
        )
    }
}

/// Collects the reasons of one pass.
struct Reasons<'a> {
    fio: &'a Row<'a>,
    own: &'a Row<'a>,
    found: Vec<ToolReason>,
}

/// Returns the option that counts among fio's arguments.
fn option<'a>(spec: &'a RunSpec, key: &str) -> Option<&'a str> {
    let value = |word: &'a String| {
        let (name, value) = word.strip_prefix("--")?.split_once('=').unwrap_or((&word[2..], "1"));
        (name == key).then_some(value)
    };
    spec.command.run.iter().rev().find_map(value)
}

impl<'a> Reasons<'a> {
    fn collect(fio: &'a Row<'a>, own: &'a Row<'a>, pair: &RowPair) -> Vec<ToolReason> {
        let mut reasons = Self { fio, own, found: Vec::new() };
        reasons.compare_work();
        reasons.compare_times(pair);
        reasons.compare_clocks();
        reasons.compare_caches();
        reasons.compare_engines();
        reasons.compare_patterns();
        if reasons.did(OpKind::Write) {
            reasons.compare_writes();
        }
        reasons.compare_caveats();
        reasons.name_untranslated();
        reasons.found
    }

    fn add(&mut self, is_same: bool, text: impl Into<String>) {
        let finding = if is_same { Finding::Same } else { Finding::Differs };
        self.found.push(ToolReason { finding, text: text.into() });
    }

    fn has(&self, key: &str) -> bool {
        option(&self.fio.run.spec, key).is_some_and(|value| value != "0")
    }

    fn value(&self, key: &str, default: &'static str) -> &'a str {
        option(&self.fio.run.spec, key).unwrap_or(default)
    }

    fn workers(&self) -> u32 {
        self.own.run.spec.workers
    }

    const fn pass(&self) -> Pass {
        self.own.judged.pass
    }

    /// Returns true if the pass has ops of a kind; a mix may consist of reads only.
    fn did(&self, kind: OpKind) -> bool {
        let sum =
            |it: &PassResult| it.kinds.iter().filter(|it| it.kind == kind).map(|it| it.done).sum();
        Self::numbers(self.own, sum).iter().any(|done| *done > 0.0)
    }

    /// Returns a number of each trial that counts.
    fn numbers(row: &Row<'_>, of: impl Fn(&PassResult) -> u64) -> Vec<f64> {
        let used = row.judged.points.iter().filter(|point| point.used);
        used.filter_map(|point| trial_result(row, point.trial_index))
            .map(|it| of(it) as f64)
            .collect()
    }

    /// Compares ops and bytes. A pass that ends by its time does as many as it can.
    fn compare_work(&mut self) {
        if self.pass().is_timed() && self.own.run.spec.load.ops_max == 0 {
            return;
        }
        let [fio, own] = [self.fio, self.own].map(|row| {
            let ops = median(&Self::numbers(row, PassResult::ops));
            let bytes = median(&Self::numbers(row, PassResult::bytes));
            (ops.unwrap_or(0.0) as u64, bytes.unwrap_or(0.0) as u64)
        });
        if fio == own {
            self.add(true, format!("Work: {} ops, {}.", humanize::grouped(own.0), Size(own.1)));
        } else {
            self.add(
                false,
                format!(
                    "Work: fio did {} ops ({}), dfsbench {} ops ({}).",
                    humanize::grouped(fio.0),
                    Size(fio.1),
                    humanize::grouped(own.0),
                    Size(own.1)
                ),
            );
        }
    }

    /// Compares the typical time of an op, and the CPU time that each takes.
    fn compare_times(&mut self, pair: &RowPair) {
        let is_alike =
            |one: f64, other: f64| (1.0 / RATIO_MIN..=RATIO_MIN).contains(&(one / other));
        if let Some(times) = pair.figures.iter().find(|it| it.measure == Measure::ResponseP50) {
            let [fio, own] = times.medians;
            let text = format!(
                "Time of a typical op (p50): fio {}, dfsbench {}.",
                times.shown(0),
                times.shown(1)
            );
            self.add(is_alike(fio, own), text);
        }
        let [fio, own] = [self.fio, self.own].map(|row| {
            let per_op = |it: &PassResult| it.client_cpu_ns / it.ops().max(1);
            median(&Self::numbers(row, per_op)).unwrap_or(0.0)
        });
        if fio > 0.0 && own > 0.0 {
            let us = |ns: f64| model::units::three_digits(ns / 1000.0);
            let text = format!("CPU time of an op: fio {} µs, dfsbench {} µs.", us(fio), us(own));
            self.add(is_alike(fio, own), text);
        }
    }

    /// Compares when the clocks start and stop, and how finely fio's counts.
    fn compare_clocks(&mut self) {
        let shortest =
            Self::numbers(self.fio, |it| it.window_ns).into_iter().fold(f64::MAX, f64::min);
        let share = 1e6 / shortest.max(1.0);
        if share >= CLOCK_SHARE_MIN {
            self.add(
                false,
                format!(
                    "Clock: fio counts whole milliseconds, up to {} of its shortest pass.",
                    humanize::percent(share)
                ),
            );
        }
        let ends = match self.own.run.spec.durability {
            _ if !self.did(OpKind::Write) => "with the last op",
            Durability::Sync => "when the files are synced",
            _ => "with the last op, before anything is synced or closed",
        };
        self.add(
            true,
            format!(
                "Clock: it starts after the files are created, opened and filled; it ends {ends}."
            ),
        );
        if self.workers() > 1 && !self.has("thread") {
            let text = "Workers: fio starts a process for each job, dfsbench a thread for each \
                        worker.";
            self.add(false, text);
        }
    }

    /// Compares what caches can do.
    fn compare_caches(&mut self) {
        let spec = &self.own.run.spec;
        if spec.direct {
            self.add(true, "Caches: both use O_DIRECT.");
        } else {
            self.add(true, "Caches: both go through the page cache.");
            if self.did(OpKind::Read) {
                self.add(
                    true,
                    if spec.invalidate {
                        "Caches: both drop their files before they read them."
                    } else {
                        "Caches: neither drops its files before it reads them."
                    },
                );
                if self.value("fadvise_hint", "1") != "0" {
                    let advice = if spec.layout.random_percent > 0 && self.pass() == Pass::Mix
                        || self.pass() == Pass::RandomRead
                    {
                        "POSIX_FADV_RANDOM, which turns read-ahead off"
                    } else {
                        "POSIX_FADV_SEQUENTIAL, which doubles read-ahead"
                    };
                    self.add(
                        false,
                        format!(
                            "Read-ahead: fio advises {advice}; dfsbench advises nothing (compare \
                             with fadvise_hint=0)."
                        ),
                    );
                }
            }
        }
        let reads = |row: &Row<'_>| {
            let stored = Self::numbers(row, |it| it.storage_read_bytes.unwrap_or(0));
            let read = Self::numbers(row, |it| {
                it.kinds.iter().filter(|kind| kind.kind == OpKind::Read).map(|it| it.bytes).sum()
            });
            let (stored, read) = (stored.iter().sum::<f64>(), read.iter().sum::<f64>());
            (read > 0.0).then_some(stored / read)
        };
        let is_counted = |row: &Row<'_>| {
            let results =
                row.judged.points.iter().filter_map(|it| trial_result(row, it.trial_index));
            results.map(|it| it.storage_read_bytes).all(|bytes| bytes.is_some())
        };
        if let (Some(fio), Some(own)) = (reads(self.fio), reads(self.own))
            && is_counted(self.fio)
            && is_counted(self.own)
        {
            let text = format!(
                "Read from storage: {} of fio's bytes, {} of dfsbench's.",
                humanize::percent(fio),
                humanize::percent(own)
            );
            self.add((fio - own).abs() < 0.05, text);
        }
    }

    /// Compares how ops are issued.
    fn compare_engines(&mut self) {
        let spec = &self.own.run.spec;
        let is_uring = spec.backend == BackendKind::Uring;
        let engine = self.value("ioengine", if is_uring { "io_uring" } else { "psync" });
        let depth = self.value("iodepth", "1");
        if !is_uring {
            let how = if spec.layout.mmap { "a memory mapping" } else { "system calls" };
            self.add(true, format!("Engine: {how}, one op in flight (fio's {engine})."));
            if depth != "1" {
                self.add(true, format!("Depth: iodepth={depth} has no effect with {engine}."));
            }
        } else if engine == "io_uring" {
            self.add(true, format!("Engine: io_uring with {} ops in flight.", spec.queue_depth));
        } else {
            self.add(false, format!("Engine: fio uses {engine}, dfsbench io_uring."));
            if engine == "libaio" && !spec.direct && spec.queue_depth > 1 {
                let text = "Depth: without O_DIRECT, libaio completes each op before it submits \
                            the next, so fio has one in flight.";
                self.add(false, text);
            }
        }
        if spec.load.rate_per_s > 0 {
            let text = "Rate: fio's rate_iops is a limit, dfsbench's rate an open loop: after a \
                        stall, dfsbench catches up.";
            self.add(false, text);
        }
    }

    /// Compares which blocks are accessed in which order.
    fn compare_patterns(&mut self) {
        let spec = &self.own.run.spec;
        let is_random = matches!(self.pass(), Pass::RandomRead | Pass::RandomWrite);
        if is_random && self.has("norandommap") {
            let text = "Blocks: with norandommap, fio repeats some blocks and omits others; \
                        dfsbench accesses each once.";
            self.add(false, text);
        } else if is_random {
            self.add(true, "Blocks: each once, in random order.");
        }
        if self.pass() == Pass::Mix && spec.layout.random_percent > 0 && !self.has("norandommap") {
            let text = "Blocks: fio accesses each block of a file once before any again; dfsbench \
                        draws each from all.";
            self.add(false, text);
        }
        if self.pass() == Pass::Mix && self.workers() > 1 {
            let text = "Files: each job of fio has its own; the workers of a mix in dfsbench share \
                        all.";
            self.add(false, text);
        }
        let per_worker = spec.files.div_ceil(self.workers().max(1));
        if !is_random
            && per_worker > 1
            && self.value("file_service_type", "sequential") != "sequential"
        {
            let text = "Files: fio takes its files in turn, block by block; dfsbench one after the \
                        other (compare with file_service_type=sequential).";
            self.add(false, text);
        }
    }

    /// Compares what is written, and when it is safe.
    fn compare_writes(&mut self) {
        let spec = &self.own.run.spec;
        if self.has("fsync") || self.has("fdatasync") {
            let text = "Syncs: fio calls fsync after each write; dfsbench writes with O_SYNC or \
                        O_DSYNC, one call in place of two.";
            self.add(false, text);
        } else {
            let text = match spec.durability {
                Durability::Sync => "Syncs: each file once at the end.",
                Durability::Dsync | Durability::Osync => "Syncs: each write waits.",
                Durability::None | Durability::Close => {
                    "Syncs: none; the clock stops when the data is accepted, not when it is safe."
                }
            };
            self.add(true, text);
        }
        if spec.data.fill == Fill::Zeros {
            self.add(true, "Data: zeros.");
        } else if self.has("refill_buffers") {
            self.add(true, "Data: new random bytes for each write.");
        } else {
            let text = "Data: fio writes the same random buffers again with small changes, \
                        dfsbench different bytes; it matters to targets that compress or \
                        deduplicate (compare with refill_buffers=1).";
            self.add(false, text);
        }
        let is_new = self.pass() == Pass::Write;
        if is_new && !matches!(self.value("fallocate", "none"), "none" | "0") {
            let text = "Space: fio allocates its files before its clock starts; dfsbench's writes \
                        allocate (compare with fallocate=none).";
            self.add(false, text);
        }
        if self.pass() == Pass::RandomWrite && !self.has("overwrite") {
            let text = "Space: fio's blocks were never written before; dfsbench's were (compare \
                        with overwrite=1).";
            self.add(false, text);
        }
    }

    /// Names caveats that only one of the tools has.
    fn compare_caveats(&mut self) {
        let fio = self.fio;
        let own = self.own;
        for (name, row, other) in [("fio", fio, own), ("dfsbench", own, fio)] {
            for caveat in row.marks() {
                let is_shared = other.marks().iter().any(|it| it.code == caveat.code);
                if TELLING.contains(&caveat.code) && !is_shared {
                    let evidence = &caveat.evidence;
                    self.add(false, format!("`{}` only with {name}: {evidence}.", caveat.code));
                }
            }
        }
    }

    /// Names the options that only fio used because the user accepted it.
    fn name_untranslated(&mut self) {
        let words = &self.fio.run.spec.command.run;
        for word in words {
            let Some((key, _)) = word.strip_prefix("--").and_then(|it| it.split_once('=')) else {
                continue;
            };
            if fio_option_role(key).is_none() {
                self.add(false, format!("Accepted: only fio uses {}.", &word[2..]));
            }
        }
    }
}

/// A pass that fio and dfsbench both did, in JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolComparison")]
pub(crate) struct ToolComparisonPart {
    target: String,
    pass: &'static str,
    /// Median over the trials of fio, in bytes or ops per second.
    fio: f64,
    /// The same of dfsbench.
    dfsbench: f64,
    /// `dfsbench` divided by `fio`.
    ratio: f64,
    /// 95 % confidence interval of the ratio.
    ratio_lo: f64,
    ratio_hi: f64,
    #[schemars(extend("enum" = ["higher", "lower", "same", "unclear"]))]
    outcome: &'static str,
    /// Known reasons for different results, checked.
    reasons: Vec<ToolReason>,
}

impl ToolComparisonPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let part = |it: ToolComparison| {
            let rate = it.rate();
            let (ratio_lo, ratio_hi) = rate.comparison.possible_ratios();
            Self {
                target: it.target.clone(),
                pass: it.pass.name(),
                fio: rate.medians[0],
                dfsbench: rate.medians[1],
                ratio: rate.comparison.ratio,
                ratio_lo,
                ratio_hi,
                outcome: rate.comparison.outcome().name(),
                reasons: it.reasons,
            }
        };
        ToolComparisons::from_sheet(sheet).0.into_iter().map(part).collect()
    }
}
