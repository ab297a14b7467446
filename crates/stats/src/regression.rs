//! Least squares over any subset of columns.
//!
//! [`CrossProducts`] adds up the observations once, and [`CrossProducts::fit`] then fits any subset
//! of the columns without reading them again. A column that is determined by others (a level that
//! was never measured) is left out of the fit and has no coefficient.
//!
//! **Source:** Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).

/// A pivot below this share of its initial value belongs to a column determined by others.
/// Distinguishing it from noise would take twice the precision of a double.
const PIVOT_SHARE_MIN: f64 = 1e-10;

/// Sums of products of all columns and of the result, which is last.
pub(crate) struct CrossProducts {
    size: usize,
    sums: Vec<f64>,
    observations: usize,
}

/// A fit of some columns.
pub(crate) struct Fit {
    size: usize,
    swept: Vec<f64>,
    taken: Vec<bool>,
    observations: usize,
}

impl CrossProducts {
    /// Starts with the given number of columns and no observations.
    pub(crate) fn new(columns: usize) -> Self {
        let size = columns + 1;
        Self { size, sums: vec![0.0; size * size], observations: 0 }
    }

    /// Adds an observation: the columns that are 1 (all others are 0) and the result.
    pub(crate) fn add(&mut self, columns: &[usize], figure: f64) {
        let last = self.size - 1;
        for &row in columns {
            for &column in columns {
                self.sums[row * self.size + column] += 1.0;
            }
            self.sums[row * self.size + last] += figure;
            self.sums[last * self.size + row] += figure;
        }
        self.sums[last * self.size + last] += figure * figure;
        self.observations += 1;
    }

    /// Fits the given columns.
    pub(crate) fn fit(&self, columns: impl IntoIterator<Item = usize>) -> Fit {
        let mut fit = Fit {
            size: self.size,
            swept: self.sums.clone(),
            taken: vec![false; self.size],
            observations: self.observations,
        };
        for column in columns {
            let at = column * self.size + column;
            // What previous columns leave of this one: almost nothing if they determine it.
            if fit.swept[at] > PIVOT_SHARE_MIN * self.sums[at] {
                fit.sweep(column);
            }
        }
        fit
    }
}

impl Fit {
    /// Adds a column to the fit with a Gauss-Jordan step on its pivot. After that, the last column
    /// of the matrix contains the coefficients, and the last element the residual sum of squares.
    fn sweep(&mut self, pivot: usize) {
        let n = self.size;
        let divisor = self.swept[pivot * n + pivot];
        for column in 0..n {
            self.swept[pivot * n + column] /= divisor;
        }
        for row in 0..n {
            if row == pivot {
                continue;
            }
            let factor = self.swept[row * n + pivot];
            // Most products of sparse columns are 0 and need no work.
            if factor != 0.0 {
                for column in 0..n {
                    self.swept[row * n + column] -= factor * self.swept[pivot * n + column];
                }
            }
            self.swept[row * n + pivot] = -factor / divisor;
        }
        self.swept[pivot * n + pivot] = 1.0 / divisor;
        self.taken[pivot] = true;
    }

    /// Returns the residual sum of squares.
    pub(crate) fn residual(&self) -> f64 {
        self.swept[self.size * self.size - 1].max(0.0)
    }

    /// Returns the degrees of freedom: the observations not used up by the fit.
    pub(crate) fn degrees_of_freedom(&self) -> usize {
        let mut freedom = self.observations;
        for is_taken in &self.taken {
            freedom -= usize::from(*is_taken);
        }
        freedom
    }

    /// Returns the coefficient of a column, or `None` if it was left out.
    pub(crate) fn coefficient(&self, column: usize) -> Option<f64> {
        if self.taken[column] { Some(self.swept[column * self.size + self.size - 1]) } else { None }
    }

    /// Returns the variance of a coefficient relative to that of an observation.
    pub(crate) fn variance_share(&self, column: usize) -> f64 {
        self.swept[column * self.size + column]
    }
}
