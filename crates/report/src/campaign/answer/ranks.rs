//! The headline of checkpoints and model loads: seconds until the slowest rank is done, and how
//! long saves stall a job.
//!
//! [`headlines`] returns a sentence for each of the first few runs. Like other results, a figure
//! that came from a cache, or that may not be used, says so.

use model::units::{Size, Wait, three_digits};
use model::{Pass, Run};

use super::lead::qualify_judged;
use crate::humanize::{counted, seconds};
use crate::table::{Row, Sheet};

/// Maximum number of runs to describe; the table has the others.
const RUNS_MAX: usize = 4;

/// Describes the runs whose result is the time of their slowest rank.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut runs: Vec<Vec<&Row<'_>>> = Vec::new();
    for row in &sheet.rows {
        if row.judged.ranks.is_none() || !row.counts() {
            continue;
        }
        match runs.last_mut() {
            Some(rows) if rows[0].run.index == row.run.index => rows.push(row),
            _ => runs.push(vec![row]),
        }
    }
    let is_alone = runs.len() == 1;
    let mut sentences = Vec::new();
    for rows in runs.iter().take(RUNS_MAX) {
        let name = if is_alone { String::new() } else { format!("{}: ", name_run(sheet, rows[0])) };
        sentences.push(format!("{name}{}.", describe_run(rows)));
    }
    if let more @ 1.. = runs.len().saturating_sub(RUNS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// Names a run by its target and the settings that distinguish it.
fn name_run(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let factors = sheet.factors(row);
    let comma = if factors.is_empty() { "" } else { ", " };
    format!("{}{comma}{factors}", row.run.spec.target_name)
}

/// Describes the passes of a run, then what its saves cost.
fn describe_run(rows: &[&Row<'_>]) -> String {
    let mut parts = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        parts.extend(describe_pass(row, number == 0));
    }
    let stalls = rows.iter().find_map(|row| describe_stall(row));
    let stalls = stalls.map(|stall| format!("; {stall}")).unwrap_or_default();
    format!("{}{stalls}", parts.join(", "))
}

/// Describes a pass: `save 4.10 s (1.05 GB; slowest of 8 ranks, 1.20 times the median rank)`.
fn describe_pass(row: &Row<'_>, is_first: bool) -> Option<String> {
    let ranks = row.judged.ranks.as_ref()?;
    let mut about = Vec::new();
    if is_first {
        about.push(describe_size(row.run, row.judged.pass));
    }
    if ranks.count > 1 {
        let noun = ranks.noun;
        let of = counted(ranks.count as usize, noun);
        let ratio = three_digits(ranks.slowest_ratio);
        about.push(format!("slowest of {of}, {ratio} times the median {noun}"));
    }
    if let Some((low, high)) = ranks.seconds.confidence_interval() {
        about.push(format!("95 %: {} to {}", seconds(low), seconds(high)));
    }
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join("; ")) };
    let time = seconds(ranks.seconds.median);
    let qualified = qualify_judged(&row.judged);
    let straggler = ranks.straggler.as_ref().map(|straggler| {
        let host = straggler.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        format!(", held up by {} {}{host}", ranks.noun, straggler.rank)
    });
    let straggler = straggler.unwrap_or_default();
    Some(format!("{} {time}{about}{qualified}{straggler}", row.judged.pass))
}

/// Returns the bytes that all ranks move together, in the decimal units of disks and of models.
fn describe_size(run: &Run, pass: Pass) -> String {
    let moved_bytes = match pass {
        Pass::Boot => run.spec.vm_boot.bytes.saturating_mul(run.spec.all_workers().into()),
        _ => run.spec.set_bytes(),
    };
    let bytes = moved_bytes as f64;
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6)];
    let unit = units.iter().find(|(_, factor)| bytes >= *factor);
    unit.map_or_else(
        || Size(moved_bytes).to_string(),
        |(unit, factor)| format!("{} {unit}", three_digits(bytes / factor)),
    )
}

/// Describes how long saves hold a job up.
fn describe_stall(row: &Row<'_>) -> Option<String> {
    let ranks = row.judged.ranks.as_ref()?;
    let stall_s = ranks.stall_s_per_hour?;
    let every_ms = row.run.spec.checkpoint.save_every_ms;
    let every = Wait(every_ms.saturating_mul(1_000_000));
    if ranks.seconds.median * 1e3 >= every_ms as f64 {
        return Some(format!("saving every {every} is not possible, because a save takes longer"));
    }
    Some(format!("saving every {every} stalls the job {} per hour", seconds(stall_s)))
}
