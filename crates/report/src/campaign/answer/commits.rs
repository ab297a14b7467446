//! The headline of databases: commits per second, and how long the slowest of a hundred took.
//!
//! [`headlines`] returns a sentence for each of the first few runs. A commit that need not be
//! durable, or data that came from a cache, is named next to the figure.

use model::Durability;
use model::units::{Nanos, Size};

use super::lead::qualify_judged;
use crate::humanize::{counted, grouped};
use crate::table::{Row, Sheet};

/// Maximum number of runs to describe; the table has the others.
const RUNS_MAX: usize = 4;

/// Describes the runs that commit transactions.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut rows: Vec<&Row<'_>> = sheet.rows.iter().collect();
    rows.retain(|row| row.judged.commits_per_s.is_some() && row.counts());
    let is_alone = rows.len() == 1;
    let mut sentences = Vec::new();
    for row in rows.iter().take(RUNS_MAX) {
        let name = if is_alone { String::new() } else { format!("{}: ", sheet.name(row)) };
        sentences.extend(describe(row).map(|text| format!("{name}{text}.")));
    }
    if let more @ 1.. = rows.len().saturating_sub(RUNS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// Describes a run: `1,118 commits/s (95 %: 1,090 to 1,150), 99 % of the commits within 4.10 ms`.
fn describe(row: &Row<'_>) -> Option<String> {
    let judged = &row.judged;
    let spec = &row.run.spec;
    let per_s = judged.commits_per_s?;
    let interval = per_s
        .confidence_interval()
        .map(|(low, high)| format!(" (95 %: {} to {})", rate(low), rate(high)))
        .unwrap_or_default();
    let times = &judged.response_time;
    let [p50, p99] = [0.5, 0.99].map(|share| Nanos(times.quantile(share)));
    let database = &spec.database;
    let pages = match database.transaction_ops {
        0 => "log only".to_owned(),
        ops => {
            let ops = counted(ops as usize, "op");
            format!("{ops} of {} per transaction", Size(spec.io_size_bytes.into()))
        }
    };
    let group = match database.group_commit {
        1 => String::new(),
        more => format!(", {more} transactions per commit"),
    };
    let durable = match spec.durability {
        Durability::None | Durability::Close => "; no commit waited until it was durable",
        _ => "",
    };
    Some(format!(
        "{} commits/s{interval}, 99 % of the commits within {p99}, half within {p50}{} ({pages}, \
         {} of log{group}{durable})",
        rate(per_s.median),
        qualify_judged(judged),
        Size(database.commit_bytes.into()),
    ))
}

/// Formats a rate as a whole number if it is large enough.
fn rate(per_s: f64) -> String {
    if per_s < 100.0 { format!("{per_s:.1}") } else { grouped(per_s as u64) }
}
