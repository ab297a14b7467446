//! Selects the rows of a picture if there are too many to compare by eye.
//!
//! Up to [`ROWS_MAX`] rows are all shown; otherwise only the highest and lowest. The table has all
//! of them.

use crate::table::Row;
use crate::table::rate_metric::RateMetric;

/// Maximum number of rows to draw in full.
pub(super) const ROWS_MAX: usize = 40;
/// Number of rows to draw from each end if there are more.
const END: usize = 6;

/// Rows to draw, and the total number.
pub(super) struct ExtremeRows<'a, 'b> {
    /// In campaign order if complete, otherwise from highest to lowest.
    pub rows: Vec<&'a Row<'b>>,
    all: usize,
}

impl<'a, 'b> ExtremeRows<'a, 'b> {
    /// Selects from the rows of a pass by the given metric.
    pub(super) fn new(rows: &[&'a Row<'b>], metric: RateMetric) -> Self {
        let all = rows.len();
        if all <= ROWS_MAX {
            return Self { rows: rows.to_vec(), all };
        }
        let mut ordered = rows.to_vec();
        ordered.retain(|row| metric.figure(&row.judged).is_some());
        ordered.sort_by(|a, b| metric.median(&b.judged).total_cmp(&metric.median(&a.judged)));
        if ordered.len() > 2 * END {
            ordered.drain(END..ordered.len() - END);
        }
        Self { rows: ordered, all }
    }

    /// Notes that not all rows are drawn.
    pub(super) fn notes(&self) -> Vec<String> {
        if self.rows.len() == self.all {
            return Vec::new();
        }
        vec![format!("The {END} highest and the {END} lowest of {} rows.", self.all)]
    }
}
