//! One kind of work with the result of each contender, and how results compare.
//!
//! Work is a pass with all factors except the system. Settings that differ between contenders
//! without being a factor of any are left out, too; they are listed once and do not separate
//! results.

use model::contender::{contender_of, differences};
use model::{Campaign, Workload};

use crate::table::Sheet;
use crate::table::row::Row;

/// Pass with its factors, and the row of each contender.
pub(super) struct Work<'a> {
    /// Name of the pass, such as `stream write`.
    pub pass: String,
    /// Factors other than the system, such as `workers 4`; often empty.
    pub factors: String,
    /// Row of each contender, in their order.
    pub rows: Vec<Option<&'a Row<'a>>>,
}

/// Relation of a result to the baseline.
pub(super) enum BaselineRatio {
    Baseline,
    /// Ratio of the medians.
    Ratio {
        /// Median of the contender divided by that of the baseline.
        ratio: f64,
        /// True if both have at least three trials and their intervals do not overlap.
        is_apart: bool,
        /// True if both results may be quoted.
        counts: bool,
    },
    /// One of them has no result.
    Missing,
}

/// Factors that do not separate results: the contender itself and, for each workload, settings that
/// differ between contenders without being a factor of any, such as the method of emptying caches.
pub(super) struct OmittedFactors(Vec<(Workload, Vec<String>)>);

impl OmittedFactors {
    pub(super) fn from_campaign(campaign: &Campaign) -> Self {
        let mut found: Vec<(Workload, Vec<String>)> = Vec::new();
        for run in &campaign.runs {
            let workload = run.spec.workload;
            if found.iter().any(|(known, _)| *known == workload) {
                continue;
            }
            let specs = campaign.runs.iter().map(|run| &run.spec);
            let specs = specs.filter(|spec| spec.workload == workload);
            let mut names = vec!["system_settings".to_owned()];
            for difference in differences(specs) {
                if difference.is_single() {
                    names.push(difference.what);
                }
            }
            found.push((workload, names));
        }
        Self(found)
    }

    /// Returns the omitted factors for the workload of a row.
    pub(super) fn for_row(&self, row: &Row<'_>) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(workload, _)| *workload == row.run.spec.workload)
            .flat_map(|(_, known)| known.iter().map(String::as_str))
            .collect()
    }
}

/// Arranges the rows of a sheet by work and contender.
pub(super) fn arrange<'a>(
    sheet: &'a Sheet<'a>,
    names: &[String],
    omitted: &OmittedFactors,
) -> Vec<Work<'a>> {
    let mut works: Vec<Work<'a>> = Vec::new();
    for row in &sheet.rows {
        let pass = row.pass_name();
        let factors = sheet.factors_without(row, &omitted.for_row(row));
        let name = contender_of(&row.run.spec);
        let Some(number) = names.iter().position(|known| *known == name) else { continue };
        let known = works.iter().position(|work| work.pass == pass && work.factors == factors);
        let at = known.unwrap_or(works.len());
        if known.is_none() {
            works.push(Work { pass, factors, rows: vec![None; names.len()] });
        }
        works[at].rows[number].get_or_insert(row);
    }
    works
}

impl Work<'_> {
    /// Full name: `stream write, workers 4`.
    pub(super) fn name(&self) -> String {
        let comma = if self.factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.pass, self.factors)
    }

    /// Compares the result of a contender with that of the baseline.
    pub(super) fn compare_to_baseline(&self, number: usize, baseline: usize) -> BaselineRatio {
        let (Some(own), Some(other)) = (self.rows[number], self.rows[baseline]) else {
            return BaselineRatio::Missing;
        };
        let (Some(rate), Some(base)) = (&own.judged.rate, &other.judged.rate) else {
            return BaselineRatio::Missing;
        };
        if number == baseline {
            return BaselineRatio::Baseline;
        }
        if base.median <= 0.0 {
            return BaselineRatio::Missing;
        }
        let is_apart = match (rate.confidence_interval(), base.confidence_interval()) {
            (Some((low, high)), Some((base_low, base_high))) => low > base_high || high < base_low,
            _ => false,
        };
        let ratio = rate.median / base.median;
        BaselineRatio::Ratio { ratio, is_apart, counts: own.counts() && other.counts() }
    }
}
