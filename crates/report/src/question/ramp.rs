//! Answers `dfsbench ramp`: the load at which a server breaks, how, and whether it recovers.
//!
//! The search is replayed from the trials; [`stats::breaking`] has the rules.

mod picture;

use model::Pass;
use model::question::RampRequest;
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::Rate;
use stats::breaking::{
    AcceleratorUse, BEHIND_SHARE, DEGRADED_SHARE, FinishedSearch, LoadFigure, Purpose, Recovery,
    SearchTrial, ServerFailure, TURNS_MAX, TrialOutcome, replay,
};

use super::QuestionAnswer;
use crate::document::{Column, Role, Table, TableRow};
use crate::humanize::{self, listed};
use crate::table::Sheet;

/// Width at which outcomes are wrapped in a terminal.
const OUTCOME_WIDTH_MAX: usize = 40;

pub(super) fn answer(sheet: &Sheet<'_>, request: &RampRequest) -> QuestionAnswer {
    let mut found = QuestionAnswer { title: "Breaking point", ..QuestionAnswer::default() };
    let mut searches = Vec::new();
    for (number, searched) in replay(sheet.campaign, request).iter().enumerate() {
        let name = name_search(sheet, searched);
        found.sentences.push(format!("{name}: {}.", describe_search(searched, request)));
        found.tables.push(search_table(&name, searched, request));
        found.pictures.extend(picture::pictures(number, &name, searched, request));
        searches.push(search_json(&name, searched));
    }
    if searches.is_empty() {
        found.sentences.push("No load was tried.".to_owned());
    }
    found.json = json!({ "searches": searches });
    found
}

/// Names a search by the settings that its runs share and that distinguish it from others.
fn name_search(sheet: &Sheet<'_>, searched: &FinishedSearch<'_>) -> String {
    let Some(first) = searched.tried.first() else { return String::new() };
    let settings = first.run.spec.settings();
    let mut omitted: Vec<&str> = vec!["clients", "client_hosts", "rate", "workers", "accelerators"];
    for (name, value) in &settings {
        // A setting that a run lacks varies, too.
        if searched.tried.iter().any(|tried| !has_setting(tried, name, value)) {
            omitted.push(name);
        }
    }
    let spec = &first.run.spec;
    let mut name = format!("{} {}", spec.target_name, spec.workload.name());
    if let Some(row) = sheet.rows.iter().find(|row| row.run.index == first.run.index) {
        let factors = sheet.factors_without(row, &omitted);
        if !factors.is_empty() {
            name = format!("{name}, {factors}");
        }
    }
    name
}

fn has_setting(tried: &SearchTrial<'_>, name: &str, value: &str) -> bool {
    let settings = tried.run.spec.settings();
    settings.iter().any(|(known, other)| *known == name && other == value)
}

/// Describes the result of a search in a sentence without a full stop.
fn describe_search(searched: &FinishedSearch<'_>, request: &RampRequest) -> String {
    // The load at which it breaks comes first, then what it supports, how it recovers, and what
    // makes the results less certain.
    let found = searched.search.breaking_point();
    let mut parts = vec![describe_break(searched, request)];
    if let (Some(heaviest_good), Some((load, _))) = (found.heaviest_good, found.lightest_bad) {
        let mut supports = format!("it supports {}", request.describe_load(heaviest_good));
        if request.is_of_rate() && searched.search.next().is_none() {
            let percent = three_digits(
                f64::from(load - heaviest_good) / f64::from(heaviest_good.max(1)) * 100.0,
            );
            supports = format!("{supports}, so the highest load is known to within {percent} %");
        }
        parts.push(supports);
    }
    if let Some(recovery) = found.recovery {
        parts.push(describe_recovery(recovery, request));
    }
    if !found.once.is_empty() {
        let loads = describe_loads(&found.once, request).join(", ");
        parts.push(format!("it broke once with {loads}, but not when tried again"));
    }
    if !found.unclear.is_empty() {
        parts.push(format!(
            "with {}, it is inconclusive whether the service was worse than under less load, after \
             {TURNS_MAX} alternating trials of each",
            listed(&describe_loads(&found.unclear, request))
        ));
    }
    // If nothing broke, the first part already says this.
    if let (Some(from), Some(_)) = (found.unsure_from, found.lightest_bad) {
        parts.push(format!(
            "from {} on, this host was short of CPU time (client-saturated or \
             processor-contention), so the results tell nothing about the server",
            request.describe_load(from)
        ));
    }
    for (number, from) in found.saturated_from.iter().enumerate() {
        if let Some(from) = from {
            let pass = pass_name(searched, number);
            let load = request.describe_load(*from);
            let rate = format_rate(searched, *from, number);
            parts.push(format!("{pass} is saturated from {load} ({rate})"));
        }
    }
    parts.join("; ")
}

fn describe_loads(loads: &[u32], request: &RampRequest) -> Vec<String> {
    loads.iter().map(|load| request.describe_load(*load)).collect()
}

/// Describes the load at which the server gave in, and how.
fn describe_break(searched: &FinishedSearch<'_>, request: &RampRequest) -> String {
    let found = searched.search.breaking_point();
    match found.lightest_bad {
        _ if searched.search.next().is_some() => {
            "the search was stopped before it was complete".to_owned()
        }
        None => {
            let heaviest = request.describe_load(found.heaviest_good.unwrap_or(request.max));
            match found.unsure_from {
                None => format!("supports {heaviest}, the maximum load allowed"),
                Some(from) => format!(
                    "no break up to {heaviest}; from {} on, this host was short of CPU time \
                     (client-saturated or processor-contention), so {}",
                    request.describe_load(from),
                    if from <= request.first {
                        "this tells nothing about the server"
                    } else {
                        "only lower loads tell something about the server"
                    }
                ),
            }
        }
        Some((load, ServerFailure::Degraded { pass, best_at, turns })) => format!(
            "degrades with {}: {} at {}, less than {:.0} % of the {} with {best_at} ({turns} \
             alternating trials of each)",
            request.describe_load(load),
            pass_name(searched, pass),
            format_rate(searched, load, pass),
            DEGRADED_SHARE * 100.0,
            format_rate(searched, best_at, pass)
        ),
        Some((load, ServerFailure::Behind { share, .. })) => format!(
            "falls behind with {}: {} % of the offered ops were completed, less than {:.0} %",
            request.describe_load(load),
            three_digits(share * 100.0),
            BEHIND_SHARE * 100.0
        ),
        Some((load, ServerFailure::Starved { accelerators, .. })) => format!(
            "too slow for {}, which compute {} of the time, less than the required {}",
            request.describe_load(load),
            humanize::share(accelerators.utilization),
            humanize::share(accelerators.required)
        ),
        Some((load, ServerFailure::Slow { pass, from_ns, to_ns, turns })) => format!(
            "slows down with {}: the 99th percentile of {} rose from {} to {} ({turns} alternating \
             trials of each)",
            request.describe_load(load),
            pass_name(searched, pass),
            Nanos(from_ns),
            Nanos(to_ns)
        ),
        Some((load, ServerFailure::Broken)) => {
            let (word, why) = match searched.failure() {
                Some(trouble) if trouble.hangs => ("hangs", trouble.reason.as_str()),
                Some(trouble) if trouble.is_late => ("is late", trouble.reason.as_str()),
                Some(trouble) => ("fails", trouble.reason.as_str()),
                None => ("fails", "a trial failed"),
            };
            let why = why.lines().next().unwrap_or_default();
            format!("{word} with {}: {why}", request.describe_load(load))
        }
    }
}

fn searched_pass(searched: &FinishedSearch<'_>, number: usize) -> Option<Pass> {
    searched.tried.first()?.run.spec.passes().get(number).copied()
}

fn pass_name(searched: &FinishedSearch<'_>, number: usize) -> &'static str {
    searched_pass(searched, number).map_or("", |pass| pass.name())
}

/// Formats the rate of a pass under a load.
fn format_rate(searched: &FinishedSearch<'_>, load: u32, number: usize) -> String {
    let Some(pass) = searched_pass(searched, number) else { return String::new() };
    match searched.search.figure(load, number) {
        Some(figure) => Rate::for_pass(pass, figure.per_s).to_string(),
        None => Rate::for_pass(pass, 0.0).to_string(),
    }
}

/// Describes how the server recovered after the load was removed.
fn describe_recovery(recovery: Recovery, request: &RampRequest) -> String {
    let first = format!("the lowest load ({})", request.describe_load(request.first));
    match recovery {
        Recovery::Back { to_ms: 0, .. } => {
            format!("after the load was removed, {first} was served as before immediately")
        }
        Recovery::Back { from_ms, to_ms } => format!(
            "after the load was removed, it took {} to {} until {first} was served as before",
            format_ms(from_ms),
            format_ms(to_ms)
        ),
        Recovery::Impaired { for_ms } => format!(
            "after the load was removed, {first} was served, but not as well as before, for at \
             least {}",
            format_ms(for_ms)
        ),
        Recovery::Never { for_ms } => format!(
            "it never recovered: {} after the load was removed, not even {first} was served, so \
             the search ended",
            format_ms(for_ms)
        ),
    }
}

fn format_ms(ms: u64) -> Nanos {
    Nanos(ms.saturating_mul(1_000_000))
}

fn search_table(name: &str, searched: &FinishedSearch<'_>, request: &RampRequest) -> Table {
    let columns = [
        ("load", Role::Number),
        ("rate", Role::Rate),
        ("p99", Role::Number),
        ("outcome", Role::Words),
    ];
    let mut rows = Vec::new();
    for tried in &searched.tried {
        let purpose = match tried.purpose {
            Purpose::Load => String::new(),
            Purpose::Turn { load, reference } => {
                let other = if tried.load == load { reference } else { load };
                format!("alternating with {other}: ")
            }
            Purpose::Recovery => "after a break: ".to_owned(),
        };
        let [rate, p99, outcome] = outcome_cells(tried);
        rows.push(vec![request.describe_load(tried.load), rate, p99, purpose + &outcome]);
    }
    let mut columns = Column::all(&columns);
    columns[3].width_max = OUTCOME_WIDTH_MAX;
    Table {
        caption: format!("Loads in the order tried, {name}"),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "With several passes, the one with the longest response times; p99: from scheduled \
             start to completion."
                .to_owned(),
        ],
        ..Table::default()
    }
}

/// Cells for the rate, 99th percentile and outcome of a trial.
fn outcome_cells(tried: &SearchTrial<'_>) -> [String; 3] {
    let figures = match &tried.outcome {
        TrialOutcome::Broken(trouble) if trouble.hangs => {
            return outcome_without_figures("no reply in time");
        }
        TrialOutcome::Broken(trouble) if trouble.is_late => {
            return outcome_without_figures("late frames");
        }
        TrialOutcome::Broken(_) => return outcome_without_figures("failed"),
        TrialOutcome::Figures(figures) => figures,
    };
    // The slowest pass decides whether a load is supported. Among equally slow ones, the last is
    // shown.
    let mut slowest: Option<(Pass, f64, u64)> = None;
    for (pass, figure) in tried.run.spec.passes().iter().zip(figures) {
        let Some(figure) = figure else { continue };
        match slowest {
            Some((.., p99_ns)) if figure.p99_ns < p99_ns => {}
            _ => slowest = Some((*pass, figure.per_s, figure.p99_ns)),
        }
    }
    match slowest {
        None => outcome_without_figures("this host was short of CPU time"),
        Some((pass, per_s, p99_ns)) => {
            let accelerators = figures.iter().flatten().find_map(|figure| figure.accelerators);
            let outcome = match (accelerators, least_share(figures)) {
                (Some(accelerators), _) => describe_use(accelerators),
                (None, Some(share)) if share < BEHIND_SHARE => {
                    format!("not sustained: {} % was completed", three_digits(share * 100.0))
                }
                _ => "served".to_owned(),
            };
            [Rate::for_pass(pass, per_s).to_string(), Nanos(p99_ns).to_string(), outcome]
        }
    }
}

/// Describes how much accelerators computed: `AU 61.3 %, missed`.
fn describe_use(accelerators: AcceleratorUse) -> String {
    let judgment = if accelerators.is_starved() { "missed" } else { "met" };
    format!("AU {}, {judgment}", humanize::share(accelerators.utilization))
}

/// Returns the smallest share of an offered load that was done in any pass; `None` in closed loops.
fn least_share(figures: &[Option<LoadFigure>]) -> Option<f64> {
    let mut least: Option<f64> = None;
    for figure in figures.iter().flatten() {
        if let Some(share) = figure.offered_share {
            least = Some(least.map_or(share, |known| known.min(share)));
        }
    }
    least
}

fn outcome_without_figures(outcome: &str) -> [String; 3] {
    ["–".to_owned(), "–".to_owned(), outcome.to_owned()]
}

fn search_json(name: &str, searched: &FinishedSearch<'_>) -> Value {
    let found = searched.search.breaking_point();
    // The names of these members are those of the first release.
    let mut gave_in_at = None;
    let mut way = None;
    let mut reason = None;
    let mut broken = "errors";
    if let Some(trouble) = searched.failure() {
        reason = Some(trouble.reason.as_str());
        broken = match trouble {
            _ if trouble.hangs => "hangs",
            _ if trouble.is_late => "late-frames",
            _ => "errors",
        };
    }
    if let Some((load, how)) = found.lightest_bad {
        gave_in_at = Some(load);
        way = Some(match how {
            ServerFailure::Degraded { .. } => "throughput-falls",
            ServerFailure::Behind { .. } => "falls-behind",
            ServerFailure::Starved { .. } => "accelerators-wait",
            ServerFailure::Slow { .. } => "response-time-explodes",
            ServerFailure::Broken => broken,
        });
    }
    let recovery = match found.recovery {
        Some(Recovery::Back { from_ms, to_ms }) => {
            json!({ "kind": "recovered", "from_ms": from_ms, "to_ms": to_ms })
        }
        Some(Recovery::Impaired { for_ms }) => json!({ "kind": "impaired", "for_ms": for_ms }),
        Some(Recovery::Never { for_ms }) => json!({ "kind": "never", "for_ms": for_ms }),
        None => Value::Null,
    };
    let known_to_percent = match (found.heaviest_good, found.lightest_bad) {
        (Some(heaviest_good), Some((load, _))) => {
            Some(f64::from(load - heaviest_good) / f64::from(heaviest_good.max(1)) * 100.0)
        }
        _ => None,
    };
    let tried_loads: Vec<_> = searched.tried.iter().map(|tried| tried.load).collect();
    json!({
        "name": name,
        "is_known": searched.search.next().is_none(),
        "known_to_percent": known_to_percent,
        "borne": found.heaviest_good,
        "gave_in_at": gave_in_at,
        "way": way,
        "reason": reason,
        "recovery": recovery,
        "saturated_from": found.saturated_from,
        "broke_once_at": found.once,
        "unclear_at": found.unclear,
        "client_saturated_from": found.unsure_from,
        "tried": tried_loads,
    })
}
