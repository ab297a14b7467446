//! One kind of work with the figure of each contender, and how figures compare.
//!
//! Work is a pass with all factors but the system, and but for what differs between the contenders
//! and is no factor of any: that is named once, and keeps no figures apart.

use model::contender::{contender_of, differences};
use model::{Campaign, Workload};

use crate::table::Sheet;
use crate::table::row::Row;

/// A pass with its factors, and the row of each contender.
pub(super) struct Work<'a> {
    /// Name of the pass: `stream write`.
    pub pass: String,
    /// The factors beside the system: `workers 4`; often empty.
    pub factors: String,
    /// The row of each contender, in their order.
    pub rows: Vec<Option<&'a Row<'a>>>,
}

/// How a figure stands beside that of the baseline.
pub(super) enum BaselineRatio {
    /// It is that of the baseline.
    Baseline,
    /// The ratio of the medians, and whether the 95 % intervals are apart.
    Ratio {
        /// Median of the contender divided by that of the baseline.
        ratio: f64,
        /// Whether both have three trials at least, and intervals that don't overlap.
        is_apart: bool,
        /// Whether both figures may be quoted.
        counts: bool,
    },
    /// One of the two has no figure.
    Missing,
}

/// The factors that keep no figures apart: the contender itself, and for each workload what differs
/// with the contender and is no factor of any, such as the way in which caches are emptied.
pub(super) struct OmittedFactors(Vec<(Workload, Vec<String>)>);

impl OmittedFactors {
    /// Finds those of a campaign.
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

    /// Returns those of a row's workload.
    pub(super) fn for_row(&self, row: &Row<'_>) -> Vec<&str> {
        let mut names = Vec::new();
        for (workload, known) in &self.0 {
            if *workload == row.run.spec.workload {
                names.extend(known.iter().map(String::as_str));
            }
        }
        names
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
        let (pass, factors) = (row.pass_name(), sheet.factors_without(row, &omitted.for_row(row)));
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
    /// Its whole name: `stream write, workers 4`.
    pub(super) fn name(&self) -> String {
        let comma = if self.factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.pass, self.factors)
    }

    /// Compares the figure of a contender with that of the baseline.
    pub(super) fn standing(&self, number: usize, baseline: usize) -> BaselineRatio {
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
