//! One pass of one run as reports show it: settings, judged results, mark.
//!
//! [`Row`] is the main type; a [`Mark`] ranks its result among those of the same pass. A row
//! does not depend on other rows; comparing them is up to `table` and `best_and_worst`.

use model::{Pass, Run, Verdict};
use stats::{CaveatExtent, Judged};

use crate::document::Extreme;

/// One pass of one run.
pub(crate) struct Row<'a> {
    pub run: &'a Run,
    /// Values of [`Sheet::columns`].
    pub values: Vec<String>,
    /// Results, caveats and verdict.
    pub judged: Judged,
    /// Rank of its result among those of the same pass, if they can be distinguished.
    pub mark: Option<Mark>,
    /// Its time compared with that of the local disk, for a developer's pass.
    pub times_local: Option<TimesLocal>,
}

/// A row's time compared with that of the local disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimesLocal {
    /// Name of the target on the local disk.
    pub target: String,
    /// Median time there, in seconds.
    pub seconds: f64,
    /// This row's median time divided by it.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio; `None` with too few trials.
    pub interval: Option<(f64, f64)>,
}

/// Mark of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Rank of the result.
    pub extreme: Extreme,
    /// True if the rank is by bytes although the rate of the pass is in ops.
    pub by_bytes: bool,
}

impl Row<'_> {
    /// Workload and pass, such as `stream write`; only the workload if it has just one kind of
    /// pass.
    pub(crate) fn pass_name(&self) -> String {
        self.run.spec.workload.pass_name(self.judged.pass)
    }

    /// Name shared by rows that are compared and ranked with each other.
    ///
    /// It is the pass name, except for commands of the user and for named loads: two different
    /// commands or loads do different work, so each forms its own group.
    pub(crate) fn comparison_name(&self) -> String {
        if let Some(load) = &self.run.spec.named_load {
            return format!("{}: {}", load.name, self.pass_name());
        }
        if self.is_program() {
            let command = self.run.spec.command.run.join(" ");
            return format!("{}: {command}", self.pass_name());
        }
        self.pass_name()
    }

    /// Returns true for a command of the user, whose result is a time.
    pub(crate) fn is_program(&self) -> bool {
        self.judged.pass == Pass::App
    }

    /// Returns true if its result is the time until the slowest rank is done.
    pub(crate) fn is_timed_by_rank(&self) -> bool {
        self.judged.pass.is_timed_by_rank()
    }

    /// Returns the rank of its rate, unless rows of the pass are ranked by bytes.
    pub(crate) fn extreme_of_rate(&self) -> Option<Extreme> {
        match self.mark {
            Some(Mark { extreme, by_bytes: false }) => Some(extreme),
            _ => None,
        }
    }

    /// Returns the rank of its byte rate, by which mixes with several I/O sizes are ranked.
    pub(crate) fn extreme_of_byte_rate(&self) -> Option<Extreme> {
        match self.mark {
            Some(Mark { extreme, by_bytes: true }) => Some(extreme),
            _ => None,
        }
    }

    /// Describes why there is no result, for a cell: `failed: ...`, `not possible: ...`.
    pub(crate) fn missing(&self) -> String {
        let lead = match &self.judged {
            judged if !judged.failures.is_empty() => "failed",
            judged if judged.impossible.is_some() => "not possible",
            _ => "not measured",
        };
        format!("{lead}: {}", self.judged.reason().unwrap_or("no figure"))
    }

    /// Code of a caveat, with the number of trials unless all have it: `cached (3 of 5)`.
    pub(crate) fn code(caveat: &stats::JudgedCaveat) -> String {
        match caveat.extent {
            CaveatExtent::Trials { seen, made } if seen < made => {
                format!("{} ({seen} of {made})", caveat.code)
            }
            _ => caveat.code.to_string(),
        }
    }

    /// Caveats that mark the row, without those that follow from the arrangement of the campaign
    /// and those too small to affect the result.
    pub(crate) fn marks(&self) -> Vec<&stats::JudgedCaveat> {
        self.judged
            .caveats
            .iter()
            .filter(|caveat| caveat.extent != CaveatExtent::Arrangement && !caveat.is_minor())
            .collect()
    }

    /// Codes of the caveats that mark the row: `cached (3 of 5), not-durable`; empty if there are
    /// none.
    pub(crate) fn codes(&self) -> String {
        let codes: Vec<_> = self.marks().into_iter().map(Self::code).collect();
        codes.join(", ")
    }

    /// Returns true if the row's result may be compared with others.
    pub(crate) fn counts(&self) -> bool {
        self.judged.verdict != Verdict::Invalid && self.judged.rate.is_some()
    }
}
