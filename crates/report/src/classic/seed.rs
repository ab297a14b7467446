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
use crate::sheet::{NOT_APPLICABLE, Sheet};
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
    let moves = |run: &OneRun<'_>| {
        run.rows.iter().any(|row| matches!(row.judged.pass, Pass::Write | Pass::Read))
    };
    let runs: Vec<OneRun<'_>> = OneRun::all(sheet, |_| true).into_iter().filter(moves).collect();
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
        let rates = [Pass::Write, Pass::Read].map(|pass| {
            let rate = run.per_s(pass);
            rate.map_or_else(|| "-".to_owned(), |per_s| format!("{:.0}", per_s / KIB))
        });
        lines.push((run.mib(), name_machine(sheet, run), rates));
    }
    lines.sort_by_key(|line| Reverse(line.0));
    let name_width = lines.iter().map(|line| width(&line.1)).fold(MACHINE_LENGTH, usize::max);
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

/// Names a run by what distinguishes it: `10 clients`, `16 nfsd`, the target, other settings.
fn name_machine(sheet: &Sheet<'_>, run: &OneRun<'_>) -> String {
    let mut parts = Vec::new();
    let spec = &run.first().run.spec;
    let several = |differs: fn(&model::RunSpec, &model::RunSpec) -> bool| {
        sheet.campaign.runs.iter().any(|other| differs(&other.spec, spec))
    };
    if several(|a, b| a.agents() != b.agents()) {
        parts.push(show::counted(spec.agents() as usize, "client"));
    }
    if several(|a, b| a.target_name != b.target_name) {
        parts.push(spec.target_name.clone());
    }
    for (name, value) in sheet.columns.iter().zip(&run.first().values) {
        match *name {
            _ if value == NOT_APPLICABLE || SIZES_SHOWN.contains(name) => {}
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
        let named = |name: &str| settings.get(name).cloned().unwrap_or_else(|| "-".to_owned());
        let rate = |pass| {
            let rate = run.per_s(pass);
            rate.map_or_else(|| "-".to_owned(), |per_s| format!("{:.2}", per_s / MIB as f64))
        };
        any |= settings.contains_key("nfsvers");
        grid.row(&[
            rate(Pass::Read),
            rate(Pass::Write),
            settings.get("nfsvers").cloned().unwrap_or_else(|| "N/A".to_owned()),
            named("proto"),
            effective_value(run, "rsize").unwrap_or_else(|| named("transfer_size")),
            effective_value(run, "wsize").unwrap_or_else(|| named("transfer_size")),
            named("timeo"),
            named("tunnel_compression"),
            other_options(sheet, run, &settings),
        ]);
    }
    if any { grid.render(WIDTH_MAX) } else { String::new() }
}

/// Returns a setting's effective value at the target, as a trial read it.
fn effective_value(run: &OneRun<'_>, name: &str) -> Option<String> {
    let facts = run.first().run.trials.iter().flat_map(|trial| &trial.facts);
    let mut named = facts.filter(|fact| fact.scope == "target" && fact.name == name);
    named.next().map(|fact| fact.value.clone())
}

fn other_options(
    sheet: &Sheet<'_>,
    run: &OneRun<'_>,
    settings: &BTreeMap<&'static str, String>,
) -> String {
    let mut parts = Vec::new();
    parts.extend(settings.get("mount_options").filter(|options| !options.is_empty()).cloned());
    let columns = sheet.columns.iter().zip(&run.first().values);
    let columns =
        columns.filter(|(name, value)| !OPTIONS_SHOWN.contains(name) && *value != NOT_APPLICABLE);
    parts.extend(columns.map(|(name, value)| format!("{name} {value}")));
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
