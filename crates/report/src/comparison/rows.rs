//! Matches the rows of both sides, and explains rows without a partner.
//!
//! [`KeyedRow`] is a row with everything it is matched by. Two rows match if they have the same
//! settings, except for those named by the selections and those that control repetition. If the
//! selections differ, a setting that only one row has is a consequence of that difference (`timeo`
//! of UDP, `stable` from v3 on) and is ignored. A row that matches several others is not paired.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::CaveatCode;
use model::{Campaign, Pass};
use stats::{BootstrapDraws, criteria, median};

use super::caveats::Reservations;
use super::measure::{ComparedFigure, Measure};
use super::{ComparisonRules, LeftOut, RowPair, Selection};
use crate::humanize;
use crate::question::trial_result;
use crate::table::{Row, Sheet};

/// Settings that determine how often something is repeated, not what is done.
pub(super) const REPETITION: [&str; 3] = ["discard", "until", "warmup_trials"];

/// Maximum number of differing settings for which the nearest row is named; more would not help.
const DIFFERENCES_MAX: usize = 3;

/// Maximum number of pairs among which to search for nearest rows. The search is quadratic, and
/// beyond this there are more unmatched rows than anyone reads.
const NEAREST_PAIRS_MAX: usize = 1_000_000;

/// Row with everything it is matched by.
pub(super) struct KeyedRow {
    settings: BTreeMap<&'static str, String>,
    pass: Pass,
    name: String,
    impossible: bool,
    figures: Result<Figures, String>,
}

struct Figures {
    /// Values of each trial behind the results.
    trials: Vec<(Measure, Vec<f64>)>,
    caveats: Vec<CaveatCode>,
}

impl KeyedRow {
    pub(super) fn rows(selection: Selection<'_>, omitted: &[&str]) -> Vec<Self> {
        let sheet = Sheet::from_campaign(selection.campaign);
        let mut rows = Vec::new();
        for row in &sheet.rows {
            if is_chosen(row, selection.only) {
                rows.push(Self::new(&sheet, row, omitted));
            }
        }
        rows
    }

    pub(super) fn new(sheet: &Sheet<'_>, row: &Row<'_>, omitted: &[&str]) -> Self {
        let judged = &row.judged;
        let figures = match &judged.rate {
            Some(_) if row.counts() => Ok(Figures::from_row(row)),
            Some(_) => Err(format!("invalid: {}", row.codes())),
            None => Err(row.missing()),
        };
        Self {
            settings: row_settings(row).into_iter().collect(),
            pass: judged.pass,
            name: sheet.name_without(row, omitted),
            impossible: judged.impossible.is_some() && judged.trials_made == 0,
            figures,
        }
    }

    /// Names of settings in which two rows differ, except those in `but`. A setting that one of
    /// them lacks counts only in a strict match.
    fn differences<'a>(&'a self, other: &'a Self, but: &[&str], by: Match) -> Vec<&'a str> {
        let mut names = Vec::new();
        for (name, value) in &self.settings {
            let differs = match other.settings.get(name) {
                Some(other_value) => value != other_value,
                None => by == Match::Strict,
            };
            if differs && !but.contains(name) {
                names.push(*name);
            }
        }
        if by == Match::Strict {
            for name in other.settings.keys() {
                if !self.settings.contains_key(name) && !but.contains(name) {
                    names.push(*name);
                }
            }
            names.sort_unstable();
        }
        names
    }

    /// Value of a setting, or `none` if the row does not have it.
    fn value_or_none(&self, name: &str) -> &str {
        match self.settings.get(name) {
            Some(value) => value,
            None => "none",
        }
    }

    pub(super) fn compare_with(
        &self,
        after: &Self,
        rules: &ComparisonRules,
        draws: &mut BootstrapDraws,
    ) -> Result<RowPair, String> {
        let before = self.figures.as_ref().map_err(|why| format!("before: {why}"))?;
        let after_figures = after.figures.as_ref().map_err(|why| format!("after: {why}"))?;
        if self.pass.is_byte_rate() != after.pass.is_byte_rate() {
            return Err("one is in bytes per second, the other in ops per second".to_owned());
        }
        let reservations = Reservations::new(&before.caveats, &after_figures.caveats);
        let mut figures = Vec::new();
        for (measure, trials) in &before.trials {
            let Some((_, other)) = after_figures.trials.iter().find(|(known, _)| known == measure)
            else {
                continue;
            };
            let medians = (median(trials), median(other));
            // The random draws have an order, so each measure consumes its own, even if a median is
            // missing.
            match (draws.compare(trials, other, rules.effect), medians) {
                (Some(mut comparison), (Some(before), Some(after))) => {
                    reservations.apply(*measure, &mut comparison);
                    figures.push(ComparedFigure {
                        measure: *measure,
                        pass: self.pass,
                        medians: [before, after],
                        comparison,
                        bound: rules.bound(*measure),
                        is_flattered: reservations.flatters_after(),
                    });
                }
                _ if *measure == Measure::Rate => return Err("it has a rate of 0".to_owned()),
                // A time of 0 has no ratio.
                _ => {}
            }
        }
        let mut caveats = [before.caveats.as_slice(), &after_figures.caveats].concat();
        caveats.sort_unstable_by_key(|code| code.code());
        caveats.dedup();
        Ok(RowPair { name: self.name.clone(), figures, caveats, reservations })
    }
}

impl Figures {
    fn from_row(row: &Row<'_>) -> Self {
        let judged = &row.judged;
        let mut trials = Vec::new();
        for measure in Measure::ALL {
            // In a closed loop, the service time is the response time.
            let is_service = matches!(measure, Measure::ServiceP50 | Measure::ServiceP99);
            if is_service && judged.offered_per_s.is_none() {
                continue;
            }
            let mut values = Some(Vec::new());
            for point in &judged.points {
                if !point.used {
                    continue;
                }
                let value = match (measure, trial_result(row, point.trial_index)) {
                    (Measure::Rate, _) => Some(point.comparable_per_s),
                    (_, Some(result)) => measure.time_ns(result),
                    (_, None) => None,
                };
                // Skip a measure altogether if one of the trials lacks it.
                match (&mut values, value) {
                    (Some(values), Some(value)) => values.push(value),
                    _ => values = None,
                }
            }
            if let Some(values) = values {
                trials.push((measure, values));
            }
        }
        let mut caveats = Vec::new();
        for caveat in &judged.caveats {
            if !caveat.is_minor() {
                caveats.push(caveat.code);
            }
        }
        Self { trials, caveats }
    }
}

/// Rows of one side, keyed by what a partner must share, so that no row has to be compared with all
/// others.
struct Index<'a> {
    names: &'a [&'static str],
    rows: HashMap<Vec<Option<&'a str>>, Vec<&'a KeyedRow>>,
}

impl<'a> Index<'a> {
    fn new(rows: &'a [KeyedRow], names: &'a [&'static str]) -> Self {
        let mut index = Self { names, rows: HashMap::new() };
        for row in rows {
            index.rows.entry(index.key(row)).or_default().push(row);
        }
        index
    }

    fn key(&self, row: &'a KeyedRow) -> Vec<Option<&'a str>> {
        self.names.iter().map(|name| row.settings.get(name).map(String::as_str)).collect()
    }

    fn matching_rows(&self, row: &'a KeyedRow, but: &[&str], by: Match) -> Vec<&'a KeyedRow> {
        // Rows with the same key agree in all common settings, so only the other settings are left
        // to check.
        let mut rows = Vec::new();
        let Some(others) = self.rows.get(&self.key(row)) else { return rows };
        for other in others {
            if row.differences(other, but, by).is_empty() {
                rows.push(*other);
            }
        }
        rows
    }
}

/// Which settings must be equal for two rows to match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    /// All settings; a setting that a row lacks is a difference.
    Strict,
    /// Settings that both rows have, because the sides were selected by different settings.
    OfShared,
}

/// Names of the settings that matching rows must share: all of them in a strict match, otherwise
/// those that every row has.
fn common_settings(sides: [&[KeyedRow]; 2], but: &[&str], by: Match) -> Vec<&'static str> {
    let mut rows_with: BTreeMap<&'static str, usize> = BTreeMap::new();
    for row in sides.into_iter().flatten() {
        for name in row.settings.keys() {
            *rows_with.entry(name).or_default() += 1;
        }
    }
    let all = sides[0].len() + sides[1].len();
    rows_with.retain(|name, count| !but.contains(name) && (by == Match::Strict || *count == all));
    rows_with.into_keys().collect()
}

/// Pairs the rows of both sides.
pub(super) fn pair_rows(
    sides: [Selection<'_>; 2],
    rules: &ComparisonRules,
) -> (Vec<RowPair>, Vec<LeftOut>) {
    let mut ignored = selected_names(&sides);
    ignored.extend(REPETITION);
    // If the selections differ, they name what is compared (proto=tcp with proto=udp). Settings
    // that exist on only one side follow from that, so they do not prevent a match.
    let by = if sides[0].only == sides[1].only { Match::Strict } else { Match::OfShared };
    let [first, second] = sides.map(|side| KeyedRow::rows(side, &ignored));
    let names = common_settings([&first, &second], &ignored, by);
    let of_first = Index::new(&first, &names);
    let of_second = Index::new(&second, &names);
    // New rows, which may be successors of a missing row.
    let new: Vec<&KeyedRow> =
        second.iter().filter(|row| of_first.matching_rows(row, &ignored, by).is_empty()).collect();
    let may_search = first.len() * new.len() <= NEAREST_PAIRS_MAX;
    let mut draws = BootstrapDraws::new(criteria::BOOTSTRAP_SEED);
    let mut pairs = Vec::new();
    let mut left_out = Vec::new();
    for row in &first {
        let mut matters = true;
        let mut matched = false;
        let mut pairing = None;
        let partners = of_second.matching_rows(row, &ignored, by);
        let why = match partners.as_slice() {
            [] => {
                let near: &[&KeyedRow] = if may_search { &new } else { &[] };
                match nearest_row(row, near, &ignored, by) {
                    None => "only before".to_owned(),
                    Some((nearest, names)) => {
                        let settings = |row: &KeyedRow| format_selection(row, &names);
                        pairing = settings(row).zip(settings(nearest)).map(<[String; 2]>::from);
                        format!("only before ({})", describe_nearest(row, nearest, &names))
                    }
                }
            }
            [partner] => {
                // A partner that matches another row, too, is not paired with either.
                let rivals = of_first.matching_rows(partner, &ignored, by);
                if rivals.len() > 1 {
                    describe_ambiguity("before", &rivals)
                } else {
                    matched = true;
                    matters = !(row.impossible && partner.impossible);
                    match row.compare_with(partner, rules, &mut draws) {
                        Ok(pair) => {
                            pairs.push(pair);
                            continue;
                        }
                        Err(why) => why,
                    }
                }
            }
            several => describe_ambiguity("after", several),
        };
        left_out.push(LeftOut { name: row.name.clone(), why, matters, matched, pairing });
    }
    // A row that did not exist before cannot have got worse.
    for row in new {
        let why = "only after".to_owned();
        let name = row.name.clone();
        left_out.push(LeftOut { name, why, matters: false, matched: false, pairing: None });
    }
    (pairs, left_out)
}

/// Names of the settings by which the sides were selected.
pub(super) fn selected_names<'a>(sides: &[Selection<'a>; 2]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for side in sides {
        names.extend(side.only.iter().map(|(name, _)| name.as_str()));
    }
    names
}

/// Most similar row of the other side, and the few settings in which they differ.
fn nearest_row<'a>(
    row: &'a KeyedRow,
    others: &[&'a KeyedRow],
    ignored: &[&str],
    by: Match,
) -> Option<(&'a KeyedRow, Vec<&'a str>)> {
    let mut nearest: Option<(&KeyedRow, Vec<&str>)> = None;
    for other in others {
        if other.pass != row.pass {
            continue;
        }
        let names = row.differences(other, ignored, by);
        // Among equally near rows, the first one wins.
        if nearest.as_ref().is_none_or(|(_, fewest)| names.len() < fewest.len()) {
            nearest = Some((other, names));
        }
    }
    let (_, names) = nearest.as_ref()?;
    if names.len() > DIFFERENCES_MAX || names.contains(&"workload") {
        return None;
    }
    nearest
}

fn describe_nearest(row: &KeyedRow, nearest: &KeyedRow, names: &[&str]) -> String {
    let mut differences = Vec::new();
    for name in names {
        let its = nearest.value_or_none(name);
        let own = row.value_or_none(name);
        differences.push(format!("{name} {its} instead of {own}"));
    }
    format!("the nearest row after has {}", humanize::listed(&differences))
}

/// Settings of a row as an argument of `--where`; `None` if it lacks one, or if a value contains a
/// comma.
fn format_selection(row: &KeyedRow, names: &[&str]) -> Option<String> {
    let mut settings = Vec::new();
    for name in names {
        let value = row.settings.get(name)?;
        if value.contains(',') {
            return None;
        }
        settings.push(((*name).to_owned(), value.clone()));
    }
    Some(super::format_where(&settings))
}

/// Explains that several rows match, and how they differ.
fn describe_ambiguity(side: &str, rows: &[&KeyedRow]) -> String {
    let names: BTreeSet<_> = rows[1..]
        .iter()
        .flat_map(|other| rows[0].differences(other, &REPETITION, Match::Strict))
        .collect();
    let mut described = Vec::new();
    for name in names {
        let mut values: Vec<&str> = Vec::new();
        for row in rows {
            if let Some(value) = row.settings.get(name) {
                values.push(value);
            }
        }
        values.dedup();
        described.push(format!("{name} ({})", values.join(", ")));
    }
    format!(
        "{} rows {side} match and differ in {}: select one of them in both --where",
        rows.len(),
        humanize::listed(&described)
    )
}

/// Settings of all runs with their values, including `pass`.
pub(super) fn all_settings(campaign: &Campaign) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    for run in &campaign.runs {
        settings.extend(run.spec.settings());
        settings.extend(run.spec.passes().iter().map(|pass| ("pass", pass.name().to_owned())));
    }
    settings
}

/// Settings of a row by name, including `pass`.
pub(super) fn row_settings(row: &Row<'_>) -> Vec<(&'static str, String)> {
    let mut settings = row.run.spec.settings();
    settings.push(("pass", row.judged.pass.name().to_owned()));
    settings
}

pub(super) fn is_chosen(row: &Row<'_>, only: &[(String, String)]) -> bool {
    if only.is_empty() {
        return true;
    }
    let settings = row_settings(row);
    only.iter().all(|(name, value)| {
        settings.iter().any(|(known, shown)| known == name && is_same(shown, value))
    })
}

/// Returns true if two values are the same apart from spaces, since tables show `64 KiB` for
/// `64KiB` in plans.
pub fn is_same(a: &str, b: &str) -> bool {
    without_spaces(a) == without_spaces(b)
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}
