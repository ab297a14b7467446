//! The parts of a report that only its page has: pictures, the plan, host settings, each trial.
//!
//! The document (`figures`) puts these parts between its sections. Every name goes through `maud`,
//! which escapes it. The page loads nothing, and runs nothing but the script in it that sorts and
//! filters its tables; a content security policy in its head says so to the browser too. Colours
//! follow the reader's light or dark mode and never carry a meaning alone.

mod conditions;
mod curves;
mod ends;
mod factors;
pub mod files;
mod heat;
mod levels;
mod load;
mod quantiles;
mod rates;
mod series;
mod times;
mod trials;
mod watched;

use maud::{Markup, html};

use crate::sheet::Sheet;
use crate::show;

pub use conditions::{experiment, facts};

/// Renders the part before the table of figures.
pub fn before_figures(sheet: &Sheet<'_>) -> Markup {
    html! {
        (rates::section(sheet))
        (curves::section(sheet))
        (heat::section(sheet))
        (factors::section(sheet))
    }
}

/// Renders the part after the table of figures.
pub fn after_figures(sheet: &Sheet<'_>) -> Markup {
    html! {
        (times::section(sheet))
        (load::section(sheet))
        (quantiles::section(sheet))
        (series::section(sheet))
        (watched::section(sheet))
    }
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
