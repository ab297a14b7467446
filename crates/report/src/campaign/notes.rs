//! Notes that accompany the results in all human-readable formats: how to read them, which settings
//! all runs share, the limits of the tool itself, and where it ran.
//!
//! Each function returns plain sentences without markup; the formats decide on the layout.

pub(crate) mod host_balance;
pub(crate) mod interference;
pub(crate) mod io500;
pub(crate) mod load;

use model::units::Nanos;
use model::{Campaign, Durability, Fact, KeptData, OpKind, Opens, Pass, RunSpec, Target};
use stats::{ClientShare, Rate};

use super::host_settings;
use crate::document::Term;
use crate::humanize::{counted, listed};
use crate::table::{Row, Sheet};

/// Statement on writes that were deliberately not synced.
const UNSAFE: &str = "no write waited for stable storage; the data may still have been in memory \
    at the end of the measurement";

/// Heading of the lines of [`clients`].
pub(crate) const CLIENTS: &str = "Service times of each client";

/// Formats the settings without a column: `workers 2; queue_depth 1 (dir), 8 (nfs)`.
pub(crate) fn settings(sheet: &Sheet<'_>) -> Option<String> {
    let parts: Vec<_> =
        sheet.stated.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

/// Returns name and location of each target: `nfs: nfs://server/export`. Of locations that differ
/// only in the number of clients, it is the one with the most.
pub(crate) fn targets(campaign: &Campaign) -> Vec<(String, String)> {
    // For each target and its location with one client, the run with the most clients.
    let mut known: Vec<((&str, String), &RunSpec)> = Vec::new();
    for run in &campaign.runs {
        let spec = &run.spec;
        let target = (spec.target_name.as_str(), location(spec, 1));
        match known.iter_mut().find(|(other, _)| *other == target) {
            None => known.push((target, spec)),
            Some((_, widest)) if count_clients(widest) < count_clients(spec) => *widest = spec,
            Some(_) => {}
        }
    }
    known
        .into_iter()
        .map(|((name, _), widest)| (name.to_owned(), location(widest, usize::MAX)))
        .collect()
}

fn location(spec: &RunSpec, clients_max: usize) -> String {
    match &spec.lab {
        Some(lab) => host_settings::place(lab, clients_max),
        None => spec.target.to_string(),
    }
}

fn count_clients(spec: &RunSpec) -> usize {
    spec.lab.as_ref().map_or(0, |lab| lab.clients().count())
}

/// Describes the durability of each write result. Passes and targets with the same durability share
/// an entry. Empty if nothing was written.
pub(crate) fn durability(sheet: &Sheet<'_>) -> Vec<Term> {
    // Each pass with the setting that decides its durability, what that means, and its targets.
    let mut statements: Vec<(String, &str, &str, Vec<String>)> = Vec::new();
    let mut in_memory = false;
    for row in &sheet.rows {
        let spec = &row.run.spec;
        in_memory |= spec.target.nfs().is_some_and(|nfs| nfs.embedded);
        if row.judged.rate.is_none() {
            continue;
        }
        let Some((setting, what)) = describe_safety(row) else { continue };
        let pass = row.pass_name();
        let target = spec.target_name.clone();
        let same = statements
            .iter_mut()
            .find(|known| (&*known.0, known.1, known.2) == (&*pass, setting, what));
        match same {
            Some((.., targets)) if targets.contains(&target) => {}
            Some((.., targets)) => targets.push(target),
            None => statements.push((pass, setting, what, vec![target])),
        }
    }
    let mut terms = Vec::new();
    for (pass, setting, what, targets) in statements {
        let name = format!("{pass} on {}{setting}", listed(&targets));
        terms.push(Term::new(name, format!("{what}.")));
    }
    if !terms.is_empty() && in_memory {
        terms.push(Term::new("in-memory server", "all data stays in memory, synced or not."));
    }
    terms
}

/// Describes the durability that a result waited for, preceded by the setting that decides it;
/// `None` if it writes nothing. A sync is only reported if it was recorded.
///
/// **Source:** `workload::stream` (syncs), the backends' create.
fn describe_safety(row: &Row<'_>) -> Option<(&'static str, &'static str)> {
    let spec = &row.run.spec;
    let pass = row.judged.pass;
    if let KeptData::Nothing(what) = spec.target.row().keeps {
        return if pass.writes() { Some(("", what)) } else { None };
    }
    let only_reads = matches!(pass, Pass::Mix | Pass::Boot) && spec.read_percent == 100;
    if !pass.writes() || only_reads {
        return None;
    }
    // Passes that create, rename or remove by name have no file to sync, so the protocol decides.
    if pass.opens() == Opens::Nothing {
        return Some(("", by_name(pass, &spec.target)));
    }
    if pass == Pass::OpMix {
        return Some(("", "each call requests its own stability; COMMIT if the mix has it"));
    }
    let (setting, how) = match spec.durability {
        Durability::None | Durability::Close if has_syncs(row) => {
            ("", "the program synced the file (fsync) on its own, inside the timed window")
        }
        Durability::None => (", durability none", UNSAFE),
        Durability::Close => (
            ", durability close",
            "each file was closed inside the timed window, which flushes it on network file \
             systems only",
        ),
        Durability::Sync if !has_syncs(row) => {
            (", durability sync", "no sync was recorded: no write waited for stable storage")
        }
        Durability::Sync if pass.is_timed() => (
            ", durability sync",
            "the files were synced (fsync or COMMIT) once, at the end of the timed window",
        ),
        Durability::Sync => {
            (", durability sync", "each file was synced (fsync or COMMIT) inside the timed window")
        }
        Durability::Dsync => (
            ", durability dsync",
            "each write waited for stable storage of its data (O_DSYNC, DATA_SYNC)",
        ),
        Durability::Osync => (
            ", durability osync",
            "each write waited for stable storage of data and attributes (O_SYNC, FILE_SYNC)",
        ),
    };
    Some((setting, how))
}

/// Durability of a pass that works by name.
const fn by_name(pass: Pass, target: &Target) -> &'static str {
    match (pass, target.nfs().is_some()) {
        (Pass::App, _) => "the command decides what to wait for",
        (Pass::Create | Pass::Record | Pass::Serve, true) => {
            "FILE_SYNC writes: the server replies once the data is on stable storage"
        }
        (Pass::Create, false) => "not synced: the files were only closed",
        (Pass::Remove, false) => "not synced: the files were only unlinked",
        (_, true) => "the server decides when the change is on stable storage",
        (_, false) => "not synced",
    }
}

/// Returns true if any trial of the row recorded a sync.
fn has_syncs(row: &Row<'_>) -> bool {
    for pass in row.run.trials.iter().flat_map(|trial| &trial.passes) {
        let is_sync = |kind: &model::KindResult| kind.kind == OpKind::Sync && kind.done > 0;
        if pass.pass == row.judged.pass && pass.kinds.iter().any(is_sync) {
            return true;
        }
    }
    false
}

/// Describes the tool's own ceiling, which is its rate on the null target.
pub(crate) fn ceiling(campaign: &Campaign) -> String {
    match campaign.ceiling {
        Some(ceiling) => format!(
            "null backend: {} per worker, service time p50 {}; a result close to this measures the \
             tool, not the target.",
            Rate::Ops(ceiling.ops_per_s as f64),
            Nanos(ceiling.service_time_p50_ns),
        ),
        None => {
            "not measured in this campaign: the tool's own share of a result is unknown.".to_owned()
        }
    }
}

/// Describes the order of the trials and its random seed.
pub(crate) fn order(campaign: &Campaign) -> String {
    let mut made: Vec<(u32, u32, u32)> = Vec::new();
    for run in &campaign.runs {
        made.extend(run.trials.iter().map(|trial| (trial.position, run.index, trial.index)));
    }
    // Sort by position, which is the order in time.
    made.sort_unstable();
    let by_run = made.is_sorted_by_key(|(_, run, _)| *run);
    let by_trial = made.is_sorted_by_key(|(.., trial)| *trial);
    let order = match (by_run, by_trial) {
        (true, _) => "one run after the other",
        (false, true) => "the first trial of every run, then the second, and so on",
        (false, false) if !host_settings::names(campaign).is_empty() => {
            "runs grouped by host setup"
        }
        (false, false) => "shuffled",
    };
    if made.is_empty() {
        return format!("no trial was run; seed {}.", campaign.seed);
    }
    let trials = counted(made.len(), "trial");
    format!("{trials}, {order}; seed {}.", campaign.seed)
}

/// Describes the host on one line: `kernel 6.12; processor ...`. Facts beyond `length_max`
/// characters are left to the JSON and HTML reports.
pub(crate) fn host(campaign: &Campaign, length_max: usize) -> Option<String> {
    let mut line = String::new();
    for Fact { name, value, scope, .. } in &campaign.facts {
        if scope != "host" {
            continue;
        }
        let fact = format!("{name} {value}");
        if line.is_empty() {
            line = fact;
        } else if line.chars().count() + fact.chars().count() + 2 <= length_max {
            line.extend(["; ", &fact]);
        }
    }
    if line.is_empty() { None } else { Some(line) }
}

/// Describes the slowest and fastest client of each result that recorded them.
pub(crate) fn clients(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        let Some(fairness) = &row.judged.clients else { continue };
        lines.push(format!(
            "{}: {}; slowest {}; fastest {}; Jain's fairness index {:.3}",
            sheet.name(row),
            counted(fairness.clients, "client"),
            describe_client(row, &fairness.slowest),
            describe_client(row, &fairness.fastest),
            fairness.index
        ));
    }
    load::keep_first_lines(lines)
}

fn describe_client(row: &Row<'_>, share: &ClientShare) -> String {
    let per_s = if row.judged.pass.is_byte_rate() { share.bytes_per_s } else { share.ops_per_s };
    let p50 = Nanos(share.p50_ns);
    let p99 = Nanos(share.p99_ns);
    let max = Nanos(share.max_ns);
    let rate = row.judged.shown(per_s);
    format!("client {} with {rate} (p50 {p50}, p99 {p99}, max {max})", share.client)
}

/// Lists failed trials of rows that have a result anyway.
pub(crate) fn partial_failures(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if row.judged.rate.is_none() {
            // The reason is shown in place of the result.
            continue;
        }
        for failure in &row.judged.failures {
            lines.push(format!(
                "{}: no result in {} of {} trials: {}",
                sheet.name(row),
                failure.trials,
                row.judged.trials_made,
                failure.reason
            ));
        }
    }
    load::keep_first_lines(lines)
}

/// Counts the rows that share a caveat, apart from the one whose evidence is shown.
pub(crate) fn count_others(rows: usize) -> String {
    match rows {
        0 | 1 => String::new(),
        2 => " (and 1 more result)".to_owned(),
        more => format!(" (and {} more results)", more - 1),
    }
}
