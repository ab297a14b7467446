//! How many times as long a developer's pass, or a command, takes as on the local disk.
//!
//! The reference is a target of the same campaign, with the same work: a directory on a disk of its
//! host. Its trials are interleaved with the others, as those of all runs are.

use model::{Run, RunSpec, Target};
use stats::Comparison;
use stats::criteria::TRIALS_MIN;

use super::row::{Row, TimesLocal};

/// Seed of the bootstrap.
const SEED: u64 = 0x6c6f_6361;

/// Compares each row with the local disk, in row order.
pub(crate) fn compare_rows(rows: &[Row<'_>]) -> Vec<Option<TimesLocal>> {
    rows.iter().map(|row| compare_row(rows, row)).collect()
}

fn compare_row(rows: &[Row<'_>], row: &Row<'_>) -> Option<TimesLocal> {
    if !row.judged.pass.is_timed_as_whole() || !row.counts() || is_on_local_disk(row.run) {
        return None;
    }
    let has_same_work =
        |other: &&Row<'_>| other.judged.pass == row.judged.pass && has_same_work(other, row);
    let candidates = rows.iter().filter(|other| other.counts() && is_on_local_disk(other.run));
    // The first one, if the local disk was measured with several settings.
    let local = candidates
        .filter(has_same_work)
        .min_by_key(|other| other.run.spec.backend != row.run.spec.backend)?;
    let before = seconds(local);
    let after = seconds(row);
    let Comparison { ratio, interval, .. } = stats::compare(&before, &after, 0.0, SEED)?;
    let has_interval = before.len().min(after.len()) >= TRIALS_MIN;
    Some(TimesLocal {
        target: local.run.spec.target_name.clone(),
        seconds: stats::median(&before)?,
        ratio,
        interval: has_interval.then_some(interval),
    })
}

/// Returns true for a directory on a disk of the host that works in it.
pub(crate) fn is_on_local_disk(run: &Run) -> bool {
    if !matches!(run.spec.target, Target::Directory { .. }) {
        return false;
    }
    let mut devices = run.trials.iter().flat_map(|trial| &trial.facts).filter_map(|fact| {
        (fact.scope == "target" && fact.name == "device").then_some(fact.value.as_str())
    });
    devices.next().is_some_and(|device| device.starts_with("/dev/"))
}

fn has_same_work(one: &Row<'_>, other: &Row<'_>) -> bool {
    let [one, other] = [&one.run.spec, &other.run.spec];
    let work = |spec: &RunSpec| (spec.workload, spec.files, spec.workers, spec.agents());
    work(one) == work(other) && one.command.run == other.command.run
}

/// Returns the times of the trials that count.
fn seconds(row: &Row<'_>) -> Vec<f64> {
    let used = row.judged.points.iter().filter(|point| point.used && point.per_s > 0.0);
    used.map(|point| 1.0 / point.per_s).collect()
}
