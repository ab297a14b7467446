//! Notes that accompany the figures in every format for people: how to read them, what was the
//! same for all, what the tool itself can do, where it ran.
//!
//! Each function gives plain sentences without markup; the formats decide how they look.

pub mod host_balance;
pub mod load;

use model::units::Nanos;
use model::{Campaign, CampaignState, Durability, Fact, Keeps, OpKind, Opens, Pass, Target};
use stats::{ClientShare, Rate};

use crate::document::Term;
use crate::host_settings;
use crate::sheet::{Row, Sheet};
use crate::show::{counted, listed, utc};

/// Said of writes that were not synced on purpose.
const UNSAFE: &str = "nobody waited until the data was safe; it may still have been in memory when \
                      the clock stopped";

/// Heads what [`clients`] says.
pub const CLIENTS: &str = "Clients, one by one (their service times, from sent to done)";

/// Returns a one-line description of the campaign, without its name.
pub fn title(campaign: &Campaign) -> String {
    let state = match campaign.state {
        CampaignState::Running => "not finished",
        CampaignState::Complete => "complete",
        CampaignState::Interrupted => "interrupted",
    };
    format!(
        "{state}, started {}, dfsbench {}, campaign {}",
        utc(campaign.started_unix_ms),
        campaign.tool_version,
        campaign.id
    )
}

/// The settings that are not columns: `workers 2; queue_depth 1 (dir), 8 (nfs)`.
pub fn settings(sheet: &Sheet<'_>) -> Option<String> {
    let shown = sheet.stated.iter().map(|(name, value)| format!("{name} {value}"));
    let line = shown.collect::<Vec<_>>().join("; ");
    (!line.is_empty()).then_some(line)
}

/// Returns the location of each target: `nfs: nfs://server/export`.
pub fn targets(campaign: &Campaign) -> Vec<(String, String)> {
    let mut targets: Vec<(String, String)> = Vec::new();
    for run in &campaign.runs {
        let place = run.spec.lab.as_ref().map(|lab| host_settings::place(lab));
        let place = place.unwrap_or_else(|| run.spec.target.to_string());
        let target = (run.spec.target_name.clone(), place);
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// Describes the durability behind each write figure; passes and targets that say the same stand
/// together; empty when nothing was written.
pub fn durability(sheet: &Sheet<'_>) -> Vec<Term> {
    let mut said: Vec<(String, &'static str, Vec<String>)> = Vec::new();
    for row in sheet.rows.iter().filter(|row| row.judged.rate.is_some()) {
        let spec = &row.run.spec;
        let Some((setting, what)) = describe_safety(row) else { continue };
        let what_was_written = format!("{}{setting}", row.pass_name());
        let target = spec.target_name.clone();
        match said.iter_mut().find(|(key, known, _)| *key == what_was_written && *known == what) {
            Some((.., targets)) if targets.contains(&target) => {}
            Some((.., targets)) => targets.push(target),
            None => said.push((what_was_written, what, vec![target])),
        }
    }
    let line = |(key, what, targets): (String, &str, Vec<String>)| {
        let (pass, setting) = key.split_once(',').map_or((key.as_str(), ""), |split| split);
        let comma = if setting.is_empty() { "" } else { "," };
        Term::new(format!("{pass} on {}{comma}{setting}", listed(&targets)), format!("{what}."))
    };
    let mut terms: Vec<Term> = said.into_iter().map(line).collect();
    let in_memory = |row: &Row<'_>| row.run.spec.target.nfs().is_some_and(|nfs| nfs.embedded);
    if !terms.is_empty() && sheet.rows.iter().any(in_memory) {
        terms.push(Term::new("in-memory server", "it keeps all data in memory, synced or not."));
    }
    terms
}

/// Describes the durability that a figure waited for, led by the setting that decides it; `None`
/// where it writes nothing.
/// A sync is believed where it was recorded only.
///
/// **Source:** `workload::stream` (syncs), the backends' create.
fn describe_safety(row: &Row<'_>) -> Option<(&'static str, &'static str)> {
    let (spec, pass) = (&row.run.spec, row.judged.pass);
    if let Keeps::Nothing(what) = spec.target.row().keeps {
        return pass.writes().then_some(("", what));
    }
    let only_reads = pass == Pass::Mix && spec.read_percent == 100;
    if !pass.writes() || only_reads {
        return None;
    }
    if pass.opens() == Opens::Nothing {
        return Some(("", by_name(pass, &spec.target)));
    }
    if pass == Pass::OpMix {
        return Some(("", "as safe as each call asks for; COMMIT where the mix has one"));
    }
    let (setting, how) = match spec.durability {
        Durability::None | Durability::Close if has_syncs(row) => {
            ("", "the program made the file safe (fsync) inside the timed window, unasked")
        }
        Durability::None => (", durability none", UNSAFE),
        Durability::Close => (
            ", durability close",
            "each file was closed inside the timed window, which flushes it on network file \
             systems only",
        ),
        Durability::Sync if !has_syncs(row) => {
            (", durability sync", "no sync was recorded: nobody waited until the data was safe")
        }
        Durability::Sync if pass.is_timed() => (
            ", durability sync",
            "the files were made safe (fsync or COMMIT) once, at the end of the timed window",
        ),
        Durability::Sync => (
            ", durability sync",
            "each file was made safe (fsync or COMMIT) inside the timed window",
        ),
        Durability::Dsync => {
            (", durability dsync", "each write waited until its data was safe (O_DSYNC, DATA_SYNC)")
        }
        Durability::Osync => (
            ", durability osync",
            "each write waited until data and attributes were safe (O_SYNC, FILE_SYNC)",
        ),
    };
    Some((setting, how))
}

/// Describes the durability of a pass that works by name.
const fn by_name(pass: Pass, target: &Target) -> &'static str {
    match (pass, target.nfs().is_some()) {
        (Pass::App, _) => "whatever the command waits for",
        (Pass::Create, true) => "FILE_SYNC writes: the server answers when the data is safe",
        (Pass::Create, false) => "nobody waited: close only",
        (Pass::Remove, false) => "nobody waited: unlink only",
        (_, true) => "as safe as the server makes it",
        (_, false) => "nobody waited",
    }
}

/// Whether a sync was recorded in some trial of a row.
fn has_syncs(row: &Row<'_>) -> bool {
    let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
    let mut kinds = passes.filter(|p| p.pass == row.judged.pass).flat_map(|pass| &pass.kinds);
    kinds.any(|kind| kind.kind == OpKind::Sync && kind.done > 0)
}

/// Describes the tool's own ceiling: its rate with the null target.
pub fn ceiling(campaign: &Campaign) -> String {
    match campaign.ceiling {
        Some(ceiling) => format!(
            "null backend: {} per worker, service time p50 {}; a figure near it is that of the \
             tool, not of the target.",
            Rate::Ops(ceiling.ops_per_s as f64),
            Nanos(ceiling.service_time_p50_ns),
        ),
        None => "not measured in this campaign: nothing says how much of a figure is the tool's \
                 own."
            .to_owned(),
    }
}

/// In which order the trials were made, and from which seed.
pub fn order(campaign: &Campaign) -> String {
    let mut made: Vec<(u32, u32, u32)> = Vec::new();
    for run in &campaign.runs {
        made.extend(run.trials.iter().map(|trial| (trial.position, run.index, trial.index)));
    }
    made.sort_unstable();
    let by_run = made.is_sorted_by_key(|(_, run, _)| *run);
    let by_trial = made.is_sorted_by_key(|(.., trial)| *trial);
    let order = match (by_run, by_trial) {
        (true, _) => "one run after the other",
        (false, true) => "the first trial of every run, then the second, and so on",
        (false, false) if !host_settings::names(campaign).is_empty() => {
            "runs whose hosts are set up alike together"
        }
        (false, false) => "shuffled",
    };
    if made.is_empty() {
        return format!("no trial was made; seed {}.", campaign.seed);
    }
    let trials = counted(made.len(), "trial");
    format!("{trials}, {order}; seed {}.", campaign.seed)
}

/// The host in one line: `kernel 6.12; processor ...`; facts beyond `length_max` characters are
/// left to the JSON and HTML reports.
pub fn host(campaign: &Campaign, length_max: usize) -> Option<String> {
    let mut line = String::new();
    for Fact { name, value, .. } in campaign.facts.iter().filter(|fact| fact.scope == "host") {
        let fact = format!("{name} {value}");
        if line.is_empty() {
            line = fact;
        } else if line.chars().count() + fact.chars().count() + 2 <= length_max {
            line.extend(["; ", &fact]);
        }
    }
    (!line.is_empty()).then_some(line)
}

/// Returns the slowest and the fastest of many clients, for each figure that recorded them.
pub fn clients(sheet: &Sheet<'_>) -> Vec<String> {
    let line = |row: &Row<'_>| {
        let fairness = row.judged.clients.as_ref()?;
        let share = |share: &ClientShare| {
            let amount =
                if row.judged.pass.is_byte_rate() { share.bytes_per_s } else { share.ops_per_s };
            let [p50, p99, max] =
                [share.p50_ns, share.p99_ns, share.max_ns].map(|ns| Nanos(ns).to_string());
            let rate = row.judged.shown(amount);
            format!("client {} with {rate} (p50 {p50}, p99 {p99}, max {max})", share.client)
        };
        Some(format!(
            "{}: {}; slowest {}; fastest {}; Jain's fairness index {:.3}",
            sheet.name(row),
            counted(fairness.clients, "client"),
            share(&fairness.slowest),
            share(&fairness.fastest),
            fairness.index
        ))
    };
    load::first(sheet.rows.iter().filter_map(line).collect())
}

/// Trials that failed although their row has a figure.
pub fn partial_failures(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in sheet.rows.iter().filter(|row| row.judged.rate.is_some()) {
        for failure in &row.judged.failures {
            lines.push(format!(
                "{}: {} of {} trials gave no result: {}",
                sheet.name(row),
                failure.trials,
                row.judged.trials_made,
                failure.reason
            ));
        }
    }
    load::first(lines)
}

/// How many rows share a caveat, beside the one whose evidence is shown.
pub fn others(rows: usize) -> String {
    match rows {
        0 | 1 => String::new(),
        2 => " (and 1 more figure)".to_owned(),
        more => format!(" (and {} more figures)", more - 1),
    }
}
