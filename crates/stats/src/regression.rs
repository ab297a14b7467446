//! Least squares over columns that may be taken in and left out again.
//!
//! [`CrossProducts`] sums up the observations once; [`CrossProducts::fit`] then fits any subset of
//! the columns without looking at them again. A column that others determine (a level that was
//! never measured) is left out of the fit and has no coefficient.
//!
//! **Source:** Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).

/// A pivot below this share of what it was at first is a column that others determine: twice the
/// digits of a double would be needed to tell it from noise.
const PIVOT_SHARE_MIN: f64 = 1e-10;

/// The sums of products of all columns and of the figure, which stands last.
pub struct CrossProducts {
    size: usize,
    sums: Vec<f64>,
    observations: usize,
}

/// A fit of some columns.
pub struct Fit {
    size: usize,
    swept: Vec<f64>,
    taken: Vec<bool>,
    observations: usize,
}

impl CrossProducts {
    /// Starts with so many columns and no observation.
    pub fn new(columns: usize) -> Self {
        let size = columns + 1;
        Self { size, sums: vec![0.0; size * size], observations: 0 }
    }

    /// Takes in an observation: the columns that are 1 in it (all others are 0), and its figure.
    pub fn add(&mut self, columns: &[usize], figure: f64) {
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

    /// Fits those columns.
    pub fn fit(&self, columns: impl IntoIterator<Item = usize>) -> Fit {
        let mut fit = Fit {
            size: self.size,
            swept: self.sums.clone(),
            taken: vec![false; self.size],
            observations: self.observations,
        };
        for column in columns {
            let at = column * self.size + column;
            // What the columns before leave of this one: almost nothing where they determine it.
            if fit.swept[at] > PIVOT_SHARE_MIN * self.sums[at] {
                fit.sweep(column);
            }
        }
        fit
    }
}

impl Fit {
    /// Takes a column into the fit, by a Gauss-Jordan step on its pivot: the last column of the
    /// matrix then holds the coefficients, and the last element the sum of squares that is left.
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
            // Most products of sparse columns are 0, and need no work.
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

    /// The sum of squares that the fit leaves.
    pub fn residual(&self) -> f64 {
        self.swept[self.size * self.size - 1].max(0.0)
    }

    /// Observations beyond those that the fit used up.
    pub fn freedom(&self) -> usize {
        let mut freedom = self.observations;
        for is_taken in &self.taken {
            freedom -= usize::from(*is_taken);
        }
        freedom
    }

    /// The coefficient of a column; `None` where it was left out.
    pub fn coefficient(&self, column: usize) -> Option<f64> {
        if self.taken[column] { Some(self.swept[column * self.size + self.size - 1]) } else { None }
    }

    /// The variance of a coefficient, in units of that of an observation.
    pub fn variance_share(&self, column: usize) -> f64 {
        self.swept[column * self.size + column]
    }
}
