//! Usable results of one kind of pass, with functions that name and list them.
//!
//! A few results are listed one by one, each with the settings that distinguish it from the others
//! of its target. If there are more, only the lowest and highest are named.

use model::Pass;
use stats::Summary;

use crate::table::rate_metric::RateMetric;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Maximum number of results of a pass to list one by one.
const LISTED_MAX: usize = 8;
/// Maximum number of targets to compare with each other.
pub(super) const TARGETS_MAX: usize = 3;
/// Maximum number of settings to tell the listed results of a target apart.
const FACTORS_MAX: usize = 2;

/// Row with a usable result.
#[derive(Clone, Copy)]
pub(super) struct UsableRow<'a> {
    pub row: &'a Row<'a>,
    /// Summary of its rates.
    pub rate: Summary,
}

impl<'a> UsableRow<'a> {
    pub(super) fn target(&self) -> &'a str {
        &self.row.run.spec.target_name
    }
}

/// Usable results of one kind of pass; never empty.
pub(super) struct Group<'a> {
    /// Workload and pass, such as `stream read`.
    pub name: String,
    pub pass: Pass,
    /// The rate by which results are compared.
    metric: RateMetric,
    /// Results in order of appearance.
    pub figures: Vec<UsableRow<'a>>,
    columns: &'a [&'a str],
}

impl<'a> Group<'a> {
    /// Returns every kind of pass with a usable result.
    pub(super) fn all(sheet: &'a Sheet<'a>) -> Vec<Self> {
        let mut groups = Vec::new();
        for (name, pass, mut rows) in sheet.groups() {
            rows.retain(|row| row.counts());
            // The metric depends on all usable rows, so it is chosen before reading any result.
            let metric = RateMetric::for_rows(pass, rows.iter().copied());
            let figures: Vec<_> = rows
                .into_iter()
                .filter_map(|row| {
                    metric.figure(&row.judged).map(|rate| UsableRow { row, rate: *rate })
                })
                .collect();
            if !figures.is_empty() {
                groups.push(Self { name, pass, metric, figures, columns: &sheet.columns });
            }
        }
        groups
    }

    /// Target names, in order of appearance.
    pub(super) fn targets(&self) -> Vec<&'a str> {
        let mut targets = Vec::new();
        for figure in &self.figures {
            if !targets.contains(&figure.target()) {
                targets.push(figure.target());
            }
        }
        targets
    }

    pub(super) fn figures_of(&self, target: &str) -> Vec<UsableRow<'a>> {
        let mut figures = self.figures.clone();
        figures.retain(|figure| figure.target() == target);
        figures
    }

    /// Name and value of every column for a result.
    pub(super) fn settings(
        &self,
        figure: &UsableRow<'a>,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'_, 'a> {
        self.columns.iter().copied().zip(figure.row.values.iter().map(String::as_str))
    }

    /// Value of a column; `None` if the setting does not apply.
    pub(super) fn value(&self, figure: &UsableRow<'a>, name: &str) -> Option<&'a str> {
        let (_, value) = self.settings(figure).find(|(known, _)| *known == name)?;
        if value == NOT_APPLICABLE { None } else { Some(value) }
    }

    /// Columns in which the given results differ.
    pub(super) fn varying(&self, figures: &[UsableRow<'a>]) -> Vec<&'a str> {
        let mut varying = Vec::new();
        for (column, name) in self.columns.iter().enumerate() {
            // Values differ somewhere exactly if two neighbors differ.
            if figures.windows(2).any(|w| w[0].row.values[column] != w[1].row.values[column]) {
                varying.push(*name);
            }
        }
        varying
    }

    /// Formats the given settings of a result: `posix`, or `workers 4, io_size 64 KiB`.
    pub(super) fn label(&self, figure: &UsableRow<'a>, columns: &[&str]) -> String {
        let mut parts = Vec::new();
        for (name, value) in self.settings(figure) {
            match name {
                _ if value == NOT_APPLICABLE || !columns.contains(&name) => {}
                // Backend names are self-explanatory.
                "backend" => parts.push(value.to_owned()),
                _ => parts.push(format!("{name} {value}")),
            }
        }
        parts.join(", ")
    }

    /// Target of a result, with the settings that distinguish it from others of that target: `dir
    /// (posix)`.
    pub(super) fn place(&self, figure: &UsableRow<'a>) -> String {
        let label = self.label(figure, &self.varying(&self.figures_of(figure.target())));
        if label.is_empty() {
            figure.target().to_owned()
        } else {
            format!("{} ({label})", figure.target())
        }
    }

    /// Like [`Self::place`], but only with the settings shared by all results that are level with
    /// this one. A setting in which they differ makes no measurable difference.
    pub(super) fn shared_place(&self, figure: &UsableRow<'a>, level: &[UsableRow<'a>]) -> String {
        let mut targets: Vec<String> = Vec::new();
        for other in level.iter().chain([figure]) {
            if !targets.iter().any(|known| known == other.target()) {
                targets.push(other.target().to_owned());
            }
        }
        let mut columns = self.varying(&self.figures_of(figure.target()));
        let differing = self.varying(level);
        columns.retain(|name| !differing.contains(name));
        let label = self.label(figure, &columns);
        match (targets.len(), label.is_empty()) {
            (1, true) => targets.remove(0),
            (1, false) => format!("{}, {label}", targets[0]),
            (_, true) => targets.join(" or "),
            (_, false) => format!("{}; {label}", targets.join(" or ")),
        }
    }

    /// Returns true if there are few enough results to list one by one.
    pub(super) fn is_short(&self) -> bool {
        let targets = self.targets();
        self.figures.len() <= LISTED_MAX
            && targets.len() <= TARGETS_MAX
            && targets
                .iter()
                .all(|target| self.varying(&self.figures_of(target)).len() <= FACTORS_MAX)
    }

    /// Lists the results on one line.
    pub(super) fn figures(&self) -> String {
        if self.is_short() {
            let lists: Vec<_> =
                self.targets().into_iter().map(|target| self.list_target(target)).collect();
            return lists.join("; ");
        }
        // If there are many, name the extremes with the settings in which they differ.
        let (lowest, highest) = self.extremes();
        let differ = self.varying(&[lowest, highest]);
        let mut ends = Vec::new();
        // For commands, times are shown, shortest first.
        let is_time = self.metric.rate(lowest.rate.median).is_time();
        for figure in if is_time { [highest, lowest] } else { [lowest, highest] } {
            let label = self.label(&figure, &differ);
            let comma = if label.is_empty() { "" } else { ", " };
            ends.push(format!("{} ({}{comma}{label})", self.shown(&figure), figure.target()));
        }
        format!("{} results from {}", self.measured().len(), ends.join(" to "))
    }

    /// Results that measure more than the tool itself; all results if there are no such ones.
    pub(super) fn measured(&self) -> Vec<UsableRow<'a>> {
        let mut measured = self.figures.clone();
        measured.retain(|figure| !figure.row.run.spec.target.keeps_nothing());
        if measured.is_empty() { self.figures.clone() } else { measured }
    }

    /// Lowest and highest result; the first one among equals.
    pub(super) fn extremes(&self) -> (UsableRow<'a>, UsableRow<'a>) {
        let figures = self.measured();
        let mut lowest = figures[0];
        let mut highest = figures[0];
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

    pub(super) fn shown(&self, figure: &UsableRow<'_>) -> String {
        self.metric.rate(figure.rate.median).to_string()
    }

    /// Formats both extremes with their units, smaller number first. For commands, that is the
    /// shortest time.
    pub(super) fn format_range(&self, lowest: &UsableRow<'_>, highest: &UsableRow<'_>) -> String {
        let low = self.shown(lowest);
        let high = self.shown(highest);
        match self.metric.rate(highest.rate.median).is_time() {
            _ if low == high => high,
            true => format!("{high} to {low}"),
            false => format!("{low} to {high}"),
        }
    }

    /// Lists the results of a target. If they share a unit, only the last one has it.
    fn list_target(&self, target: &str) -> String {
        let figures = self.figures_of(target);
        let varying = self.varying(&figures);
        let mut items: Vec<(String, String)> = Vec::new();
        for figure in &figures {
            let label = match self.label(figure, &varying) {
                none if none.is_empty() => none,
                label => format!(" ({label})"),
            };
            items.push((self.shown(figure), label));
        }
        // `752 (posix), 752 MB/s (uring)`: a unit at the end reads better than one per result.
        let is_shared = items.windows(2).all(|w| unit_of(&w[0].0) == unit_of(&w[1].0));
        let mut list = format!("{target} ");
        for (number, (rate, label)) in items.iter().enumerate() {
            let is_last = number + 1 == items.len();
            let unit = if is_shared && !is_last { unit_of(rate) } else { "" };
            list.extend([&rate[..rate.len() - unit.len()], label, if is_last { "" } else { ", " }]);
        }
        list
    }
}

/// Unit of a formatted rate, including the space before it: ` MB/s`. Empty if there is none.
fn unit_of(rate: &str) -> &str {
    rate.find(' ').map_or("", |start| &rate[start..])
}
