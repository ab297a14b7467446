//! Selects the rows of a large campaign to show on a terminal: the best and worst of each pass.
//!
//! [`RowExcerpt`] is the main type. Up to [`ROWS_MAX`] rows are all shown, in the order of the
//! campaign. If there are more, the rows of each kind of pass are sorted from highest to lowest.

use crate::document::terminal::Screen;
use crate::factor_effects::FactorEffects;
use crate::humanize::{counted, percent};
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// Maximum number of rows to show in full.
pub(crate) const ROWS_MAX: usize = 30;

/// Maximum number of rows to show from either end of a kind of pass.
const END_MAX: usize = 5;

/// Maximum number of factors of a kind of pass to name.
const FACTORS_MAX: usize = 3;

/// Smallest share of the variance that makes a factor worth naming.
pub(crate) const SHARE_MIN: f64 = 0.1;

/// Rows to show.
pub(crate) struct RowExcerpt<'s, 'a> {
    /// Rows in table order.
    pub rows: Vec<&'s Row<'a>>,
    /// True if these are all rows of the campaign.
    pub is_whole: bool,
}

impl<'s, 'a> RowExcerpt<'s, 'a> {
    pub(crate) fn new(sheet: &'s Sheet<'a>, screen: Screen) -> Self {
        if screen.is_whole() || sheet.rows.len() <= ROWS_MAX {
            return Self { rows: sheet.rows.iter().collect(), is_whole: true };
        }
        let groups = sheet.groups();
        // Both ends of each kind of pass; if there are very many kinds, only those of the first
        // ones.
        let end = (ROWS_MAX / (2 * groups.len())).clamp(1, END_MAX);
        let mut rows = Vec::new();
        for (_, pass, mut group) in groups {
            // Invalid results are neither best nor worst. The answer above counts them.
            let metric = RateMetric::for_rows(pass, group.iter().copied());
            group.retain(|row| row.counts());
            group.sort_by(|a, b| metric.median(&b.judged).total_cmp(&metric.median(&a.judged)));
            if group.len() > 2 * end {
                group.drain(end..group.len() - end);
            }
            rows.extend(group);
        }
        rows.truncate(ROWS_MAX);
        Self { rows, is_whole: false }
    }

    /// States how much is shown, and how to see the rest.
    pub(crate) fn describe_rest(&self, sheet: &Sheet<'_>) -> String {
        if self.is_whole {
            return "Evidence, explanations and conditions: dfsbench report --all.".to_owned();
        }
        format!(
            "The table shows only the highest and the lowest of each pass, {} of {}. For all of \
             them: dfsbench report --all, --format csv, or dfsbench view.",
            self.rows.len(),
            counted(sheet.rows.len(), "result")
        )
    }
}

/// Names the factors that explain most of the variance of each kind of pass, unless their effects
/// may be noise.
pub(crate) fn dominant_factors(effects: &FactorEffects) -> Vec<String> {
    let mut lines = Vec::new();
    for pass in &effects.passes {
        let Ok(effects) = &pass.found else { continue };
        let mut named = Vec::new();
        // Already sorted by share.
        for effect in effects.factors.iter().take(FACTORS_MAX) {
            if effect.share >= SHARE_MIN && effect.is_certain() {
                let name = &pass.factors[effect.factor].name;
                named.push(format!("{name} {}", percent(effect.share)));
            }
        }
        if !named.is_empty() {
            lines.push(format!("{}: {}", pass.name, named.join(", ")));
        }
    }
    lines
}
