//! Parts of a report that only the page has: pictures, the plan, host settings, every trial.
//!
//! The document (`campaign`) inserts these parts between its sections. All names are escaped by
//! `maud`. A page loads nothing, and runs only the embedded script that sorts and filters its
//! tables; a content security policy in its head enforces both. Colors follow the reader's light or
//! dark mode and never carry a meaning on their own.

mod conditions;
mod extreme_rows;
mod forest_plot;
mod heat_map;
mod host_activity;
mod latency_curve;
mod matrix_panels;
pub(crate) mod picture_files;
mod quantiles;
mod rate_bars;
mod rate_curves;
mod response_times;
mod scatter;
mod time_series;
mod trials;
mod varied_settings;

use maud::{Markup, html};
use model::Question;

use crate::campaign::notes;
use crate::factor_effects::FactorEffects;
use crate::humanize;
use crate::table::Sheet;

pub(crate) use conditions::{facts, settings};
pub(crate) use rate_bars::section as rates;

const FACTORS: &str = "Factors";

/// Renders the part before the table of results. For a large matrix, these are pictures of all
/// rows; for other campaigns, a bar for each row.
pub(crate) fn before_figures(sheet: &Sheet<'_>, effects: &FactorEffects) -> Markup {
    // Answers to questions have their own pictures. For example, the rates of a load curve are just
    // the offered loads.
    match sheet.campaign.question {
        Question::Figures => {
            // The panels of a matrix need its factors next to them; otherwise the bars show most of
            // it, and the factors are collapsed.
            let factors = forest_plot::part(effects);
            let is_matrix = matrix_panels::is_matrix(sheet);
            let folds = if is_matrix { Markup::default() } else { collapse(FACTORS, &factors) };
            html! {
                (matrix_panels::section(sheet, effects))
                (scatter::section(sheet, effects))
                @if !is_large_matrix(sheet) {
                    (rate_bars::section(sheet, &folds))
                    (rate_curves::section(sheet))
                }
                (heat_map::section(sheet))
                @if is_matrix && !factors.0.is_empty() {
                    section aria-labelledby="factors" {
                        h2 #factors { (FACTORS) }
                        (factors)
                    }
                }
            }
        }
        // Layers differ a thousandfold, so on one axis only the fastest would be visible.
        Question::Ladder(_)
        | Question::Curve(_)
        | Question::Ramp(_)
        | Question::Soak(_)
        | Question::Durability => Markup::default(),
    }
}

/// Renders the part after the table of results.
pub(crate) fn after_figures(sheet: &Sheet<'_>) -> Markup {
    html! {
        @if is_large_matrix(sheet) {
            (rate_bars::section(sheet, &Markup::default()))
            (rate_curves::section(sheet))
        }
        (times_section(sheet))
    }
}

/// Renders the response times, unless the answer has them, and collapses their details.
fn times_section(sheet: &Sheet<'_>) -> Markup {
    let question = &sheet.campaign.question;
    let has_own_times =
        matches!(question, Question::Curve(_) | Question::Ramp(_) | Question::Soak(_));
    let (id, heading, pictures) = if has_own_times {
        ("details", "Loads and response times in detail", Markup::default())
    } else {
        let pictures = html! { (response_times::part(sheet)) (latency_curve::part(sheet)) };
        ("times", "Response times", pictures)
    };
    // The timeline of a soak already shows the rates of all segments.
    let has_own_timeline = matches!(question, Question::Soak(_));
    let folds = html! {
        (collapse("Quantiles of the response times", &quantiles::part(sheet)))
        @if !has_own_timeline { (collapse("Rates over time", &time_series::part(sheet))) }
        (fold_list(notes::load::LOADS, &notes::load::lines(sheet)))
        (fold_list(notes::io500::TITLE, &notes::io500::lines(sheet)))
        (fold_list(notes::load::LISTINGS, &notes::load::listings(sheet)))
        (fold_list(notes::CLIENTS, &notes::clients(sheet)))
        (fold_list(notes::host_balance::TITLE, &notes::host_balance::lines(sheet)))
    };
    html! {
        @if !pictures.0.is_empty() || !folds.0.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (heading) }
                (pictures)
                (folds)
            }
        }
    }
}

/// Collapses content below a summary; returns nothing if it is empty.
fn collapse(summary: &str, content: &Markup) -> Markup {
    html! {
        @if !content.0.is_empty() {
            details {
                summary { (summary) }
                (content)
            }
        }
    }
}

fn fold_list(summary: &str, lines: &[String]) -> Markup {
    let list = html! { @if !lines.is_empty() { ul { @for line in lines { li { (line) } } } } };
    collapse(summary, &list)
}

fn is_large_matrix(sheet: &Sheet<'_>) -> bool {
    sheet.campaign.question == Question::Figures
        && sheet.rows.len() > extreme_rows::ROWS_MAX
        && matrix_panels::is_matrix(sheet)
}

/// Renders the end of the page.
pub(crate) fn after_conditions(sheet: &Sheet<'_>) -> Markup {
    html! {
        section aria-labelledby="trials" {
            h2 #trials { "Trials and repetition" }
            (trials::part(sheet))
            (collapse(
                "Activity of the hosts: CPUs, disks and network, averaged over all trials",
                &host_activity::part(sheet),
            ))
            (conditions::repeat(sheet.campaign))
        }
    }
}

/// Formats median, 99th percentile and maximum as cells.
fn time_cells(histogram: &model::Histogram) -> Markup {
    html! { @for time in humanize::times(histogram) { td.number { (time) } } }
}
