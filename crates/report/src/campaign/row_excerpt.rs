//! Selects the rows that a terminal shows of a large campaign: the best and the worst of each pass.
//!
//! [`RowExcerpt`] is the principal type. Up to [`ROWS_MAX`] rows all are shown, in the order of the
//! campaign; of more, those of each kind of pass stand from the highest to the lowest.

use crate::document::terminal::Screen;
use crate::factor_effects::FactorEffects;
use crate::humanize::{counted, percent};
use crate::table::rate_metric::RateMetric;
use crate::table::{Row, Sheet};

/// So many rows are read at a glance.
pub(crate) const ROWS_MAX: usize = 30;

/// So many rows of either end of a kind of pass are shown, at most.
const END_MAX: usize = 5;

/// So many factors of a kind of pass are named.
const FACTORS_MAX: usize = 3;

/// Smallest share of the variance that makes a factor worth naming.
pub(crate) const SHARE_MIN: f64 = 0.1;

/// The rows that are shown.
pub(crate) struct RowExcerpt<'s, 'a> {
    /// The rows, in the order of the table.
    pub rows: Vec<&'s Row<'a>>,
    /// Whether these are all rows of the campaign.
    pub is_whole: bool,
}

impl<'s, 'a> RowExcerpt<'s, 'a> {
    /// Selects the rows of a campaign.
    pub(crate) fn new(sheet: &'s Sheet<'a>, screen: Screen) -> Self {
        if screen.is_whole() || sheet.rows.len() <= ROWS_MAX {
            return Self { rows: sheet.rows.iter().collect(), is_whole: true };
        }
        let groups = sheet.groups();
        // Both ends of each kind of pass; of very many kinds the first ones.
        let end = (ROWS_MAX / (2 * groups.len())).clamp(1, END_MAX);
        let mut rows = Vec::new();
        for (_, pass, mut group) in groups {
            // What must not be used is neither best nor worst; the answer above counts such rows.
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

    /// Says how much is shown, and where the rest is.
    pub(crate) fn rest(&self, sheet: &Sheet<'_>) -> String {
        if self.is_whole {
            return "Evidence, explanations and conditions: dfsbench report --all.".to_owned();
        }
        format!(
            "The table has the highest and the lowest of each pass, {} of {}. All of them: \
             dfsbench report --all, --format csv, or dfsbench view.",
            self.rows.len(),
            counted(sheet.rows.len(), "result")
        )
    }
}

/// Names the factors of each kind of pass that explain most of its variance; none if their effects
/// may be noise.
pub(crate) fn dominant_factors(effects: &FactorEffects) -> Vec<String> {
    let mut lines = Vec::new();
    for pass in &effects.passes {
        let Ok(effects) = &pass.found else { continue };
        let mut named = Vec::new();
        // They are in the order of their shares.
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
