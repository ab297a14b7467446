//! The tables that people wrote by hand before there was this program, so that old figures and new
//! ones stand side by side: output and input by machine and size, rates by options of NFS, and
//! times of commands.
//!
//! [`render`] writes all. K/sec are KiB per second, MB is MiB and MB/s are MiB per second, as
//! those reports counted (4294967296 bytes in 446.05 s were 9.18 MB/s). A machine is named by what
//! varies: `10 clients`, `16 nfsd`, else the target. Larger files come first, as they did there.
//!
//! **Source:** Chan, "Distributed File System Benchmarking" (2001); Uzilov, "Benchmarks of the
//! ClusterNFS" (2007).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Pass;

use super::{KIB, MIB, OneRun, write_footer};
use crate::grid::{Align, Grid, clean, width};
use crate::sheet::{NOT_APPLICABLE, Sheet, effective_value};
use crate::show;

/// Columns of the widest of those reports.
const WIDTH_MAX: usize = 100;

/// Characters of the first column, at least: its head.
const MACHINE_LENGTH: usize = 7;

const SIZES_HEAD: [&str; 3] = [
    "             --Output--   --Input---",
    "             --Block---   --Block---",
    "Machine   MB    K/sec      K/sec",
];

/// Settings that the table of sizes shows in columns of its own.
const SIZES_SHOWN: [&str; 2] = ["file_size", "files"];

/// Settings that the table of options shows in columns of their own.
const OPTIONS_SHOWN: [&str; 6] =
    ["nfsvers", "proto", "transfer_size", "timeo", "tunnel_compression", "mount_options"];

/// Writes all tables that the campaign has something for.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut runs = OneRun::all(sheet, |_| true);
    let times = render_times(sheet, &runs);
    runs.retain(|run| run.rows.iter().any(|r| matches!(r.judged.pass, Pass::Write | Pass::Read)));
    if runs.is_empty() && times.is_empty() {
        return "No run of this campaign writes or reads files: try --format table.\n".to_owned();
    }
    let mut tables = Vec::new();
    if !runs.is_empty() {
        tables.extend([render_sizes(sheet, &runs), render_options(sheet, &runs)]);
    }
    tables.push(times);
    tables.retain(|table| !table.is_empty());
    let mut out = tables.join("\n");
    write_footer(&mut out, sheet, &runs);
    out
}

/// Times of commands, as time(1) prints them: elapsed, in user mode, in the kernel; empty where no
/// run executes any.
fn render_times(sheet: &Sheet<'_>, runs: &[OneRun<'_>]) -> String {
    let mut grid = Grid::new(&[
        ("Machine", Align::Left),
        ("command", Align::Left),
        ("elapsed (s)", Align::Right),
        ("user (s)", Align::Right),
        ("sys (s)", Align::Right),
    ]);
    let mut any = false;
    for run in runs {
        for row in &run.rows {
            let (Some(used), Some(rate)) = (&row.judged.program, &row.judged.rate) else {
                continue;
            };
            // A command that is timed as a whole has a rate of commands; other tools have one of
            // the bytes that they move.
            let (name, work) = match row.judged.pass {
                Pass::App => (row.run.spec.workload.name().to_owned(), 1.0),
                pass => {
                    let bytes = row.run.spec.set_bytes() as f64;
                    (format!("{} {}", row.run.spec.workload.name(), pass.name()), bytes)
                }
            };
            let [user, system] = [used.user_ns, used.system_ns].map(|ns| ns as f64 / 1e9);
            let times = [work / rate.median, user, system].map(|time_s| format!("{time_s:.2}"));
            let [elapsed, user, system] = times;
            grid.row(&[name_machine(sheet, run), name, elapsed, user, system]);
            any = true;
        }
    }
    if any { grid.render(WIDTH_MAX) } else { String::new() }
}

/// Output and input by machine and size.
fn render_sizes(sheet: &Sheet<'_>, runs: &[OneRun<'_>]) -> String {
    let mut lines: Vec<(u64, String, [String; 2])> = Vec::new();
    for run in runs {
        let rates = [Pass::Write, Pass::Read].map(|pass| silly_cell(run, pass, KIB, 0));
        lines.push((run.mib(), name_machine(sheet, run), rates));
    }
    // The order is stable: machines of one size stay in the order of the matrix.
    lines.sort_by_key(|line| Reverse(line.0));
    let mut name_width = MACHINE_LENGTH;
    for (_, name, _) in &lines {
        name_width = name_width.max(width(name));
    }
    let more = " ".repeat(name_width - MACHINE_LENGTH);
    let mut out = String::new();
    for head in SIZES_HEAD {
        let (name, figures) = head.split_at(MACHINE_LENGTH);
        out.extend([name, &more, figures, "\n"]);
    }
    let mut last = None;
    for (mib, name, [output, input]) in lines {
        if last.is_some_and(|last| last != mib) {
            out.push('\n');
        }
        last = Some(mib);
        let pad = " ".repeat(name_width - width(&name));
        let _ = writeln!(out, "{name}{pad} {mib:>4} {output:>8} {input:>10}");
    }
    out
}

/// Returns what a cell shows; a figure read from this host's memory is `silly (244534)`, and what
/// the settings don't allow is `N/A`.
fn silly_cell(run: &OneRun<'_>, pass: Pass, unit: f64, digits: usize) -> String {
    if run.first().judged.impossible.is_some() {
        return "N/A".to_owned();
    }
    let cell = run.rate_cell(pass, unit, digits);
    if cell.starts_with('(') { format!("silly {cell}") } else { cell }
}

/// Names a run by what distinguishes it: `10 clients`, `16 nfsd`, the target, other settings.
fn name_machine(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let mut parts = Vec::new();
    let spec = &run.first().run.spec;
    let runs = &sheet.campaign.runs;
    if runs.iter().any(|other| other.spec.agents() != spec.agents()) {
        parts.push(show::counted(spec.agents() as usize, "client"));
    }
    if runs.iter().any(|other| other.spec.target_name != spec.target_name) {
        parts.push(spec.target_name.clone());
    }
    for (name, value) in sheet.columns.iter().zip(&run.first().values) {
        match *name {
            _ if value == NOT_APPLICABLE || SIZES_SHOWN.contains(name) => {}
            // Stated above as the number of clients.
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

/// Rates by the options of NFS; empty where no run has any.
fn render_options(sheet: &Sheet<'_>, runs: &[OneRun<'_>]) -> String {
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
        // The granted sizes decide the rates; the requested one stands in where they are unknown.
        let transfer_size = setting(&settings, "transfer_size", "-");
        let [read_size, write_size] = ["rsize", "wsize"]
            .map(|name| effective_value(run.first().run, name).unwrap_or(transfer_size).to_owned());
        grid.row(&[
            silly_cell(run, Pass::Read, MIB as f64, 2),
            silly_cell(run, Pass::Write, MIB as f64, 2),
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

/// A setting of a run, or a stand-in where it does not apply.
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
