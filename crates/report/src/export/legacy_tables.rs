//! Tables in the layout of older tools, for side-by-side comparison with their output.
//!
//! [`bonnie`] is the table of bonnie: K/sec are KiB per second, %CPU is the client's CPU time in
//! percent of one core. [`iozone`] is the table of iozone: KiB per second for each file size (kB)
//! and record size (reclen), with one column per pass. Both show medians. An invalid result is a
//! dash, a result read from this host's memory is in parentheses, as in `(244534)`, one that
//! bonnie++ would be too fast to time is `+++++`, as it prints itself, and a combination that is
//! not possible is `not supported`. `*` marks the best of a column among files of the same size.
//! Caveats are listed below. Other settings that vary are part of the machine name or have separate
//! tables.
//!
//! **Source:** `bonnie.c` 1.x and iozone 3 as printed in reports of their users.

mod best_by_size;
mod seed;

use std::fmt::Write as _;

use model::{CaveatCode, Pass, Workload};

use best_by_size::BestCells;

use crate::campaign::notes;
use crate::table::{Row, Sheet};
use crate::text_grid::{clean, width};

pub(crate) use seed::render as seed;

const KIB: f64 = 1024.0;
const MIB: u64 = 1 << 20;

/// Formats bytes in MiB, as those tables did, with decimals below one MiB.
fn in_mib(bytes: f64) -> String {
    let mib = bytes / MIB as f64;
    if mib < 1.0 { format!("{mib:.2}") } else { format!("{mib:.0}") }
}

/// Shown for combinations of settings that are not possible.
const NOT_SUPPORTED: &str = "not supported";

/// Width of the machine name in the first column.
const MACHINE_LENGTH: usize = 8;

/// Maximum width of the machine name if runs are compared.
const COMPARED_LENGTH_MAX: usize = 32;

const BONNIE_HEAD: [&str; 3] = [
    "              -------Sequential Output-------- ---Sequential Input-- --Random--",
    "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---",
    "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU",
];

/// Passes in bonnie's table, in column order.
const BONNIE_PASSES: [Pass; 6] =
    [Pass::CharWrite, Pass::Write, Pass::Update, Pass::CharRead, Pass::Read, Pass::Seeks];

/// Passes in iozone's table, with column headings.
const IOZONE_PASSES: [(Pass, &str); 8] = [
    (Pass::Write, "write"),
    (Pass::Rewrite, "rewrite"),
    (Pass::Read, "read"),
    (Pass::Reread, "reread"),
    (Pass::RandomRead, "rnd-read"),
    (Pass::RandomWrite, "rnd-write"),
    (Pass::BackwardRead, "bkwd-read"),
    (Pass::StrideRead, "strd-read"),
];

struct OneRun<'a> {
    rows: Vec<&'a Row<'a>>,
}

impl<'a> OneRun<'a> {
    /// Runs of a sheet that this table can show.
    fn all(sheet: &'a Sheet<'a>, shows: fn(Workload) -> bool) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for row in &sheet.rows {
            if !shows(row.run.spec.workload) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.first().run.index == row.run.index => run.rows.push(row),
                _ => runs.push(Self { rows: vec![row] }),
            }
        }
        runs
    }

    fn first(&self) -> &'a Row<'a> {
        self.rows[0]
    }

    /// Row of a pass, if its result may be used.
    fn row_of(&self, pass: Pass) -> Option<&'a Row<'a>> {
        self.rows.iter().copied().find(|row| row.judged.pass == pass && row.counts())
    }

    fn per_s(&self, pass: Pass) -> Option<f64> {
        Some(self.row_of(pass)?.judged.rate.as_ref()?.median)
    }

    /// Bytes of the files of each agent.
    fn file_bytes(&self) -> u64 {
        let spec = &self.first().run.spec;
        spec.set_bytes() / u64::from(spec.agents())
    }

    /// Returns true if the combination of settings is not possible.
    fn is_impossible(&self) -> bool {
        self.first().judged.impossible.is_some()
    }

    /// Returns true if the result of a pass has a caveat.
    fn has(&self, pass: Pass, code: CaveatCode) -> bool {
        let Some(row) = self.row_of(pass) else { return false };
        row.judged.caveats.iter().any(|caveat| caveat.code == code)
    }

    /// Formats the rate of a pass in the given unit; a dash if there is no rate.
    fn rate_cell(&self, pass: Pass, unit: f64, digits: usize) -> String {
        let Some(per_s) = self.per_s(pass) else { return "-".to_owned() };
        let is_bonniexx = self.first().run.spec.workload == Workload::Bonniexx;
        if is_bonniexx && self.has(pass, CaveatCode::TooShort) {
            return "+++++".to_owned();
        }
        // Parentheses mark rates of this host's page cache, as authors of such tables did by hand.
        let rate = format!("{:.digits$}", per_s / unit);
        if self.has(pass, CaveatCode::Cached) { format!("({rate})") } else { rate }
    }
}

/// Renders the table of bonnie.
pub(crate) fn bonnie(sheet: &Sheet<'_>) -> String {
    let runs =
        OneRun::all(sheet, |workload| matches!(workload, Workload::Bonnie | Workload::Bonniexx));
    if runs.is_empty() {
        return "This campaign has no bonnie runs: try --format table.\n".to_owned();
    }
    let best = BestCells::new(&runs);
    let mut out = String::new();
    if let Some(table) = compare_machines(sheet, &runs, &best) {
        out = table;
    } else {
        write_bonnie_tables(&mut out, sheet, &runs, &best);
    }
    write_footer(&mut out, sheet, &runs);
    out
}

/// Writes a table for each combination of settings without a column.
fn write_bonnie_tables(out: &mut String, sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) {
    let mut last: Option<String> = None;
    for run in runs {
        // Settings that vary and have no column get a separate table.
        let title = sheet.factors_without(run.first(), &["file_size", "files"]);
        if last.as_ref() != Some(&title) {
            if last.is_some() {
                out.push('\n');
            }
            if !title.is_empty() {
                let _ = writeln!(out, "{}", clean(&title));
            }
            for line in BONNIE_HEAD {
                out.extend([line, "\n"]);
            }
            last = Some(title);
        }
        let target = clean(&run.first().run.spec.target_name);
        let machine: String = target.chars().take(MACHINE_LENGTH).collect();
        out.push_str(&bonnie_line(run, best, &format!("{machine:<MACHINE_LENGTH$}")));
    }
}

/// Writes the runs of each size below each other, as handwritten reports do, if few enough settings
/// vary to name each machine: `MTU-1500`, `MTU-9000`.
fn compare_machines(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) -> Option<String> {
    let mut lines: Vec<(u64, String, &OneRun<'_>)> = Vec::new();
    let mut name_width = MACHINE_LENGTH;
    for run in runs {
        let name = seed::name_machine(sheet, run);
        name_width = name_width.max(width(&name));
        lines.push((run.file_bytes(), name, run));
    }
    let varies = lines.iter().any(|line| line.1 != lines[0].1);
    if !varies || name_width > COMPARED_LENGTH_MAX {
        return None;
    }
    lines.sort_by_key(|line| line.0);
    let more = " ".repeat(name_width - MACHINE_LENGTH);
    let mut out = String::new();
    for head in BONNIE_HEAD {
        let (name, figures) = head.split_at(MACHINE_LENGTH);
        out.extend([name, &more, figures, "\n"]);
    }
    let mut last = None;
    for (bytes, name, run) in lines {
        if last.is_some_and(|last| last != bytes) {
            out.push('\n');
        }
        last = Some(bytes);
        let pad = " ".repeat(name_width - width(&name));
        out.push_str(&bonnie_line(run, best, &format!("{name}{pad}")));
    }
    Some(out)
}

fn bonnie_line(run: &OneRun<'_>, best: &BestCells, machine: &str) -> String {
    let spec = &run.first().run.spec;
    let mut line = format!("{machine} {:>4}", in_mib(spec.set_bytes() as f64));
    if run.is_impossible() {
        return format!("{line} {NOT_SUPPORTED}\n");
    }
    for pass in BONNIE_PASSES {
        // Seeks are counted per second, all other passes in KiB per second.
        let rate = match pass {
            Pass::Seeks => run.rate_cell(pass, 1.0, 1),
            _ => run.rate_cell(pass, KIB, 0),
        };
        let busy = match run.row_of(pass).and_then(|row| row.judged.cpu_percent) {
            Some(percent) => format!("{percent:.1}"),
            None => "-".to_owned(),
        };
        // The mark replaces a blank, so that columns stay where bonnie has them.
        let rate = format!("{}{rate}", best.mark(run, pass, " "));
        // Writing to a String cannot fail.
        let _ = write!(line, "{rate:>6} {busy:>4}");
    }
    line + "\n"
}

/// Renders the table of iozone.
pub(crate) fn iozone(sheet: &Sheet<'_>) -> String {
    let runs =
        OneRun::all(sheet, |workload| matches!(workload, Workload::Stream | Workload::Iozone));
    if runs.is_empty() {
        return "This campaign has no stream or iozone runs: try --format table.\n".to_owned();
    }
    let best = BestCells::new(&runs);
    let mut out = String::new();
    let mut last: Option<String> = None;
    for run in &runs {
        let settings = sheet.factors_without(run.first(), &["file_size", "io_size"]);
        let comma = if settings.is_empty() { "" } else { ", " };
        let target = &run.first().run.spec.target_name;
        let title = format!("{}{comma}{}", clean(target), clean(&settings));
        if last.as_ref() != Some(&title) {
            if last.is_some() {
                out.push('\n');
            }
            let _ = write!(out, "{title}\n{:>10} {:>7}", "kB", "reclen");
            for (_, head) in IOZONE_PASSES {
                let _ = write!(out, " {head:>9}");
            }
            out.push('\n');
            last = Some(title);
        }
        let spec = &run.first().run.spec;
        // iozone's own table has whole KiB; smaller sizes are rounded up.
        let size = spec.file_size_bytes.div_ceil(1024);
        let record = spec.io_size_bytes.div_ceil(1024);
        let _ = write!(out, "{size:>10} {record:>7}");
        if run.is_impossible() {
            let _ = writeln!(out, "  {NOT_SUPPORTED}");
            continue;
        }
        for (pass, _) in IOZONE_PASSES {
            let rate = format!("{}{}", best.mark(run, pass, ""), run.rate_cell(pass, KIB, 0));
            let _ = write!(out, " {rate:>9}");
        }
        out.push('\n');
    }
    write_footer(&mut out, sheet, &runs);
    out
}

/// Writes caveats, missing results and the durability of writes, which no table leaves out.
fn write_footer(out: &mut String, sheet: &Sheet<'_>, runs: &[OneRun<'_>]) {
    let mut lines: Vec<String> = Vec::new();
    if !BestCells::new(runs).is_empty() {
        lines.push(best_by_size::READING.to_owned());
    }
    for run in runs {
        for row in &run.rows {
            let name = sheet.name(row);
            if row.judged.rate.is_none() {
                lines.push(format!("{name}: {}", row.missing()));
            } else if !row.codes().is_empty() {
                let mark = if row.counts() { "" } else { "invalid: " };
                lines.push(format!("{name}: {mark}{}", row.codes()));
            }
        }
    }
    for term in notes::durability(sheet) {
        lines.push(format!("{}: {}", term.name, term.lines.concat()));
    }
    if !lines.is_empty() {
        out.push('\n');
    }
    for line in lines {
        let _ = writeln!(out, "{}", clean(&line));
    }
}
