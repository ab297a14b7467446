//! The answer in three sentences: what is fastest, where targets differ most, what to distrust.
//!
//! Invalid figures are never ranked. Two figures whose intervals overlap are not ranked either:
//! the sentence then says that they can't be told apart.

use model::{CampaignState, Pass, Verdict};
use stats::Summary;

use crate::sheet::{Row, Sheet};
use crate::show::{counted, listed};

/// So many rows are named in a sentence; more are counted.
const NAMED_MAX: usize = 4;

/// Says in three sentences what was found.
pub fn answer(sheet: &Sheet<'_>) -> Vec<String> {
    let groups: Vec<Group<'_>> = sheet
        .groups()
        .into_iter()
        .filter_map(|(name, pass, rows)| Group::of(name, pass, &rows))
        .collect();
    if groups.is_empty() {
        let mut only = vec!["There is no figure that may be used.".to_owned()];
        only.extend(distrust(sheet));
        return only;
    }
    let mut sentences = vec![fastest(sheet, &groups)];
    sentences.extend(widest_gap(sheet, &groups));
    sentences.extend(distrust(sheet));
    sentences
}

/// The usable rows of one kind of pass, fastest first; never empty.
struct Group<'a> {
    name: String,
    pass: Pass,
    rows: Vec<(&'a Row<'a>, Summary)>,
}

impl<'a> Group<'a> {
    fn of(name: String, pass: Pass, rows: &[&'a Row<'a>]) -> Option<Self> {
        let usable = rows.iter().filter(|row| row.counts());
        let mut rows: Vec<_> =
            usable.filter_map(|row| row.judged.rate.map(|rate| (*row, rate))).collect();
        rows.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
        (!rows.is_empty()).then_some(Self { name, pass, rows })
    }

    /// `stream write (416 MB/s, level with posix)`.
    fn best(&self, sheet: &Sheet<'_>) -> String {
        let (first, rate) = &self.rows[0];
        let mut notes = vec![stats::Rate::of_pass(self.pass, rate.median).to_string()];
        if first.judged.verdict == Verdict::Degraded {
            notes.push("in doubt".to_owned());
        }
        let level = self.rows[1..].iter().filter(|(_, other)| other.overlaps(rate));
        let mut names: Vec<String> = level.map(|(row, _)| place(sheet, row)).collect();
        if names.len() > NAMED_MAX {
            let more = names.split_off(NAMED_MAX - 1).len();
            names.push(format!("{more} more"));
        }
        if !names.is_empty() {
            notes.push(format!("level with {}", listed(&names)));
        }
        format!("{} ({})", self.name, notes.join(", "))
    }

    fn gap(&self) -> f64 {
        match self.rows.last() {
            Some((_, slowest)) if slowest.median > 0.0 => self.rows[0].1.median / slowest.median,
            _ => 1.0,
        }
    }
}

/// Who is fastest in which pass: `Fastest is uring in stream write (416 MB/s), ...`.
fn fastest(sheet: &Sheet<'_>, groups: &[Group<'_>]) -> String {
    let mut winners: Vec<(String, Vec<String>)> = Vec::new();
    for group in groups {
        let winner = place(sheet, group.rows[0].0);
        let best = group.best(sheet);
        match winners.iter_mut().find(|(known, _)| *known == winner) {
            Some((_, passes)) => passes.push(best),
            None => winners.push((winner, vec![best])),
        }
    }
    let compared = groups.iter().any(|group| group.rows.len() > 1);
    let lead = if compared { "Fastest is" } else { "Measured was" };
    let parts = winners.iter().map(|(winner, passes)| format!("{winner} in {}", listed(passes)));
    let level = parts.collect::<Vec<_>>().join("; ");
    let explained =
        if level.contains(", level with ") { " (level: the intervals overlap)" } else { "" };
    format!("{lead} {level}{explained}.")
}

/// Target and settings, without the pass.
fn place(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let factors = sheet.factors(row);
    if factors.is_empty() {
        row.run.spec.target_name.clone()
    } else {
        format!("{} ({factors})", row.run.spec.target_name)
    }
}

/// Where the fastest and the slowest lie farthest apart.
fn widest_gap(sheet: &Sheet<'_>, groups: &[Group<'_>]) -> Option<String> {
    let widest = groups.iter().max_by(|a, b| a.gap().total_cmp(&b.gap()))?;
    if widest.rows.len() < 2 {
        return None;
    }
    let ((first, fastest), (last, slowest)) = (widest.rows.first()?, widest.rows.last()?);
    if fastest.overlaps(slowest) {
        return Some("No two of them differ by more than their intervals.".to_owned());
    }
    Some(format!(
        "The widest gap is in {}: slowest is {} with {}, {} makes {} times as much.",
        widest.name,
        place(sheet, last),
        stats::Rate::of_pass(widest.pass, slowest.median),
        place(sheet, first),
        model::units::three_digits(widest.gap()),
    ))
}

/// Which figures are in doubt or missing; always one sentence.
fn distrust(sheet: &Sheet<'_>) -> Option<String> {
    let of = |verdict: Verdict, with_figure: bool| -> Vec<&Row<'_>> {
        let rows = sheet.rows.iter();
        rows.filter(|row| row.judged.verdict == verdict && row.judged.rate.is_some() == with_figure)
            .collect()
    };
    let (doubted, invalid, missing) =
        (of(Verdict::Degraded, true), of(Verdict::Invalid, true), of(Verdict::Invalid, false));
    let mut parts = Vec::new();
    if !invalid.is_empty() {
        parts.push(format!("do not use {}", named(sheet, &invalid)));
    }
    if !doubted.is_empty() {
        parts.push(format!("distrust {}", named(sheet, &doubted)));
    }
    if !missing.is_empty() {
        parts.push(format!("there is no figure for {}", named(sheet, &missing)));
    }
    if sheet.campaign.state != CampaignState::Complete {
        parts.push("the campaign did not reach its end".to_owned());
    }
    if parts.is_empty() {
        let all = counted(sheet.rows.len(), "figure");
        return (!sheet.rows.is_empty()).then(|| format!("Nothing speaks against the {all}."));
    }
    let mut sentence = parts.join("; ");
    sentence[..1].make_ascii_uppercase();
    Some(format!("{sentence}."))
}

/// Rows with the worst of their doubts; where there are many, how many and all their doubts.
fn named(sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> String {
    let code = |row: &Row<'_>| {
        let worst = row.judged.caveats.first().filter(|_| row.judged.rate.is_some());
        worst.map(|caveat| caveat.code.to_string())
    };
    if rows.len() <= NAMED_MAX {
        let name = |row: &&Row<'_>| {
            let why = code(row).map(|code| format!(" ({code})")).unwrap_or_default();
            format!("{}{why}", sheet.name(row))
        };
        return listed(&rows.iter().map(name).collect::<Vec<_>>());
    }
    let mut codes: Vec<String> = rows.iter().filter_map(|row| code(row)).collect();
    codes.sort_unstable();
    codes.dedup();
    let why = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    format!("{} of {} rows{why}", rows.len(), sheet.rows.len())
}
