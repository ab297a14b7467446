//! Waterfall chart of a ladder: how much each layer adds to the time of the whole data path.
//!
//! There is one bar per layer, starting at the end of the previous layer's bar. The limiting layer
//! is marked by shape and label, never only by color.

use maud::{Markup, html};
use stats::ladder::Limit;

use super::PassLayers;
use super::sentences::LayerNames;
use crate::chart::{ChartRow, ChartText, Picture, STRIP, Tick, panel, percent};
use crate::humanize;

/// Draws the chart; `None` if there is no analysis.
pub(super) fn waterfall(words: &LayerNames<'_>, ladder: &PassLayers<'_, '_>) -> Option<Picture> {
    let analysis = ladder.analysis.as_ref()?;
    let mut strips = Vec::new();
    let mut shares = Vec::new();
    let mut before = 0.0;
    for (layer, share) in &analysis.shares {
        let Some(share) = *share else { continue };
        let name = words.layer(*layer);
        let limit = Limit::Layer(*layer);
        shares.push(format!("{name} {}", humanize::percent(share)));
        let is_limit = limit == analysis.limit;
        strips.push(ChartRow {
            name,
            value: humanize::percent(share),
            lines: if is_limit { vec![("factors", words.limit(limit))] } else { Vec::new() },
            marks: draw_mark(before, share, if is_limit { "bar limit" } else { "bar" }),
        });
        before += share;
    }
    let ticks: Vec<Tick> =
        [0_u32, 25, 50, 75, 100].map(|at| (f64::from(at), at.to_string())).into();
    let unit = if ladder.pass.is_byte_rate() { "byte" } else { "call" };
    let about = ChartText {
        id: format!("waterfall-{}", ladder.name.replace(' ', "-")),
        title: format!("What each layer adds: {}", ladder.name),
        description: format!("Shares of the time per {unit}: {}.", shares.join(", ")),
        unit: "%",
    };
    let id = about.id.clone();
    Some(Picture {
        id,
        caption: format!("{}: what each layer adds to the time per {unit}", ladder.name),
        svg: panel(&about, &strips, &ticks),
        notes: vec![
            "Each bar begins where the one above it ends; the bar in the strong color is the \
             bottleneck. The table has the shares, too."
                .to_owned(),
        ],
    })
}

fn draw_mark(before: f64, share: f64, class: &str) -> Markup {
    // Each bar starts where the one above ends, so that the total is visible.
    let half = STRIP / 2 - 3;
    html! {
        rect class=(class) x=(percent(before * 100.0)) width=(percent(share * 100.0))
            y={"-" (half)} height=(half * 2) {}
        line.median x1=(percent(before * 100.0)) x2=(percent(before * 100.0))
            y1={"-" (STRIP / 2)} y2=(STRIP / 2) {}
    }
}
