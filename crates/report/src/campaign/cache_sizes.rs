//! File sizes at which the rate drops, and the host memory that may explain it.
//!
//! [`sweeps`] is the entry point: rows that differ only in the size of their files form a sweep,
//! and `stats` finds the drops in it. The data show a cache of a certain size; the facts about
//! client and server suggest which cache it is.

mod memory;

use std::collections::{BTreeSet, HashMap};

use model::Pass;
use model::units::Size;
use schemars::JsonSchema;
use serde::Serialize;
use stats::size_sweep::SIZES_MIN;
use stats::{Rate, RateDrop, SizePoint, SizeSweep, size_sweep};

use crate::document::{Block, Form, Section};
use crate::humanize::counted;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Settings that determine the total size of the files.
const SIZES: [&str; 2] = ["file_size", "files"];

/// Maximum number of sweeps to analyze. The sentences about more would not help anyone.
const SWEEPS_MAX: usize = 1_000;

/// Maximum number of sentences to list.
const SENTENCES_MAX: usize = 12;

/// Rows of one pass that differ only in the size of their files.
pub(crate) struct SizeSweepRows<'s, 'a> {
    /// Workload and pass, such as `stream read`.
    pub name: String,
    pub pass: Pass,
    /// Target, with the settings that distinguish it from other sweeps of the pass.
    pub place: String,
    /// Rows, smallest files first.
    pub rows: Vec<&'s Row<'a>>,
    /// How the rate depends on the size.
    pub found: SizeSweep,
}

/// Finds the sweeps of a campaign with enough sizes to analyze.
pub(crate) fn sweeps<'s, 'a>(sheet: &'s Sheet<'a>) -> Vec<SizeSweepRows<'s, 'a>> {
    let mut swept = Vec::new();
    if !SIZES.iter().any(|size| sheet.columns.contains(size)) {
        return swept;
    }
    for (name, pass, mut rows) in sheet.groups() {
        rows.retain(|row| row.counts());
        if !pass.is_byte_rate() && !pass.is_mix() {
            continue;
        }
        let mut parts: Vec<(String, Vec<&'s Row<'a>>)> = Vec::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for row in rows {
            let place = place_of(sheet, row);
            let number = *numbers.entry(place.clone()).or_insert(parts.len());
            if number == parts.len() {
                parts.push((place, Vec::new()));
            }
            parts[number].1.push(row);
        }
        if swept.len() + parts.len() > SWEEPS_MAX {
            break;
        }
        for (place, mut rows) in parts {
            rows.sort_by_key(|row| row.run.spec.set_bytes());
            let points = list_points(&rows);
            // Runs of the same total size but different file counts are not a sweep of sizes.
            if points.len() < SIZES_MIN || points.len() < rows.len() {
                continue;
            }
            let found = size_sweep(&points);
            if found != SizeSweep::TooFew {
                swept.push(SizeSweepRows { name: name.clone(), pass, place, rows, found });
            }
        }
    }
    swept
}

/// Target of a row with its settings, except for the size of the files.
fn place_of(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let mut parts = vec![row.run.spec.target_name.clone()];
    // Files of other distributions are not just larger or smaller.
    parts.extend(row.run.spec.file_sizes.iter().map(|sizes| format!("file_size {sizes}")));
    for (name, value) in sheet.columns.iter().zip(&row.values) {
        if !SIZES.contains(name) && value != NOT_APPLICABLE {
            parts.push(format!("{name} {value}"));
        }
    }
    parts.join(", ")
}

/// The rates of the trials at each size.
fn list_points(rows: &[&Row<'_>]) -> Vec<SizePoint> {
    let mut points = Vec::new();
    let mut sizes = BTreeSet::new();
    for row in rows {
        let bytes = row.run.spec.set_bytes();
        let mut per_s = Vec::new();
        for point in &row.judged.points {
            if point.used && point.per_s > 0.0 {
                per_s.push(point.per_s);
            }
        }
        if !per_s.is_empty() && sizes.insert(bytes) {
            points.push(SizePoint { bytes: bytes as f64, per_s });
        }
    }
    points
}

/// Builds the section with a sentence for each size at which a rate drops; `None` if there is no
/// sweep. Terminal output leaves out sweeps without a drop.
pub(crate) fn section(sheet: &Sheet<'_>, form: Form) -> Option<Section> {
    let swept = sweeps(sheet);
    let mut lines = describe_falls(sheet, &swept);
    if form != Form::Text {
        lines.extend(describe_others(&swept));
    }
    if lines.is_empty() {
        return None;
    }
    let more = lines.len().saturating_sub(SENTENCES_MAX);
    lines.truncate(SENTENCES_MAX);
    if more > 0 {
        lines.push(format!("{more} more are in the output of --format json."));
    }
    let heading = "Sizes at which rates fall".to_owned();
    Some(Section { id: "sizes", heading, blocks: vec![Block::List(lines)], ..Section::default() })
}

/// Drops of one pass between the same two sizes, under several settings.
struct SharedDrop<'f> {
    swept: Vec<&'f SizeSweepRows<'f, 'f>>,
    falls: Vec<RateDrop>,
}

/// Writes a sentence for each drop, merging the same drop under several settings into one.
fn describe_falls(sheet: &Sheet<'_>, swept: &[SizeSweepRows<'_, '_>]) -> Vec<String> {
    let mut same: Vec<SharedDrop<'_>> = Vec::new();
    for one in swept {
        let SizeSweep::Falls(falls) = &one.found else { continue };
        for fall in falls {
            let is_same = |known: &&mut SharedDrop<'_>| {
                let first = known.swept[0];
                let known = known.falls[0];
                first.name == one.name
                    && known.between_bytes == fall.between_bytes
                    && known.is_gradual == fall.is_gradual
            };
            match same.iter_mut().find(is_same) {
                Some(known) => {
                    known.swept.push(one);
                    known.falls.push(*fall);
                }
                None => same.push(SharedDrop { swept: vec![one], falls: vec![*fall] }),
            }
        }
    }
    let mut lines = Vec::new();
    for group in &same {
        let all = swept.iter().filter(|one| one.name == group.swept[0].name).count();
        lines.push(describe_same(sheet, group, all));
    }
    lines
}

fn describe_same(sheet: &Sheet<'_>, group: &SharedDrop<'_>, all: usize) -> String {
    let one = group.swept[0];
    let fall = group.falls[0];
    let (below, above) = fall.between_bytes;
    let between = format!("between {} and {}", show_size(below), show_size(above));
    let cache = describe_cache(&fall);
    let explained = memory::explain(sheet, one, &fall);
    let rate = |per_s| Rate::for_pass(one.pass, per_s);
    if let [fall] = group.falls.as_slice() {
        let place = if all > 1 { format!(" ({})", one.place) } else { String::new() };
        let before = rate(fall.per_s.0);
        let after = rate(fall.per_s.1);
        return format!(
            "{}{place} falls from {before} to {after} {between}: {cache}{explained}",
            one.name
        );
    }
    let mut least = f64::INFINITY;
    let mut most = 0.0_f64;
    for fall in &group.falls {
        let times = fall.per_s.0 / fall.per_s.1;
        least = least.min(times);
        most = most.max(times);
    }
    let some = group.falls.len();
    format!(
        "{} falls by a factor of {least:.1} to {most:.1} {between}, in {some} of {all} settings: \
         {cache}{explained}",
        one.name
    )
}

/// Describes the size of the cache: `a cache of about 1.4 GiB`.
fn describe_cache(fall: &RateDrop) -> String {
    let about = format!("a cache of about {}", show_bytes(fall.cache_bytes));
    if !fall.is_gradual {
        return about;
    }
    let (lo, hi) = fall.interval_bytes;
    format!(
        "{about} ({} to {}); beyond it, only accesses to the rest are slow",
        show_bytes(lo),
        show_bytes(hi)
    )
}

/// Describes the passes whose rate does not drop under any setting.
fn describe_others(swept: &[SizeSweepRows<'_, '_>]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for one in swept {
        if seen.contains(&one.name.as_str()) {
            continue;
        }
        seen.push(&one.name);
        let of_pass: Vec<&SizeSweepRows<'_, '_>> =
            swept.iter().filter(|other| other.name == one.name).collect();
        let count =
            |found: &SizeSweep| of_pass.iter().filter(|other| other.found == *found).count();
        let even = count(&SizeSweep::Even);
        let level = count(&SizeSweep::Level);
        let settings = if of_pass.len() == 1 {
            String::new()
        } else {
            format!(" in {} of {}", even + level, counted(of_pass.len(), "setting"))
        };
        let (Some(first), Some(last)) = (one.rows.first(), one.rows.last()) else { continue };
        let [from, to] = [first, last].map(|row| show_size(row.run.spec.set_bytes() as f64));
        if even > 0 && level == 0 {
            lines.push(format!(
                "{} changes gradually from {from} to {to}{settings}: no size stands out.",
                one.name
            ));
        } else if even + level > 0 {
            lines.push(format!("{} has no knee from {from} to {to}{settings}.", one.name));
        }
    }
    lines
}

/// Formats a file size, which is a whole number of bytes.
fn show_size(bytes: f64) -> String {
    Size(bytes as u64).to_string()
}

/// Formats an estimated size with two digits.
pub(crate) fn show_bytes(bytes: f64) -> String {
    let mut value = bytes;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1_000.0 {
            break;
        }
        value /= 1_024.0;
        unit = larger;
    }
    if value < 9.95 {
        return format!("{value:.1} {unit}");
    }
    let ten = if value < 99.5 { 1.0 } else { 10.0 };
    format!("{:.0} {unit}", (value / ten).round() * ten)
}

/// How the rate of a pass depends on the file size, with other settings equal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeSweep")]
pub(crate) struct SweepPart {
    pass: String,
    /// The target, with the settings that distinguish it from other sweeps of the pass.
    place: String,
    #[schemars(extend("enum" = ["falls", "even", "level"]))]
    outcome: &'static str,
    falls: Vec<FallPart>,
}

/// A size beyond which the rate is lower.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SizeFall")]
struct FallPart {
    /// The largest size before it, of all files together.
    size_before_bytes: f64,
    size_after_bytes: f64,
    rate_before: f64,
    rate_after: f64,
    cache_bytes: f64,
    cache_interval_lo_bytes: f64,
    cache_interval_hi_bytes: f64,
    /// Whether only the part that doesn't fit is slow.
    is_gradual: bool,
}

impl SweepPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let mut parts = Vec::new();
        for swept in sweeps(sheet) {
            let (outcome, falls) = match &swept.found {
                SizeSweep::Falls(falls) => ("falls", falls.as_slice()),
                SizeSweep::Even => ("even", &[][..]),
                SizeSweep::Level | SizeSweep::TooFew => ("level", &[][..]),
            };
            let falls = falls.iter().map(FallPart::from_fall).collect();
            parts.push(Self { pass: swept.name, place: swept.place, outcome, falls });
        }
        parts
    }
}

impl FallPart {
    const fn from_fall(fall: &RateDrop) -> Self {
        Self {
            size_before_bytes: fall.between_bytes.0,
            size_after_bytes: fall.between_bytes.1,
            rate_before: fall.per_s.0,
            rate_after: fall.per_s.1,
            cache_bytes: fall.cache_bytes,
            cache_interval_lo_bytes: fall.interval_bytes.0,
            cache_interval_hi_bytes: fall.interval_bytes.1,
            is_gradual: fall.is_gradual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::show_bytes;

    #[test]
    fn estimates_have_two_digits() {
        let shown = [99.6, 158.1, 512.0, 1_448.2, 2_000.0, 12_345.0]
            .map(|mib: f64| show_bytes(mib * 1_048_576.0));
        assert_eq!(shown, ["100 MiB", "160 MiB", "510 MiB", "1.4 GiB", "2.0 GiB", "12 GiB"]);
    }
}
