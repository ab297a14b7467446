//! The part of the page that says what was asked, before any answer.

use maud::{Markup, html};

use crate::asked::Asked;
use crate::sheet::Sheet;

/// The section; nothing where no run was stored.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let asked = Asked::of(sheet);
    html! {
        @if !sheet.campaign.runs.is_empty() {
            section aria-labelledby="asked" {
                h2 #asked { "What was asked" }
                dl.conditions {
                    @for (name, sentence) in &asked.work {
                        dt { "workload " (name) }
                        dd { (sentence) }
                    }
                    @for (name, place) in &asked.targets {
                        dt { "target " (name) }
                        dd { (place) }
                    }
                    @for (name, levels) in &asked.factors {
                        dt { "varied: " (name) }
                        dd { (levels) }
                    }
                    dt { "altogether" }
                    dd { (asked.extent) }
                }
            }
        }
    }
}
