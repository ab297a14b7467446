//! Two campaigns, or two selections of one, laid side by side run by run.
//!
//! [`Compared::of`] matches rows that do the same work: every setting is equal but for those that
//! the selections name. [`Compared::render`] writes it. A row without a figure that counts, or
//! without a partner, is named and never silently left out.

mod json;
mod table;

use model::Campaign;
use stats::{Comparison, Rate, compare, criteria};

use crate::sheet::{Row, Sheet};

/// What is laid on one side.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// The campaign.
    pub campaign: &'a Campaign,
    /// Settings that its runs must have, as (name, shown value); `pass` is one of them.
    pub only: &'a [(String, String)],
}

/// Two selections, compared.
pub struct Compared {
    /// What the sides are, in a line each.
    pub sides: [String; 2],
    /// Rows that both sides have, in the order of the first.
    pub pairs: Vec<Pair>,
    /// Rows that could not be compared, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The smallest effect that counts, as a share.
    pub effect: f64,
}

/// One row of each side.
pub struct Pair {
    /// Target, workload, pass and factors.
    pub name: String,
    /// The medians.
    pub rates: [Rate; 2],
    /// By how much they differ.
    pub comparison: Comparison,
    /// Doubts of either side, each code once.
    pub caveats: Vec<&'static str>,
}

/// How a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareFormat {
    /// Plain text for a terminal.
    Table,
    /// A GitHub table.
    Markdown,
    /// For programs.
    Json,
}

impl Compared {
    /// Matches and compares.
    pub fn of(before: Selection<'_>, after: Selection<'_>, effect: f64) -> Self {
        let sheets = [Sheet::of(before.campaign), Sheet::of(after.campaign)];
        let ignored: Vec<&str> =
            before.only.iter().chain(after.only).map(|(name, _)| name.as_str()).collect();
        let rows = |side: usize, selection: &Selection<'_>| -> Vec<Keyed> {
            let sheet: &Sheet<'_> = &sheets[side];
            let chosen = sheet.rows.iter().filter(|row| is_chosen(row, selection.only));
            chosen.map(|row| Keyed::new(sheet, row, &ignored)).collect()
        };
        let (mut first, mut second) = (rows(0, &before), rows(1, &after));
        let mut compared = Self {
            sides: [side_name(before), side_name(after)],
            pairs: Vec::new(),
            left_out: Vec::new(),
            effect,
        };
        for row in first.drain(..) {
            let partner = second.iter().position(|other| other.key == row.key);
            let Some(partner) = partner.map(|at| second.remove(at)) else {
                compared.left_out.push((row.name, "only before".to_owned()));
                continue;
            };
            match row.against(&partner, effect) {
                Ok(pair) => compared.pairs.push(pair),
                Err(why) => compared.left_out.push((row.name, why)),
            }
        }
        compared.left_out.extend(second.into_iter().map(|row| (row.name, "only after".to_owned())));
        compared
    }

    /// Rows whose figure fell by more than this share, noise alone aside.
    pub fn losses(&self, share: f64) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| {
            pair.comparison.outcome() == stats::Outcome::Lower
                && pair.comparison.ratio < 1.0 - share
        })
    }

    /// Writes it; the text ends with a newline.
    pub fn render(&self, format: CompareFormat) -> String {
        match format {
            CompareFormat::Table => table::plain(self),
            CompareFormat::Markdown => table::markdown(self),
            CompareFormat::Json => json::render(self),
        }
    }
}

/// A row with what it is matched by.
struct Keyed {
    key: Vec<(String, String)>,
    name: String,
    figures: Result<Figures, String>,
}

struct Figures {
    pass: model::Pass,
    median: f64,
    trials: Vec<f64>,
    caveats: Vec<&'static str>,
}

impl Keyed {
    fn new(sheet: &Sheet<'_>, row: &Row<'_>, ignored: &[&str]) -> Self {
        let judged = &row.judged;
        let figures = match &judged.rate {
            Some(rate) if row.counts() => Ok(Figures {
                pass: judged.pass,
                median: rate.median,
                trials: judged.points.iter().filter(|p| p.used).map(|p| p.per_s).collect(),
                caveats: judged.caveats.iter().map(|caveat| caveat.code.code()).collect(),
            }),
            Some(_) => Err(format!("invalid: {}", row.codes())),
            None => Err(row.missing()),
        };
        let settings = settings(row).filter(|(name, _)| !ignored.contains(&name.as_str()));
        Self { key: settings.collect(), name: sheet.name_without(row, ignored), figures }
    }

    fn against(&self, after: &Self, effect: f64) -> Result<Pair, String> {
        let told = |side: &str, why: &String| format!("{side} {why}");
        let before = self.figures.as_ref().map_err(|why| told("before:", why))?;
        let after = after.figures.as_ref().map_err(|why| told("after:", why))?;
        let seed = criteria::BOOTSTRAP_SEED;
        let comparison = compare(&before.trials, &after.trials, effect, seed);
        let mut caveats = [before.caveats.as_slice(), &after.caveats].concat();
        caveats.sort_unstable();
        caveats.dedup();
        Ok(Pair {
            name: self.name.clone(),
            rates: [before, after].map(|side| Rate::of_pass(side.pass, side.median)),
            comparison: comparison.ok_or("a rate of 0")?,
            caveats,
        })
    }
}

/// Every setting of a row by its name, `pass` among them.
fn settings(row: &Row<'_>) -> impl Iterator<Item = (String, String)> {
    let pass = ("pass".to_owned(), row.judged.pass.name().to_owned());
    let of_run = row.run.spec.settings().into_iter();
    of_run.map(|(name, value)| (name.to_owned(), value)).chain([pass])
}

fn is_chosen(row: &Row<'_>, only: &[(String, String)]) -> bool {
    // Tables show `64 KiB` where plans say `64KiB`.
    let same = |a: &str, b: &str| joined(a) == joined(b);
    only.iter().all(|(name, value)| {
        settings(row).any(|(known, shown)| known == *name && same(&shown, value))
    })
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The names of all settings that runs of a campaign have, `pass` among them.
pub fn setting_names(campaign: &Campaign) -> Vec<String> {
    let of_runs = campaign.runs.iter().flat_map(|run| run.spec.settings());
    let mut names: Vec<String> = of_runs.map(|(name, _)| name.to_owned()).collect();
    names.push("pass".to_owned());
    names.sort_unstable();
    names.dedup();
    names
}

fn side_name(selection: Selection<'_>) -> String {
    let Selection { campaign, only } = selection;
    let name = format!("campaign {} ({}, {})", campaign.id, campaign.name, campaign.tool_version);
    only.iter().fold(name, |side, (setting, value)| format!("{side}, {setting} {value}"))
}
