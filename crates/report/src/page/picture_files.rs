//! Pictures of a page as separate files.
//!
//! Each is a self-contained SVG with the colors of the light page written into its style, because
//! most programs that draw SVG do not support CSS variables.

use super::{
    forest_plot, heat_map, latency_curve, quantiles, rate_bars, rate_curves, response_times,
    scatter, time_series,
};
use crate::chart::Picture;
use crate::factor_effects::FactorEffects;
use crate::question;
use crate::table::Sheet;
use crate::text_grid::clean;

const COLOURS: &str = include_str!("colours.css");
const STYLE: &str = include_str!("pictures.css");
/// Width of a picture in pixels; pages stretch pictures instead.
const WIDTH: u32 = 760;

/// Draws all pictures of a campaign. Returns a file name without extension and the content for
/// each.
pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<(String, String)> {
    let effects = FactorEffects::from_sheet(sheet);
    let kinds = [
        rate_bars::pictures(sheet),
        rate_curves::pictures(sheet),
        heat_map::pictures(sheet),
        scatter::pictures(sheet, &effects),
        scatter::spreads(sheet, &effects),
        forest_plot::pictures(&effects),
        response_times::pictures(sheet),
        latency_curve::pictures(sheet),
        quantiles::pictures(sheet),
        time_series::pictures(sheet),
    ];
    let style = light_style();
    let mut files = Vec::new();
    if let Some(found) = question::answer(sheet) {
        for picture in found.pictures {
            files.push((picture.id.clone(), svg_file(picture, &style)));
        }
    }
    files.extend(
        kinds.into_iter().flatten().map(|picture| (picture.id.clone(), svg_file(picture, &style))),
    );
    files
}

fn svg_file(picture: Picture, style: &str) -> String {
    let svg = clean(&picture.svg.into_string());
    let start = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" width=\"{WIDTH}\""
    );
    let svg = svg.replacen("<svg", &start, 1).replacen(" width=\"100%\"", "", 1);
    let body = svg.find('>').map_or(0, |end| end + 1);
    let (head, rest) = svg.split_at(body);
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>";
    format!("{head}<style>{style}</style>{ground}{rest}\n")
}

/// Style sheet with its variables replaced by the colors of the light page.
fn light_style() -> String {
    let light = COLOURS.split('}').next().unwrap_or_default();
    let mut style = STYLE.to_owned();
    for part in light.split("--").skip(1) {
        if let Some((name, value)) = part.split_once(':') {
            let value = value.split(';').next().unwrap_or_default().trim();
            style = style.replace(&format!("var(--{name})"), value);
        }
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colour_is_left_a_name() {
        let style = light_style();
        assert!(!style.contains("var(") && style.contains("fill: #a9c9ea"), "{style}");
    }
}
