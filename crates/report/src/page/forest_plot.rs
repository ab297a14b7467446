//! Picture of the factors: a forest plot for each kind of pass with settings that vary.
//!
//! There is one row for each level that is compared with another of its factor. The axis is
//! logarithmic, with a line at 1 for "no difference".

use maud::{Markup, html};
use stats::effects::{Effects, LevelEffect};

use crate::chart::Tick;
use crate::chart::{
    ChartRow, ChartText, Picture, cut, describe_strips, figures, panel, percent, shape,
};
use crate::factor_effects::{Factor, FactorEffects, PassFactors};
use crate::humanize;

const DISC: &str = "M-5,0 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z";

/// Renders the pictures with their legend; empty if no setting varies.
pub(super) fn part(effects: &FactorEffects) -> Markup {
    let drawn = pictures(effects);
    html! {
        @if !drawn.is_empty() {
            p.legend {
                "Ratio of each level to its reference level, other settings equal, with its 95 % \
                 interval (logarithmic); in parentheses, the share of the variance explained by \
                 the factor."
            }
            (figures(&drawn))
        }
    }
}

/// Draws the pictures without a legend.
pub(super) fn pictures(effects: &FactorEffects) -> Vec<Picture> {
    let mut drawn = Vec::new();
    for pass in &effects.passes {
        // The bars already show how targets differ.
        let varies = pass.factors.iter().any(|factor| factor.name != "target");
        let Ok(found) = &pass.found else { continue };
        if varies {
            let id = format!("factors-{}", drawn.len());
            let svg = draw_chart(&id, pass, found);
            let notes = chart_notes(pass, found);
            drawn.push(Picture { id, caption: pass.name.clone(), svg, notes });
        }
    }
    drawn
}

fn chart_notes(pass: &PassFactors, effects: &Effects) -> Vec<String> {
    let mut notes = pass.notes(effects);
    notes.push(format!("Not explained: {}.", humanize::percent(effects.unexplained)));
    notes
}

fn draw_chart(id: &str, pass: &PassFactors, effects: &Effects) -> Markup {
    let axis = RatioAxis::new(effects);
    let mut strips = Vec::new();
    for effect in &effects.factors {
        let factor = &pass.factors[effect.factor];
        for (number, level) in effect.levels.iter().enumerate() {
            // The baseline level has no ratio of its own.
            if level.against != number && level.interval.1.is_finite() {
                strips.push(level_strip(factor, number, effect.share, level, &axis));
            }
        }
    }
    let about = ChartText {
        id: id.to_owned(),
        title: format!("{}: effect of each factor as a ratio", pass.name),
        description: describe_strips(&strips),
        unit: "",
    };
    panel(&about, &strips, &axis.ticks())
}

fn level_strip(
    factor: &Factor,
    number: usize,
    share: f64,
    level: &LevelEffect,
    axis: &RatioAxis,
) -> ChartRow {
    let (lo, hi) = level.interval;
    let against = format!("{} against {}", factor.levels[number], factor.levels[level.against]);
    ChartRow {
        name: cut(&format!("{} ({})", factor.name, humanize::percent(share)), 30),
        value: format!("{:.2} ({lo:.2} to {hi:.2})", level.ratio),
        lines: vec![("factors", cut(&against, 46))],
        marks: html! {
            line.whisker x1=(percent(axis.at(1.0))) x2=(percent(axis.at(1.0))) y1="-10" y2="10" {}
            line.reach x1=(percent(axis.at(lo))) x2=(percent(axis.at(hi))) y1="0" y2="0" {}
            (shape(axis.at(level.ratio), "p50", DISC))
        },
    }
}

/// Logarithmic axis with 1 in the middle.
struct RatioAxis {
    reach: f64,
}

impl RatioAxis {
    fn new(effects: &Effects) -> Self {
        Self { reach: effects.largest_ratio() }
    }

    /// Position of a ratio in percent of the width, clamped to the picture.
    fn at(&self, ratio: f64) -> f64 {
        // Logarithmic, so that twice and half as fast are equally far from 1.
        (50.0 + 50.0 * ratio.ln() / self.reach.ln()).clamp(0.0, 100.0)
    }

    fn ticks(&self) -> Vec<Tick> {
        let ends = [1.0 / self.reach, 1.0, self.reach];
        ends.map(|ratio| (self.at(ratio), format!("{ratio:.2}"))).to_vec()
    }
}
