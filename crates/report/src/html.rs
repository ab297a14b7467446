//! The parts of a report that only its page has: pictures, the plan, host settings, each trial.
//!
//! The document (`figures`) puts these parts between its sections. Every name goes through `maud`,
//! which escapes it. The page loads nothing, and runs nothing but the script in it that sorts and
//! filters its tables; a content security policy in its head says so to the browser too. Colours
//! follow the reader's light or dark mode and never carry a meaning alone.

mod conditions;
mod curves;
mod ends;
mod explore;
mod factors;
pub mod files;
mod heat;
mod levels;
mod load;
mod quantiles;
mod rates;
mod scatter;
mod series;
mod times;
mod trials;
mod varied;
mod watched;

use maud::{Markup, html};
use model::Question;

use crate::factor_effects::FactorEffects;
use crate::sheet::Sheet;
use crate::show;

pub use conditions::{experiment, facts};
pub use rates::section as rates;

/// Renders the part before the table of figures: of a matrix of many rows the pictures that hold
/// all of them, of other campaigns a bar for each row.
pub fn before_figures(sheet: &Sheet<'_>, effects: &FactorEffects) -> Markup {
    // An answer to a question has pictures of its own: the rates of a load curve, say, are the
    // loads that were offered.
    match sheet.campaign.question {
        Question::Figures => html! {
            (explore::section(sheet, effects))
            (scatter::section(sheet, effects))
            @if !is_large_matrix(sheet) {
                (rates::section(sheet))
                (curves::section(sheet))
            }
            (heat::section(sheet))
            (factors::section(effects))
        },
        // Bars of all layers on one axis show the fastest alone: it is a thousand times the others.
        Question::Ladder(_)
        | Question::Curve(_)
        | Question::Ramp(_)
        | Question::Soak(_)
        | Question::Durability => Markup::default(),
    }
}

/// Renders the part after the table of figures.
pub fn after_figures(sheet: &Sheet<'_>) -> Markup {
    let question = &sheet.campaign.question;
    let has_own_times =
        matches!(question, Question::Curve(_) | Question::Ramp(_) | Question::Soak(_));
    // The timeline of a soak has the rates of all its segments.
    let has_own_timeline = matches!(question, Question::Soak(_));
    html! {
        @if is_large_matrix(sheet) {
            (rates::section(sheet))
            (curves::section(sheet))
        }
        @if !has_own_times {
            (times::section(sheet))
            (load::section(sheet))
        }
        (quantiles::section(sheet))
        @if !has_own_timeline { (series::section(sheet)) }
        (watched::section(sheet))
    }
}

fn is_large_matrix(sheet: &Sheet<'_>) -> bool {
    sheet.campaign.question == Question::Figures
        && sheet.rows.len() > ends::ROWS_MAX
        && explore::is_matrix(sheet)
}

/// Renders the end of the page.
pub fn after_conditions(sheet: &Sheet<'_>) -> Markup {
    html! {
        (trials::section(sheet))
        (conditions::repeat(sheet.campaign))
    }
}

/// Median, 99th percentile and maximum as cells.
fn time_cells(histogram: &model::Histogram) -> Markup {
    html! { @for time in show::times(histogram) { td.number { (time) } } }
}
