//! Matches the rows of one side with those of the other, and explains rows without a partner.
//!
//! [`Keyed`] is a row with all that it is matched by. Two rows match where their settings are the
//! same but for those that the selections name, and for how often they were repeated. Where the
//! selections differ, a setting that only one row has follows from what differs (`timeo` of UDP,
//! `stable` of v3 on), and is not looked at. A row that fits several others fits none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::CaveatCode;
use model::{Campaign, Pass};
use stats::{Draws, criteria, median};

use super::measure::{Figure, Measure};
use super::{LeftOut, Pair, Rules, Selection};
use crate::sheet::{Row, Sheet};
use crate::show;

/// Settings that say how often something was done, not what.
pub(super) const REPETITION: [&str; 3] = ["discard", "until", "warmup_trials"];

/// A nearest row is named by what differs, unless that is too much to be of help.
const DIFFERENCES_MAX: usize = 3;

/// The most pairs of rows for which the nearest row is searched: beyond it there are more rows
/// without a partner than a person reads, and the search takes quadratic time.
const NEAREST_PAIRS_MAX: usize = 1_000_000;

/// A row with what it is matched by.
pub(super) struct Keyed {
    settings: BTreeMap<&'static str, String>,
    pass: Pass,
    name: String,
    impossible: bool,
    figures: Result<Figures, String>,
}

struct Figures {
    /// The values of each trial behind the figures.
    trials: Vec<(Measure, Vec<f64>)>,
    caveats: Vec<CaveatCode>,
}

impl Keyed {
    /// The rows of a selection.
    pub fn rows(selection: Selection<'_>, unsaid: &[&str]) -> Vec<Self> {
        let sheet = Sheet::of(selection.campaign);
        let chosen = sheet.rows.iter().filter(|row| is_chosen(row, selection.only));
        chosen.map(|row| Self::new(&sheet, row, unsaid)).collect()
    }

    fn new(sheet: &Sheet<'_>, row: &Row<'_>, unsaid: &[&str]) -> Self {
        let judged = &row.judged;
        let figures = match &judged.rate {
            Some(_) if row.counts() => Ok(Figures::of(row)),
            Some(_) => Err(format!("invalid: {}", row.codes())),
            None => Err(row.missing()),
        };
        Self {
            settings: settings(row).collect(),
            pass: judged.pass,
            name: sheet.name_without(row, unsaid),
            impossible: judged.impossible.is_some() && judged.trials_made == 0,
            figures,
        }
    }

    /// Names of settings in which two rows differ, those in `but` aside; a setting that one of
    /// them lacks counts only in a strict match.
    fn differences<'a>(&'a self, other: &'a Self, but: &[&str], by: Match) -> Vec<&'a str> {
        let names = self.settings.keys().chain(other.settings.keys()).copied();
        let differs = |name: &&str| match (self.settings.get(*name), other.settings.get(*name)) {
            (Some(a), Some(b)) => a != b,
            _ => by == Match::Strict,
        };
        let mut names: Vec<&str> =
            names.filter(|name| !but.contains(name)).filter(differs).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn against(&self, after: &Self, rules: &Rules, draws: &mut Draws) -> Result<Pair, String> {
        let told = |side: &str, why: &String| format!("{side}: {why}");
        let before = self.figures.as_ref().map_err(|why| told("before", why))?;
        let after_figures = after.figures.as_ref().map_err(|why| told("after", why))?;
        if self.pass.is_byte_rate() != after.pass.is_byte_rate() {
            return Err("one is in bytes per second, the other in ops per second".to_owned());
        }
        let mut figures = Vec::new();
        for (measure, trials) in &before.trials {
            let other = after_figures.trials.iter().find(|(known, _)| known == measure);
            let figure = other.and_then(|(_, other)| {
                let comparison = draws.compare(trials, other, rules.effect)?;
                Some(Figure {
                    measure: *measure,
                    pass: self.pass,
                    medians: [median(trials)?, median(other)?],
                    comparison,
                    bound: rules.bound(*measure),
                })
            });
            match (measure, figure) {
                (_, Some(figure)) => figures.push(figure),
                (Measure::Rate, None) => return Err("a rate of 0".to_owned()),
                // Nothing can be said of a time of 0.
                (_, None) => {}
            }
        }
        let mut caveats = [before.caveats.as_slice(), &after_figures.caveats].concat();
        caveats.sort_unstable_by_key(|code| code.code());
        caveats.dedup();
        Ok(Pair { name: self.name.clone(), figures, caveats })
    }
}

impl Figures {
    fn of(row: &Row<'_>) -> Self {
        let judged = &row.judged;
        let used: Vec<_> = judged.points.iter().filter(|point| point.used).collect();
        let mut trials = vec![(Measure::Rate, used.iter().map(|point| point.per_s).collect())];
        let is_open = judged.offered_per_s.is_some();
        let told = Measure::ALL.iter().filter(|measure| match measure {
            Measure::Rate => false,
            Measure::ResponseP50 | Measure::ResponseP99 => true,
            Measure::ServiceP50 | Measure::ServiceP99 => is_open,
        });
        for &measure in told {
            let time = |index: u32| {
                let trial = row.run.trials.iter().find(|trial| trial.index == index)?;
                let result = trial.passes.iter().find(|result| result.pass == judged.pass)?;
                measure.time_ns(result)
            };
            let times: Option<Vec<f64>> =
                used.iter().map(|point| time(point.trial_index)).collect();
            trials.extend(times.map(|times| (measure, times)));
        }
        let caveats = judged.caveats.iter().map(|caveat| caveat.code).collect();
        Self { trials, caveats }
    }
}

/// The rows of one side by what a partner has in common with them, so that no row has to be held
/// against all others.
struct Index<'a> {
    names: &'a [&'static str],
    rows: HashMap<Vec<Option<&'a str>>, Vec<&'a Keyed>>,
}

impl<'a> Index<'a> {
    fn of(rows: &'a [Keyed], names: &'a [&'static str]) -> Self {
        let mut index = Self { names, rows: HashMap::new() };
        for row in rows {
            index.rows.entry(index.key(row)).or_default().push(row);
        }
        index
    }

    fn key(&self, row: &'a Keyed) -> Vec<Option<&'a str>> {
        self.names.iter().map(|name| row.settings.get(name).map(String::as_str)).collect()
    }

    /// Rows among which all are that fit.
    fn like(&self, row: &'a Keyed) -> &[&'a Keyed] {
        self.rows.get(&self.key(row)).map_or(&[], Vec::as_slice)
    }

    /// The rows that fit.
    fn fitting(&self, row: &'a Keyed, but: &[&str], by: Match) -> Vec<&'a Keyed> {
        let fits = |other: &&&Keyed| row.differences(other, but, by).is_empty();
        self.like(row).iter().filter(fits).copied().collect()
    }
}

/// By which settings rows of two sides fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    /// By all of them: one that a row lacks is a difference.
    Strict,
    /// By those that both rows have: the sides were selected by different settings.
    OfShared,
}

/// Names of the settings in which rows that fit are the same: of a strict match all of them, else
/// those that every row has.
fn common_settings(sides: [&[Keyed]; 2], but: &[&str], by: Match) -> Vec<&'static str> {
    let rows = || sides.into_iter().flatten();
    let all: BTreeSet<&str> = rows().flat_map(|row| row.settings.keys().copied()).collect();
    let everywhere =
        |name: &&str| by == Match::Strict || rows().all(|row| row.settings.contains_key(name));
    all.into_iter().filter(|name| !but.contains(name)).filter(everywhere).collect()
}

/// Lays the rows side by side.
pub(super) fn paired(sides: [Selection<'_>; 2], rules: &Rules) -> (Vec<Pair>, Vec<LeftOut>) {
    let named = sides.iter().flat_map(|side| side.only).map(|(name, _)| name.as_str());
    let ignored: Vec<&str> = named.chain(REPETITION).collect();
    let by = if sides[0].only == sides[1].only { Match::Strict } else { Match::OfShared };
    let [first, second] = sides.map(|side| Keyed::rows(side, &ignored));
    let names = common_settings([&first, &second], &ignored, by);
    let of_first = Index::of(&first, &names);
    let of_second = Index::of(&second, &names);
    let before = |row| of_first.fitting(row, &ignored, by);
    let after = |row| of_second.fitting(row, &ignored, by);
    // What is new, and may be what a missing row has become.
    let new: Vec<&Keyed> = second.iter().filter(|row| before(row).is_empty()).collect();
    let may_tell_nearest = first.len() * new.len() <= NEAREST_PAIRS_MAX;
    let mut draws = Draws::new(criteria::BOOTSTRAP_SEED);
    let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
    let mut out = |row: &Keyed, why: String, matters, matched| {
        left_out.push(LeftOut { name: row.name.clone(), why, matters, matched });
    };
    for row in &first {
        let partners = after(row);
        match partners.as_slice() {
            [] => {
                let near: &[&Keyed] = if may_tell_nearest { &new } else { &[] };
                let nearest = nearest_row(row, near, &ignored, by);
                out(row, format!("only before{nearest}"), true, false);
            }
            [partner] => {
                let rivals = before(partner);
                if rivals.len() > 1 {
                    out(row, describe_ambiguity("before", &rivals), true, false);
                    continue;
                }
                match row.against(partner, rules, &mut draws) {
                    Ok(pair) => pairs.push(pair),
                    Err(why) => out(row, why, !(row.impossible && partner.impossible), true),
                }
            }
            several => out(row, describe_ambiguity("after", several), true, false),
        }
    }
    // What was not there before can't have got worse.
    for row in new {
        out(row, "only after".to_owned(), false, false);
    }
    (pairs, left_out)
}

/// Describes the difference between a row and the row of the other side most like it.
fn nearest_row(row: &Keyed, others: &[&Keyed], ignored: &[&str], by: Match) -> String {
    let same_pass = others.iter().filter(|other| other.pass == row.pass);
    let differing = same_pass.map(|other| (other, row.differences(other, ignored, by)));
    let Some((other, names)) = differing.min_by_key(|(_, names)| names.len()) else {
        return String::new();
    };
    if names.len() > DIFFERENCES_MAX || names.contains(&"workload") {
        return String::new();
    }
    let value =
        |row: &Keyed, name: &str| row.settings.get(name).map_or("none", String::as_str).to_owned();
    let difference =
        |name: &&str| format!("{name} {} instead of {}", value(other, name), value(row, name));
    let differences: Vec<String> = names.iter().map(difference).collect();
    format!(" (the nearest row after has {})", show::listed(&differences))
}

/// Says that several rows would do, and what tells them apart.
fn describe_ambiguity(side: &str, rows: &[&Keyed]) -> String {
    let mut names: Vec<&str> = rows[1..]
        .iter()
        .flat_map(|other| rows[0].differences(other, &REPETITION, Match::Strict))
        .collect();
    names.sort_unstable();
    names.dedup();
    let told = |name: &&str| {
        let mut values: Vec<&str> =
            rows.iter().filter_map(|row| row.settings.get(*name)).map(String::as_str).collect();
        values.dedup();
        format!("{name} ({})", values.join(", "))
    };
    let names: Vec<String> = names.iter().map(told).collect();
    format!(
        "{} rows {side} fit, told apart by {}: name that in both --where",
        rows.len(),
        show::listed(&names)
    )
}

/// The settings of all runs with their values, `pass` among them.
pub(super) fn all_settings(
    campaign: &Campaign,
) -> impl Iterator<Item = (&'static str, String)> + '_ {
    campaign.runs.iter().flat_map(|run| {
        let passes = run.spec.passes().iter().map(|pass| ("pass", pass.name().to_owned()));
        let settings = run.spec.settings().into_iter().chain(passes);
        settings.collect::<Vec<_>>()
    })
}

/// Every setting of a row by its name, `pass` among them.
pub(super) fn settings(row: &Row<'_>) -> impl Iterator<Item = (&'static str, String)> {
    let pass = ("pass", row.judged.pass.name().to_owned());
    row.run.spec.settings().into_iter().chain([pass])
}

pub(super) fn is_chosen(row: &Row<'_>, only: &[(String, String)]) -> bool {
    only.iter().all(|(name, value)| {
        settings(row).any(|(known, shown)| known == *name && is_same(&shown, value))
    })
}

/// Says whether two values are the same: tables show `64 KiB` where plans say `64KiB`.
pub fn is_same(a: &str, b: &str) -> bool {
    joined(a) == joined(b)
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect()
}
