//! Factor effects as a document: a table with a picture of the ratios, followed by sentences.
//!
//! The picture is a forest plot made of characters, on a logarithmic axis with 1 in the middle.

use super::{FactorEffects, PassFactors};
use crate::document::{Block, Column, Document, Form, Role, Section, Table, TableRow};
use crate::humanize;
use stats::effects::{Effects, FactorEffect, LevelEffect};

const COLUMNS: [(&str, Role); 5] = [
    ("factor", Role::Words),
    ("share", Role::Number),
    ("level", Role::Words),
    ("ratio", Role::Number),
    ("95 %", Role::Words),
];

/// Width of the picture; odd, so that a ratio of 1 has its own column.
const PICTURE: usize = 27;

/// Builds the document with the effects in each kind of pass.
pub(super) fn document(effects: &FactorEffects, form: Form) -> Document {
    let mut document = Document {
        tool: "dfsbench factors",
        title: effects.title.clone(),
        about: Vec::new(),
        parts: Vec::new(),
    };
    for pass in &effects.passes {
        let block = match &pass.found {
            Ok(effects) => Block::Table(factor_table(pass, effects, form)),
            Err(why) => Block::Paragraph(why.sentence().to_owned()),
        };
        document.push(Section {
            id: "factors",
            heading: pass_title(pass),
            blocks: vec![block],
            ..Section::default()
        });
    }
    document
}

fn pass_title(pass: &PassFactors) -> String {
    let compared = match pass {
        PassFactors { by_bytes: true, .. } => ", by bytes per second",
        PassFactors { are_times: true, .. } => ", by time: a ratio above 1 is slower",
        _ => "",
    };
    format!("{}: {}{compared}", pass.name, humanize::counted(pass.trials, "trial"))
}

/// Factor, share, level, ratio and interval of each level; factors by share.
fn level_rows(pass: &PassFactors, effects: &Effects) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for effect in &effects.factors {
        let factor = &pass.factors[effect.factor];
        for number in 0..effect.levels.len() {
            let [name, share] = match number {
                0 => [factor.name.clone(), humanize::percent(effect.share)],
                _ => [String::new(), String::new()],
            };
            let [ratio, interval] = level_figures(pass, effect, number);
            rows.push(vec![name, share, factor.compared(effect, number), ratio, interval]);
        }
    }
    rows
}

fn level_figures(pass: &PassFactors, effect: &FactorEffect, number: usize) -> [String; 2] {
    let level = &effect.levels[number];
    let (lo, hi) = level.interval;
    let is_reference = level.against == number;
    let why = match () {
        () if hi.is_finite() && is_reference => {
            return ["1".to_owned(), "(reference)".to_owned()];
        }
        () if hi.is_finite() => {
            return [format!("{:.3}", level.ratio), format!("{lo:.3} to {hi:.3}")];
        }
        () if is_reference => format!("alone in its {}", pass.list_outer(effect)),
        () => "not separable".to_owned(),
    };
    ["–".to_owned(), why]
}

/// One row per level, with a picture of its interval in a terminal.
fn factor_table(pass: &PassFactors, effects: &Effects, form: Form) -> Table {
    let mut columns = Column::all(&COLUMNS);
    let mut rows = level_rows(pass, effects);
    if form == Form::Text {
        let reach = effects.largest_ratio();
        let scale = format!("{:<13}1{:>13}", format!("{:.2}", 1.0 / reach), format!("{reach:.2}"));
        // The picture repeats the numbers, so it is dropped first in a narrow terminal.
        columns.push(Column::new(scale, Role::Words).leaving(1));
        columns[4].leaves = 2;
        columns[1].leaves = 3;
        // The rows are those of all levels in the same order.
        let levels = effects.factors.iter().flat_map(|factor| &factor.levels);
        for (cells, level) in rows.iter_mut().zip(levels) {
            cells.push(draw_interval(level, reach));
        }
    }
    Table {
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: describe_effects(pass, effects),
        ..Table::default()
    }
}

/// Draws an interval on a logarithmic axis from `1/reach` to `reach`: `├──●──┤`, with a line at 1.
fn draw_interval(level: &LevelEffect, reach: f64) -> String {
    let (lo, hi) = level.interval;
    let mut cells = [' '; PICTURE];
    cells[PICTURE / 2] = '│';
    if hi.is_finite() {
        let from = cell_of(lo, reach);
        let to = cell_of(hi, reach);
        cells[from..=to].fill('─');
        // Draw the ratio last, because it may be at an end of its interval.
        cells[from] = '├';
        cells[to] = '┤';
        cells[cell_of(level.ratio, reach)] = '●';
    }
    cells.iter().collect::<String>().trim_end().to_owned()
}

/// Cell of a ratio; ratios beyond the axis are drawn at its ends.
fn cell_of(ratio: f64, reach: f64) -> usize {
    // Logarithmic, so that twice and half as fast are equally far from 1.
    let half = (PICTURE / 2) as f64;
    (half + half * ratio.ln() / reach.ln()).round().clamp(0.0, 2.0 * half) as usize
}

fn describe_effects(pass: &PassFactors, effects: &Effects) -> Vec<String> {
    let mut sentences = pass.notes(effects);
    sentences.push(format!(
        "Not explained by these factors: {}.",
        humanize::percent(effects.unexplained)
    ));
    if pass.left_out > 0 {
        sentences.push(format!(
            "Left out: {} without a usable figure.",
            humanize::counted(pass.left_out, "row")
        ));
    }
    sentences
}
