//! Tables in the layout of handwritten reports, so that old and new results can be compared side by
//! side: output and input by machine and size, rates by NFS options, mixes by I/O size, and command
//! times.
//!
//! [`render`] writes all of them. K/sec are KiB per second, MB is MiB and MB/s are MiB per second,
//! as in those reports (4294967296 bytes in 446.05 s were 9.18 MB/s). A machine is named after what
//! varies, such as `10 clients` or `16 nfsd`, or else after the target. Larger files come first, as
//! in the reports.
//!
//! **Source:** Chan, "Distributed File System Benchmarking" (2001); Uzilov, "Benchmarks of the
//! ClusterNFS" (2007); St.Laurent, "Some thoughts on NFS" (2003), for the times; Pawlowski of
//! NetApp (1996), "the search for the perfect client", for the table by versions and transports; "A
//! Comparison of Various NFS Configurations" (2009), for mixes.

mod matrix;
mod mixed;
mod times;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::{Pass, Workload};

use super::best_by_size::BestCells;
use super::{KIB, MIB, NOT_SUPPORTED, OneRun, in_mib, write_footer};
use crate::humanize;
use crate::table::{NOT_APPLICABLE, Sheet, effective_value};
use crate::text_grid::{Align, Grid, clean, width};

/// Width of the widest of those reports.
const WIDTH_MAX: usize = 100;

/// Minimum width of the first column, which is that of its heading.
const MACHINE_LENGTH: usize = 7;

const SIZES_HEAD: [&str; 3] = [
    "             --Output--   --Input---",
    "             --Block---   --Block---",
    "Machine   MB    K/sec      K/sec",
];

/// Positions in the heading at which the output and input columns can be widened.
const OUTPUT_AT: usize = 12;
const INPUT_AT: usize = 23;

/// Settings with their own column in the table of sizes.
const SIZES_SHOWN: [&str; 2] = ["file_size", "files"];

/// Settings with their own column in the table of options.
const OPTIONS_SHOWN: [&str; 6] =
    ["nfsvers", "proto", "transfer_size", "timeo", "tunnel_compression", "mount_options"];

/// Renders all tables for which the campaign has results.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut runs = OneRun::all(sheet, |_| true);
    let times = times::render(sheet, &runs);
    let best = BestCells::new(&runs);
    let mixed = mixed::render(sheet, &runs, &best);
    let mut noted = OneRun::all(sheet, |workload| workload == Workload::Mixed);
    runs.retain(|run| run.rows.iter().any(|r| matches!(r.judged.pass, Pass::Write | Pass::Read)));
    if runs.is_empty() && times.is_empty() && mixed.is_empty() {
        return "This campaign has no runs that write or read files: try --format table.\n"
            .to_owned();
    }
    let mut tables = Vec::new();
    if !runs.is_empty() {
        tables.extend([render_sizes(sheet, &runs, &best), render_options(sheet, &runs, &best)]);
        tables.push(matrix::render(sheet, &runs, &best));
    }
    tables.extend([mixed, times]);
    tables.retain(|table| !table.is_empty());
    let mut out = tables.join("\n");
    noted.append(&mut runs);
    write_footer(&mut out, sheet, &noted);
    out
}

/// Renders output and input by machine and size.
fn render_sizes(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) -> String {
    let mut lines: Vec<(u64, String, [String; 2])> = Vec::new();
    let mut name_width = MACHINE_LENGTH;
    let mut widths = [8, 10];
    let workload = |run: &OneRun<'_>| run.first().run.spec.workload;
    let is_one_workload = runs.iter().all(|run| workload(run) == workload(&runs[0]));
    for run in runs {
        let rates = [Pass::Write, Pass::Read].map(|pass| rate_cell(run, pass, Unit::Kib, best));
        let mut name = name_machine(sheet, run);
        if !is_one_workload {
            name = format!("{} {name}", workload(run).name());
        }
        name_width = name_width.max(width(&name));
        for (known, rate) in widths.iter_mut().zip(&rates) {
            *known = (*known).max(width(rate));
        }
        lines.push((run.file_bytes(), name, rates));
    }
    // The sort is stable: machines with the same size stay in matrix order.
    lines.sort_by_key(|line| Reverse(line.0));
    let [output_width, input_width] = widths;
    let more = [name_width - MACHINE_LENGTH, output_width - 8, input_width - 10];
    let [more_name, more_output, more_input] = more.map(|count| " ".repeat(count));
    let mut out = String::new();
    for head in SIZES_HEAD {
        // Wider cells push the headings of their columns to the right.
        let (name, figures) = head.split_at(MACHINE_LENGTH);
        let (mib, rates) = figures.split_at(OUTPUT_AT - MACHINE_LENGTH);
        let (output, input) = rates.split_at(INPUT_AT - OUTPUT_AT);
        out.extend([name, &more_name, mib, &more_output, output, &more_input, input, "\n"]);
    }
    let mut last = None;
    for (bytes, name, [output, input]) in lines {
        if last.is_some_and(|last| last != bytes) {
            out.push('\n');
        }
        last = Some(bytes);
        let mib = in_mib(bytes as f64);
        let pad = " ".repeat(name_width - width(&name));
        let _ = writeln!(out, "{name}{pad} {mib:>4} {output:>output_width$} {input:>input_width$}");
    }
    out
}

/// Unit of a table's rates.
#[derive(Clone, Copy)]
enum Unit {
    Kib,
    Mib,
    /// MiB per second, for ops of this many bytes whose rate is in ops.
    MibOfOps(u32),
}

/// Formats a cell: a result, marked if it is the best of its column. A result read from this host's
/// memory is shown as `silly (244534)`. Combinations that are not possible, and those in which no
/// trial succeeded, are labeled as such.
fn rate_cell(run: &OneRun<'_>, pass: Pass, unit: Unit, best: &BestCells) -> String {
    let spec = &run.first().run.spec;
    if !spec.passes().contains(&pass) {
        return "-".to_owned();
    }
    if run.is_impossible() {
        return NOT_SUPPORTED.to_owned();
    }
    let cell = match unit {
        Unit::Kib => run.rate_cell(pass, KIB, 0),
        Unit::Mib => run.rate_cell(pass, MIB as f64, 2),
        Unit::MibOfOps(bytes) => run.rate_cell(pass, MIB as f64 / f64::from(bytes), 2),
    };
    let of_pass = run.rows.iter().find(|row| row.judged.pass == pass);
    let failures = of_pass.map_or(&[][..], |row| &row.judged.failures);
    match cell.as_str() {
        "-" if failures.iter().any(|failure| is_unsupported(&failure.reason)) => {
            NOT_SUPPORTED.to_owned()
        }
        "-" if !failures.is_empty() => "failed".to_owned(),
        _ if cell.starts_with('(') => format!("silly {cell}"),
        _ => format!("{}{cell}", best.mark(run, pass, "")),
    }
}

/// Returns true if a trial failed because a host does not support the NFS version or transport. The
/// footer has the message.
///
/// **Source:** nfs-utils 1.3 and 2.6, mount.nfs and rpc.nfsd; strerror(3).
fn is_unsupported(reason: &str) -> bool {
    let sentences = ["is not supported", "Protocol not supported", "Unsupported version"];
    sentences.iter().any(|sentence| reason.contains(sentence))
}

/// Names a run by what distinguishes it: `10 clients`, `16 nfsd`, the target, other settings.
pub(super) fn name_machine(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let mut parts = Vec::new();
    let spec = &run.first().run.spec;
    let runs = &sheet.campaign.runs;
    if runs.iter().any(|other| other.spec.agents() != spec.agents()) {
        parts.push(humanize::counted(spec.agents() as usize, "client"));
    }
    if runs.iter().any(|other| other.spec.target_name != spec.target_name) {
        parts.push(spec.target_name.clone());
    }
    for (name, value) in sheet.columns.iter().zip(&run.first().values) {
        match *name {
            _ if value == NOT_APPLICABLE || SIZES_SHOWN.contains(name) => {}
            // Already covered by the number of clients.
            "client_hosts" => {}
            "nfsd_threads" => parts.push(format!("{value} nfsd")),
            "nfsvers" => parts.push(format!("NFSv{value}")),
            "mtu" => parts.push(format!("MTU-{value}")),
            name => parts.push(format!("{name} {value}")),
        }
    }
    if parts.is_empty() {
        parts.push(spec.target_name.clone());
    }
    clean(&parts.join(" ")).replace('\n', " ")
}

/// Renders rates by NFS options; empty if no run has any.
fn render_options(sheet: &Sheet<'_>, runs: &[OneRun<'_>], best: &BestCells) -> String {
    let mut grid = Grid::new(&[
        ("read (MB/s)", Align::Right),
        ("write (MB/s)", Align::Right),
        ("nfsvers", Align::Left),
        ("proto", Align::Left),
        ("rsize", Align::Right),
        ("wsize", Align::Right),
        ("timeo", Align::Right),
        ("ssh -C", Align::Left),
        ("other options", Align::Left),
    ]);
    let mut any = false;
    for run in runs {
        let settings: BTreeMap<_, _> = run.first().run.spec.settings().into_iter().collect();
        any |= settings.contains_key("nfsvers");
        // Rates depend on the granted sizes; use the requested one if they are unknown.
        let transfer_size = setting(&settings, "transfer_size", "-");
        let [read_size, write_size] = ["rsize", "wsize"]
            .map(|name| effective_value(run.first().run, name).unwrap_or(transfer_size).to_owned());
        grid.row(&[
            rate_cell(run, Pass::Read, Unit::Mib, best),
            rate_cell(run, Pass::Write, Unit::Mib, best),
            setting(&settings, "nfsvers", "N/A").to_owned(),
            setting(&settings, "proto", "-").to_owned(),
            read_size,
            write_size,
            setting(&settings, "timeo", "-").to_owned(),
            setting(&settings, "tunnel_compression", "-").to_owned(),
            other_options(sheet, run, &settings),
        ]);
    }
    if any { grid.render(WIDTH_MAX) } else { String::new() }
}

/// Setting of a run, or a placeholder if it does not apply.
fn setting<'a>(
    settings: &'a BTreeMap<&'static str, String>,
    name: &str,
    stand_in: &'a str,
) -> &'a str {
    settings.get(name).map_or(stand_in, String::as_str)
}

fn other_options(
    sheet: &Sheet<'_>,
    run: &OneRun<'_>,
    settings: &BTreeMap<&'static str, String>,
) -> String {
    let mut parts = vec![
        setting(settings, "mount_options", "").to_owned(),
        sheet.factors_without(run.first(), &OPTIONS_SHOWN),
    ];
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
