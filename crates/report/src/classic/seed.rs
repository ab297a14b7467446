//! The tables that people wrote by hand before there was this program, so that old figures and new
//! ones stand side by side: output and input by machine and size, and rates by options of NFS.
//!
//! [`render`] writes both. K/sec are KiB per second, MB is MiB and MB/s are MiB per second, as
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

/// Writes both tables.
pub fn render(sheet: &Sheet<'_>) -> String {
    let mut runs = OneRun::all(sheet, |_| true);
    runs.retain(|run| run.rows.iter().any(|r| matches!(r.judged.pass, Pass::Write | Pass::Read)));
    if runs.is_empty() {
        return "No run of this campaign writes or reads files: try --format table.\n".to_owned();
    }
    let mut out = render_sizes(sheet, &runs);
    let options = render_options(sheet, &runs);
    if !options.is_empty() {
        out.push('\n');
        out.push_str(&options);
    }
    write_footer(&mut out, sheet, &runs);
    out
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

/// Returns what a cell shows; a figure read from this host's memory is `silly (244534)`.
fn silly_cell(run: &OneRun<'_>, pass: Pass, unit: f64, digits: usize) -> String {
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
