//! Notes that accompany the figures of loads: the offered load, its op mix, the data that it
//! touched, and how busy the client was.
//!
//! Sentences without markup, as in `notes`; of large campaigns only the first figures are told.

use model::Pass;
use model::units::{Size, three_digits};
use stats::Rate;

use crate::sheet::{Row, Sheet};
use crate::show::{counted, times};

/// Heads what [`lines`] says.
pub const LOADS: &str = "Loads";

/// Shares below this many hundredths of a percent are not named.
const NAMED_MIN_PERCENT: f64 = 0.005;

/// Runs whose processor time is told in words.
const PLACES_MAX: usize = 4;

/// Figures whose loads are told in words.
const FIGURES_MAX: usize = 12;

/// A line for each figure that was offered at a rate or is made of several kinds of op.
pub fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let of_row = |row: &Row<'_>| {
        let parts: Vec<String> = [describe_offered(row), list_shares(row), describe_touched(row)]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| format!("{}: {}", sheet.name(row), parts.join("; ")))
    };
    let rows = sheet.rows.iter().filter(|row| row.judged.rate.is_some());
    first(rows.filter_map(of_row).collect())
}

/// The first of many lines about figures, and how many more there are.
pub fn first(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(FIGURES_MAX);
    if more > 0 {
        lines.truncate(FIGURES_MAX);
        lines.push(format!("and {}: see CSV or JSON", counted(more, "more figure")));
    }
    lines
}

/// Offered and achieved load, and response time beside service time.
fn describe_offered(row: &Row<'_>) -> Option<String> {
    let rate = row.run.spec.load.rate_per_s;
    let achieved = row.judged.ops_per_s.as_ref().filter(|_| rate > 0)?.median;
    let median_of = |histogram: &model::Histogram| {
        let [p50, p99, _] = times(histogram);
        format!("p50 {p50}, p99 {p99}")
    };
    let due = row.judged.offered_per_s;
    let due = due.map_or_else(String::new, |due| format!(" ({} fell due)", Rate::Ops(due)));
    Some(format!(
        "{} offered{due}, {} done ({} %); response time {}, service time {}",
        Rate::Ops(rate as f64),
        Rate::Ops(achieved),
        three_digits(achieved / rate as f64 * 100.0),
        median_of(&row.judged.response_time),
        median_of(&row.judged.service_time),
    ))
}

/// Lists the kinds of op with their shares, the most frequent first.
fn list_shares(row: &Row<'_>) -> Option<String> {
    let mut kinds: Vec<_> =
        row.judged.kinds.iter().filter(|kind| kind.percent >= NAMED_MIN_PERCENT).collect();
    kinds.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    let shown = kinds.iter().map(|kind| {
        let bytes = if kind.bytes_per_s > 0.0 {
            format!(", {}", Rate::Bytes(kind.bytes_per_s))
        } else {
            String::new()
        };
        format!("{} {:.1} % ({}{bytes})", kind.kind, kind.percent, Rate::Ops(kind.ops_per_s))
    });
    let line = shown.collect::<Vec<_>>().join(", ");
    (!line.is_empty()).then_some(line)
}

/// How much of the file set was touched, where not every pass touches all of it.
fn describe_touched(row: &Row<'_>) -> Option<String> {
    let draws =
        matches!(row.judged.pass, Pass::Mix | Pass::OpMix | Pass::Seeks | Pass::Transactions);
    let set = row.judged.working_set.filter(|_| draws)?;
    let unit = match set.unit_bytes {
        0 => String::new(),
        unit => format!(" in units of {}", Size(unit)),
    };
    let files = counted(usize::try_from(set.files).unwrap_or(usize::MAX), "file");
    Some(format!("touched {files}, {}{unit}", Size(set.bytes)))
}

/// How busy the client was in each pass: `dir: stream write 97 %; nfs: ...`; `None` where that
/// would be too much to read, and CSV and JSON have it.
pub fn processor(sheet: &Sheet<'_>) -> Option<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for row in sheet.rows.iter().filter(|row| row.judged.rate.is_some()) {
        let Some(percent) = row.judged.cpu_percent else { continue };
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
    let line = |(place, passes): (String, Vec<String>)| format!("{place}: {}", passes.join(", "));
    let all = lines.into_iter().map(line).collect::<Vec<_>>().join("; ");
    (!all.is_empty()).then(|| format!("the client's, in percent of a core: {all}"))
}
