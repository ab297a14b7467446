//! Factors as text: a table with a picture of the ratios, and sentences below it.
//!
//! The picture is a forest plot in characters, on a logarithmic axis with 1 in its middle.

use std::fmt::Write as _;

use super::{Governing, PassFactors};
use crate::grid::{Align, Grid, wrap};
use crate::markdown::{escaped, line};
use crate::show;
use stats::effects::{Effects, FactorEffect, LevelEffect};

const WIDTH_MAX: usize = 100;

/// Columns of the picture; odd, so that a ratio of 1 has one of its own.
const PICTURE: usize = 31;

/// Writes it for a terminal.
pub fn plain(governing: &Governing) -> String {
    let mut out = format!("{}\n", governing.title);
    for pass in &governing.passes {
        let _ = writeln!(out, "\n{}", title(pass));
        match &pass.found {
            Ok(effects) => {
                out.push_str(&grid(pass, effects).render(WIDTH_MAX));
                for sentence in sentences(pass, effects) {
                    for (number, part) in wrap(&sentence, WIDTH_MAX - 4).iter().enumerate() {
                        let indent = if number == 0 { "  " } else { "    " };
                        let _ = writeln!(out, "{indent}{part}");
                    }
                }
            }
            Err(why) => {
                let _ = writeln!(out, "  {}", why.sentence());
            }
        }
    }
    out
}

/// Writes it for GitHub.
pub fn markdown(governing: &Governing) -> String {
    let mut out = format!("# {}\n", escaped(&governing.title));
    for pass in &governing.passes {
        let _ = writeln!(out, "\n## {}\n", escaped(&title(pass)));
        match &pass.found {
            Ok(effects) => {
                line(
                    &mut out,
                    ["factor", "share", "level", "ratio", "95 %"].map(str::to_owned).into_iter(),
                );
                line(
                    &mut out,
                    ["---", "---:", "---", "---:", "---:"].map(str::to_owned).into_iter(),
                );
                for cells in rows(pass, effects) {
                    line(&mut out, cells.iter().map(|cell| escaped(cell)));
                }
                out.push('\n');
                for sentence in sentences(pass, effects) {
                    let _ = writeln!(out, "- {}", escaped(&sentence));
                }
            }
            Err(why) => {
                let _ = writeln!(out, "{}", escaped(why.sentence()));
            }
        }
    }
    out
}

fn title(pass: &PassFactors) -> String {
    let by_bytes = if pass.by_bytes { ", by bytes per second" } else { "" };
    format!("{}: {}{by_bytes}", pass.name, show::counted(pass.trials, "trial"))
}

/// Factor, share, level, ratio and interval of each level; factors by their share.
fn rows(pass: &PassFactors, effects: &Effects) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for effect in &effects.factors {
        let factor = &pass.factors[effect.factor];
        for number in 0..effect.levels.len() {
            let [name, share] = match number {
                0 => [factor.name.to_owned(), show::percent(effect.share)],
                _ => [String::new(), String::new()],
            };
            let [ratio, interval] = figures(pass, effect, number);
            rows.push([name, share, factor.compared(effect, number), ratio, interval]);
        }
    }
    rows
}

fn figures(pass: &PassFactors, effect: &FactorEffect, number: usize) -> [String; 2] {
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
        () if !pass.factors[effect.factor].applies(number) => "not applicable".to_owned(),
        () if is_reference => format!("alone in its {}", pass.outer(effect)),
        () => "not separable".to_owned(),
    };
    ["–".to_owned(), why]
}

fn grid(pass: &PassFactors, effects: &Effects) -> Grid {
    let reach = effects.reach();
    let scale = format!("{:<15}1{:>15}", format!("{:.2}", 1.0 / reach), format!("{reach:.2}"));
    let mut grid = Grid::new(&[
        ("factor", Align::Left),
        ("share", Align::Right),
        ("level", Align::Left),
        ("ratio", Align::Right),
        ("95 %", Align::Left),
        (&scale, Align::Left),
    ]);
    let levels = effects.factors.iter().flat_map(|factor| &factor.levels);
    for (cells, level) in rows(pass, effects).iter().zip(levels) {
        grid.row(&[cells.as_slice(), &[picture(level, reach)]].concat());
    }
    grid
}

/// An interval on a logarithmic axis from `1/reach` to `reach`: `├──●──┤`, and 1 as a line.
fn picture(level: &LevelEffect, reach: f64) -> String {
    let (lo, hi) = level.interval;
    let half = (PICTURE / 2) as f64;
    let at = |ratio: f64| {
        (half + half * ratio.ln() / reach.ln()).round().clamp(0.0, 2.0 * half) as usize
    };
    let mut cells = [' '; PICTURE];
    cells[PICTURE / 2] = '│';
    if hi.is_finite() {
        let (from, to) = (at(lo), at(hi));
        cells[from..=to].fill('─');
        (cells[from], cells[to]) = ('├', '┤');
        cells[at(level.ratio)] = '●';
    }
    cells.iter().collect::<String>().trim_end().to_owned()
}

fn sentences(pass: &PassFactors, effects: &Effects) -> Vec<String> {
    let mut sentences = pass.notes(effects);
    sentences
        .push(format!("Not explained by any of this: {}.", show::percent(effects.unexplained)));
    if pass.left_out > 0 {
        sentences.push(format!(
            "Left out: {} without a figure that counts.",
            show::counted(pass.left_out, "row")
        ));
    }
    sentences
}
