//! Table of the rates with more and more machines, with the share of the ideal that each reached.

use model::Question;
use schemars::JsonSchema;
use serde::Serialize;

use super::paths::merge_data_servers;
use crate::document::{Block, Column, Form, Role, Section, Table, TableRow};
use crate::humanize::{self, percent};
use crate::table::Sheet;
use crate::table::factor_levels::DATA_SERVERS;
use crate::table::scaling::{ScalingLine, ScalingPoint, scaling_lines};

/// Maximum number of lines on a page, and in a terminal; JSON has all of them.
const LINES_MAX: usize = 60;
const TEXT_LINES_MAX: usize = 6;

/// Builds the section; `None` if no runs differ in their number of machines. Contenders have a
/// section of their own about clients.
pub(super) fn section(sheet: &Sheet<'_>, form: Form, has_contenders: bool) -> Option<Section> {
    if sheet.campaign.question != Question::Figures {
        return None;
    }
    let mut lines = scaling_lines(sheet);
    lines.retain(|line| !has_contenders || line.factor == DATA_SERVERS);
    let most = if form == Form::Text { TEXT_LINES_MAX } else { LINES_MAX };
    let more = lines.len().saturating_sub(most);
    let mut blocks = Vec::new();
    lines.truncate(most);
    for factor in factors(&lines) {
        let of_factor = lines.iter().filter(|line| line.factor == factor);
        blocks.push(Block::Table(table(sheet, factor, &of_factor.collect::<Vec<_>>())));
    }
    if blocks.is_empty() {
        return None;
    }
    if more > 0 {
        blocks.push(Block::Paragraph(format!("{more} more are in the output of --format json.")));
    }
    Some(Section { id: "machines", heading: "Scaling".to_owned(), blocks, ..Section::default() })
}

fn factors<'l>(lines: &'l [ScalingLine<'_, '_>]) -> Vec<&'l str> {
    let mut factors: Vec<&str> = lines.iter().map(|line| line.factor.as_str()).collect();
    factors.dedup();
    factors.sort_unstable();
    factors.dedup();
    factors
}

fn table(sheet: &Sheet<'_>, factor: &str, lines: &[&ScalingLine<'_, '_>]) -> Table {
    let columns = [
        ("pass", Role::Words),
        ("target", Role::Words),
        (factor, Role::Number),
        ("rate", Role::Rate),
        ("±95 %", Role::Number),
        ("ideal", Role::Number),
        ("efficiency", Role::Number),
    ];
    let mut rows = Vec::new();
    let mut unused = Vec::new();
    for line in lines {
        for point in &line.points {
            let rate = line.metric.figure(&point.row.judged);
            rows.push(vec![
                line.pass.clone(),
                place(sheet, point, factor),
                point.level.to_string(),
                line.metric.rate(point.per_s).to_string(),
                rate.map(humanize::spread).unwrap_or_default(),
                line.metric.rate(point.ideal).to_string(),
                efficiency(point),
            ]);
            unused.extend(describe_unused(line, point));
        }
    }
    let mut columns = Column::all(&columns);
    Column::leave_in_order(&mut columns, &["±95 %", "ideal", "target"]);
    let mut reading = vec![
        "ideal: the rate with the fewest, times the ratio of their numbers. efficiency: share of \
         it, with its 95 % interval."
            .to_owned(),
    ];
    reading.extend(unused);
    Table { columns, rows: TableRow::all(rows.into_iter()), reading, ..Table::default() }
}

/// Returns the target with the other settings that distinguish it.
fn place(sheet: &Sheet<'_>, point: &ScalingPoint<'_, '_>, factor: &str) -> String {
    let target = point.row.run.spec.target_name.clone();
    let factors = sheet.factors_without(point.row, &[factor]);
    if factors.is_empty() { target } else { format!("{target}, {factors}") }
}

fn efficiency(point: &ScalingPoint<'_, '_>) -> String {
    let share = percent(point.efficiency());
    match point.interval {
        Some((lo, hi)) => format!("{share} ({} to {})", percent(lo), percent(hi)),
        None => share,
    }
}

/// Explains a point for which layouts named fewer data servers than there were.
fn describe_unused(line: &ScalingLine<'_, '_>, point: &ScalingPoint<'_, '_>) -> Option<String> {
    let used = merge_data_servers(point.row)?.data_servers.len();
    if line.factor != DATA_SERVERS || used as f64 >= point.level {
        return None;
    }
    Some(format!(
        "{}, {} {}: the layouts named only {used} of them; more files or a stripe unit use more.",
        line.pass, line.factor, point.level
    ))
}

/// How the rate of a pass grows with a number of machines, with other settings equal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Scaling")]
pub(crate) struct ScalingPart {
    pass: String,
    /// The target and settings that distinguish it from others of the pass.
    place: String,
    /// The setting that counts machines.
    factor: String,
    points: Vec<ScalingPointPart>,
}

/// The rate with some number of machines, in the unit of the pass.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScalingPoint")]
struct ScalingPointPart {
    /// Index of the run.
    run: u32,
    machines: f64,
    rate_per_s: f64,
    /// The rate with the fewest machines, times the ratio of their numbers.
    ideal_per_s: f64,
    efficiency_percent: f64,
    /// Ends of its 95 % interval; null for the first point, and for fewer than three trials.
    efficiency_lo_percent: Option<f64>,
    efficiency_hi_percent: Option<f64>,
}

impl ScalingPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let part = |line: ScalingLine<'_, '_>| Self {
            points: line.points.iter().map(ScalingPointPart::from_point).collect(),
            pass: line.pass,
            place: line.place,
            factor: line.factor,
        };
        scaling_lines(sheet).into_iter().map(part).collect()
    }
}

impl ScalingPointPart {
    fn from_point(point: &ScalingPoint<'_, '_>) -> Self {
        Self {
            run: point.row.run.index,
            machines: point.level,
            rate_per_s: point.per_s,
            ideal_per_s: point.ideal,
            efficiency_percent: 100.0 * point.efficiency(),
            efficiency_lo_percent: point.interval.map(|(lo, _)| 100.0 * lo),
            efficiency_hi_percent: point.interval.map(|(_, hi)| 100.0 * hi),
        }
    }
}
