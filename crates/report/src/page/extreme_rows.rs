//! Selects the rows of a picture where there are more than a person compares by eye.
//!
//! Up to [`ROWS_MAX`] all of them, else the highest and the lowest; the table has them all.

use crate::table::Row;
use crate::table::rate_metric::RateMetric;

/// So many rows are drawn one by one.
pub(super) const ROWS_MAX: usize = 40;
/// So many of each end where there are more.
const END: usize = 6;

/// The rows that are drawn, and how many there are.
pub(super) struct ExtremeRows<'a, 'b> {
    /// In the order of the campaign where they are all, else from the highest to the lowest.
    pub rows: Vec<&'a Row<'b>>,
    all: usize,
}

impl<'a, 'b> ExtremeRows<'a, 'b> {
    /// Chooses among the rows of a pass, by the rate that they are compared by.
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

    /// Says that not all rows are drawn.
    pub(super) fn notes(&self) -> Vec<String> {
        if self.rows.len() == self.all {
            return Vec::new();
        }
        vec![format!("The {END} highest and the {END} lowest of {} rows.", self.all)]
    }
}
