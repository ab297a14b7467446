//! Notes on the load behind the results: offered load, op mix, data touched, and how busy the
//! client was.
//!
//! Sentences without markup, as in `notes`. In large campaigns, only the first few results are
//! described.

use model::units::{Nanos, Size, three_digits};
use model::{CaveatCode, ListingWork, Pass};
use stats::{Rate, Summary};

use crate::humanize::{counted, grouped, spread, times};
use crate::table::{Row, Sheet};

/// Heading of the lines of [`lines`].
pub(crate) const LOADS: &str = "Loads";

/// Smallest share to name, in percent.
const NAMED_MIN_PERCENT: f64 = 0.005;

/// Maximum number of runs whose CPU time is described in words.
const PLACES_MAX: usize = 4;

/// Maximum number of results whose loads are described in words.
const FIGURES_MAX: usize = 12;

/// Returns a line for each result with an offered rate or several kinds of op.
pub(crate) fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if row.judged.rate.is_none() {
            continue;
        }
        let mut parts = Vec::new();
        parts.extend(describe_offered(row));
        parts.extend(list_shares(row));
        parts.extend(describe_touched(row));
        if !parts.is_empty() {
            lines.push(format!("{}: {}", sheet.name(row), parts.join("; ")));
        }
    }
    keep_first_lines(lines)
}

/// Keeps the first few lines and counts the rest.
pub(crate) fn keep_first_lines(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(FIGURES_MAX);
    if more > 0 {
        lines.truncate(FIGURES_MAX);
        lines.push(format!("and {}: see CSV or JSON", counted(more, "more figure")));
    }
    lines
}

/// Describes the offered and achieved load, and response time next to service time.
fn describe_offered(row: &Row<'_>) -> Option<String> {
    let rate = row.run.spec.load.rate_per_s;
    // The pass in which a soak reads its data back runs at full speed.
    let is_read_back = row.run.spec.soak.is_some() && !row.judged.pass.is_timed();
    if rate == 0 || is_read_back {
        return None;
    }
    let achieved = row.judged.ops_per_s.as_ref()?.median;
    // Response times of an open loop start at the scheduled time, so they include the time an op
    // waited for its turn; service times do not.
    let [response_p50, response_p99, _] = times(&row.judged.response_time);
    let [service_p50, service_p99, _] = times(&row.judged.service_time);
    let offered = row.judged.offered_per_s.unwrap_or(rate as f64);
    Some(format!(
        "{} requested, {} offered, {} achieved ({} % of offered); response time p50 \
         {response_p50}, p99 {response_p99}, service time p50 {service_p50}, p99 {service_p99}",
        Rate::Ops(rate as f64),
        Rate::Ops(offered),
        Rate::Ops(achieved),
        three_digits(achieved / offered * 100.0),
    ))
}

/// Lists the kinds of op with their shares, most frequent first.
fn list_shares(row: &Row<'_>) -> Option<String> {
    let mut kinds = row.judged.kinds.clone();
    kinds.retain(|kind| kind.percent >= NAMED_MIN_PERCENT);
    kinds.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    let mut parts = Vec::new();
    for kind in &kinds {
        let mut rates = Rate::Ops(kind.ops_per_s).to_string();
        if kind.bytes_per_s > 0.0 {
            rates = format!("{rates}, {}", Rate::Bytes(kind.bytes_per_s));
        }
        parts.push(format!("{} {:.1} % ({rates})", kind.kind, kind.percent));
    }
    if parts.is_empty() { None } else { Some(parts.join(", ")) }
}

/// Describes how much of the file set was touched, for passes that do not touch all of it.
fn describe_touched(row: &Row<'_>) -> Option<String> {
    let draws = row.judged.pass.is_mix()
        || matches!(row.judged.pass, Pass::OpMix | Pass::Seeks | Pass::Transactions);
    let set = row.judged.working_set?;
    if !draws {
        return None;
    }
    let unit = match set.unit_bytes {
        0 => String::new(),
        unit => format!(" in units of {}", Size(unit)),
    };
    let files = counted(usize::try_from(set.files).unwrap_or(usize::MAX), "file");
    Some(format!("touched {files}, {}{unit}", Size(set.bytes)))
}

/// Heading of the lines of [`listings`].
pub(crate) const LISTINGS: &str = "Directories listed";

/// Returns a line for each pass over whole directories, in the words of its users.
pub(crate) fn listings(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if let (Some(listing), Some(rate)) = (&row.judged.listing, &row.judged.rate) {
            lines.push(format!("{}: {}", sheet.name(row), describe_listing(row, listing, rate)));
        }
    }
    keep_first_lines(lines)
}

fn describe_listing(row: &Row<'_>, listing: &ListingWork, rate: &Summary) -> String {
    let entries = listing.entries;
    let verb = match row.judged.pass {
        Pass::ListStat => "lists, with attributes,",
        Pass::Find => "searches",
        _ => "lists",
    };
    let directories = match listing.directories {
        1 => String::new(),
        more => format!(" in {} directories", grouped(more)),
    };
    let time = Nanos((entries as f64 / rate.median * 1e9) as u64);
    let mut text = format!(
        "{verb} {} entries{directories} in {time} ({})",
        grouped(entries),
        row.judged.shown(rate.median)
    );
    if row.judged.pass == Pass::Find {
        text = format!("{text} and finds {} files", grouped(listing.matches));
    }
    let Some(round_trips) = listing.round_trips() else { return text };
    let calls = listing
        .calls
        .iter()
        .map(|calls| format!("{} {}", grouped(calls.count), calls.procedure))
        .collect::<Vec<_>>();
    let per_call = match round_trips {
        0 => "no round trips: the client answered from its cache".to_owned(),
        _ => format!(
            "{} round trips ({}), {} entries each, {} bytes per entry",
            grouped(round_trips),
            calls.join(", "),
            three_digits(entries as f64 / round_trips as f64),
            three_digits(listing.reply_bytes as f64 / entries.max(1) as f64),
        ),
    };
    format!("{text}; {per_call}")
}

/// Heading of the lines of [`per_cpu`].
pub(crate) const PER_CPU: &str = "Rate per second of CPU time, for results limited by CPUs";

/// Returns a line for each result that is limited by CPUs: work per second of CPU time, which
/// varies less than the rate, with the rate next to it.
pub(crate) fn per_cpu(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        let limits = [CaveatCode::ProcessorContention, CaveatCode::ClientSaturated];
        let is_limited = row.judged.caveats.iter().any(|caveat| limits.contains(&caveat.code));
        let (Some(rate), Some(per_cpu)) = (&row.judged.rate, &row.judged.rate_per_cpu) else {
            continue;
        };
        // If something else is the limit, such as a disk, work per CPU second varies more than the
        // rate.
        let varies_more = match (per_cpu.half_width_share(), rate.half_width_share()) {
            (Some(per_cpu), Some(rate)) => per_cpu > rate * 1.01,
            _ => false,
        };
        // A command has a wall time instead of a rate.
        if !is_limited || varies_more || row.judged.pass == Pass::App {
            continue;
        }
        let whose = match row.judged.cpu.and_then(|cpu| cpu.server) {
            Some(_) => "client and server",
            None => "the client",
        };
        lines.push(format!(
            "{}: {} ({}) by the CPU time of {whose}; {} ({}) by the clock",
            sheet.name(row),
            row.judged.shown(per_cpu.median),
            spread(per_cpu),
            row.judged.shown(rate.median),
            spread(rate),
        ));
    }
    keep_first_lines(lines)
}

/// Describes how busy the client was in each pass: `dir: stream write 97 %; nfs: ...`. `None` if
/// that would be too long; CSV and JSON have it.
pub(crate) fn processor(sheet: &Sheet<'_>) -> Option<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for row in &sheet.rows {
        let (Some(_), Some(percent)) = (&row.judged.rate, row.judged.cpu_percent) else {
            continue;
        };
        let factors = sheet.factors(row);
        let place = match factors.as_str() {
            "" => row.run.spec.target_name.clone(),
            _ => format!("{} ({factors})", row.run.spec.target_name),
        };
        let shown = format!("{} {percent:.0} %", row.pass_name());
        match lines.iter().position(|(known, _)| *known == place) {
            Some(known) => lines[known].1.push(shown),
            None if lines.len() == PLACES_MAX => return None,
            None => lines.push((place, vec![shown])),
        }
    }
    if lines.is_empty() {
        return None;
    }
    let places: Vec<_> = lines
        .into_iter()
        .map(|(place, passes)| format!("{place}: {}", passes.join(", ")))
        .collect();
    Some(format!("of the client, in percent of a core: {}", places.join("; ")))
}
