//! The usable figures of one kind of pass, and how they are named and listed.
//!
//! Up to a handful of figures are listed one by one, each with the settings that tell it apart
//! from the others of its target; of more only the lowest and the highest are named.

use model::Pass;
use stats::Summary;

use crate::rate_metric::RateMetric;
use crate::sheet::{NOT_APPLICABLE, Row, Sheet};

/// So many figures of a pass are listed one by one.
const LISTED_MAX: usize = 8;
/// So many targets are compared two by two.
pub const TARGETS_MAX: usize = 3;
/// So many settings may tell the listed figures of a target apart.
const FACTORS_MAX: usize = 2;

/// A row that may be used, with its figure.
#[derive(Clone, Copy)]
pub struct Figure<'a> {
    /// The row compared.
    pub row: &'a Row<'a>,
    /// The summary of its rates.
    pub rate: Summary,
}

impl<'a> Figure<'a> {
    /// Name of its target.
    pub fn target(&self) -> &'a str {
        &self.row.run.spec.target_name
    }
}

/// The usable figures of one kind of pass; never empty.
pub struct Group<'a> {
    /// Workload and pass: `stream read`.
    pub name: String,
    /// The kind of pass.
    pub pass: Pass,
    /// By which rate its figures are compared.
    metric: RateMetric,
    /// The figures, in order of appearance.
    pub figures: Vec<Figure<'a>>,
    columns: &'a [&'static str],
}

impl<'a> Group<'a> {
    /// Every kind of pass that has a usable figure.
    pub fn all(sheet: &'a Sheet<'a>) -> Vec<Self> {
        let of = |(name, pass, rows): (String, Pass, Vec<&'a Row<'a>>)| {
            let usable = rows.into_iter().filter(|row| row.counts());
            let usable: Vec<&'a Row<'a>> = usable.collect();
            let metric = RateMetric::of(pass, usable.iter().copied());
            let figure = |row: &'a Row<'a>| {
                metric.figure(&row.judged).map(|rate| Figure { row, rate: *rate })
            };
            let figures: Vec<_> = usable.into_iter().filter_map(figure).collect();
            let columns = sheet.columns.as_slice();
            (!figures.is_empty()).then_some(Self { name, pass, metric, figures, columns })
        };
        sheet.groups().into_iter().filter_map(of).collect()
    }

    /// Names of the targets, in order of appearance.
    pub fn targets(&self) -> Vec<&'a str> {
        let mut targets = Vec::new();
        for figure in &self.figures {
            if !targets.contains(&figure.target()) {
                targets.push(figure.target());
            }
        }
        targets
    }

    /// The figures of one target.
    pub fn of(&self, target: &str) -> Vec<Figure<'a>> {
        self.figures.iter().filter(|figure| figure.target() == target).copied().collect()
    }

    /// Name and value of every column for a figure.
    pub fn settings(
        &self,
        figure: &Figure<'a>,
    ) -> impl Iterator<Item = (&'static str, &'a str)> + use<'_, 'a> {
        self.columns.iter().copied().zip(figure.row.values.iter().map(String::as_str))
    }

    /// The value of a column; `None` where the setting does not apply.
    pub fn value(&self, figure: &Figure<'a>, name: &str) -> Option<&'a str> {
        let mut named = self.settings(figure).filter(|(known, _)| *known == name);
        named.next().map(|(_, value)| value).filter(|value| *value != NOT_APPLICABLE)
    }

    /// The columns in which some of these figures differ.
    pub fn varying(&self, figures: &[Figure<'a>]) -> Vec<&'static str> {
        let differ = |column: usize| {
            let mut values = figures.iter().map(|figure| &figure.row.values[column]);
            values.next().is_some_and(|first| values.any(|value| value != first))
        };
        (0..self.columns.len()).filter(|c| differ(*c)).map(|c| self.columns[c]).collect()
    }

    /// These settings of a figure: `posix`, or `workers 4, io_size 64 KiB`.
    pub fn label(&self, figure: &Figure<'a>, columns: &[&'static str]) -> String {
        let shown = self
            .settings(figure)
            .filter(|(name, value)| columns.contains(name) && *value != NOT_APPLICABLE);
        let part = |(name, value): (&str, &str)| match name {
            "backend" => value.to_owned(),
            _ => format!("{name} {value}"),
        };
        shown.map(part).collect::<Vec<_>>().join(", ")
    }

    /// A figure's target, with what tells it apart from others of it: `dir (posix)`.
    pub fn place(&self, figure: &Figure<'a>) -> String {
        let label = self.label(figure, &self.varying(&self.of(figure.target())));
        if label.is_empty() {
            figure.target().to_owned()
        } else {
            format!("{} ({label})", figure.target())
        }
    }

    /// Whether the figures can be listed one by one.
    pub fn is_short(&self) -> bool {
        let targets = self.targets();
        self.figures.len() <= LISTED_MAX
            && targets.len() <= TARGETS_MAX
            && targets.iter().all(|target| self.varying(&self.of(target)).len() <= FACTORS_MAX)
    }

    /// The figures in a line.
    pub fn figures(&self) -> String {
        if self.is_short() {
            let listed = self.targets().into_iter().map(|target| self.listed(target));
            return listed.collect::<Vec<_>>().join("; ");
        }
        let (lowest, highest) = self.extremes();
        let differ = self.varying(&[lowest, highest]);
        let end = |figure: &Figure<'a>| {
            let label = self.label(figure, &differ);
            let comma = if label.is_empty() { "" } else { ", " };
            format!("{} ({}{comma}{label})", self.shown(figure), figure.target())
        };
        format!("{} figures from {} to {}", self.measured().len(), end(&lowest), end(&highest))
    }

    /// The figures that are not of the tool alone, unless there are no others.
    pub fn measured(&self) -> Vec<Figure<'a>> {
        let is_null = |figure: &&Figure<'a>| figure.row.run.spec.target.keeps_nothing();
        let measured: Vec<_> = self.figures.iter().filter(|f| !is_null(f)).copied().collect();
        if measured.is_empty() { self.figures.clone() } else { measured }
    }

    /// The lowest and the highest of what was measured; the first of equals.
    pub fn extremes(&self) -> (Figure<'a>, Figure<'a>) {
        let figures = self.measured();
        let (mut lowest, mut highest) = (figures[0], figures[0]);
        for figure in &figures {
            if figure.rate.median < lowest.rate.median {
                lowest = *figure;
            }
            if figure.rate.median > highest.rate.median {
                highest = *figure;
            }
        }
        (lowest, highest)
    }

    /// A figure with its unit.
    pub fn shown(&self, figure: &Figure<'_>) -> String {
        self.metric.rate(figure.rate.median).to_string()
    }

    /// The figures of a target; a unit that they share is said once, at the last of them.
    fn listed(&self, target: &str) -> String {
        let figures = self.of(target);
        let varying = self.varying(&figures);
        let shown: Vec<String> = figures.iter().map(|figure| self.shown(figure)).collect();
        let unit = |shown: &str| shown.split_once(' ').map(|(_, unit)| unit.to_owned());
        let shared = shown.iter().all(|rate| unit(rate) == unit(&shown[0]));
        let item = |(number, (figure, rate)): (usize, (&Figure<'a>, &String))| {
            let short = rate.split(' ').next().unwrap_or(rate);
            let rate = if shared && number + 1 < figures.len() { short } else { rate };
            match self.label(figure, &varying) {
                none if none.is_empty() => rate.to_owned(),
                label => format!("{rate} ({label})"),
            }
        };
        let items = figures.iter().zip(&shown).enumerate().map(item);
        format!("{target} {}", items.collect::<Vec<_>>().join(", "))
    }
}
