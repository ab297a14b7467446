//! The headline of a key-value cache: what its users read and wrote, and how long the slowest of
//! them waited.

use model::{OpKind, Pass};
use stats::{Judged, Rate};

use super::lead::qualify_judged;
use crate::humanize::{counted, percent, seconds};
use crate::table::{Row, Sheet};

/// Maximum number of results to describe; the table has the others.
const ROWS_MAX: usize = 4;

/// Returns the share of the requests that found their object in the cache; `None` if it was no
/// cache.
pub(crate) fn hit_share(judged: &Judged) -> Option<f64> {
    if judged.pass != Pass::Serve {
        return None;
    }
    let done = |kind| figures(judged, kind).map_or(0.0, |(ops_per_s, _)| ops_per_s);
    let hits = done(OpKind::ReadFile);
    let requests = hits + done(OpKind::Create);
    (requests > 0.0).then(|| hits / requests)
}

/// Returns the ops and bytes per second of a kind, if there were any.
fn figures(judged: &Judged, kind: OpKind) -> Option<(f64, f64)> {
    if let Some(known) = judged.kinds.iter().find(|known| known.kind == kind) {
        return Some((known.ops_per_s, known.bytes_per_s));
    }
    // There is no list of kinds if there was only one.
    let is_only = judged.kinds.is_empty() && judged.worst_p95.iter().any(|one| one.kind == kind);
    let (ops, bytes) = judged.ops_per_s.as_ref().zip(judged.bytes_per_s.as_ref())?;
    is_only.then_some((ops.median, bytes.median))
}

/// Describes the results of caches.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let rows: Vec<&Row<'_>> =
        sheet.rows.iter().filter(|row| row.judged.pass == Pass::Serve && row.counts()).collect();
    let is_alone = rows.len() == 1;
    let mut sentences = Vec::new();
    for row in rows.iter().take(ROWS_MAX) {
        let name = if is_alone { String::new() } else { format!("{}: ", sheet.name(row)) };
        sentences.push(format!("{name}{}.", describe(row)));
    }
    if let more @ 1.. = rows.len().saturating_sub(ROWS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// `4 users read 210 op/s (4.10 GB/s) and write 71.2 op/s (1.39 GB/s); 74.7 % of the requests hit;
/// p95 of the slowest user: read 12.1 ms, write 31.0 ms`.
fn describe(row: &Row<'_>) -> String {
    let judged = &row.judged;
    let moved = |kind| {
        let (ops_per_s, bytes_per_s) = figures(judged, kind)?;
        Some(format!("{} ({})", Rate::Ops(ops_per_s), Rate::Bytes(bytes_per_s)))
    };
    let nothing = || "nothing".to_owned();
    let mut parts = vec![format!(
        "{} read {} and write {}",
        counted(row.run.spec.all_workers() as usize, "user"),
        moved(OpKind::ReadFile).unwrap_or_else(nothing),
        moved(OpKind::Create).unwrap_or_else(nothing),
    )];
    if let Some(share) = hit_share(judged) {
        parts.push(format!("{} of the requests hit", percent(share)));
    }
    let mut times = Vec::new();
    for (kind, verb) in [(OpKind::ReadFile, "read"), (OpKind::Create, "write")] {
        let worst = judged.worst_p95.iter().find(|known| known.kind == kind);
        times.extend(worst.map(|worst| format!("{verb} {}", seconds(worst.time_ns as f64 / 1e9))));
    }
    if !times.is_empty() {
        parts.push(format!("p95 of the slowest user: {}", times.join(", ")));
    }
    format!("{}{}", parts.join("; "), qualify_judged(judged))
}
