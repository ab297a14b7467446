//! The answer to `dfsbench ramp`: under which load a server gave in, how, and whether it recovered.
//!
//! The search is told again from the trials; [`stats::breaking`] has its rules.

mod picture;

use model::Pass;
use model::question::RampRequest;
use model::units::{Nanos, three_digits};
use serde_json::{Value, json};
use stats::Rate;
use stats::breaking::{
    BEHIND_SHARE, DEGRADED_SHARE, How, Purpose, Recovery, Searched, TURNS_MAX, TrialOutcome, Tried,
    replay,
};

use super::Found;
use crate::document::{Column, Role, Table, TableRow};
use crate::sheet::Sheet;
use crate::show::listed;

/// Answers a ramp campaign.
pub fn of(sheet: &Sheet<'_>, asked: &RampRequest) -> Found {
    let searches = replay(sheet.campaign, asked);
    let named: Vec<(String, &Searched<'_>)> =
        searches.iter().map(|searched| (name_search(sheet, searched), searched)).collect();
    let mut sentences: Vec<String> = named
        .iter()
        .map(|(name, searched)| format!("{name}: {}.", describe_search(searched, asked)))
        .collect();
    if sentences.is_empty() {
        sentences.push("Nothing was tried.".to_owned());
    }
    let pictures = named
        .iter()
        .enumerate()
        .flat_map(|(number, (name, searched))| picture::pictures(number, name, searched, asked));
    let json = named.iter().map(|(name, searched)| search_json(name, searched));
    Found {
        title: "How much it takes until it breaks",
        sentences,
        tables: named.iter().map(|(name, searched)| search_table(name, searched, asked)).collect(),
        pictures: pictures.collect(),
        json: json!({ "searches": json.collect::<Vec<Value>>() }),
    }
}

/// Names a search by the settings that its runs share and that distinguish it from others.
fn name_search(sheet: &Sheet<'_>, searched: &Searched<'_>) -> String {
    let Some(first) = searched.tried.first() else { return String::new() };
    let settings = first.run.spec.settings();
    let varies = |name: &str, value: &String| {
        let of = |tried: &Tried<'_>| {
            let settings = tried.run.spec.settings();
            settings.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        searched.tried.iter().any(|tried| of(tried).as_ref() != Some(value))
    };
    let unsaid = settings.iter().filter(|(name, value)| varies(name, value));
    let mut unsaid: Vec<&str> = unsaid.map(|(name, _)| *name).collect();
    unsaid.extend(["clients", "client_hosts", "rate"]);
    let spec = &first.run.spec;
    let row = sheet.rows.iter().find(|row| row.run.index == first.run.index);
    let mut name = row.map_or_else(String::new, |row| sheet.factors_without(row, &unsaid));
    if !name.is_empty() {
        name.insert_str(0, ", ");
    }
    format!("{} {}{name}", spec.target_name, spec.workload.name())
}

/// Says what a search found, in a sentence without its full stop.
fn describe_search(searched: &Searched<'_>, asked: &RampRequest) -> String {
    let found = searched.search.found();
    let some = |load: u32| asked.describe_load(load);
    let mut told = describe_break(searched, asked);
    if let (Some(borne), true) = (found.borne, found.gave_in.is_some()) {
        told = format!("{told}; {} were borne", some(borne));
    }
    if let Some(recovery) = found.recovery {
        told = format!("{told}; {}", describe_recovery(recovery, asked));
    }
    if !found.once.is_empty() {
        let loads: Vec<String> = found.once.iter().map(|load| some(*load)).collect();
        told = format!("{told}; it broke once with {}, and not when tried again", loads.join(", "));
    }
    if !found.unclear.is_empty() {
        let loads: Vec<String> = found.unclear.iter().map(|load| some(*load)).collect();
        told = format!(
            "{told}; with {} nobody can tell whether it was served worse than under less load, \
             after {TURNS_MAX} trials of each in turns",
            listed(&loads)
        );
    }
    if let Some(from) = found.unsure_from {
        told = format!(
            "{told}; from {} on this program was at its own limit (client-saturated), and figures \
             say nothing of the server",
            some(from)
        );
    }
    for (number, from) in found.saturated_from.iter().enumerate() {
        if let Some(from) = from {
            let (pass, at) = (pass_name(searched, number), format_rate(searched, *from, number));
            told = format!("{told}; {pass} is saturated from {} on ({at})", some(*from));
        }
    }
    told
}

/// Says under which load the server gave in, and how.
fn describe_break(searched: &Searched<'_>, asked: &RampRequest) -> String {
    let found = searched.search.found();
    let some = |load: u32| asked.describe_load(load);
    match found.gave_in {
        _ if searched.search.next().is_some() => "was stopped before all was known".to_owned(),
        None => format!("bears {}: the limit was reached", some(found.borne.unwrap_or(asked.max))),
        Some((load, How::Degraded { pass, best_at, turns })) => format!(
            "degrades with {}: {} at {}, less than {:.0} % of the {} with {best_at} ({turns} \
             trials of each, in turns)",
            some(load),
            pass_name(searched, pass),
            format_rate(searched, load, pass),
            DEGRADED_SHARE * 100.0,
            format_rate(searched, best_at, pass)
        ),
        Some((load, How::Behind { share, .. })) => format!(
            "falls behind with {}: {} % of what was offered were done, less than {:.0} %",
            some(load),
            three_digits(share * 100.0),
            BEHIND_SHARE * 100.0
        ),
        Some((load, How::Slow { pass, from_ns, to_ns, turns })) => format!(
            "slows down with {}: the 99th percentile of {} rose from {} to {} ({turns} trials of \
             each, in turns)",
            some(load),
            pass_name(searched, pass),
            Nanos(from_ns),
            Nanos(to_ns)
        ),
        Some((load, How::Broken)) => {
            let trouble = searched.trouble();
            let word = if trouble.is_some_and(|why| why.hangs) { "hangs" } else { "fails" };
            let why = trouble.map_or("a trial failed", |why| why.reason.as_str());
            format!("{word} with {}: {}", some(load), why.lines().next().unwrap_or_default())
        }
    }
}

/// Returns the passes of a search, none where nothing was tried.
fn searched_passes<'a>(searched: &'a Searched<'_>) -> &'a [Pass] {
    searched.tried.first().map_or(&[], |tried| tried.run.spec.passes())
}

/// Names a pass by its number.
fn pass_name(searched: &Searched<'_>, number: usize) -> &'static str {
    searched_passes(searched).get(number).map_or("", |pass| pass.name())
}

/// Writes the rate of a pass under a load, with its unit.
fn format_rate(searched: &Searched<'_>, load: u32, number: usize) -> String {
    let Some(pass) = searched_passes(searched).get(number) else { return String::new() };
    let per_s = searched.search.figure(load, number).map_or(0.0, |figure| figure.per_s);
    Rate::of_pass(*pass, per_s).to_string()
}

/// Describes the server's recovery after the load went away.
fn describe_recovery(recovery: Recovery, asked: &RampRequest) -> String {
    let time = |ms: u64| Nanos(ms.saturating_mul(1_000_000));
    let first = format!("the lightest load ({})", asked.describe_load(asked.first));
    match recovery {
        Recovery::Back { to_ms: 0, .. } => {
            format!("when the load went away, {first} was served as before at once")
        }
        Recovery::Back { from_ms, to_ms } => format!(
            "when the load went away, it took {} to {} until {first} was served as before",
            time(from_ms),
            time(to_ms)
        ),
        Recovery::Impaired { for_ms } => format!(
            "when the load went away, {first} was served, but not as before, for {} at least",
            time(for_ms)
        ),
        Recovery::Never { for_ms } => format!(
            "it never recovered: {} after the load went away not even {first} was served, and the \
             search ended there",
            time(for_ms)
        ),
    }
}

fn search_table(name: &str, searched: &Searched<'_>, asked: &RampRequest) -> Table {
    let columns = [
        ("load", Role::Number),
        ("rate", Role::Number),
        ("p99", Role::Number),
        ("what came of it", Role::Words),
    ];
    let none = || "–".to_owned();
    let row = |tried: &Tried<'_>| {
        let purpose = match tried.purpose {
            Purpose::Load => String::new(),
            Purpose::Turn { load, reference } => {
                let other = if tried.load == load { reference } else { load };
                format!("in turns with {other}: ")
            }
            Purpose::Recovery => "after a break: ".to_owned(),
        };
        let (rate, p99, came) = match &tried.outcome {
            TrialOutcome::Broken(trouble) => {
                (none(), none(), if trouble.hangs { "no answer in time" } else { "failed" })
            }
            TrialOutcome::Figures(figures) => {
                let pass = tried.run.spec.passes().iter().zip(figures);
                let slowest = pass
                    .filter_map(|(pass, figure)| Some((*pass, figure.as_ref()?)))
                    .max_by_key(|(_, figure)| figure.p99_ns);
                match slowest {
                    None => (none(), none(), "the client was at its own limit"),
                    Some((pass, figure)) => (
                        Rate::of_pass(pass, figure.per_s).to_string(),
                        Nanos(figure.p99_ns).to_string(),
                        "served",
                    ),
                }
            }
        };
        vec![asked.describe_load(tried.load), rate, p99, format!("{purpose}{came}")]
    };
    Table {
        caption: format!("Loads that were tried, {name}, in their order"),
        columns: Column::all(&columns),
        rows: TableRow::all(searched.tried.iter().map(row)),
        reading: vec![
            "Of several passes, the one with the longest response times; p99 from due to done."
                .to_owned(),
        ],
        ..Table::default()
    }
}

/// A search for programs.
fn search_json(name: &str, searched: &Searched<'_>) -> Value {
    let found = searched.search.found();
    let way = found.gave_in.map(|(_, how)| match how {
        How::Degraded { .. } => "throughput-falls",
        How::Behind { .. } => "falls-behind",
        How::Slow { .. } => "response-time-explodes",
        How::Broken if searched.trouble().is_some_and(|why| why.hangs) => "hangs",
        How::Broken => "errors",
    });
    let recovery = found.recovery.map(|recovery| match recovery {
        Recovery::Back { from_ms, to_ms } => {
            json!({ "kind": "recovered", "from_ms": from_ms, "to_ms": to_ms })
        }
        Recovery::Impaired { for_ms } => json!({ "kind": "impaired", "for_ms": for_ms }),
        Recovery::Never { for_ms } => json!({ "kind": "never", "for_ms": for_ms }),
    });
    json!({
        "name": name,
        "is_known": searched.search.next().is_none(),
        "borne": found.borne,
        "gave_in_at": found.gave_in.map(|(load, _)| load),
        "way": way,
        "reason": searched.trouble().map(|why| why.reason.as_str()),
        "recovery": recovery,
        "saturated_from": found.saturated_from,
        "broke_once_at": found.once,
        "unclear_at": found.unclear,
        "client_saturated_from": found.unsure_from,
        "tried": searched.tried.iter().map(|tried| tried.load).collect::<Vec<u32>>(),
    })
}
