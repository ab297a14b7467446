//! One pass of one run as reports show it: its settings, its judged figures, its mark.
//!
//! [`Row`] is the principal type; a [`Mark`] says where its figure stands among those of the same
//! pass. A row knows nothing of the other rows: what it takes to compare them is in `table` and
//! `best_and_worst`.

use model::{Pass, Run, Verdict};
use stats::{Extent, Judged};

use crate::document::Extreme;

/// One pass of one run.
pub(crate) struct Row<'a> {
    /// The run of the row.
    pub run: &'a Run,
    /// Values of [`Sheet::columns`].
    pub values: Vec<String>,
    /// Figures, caveats and verdict.
    pub judged: Judged,
    /// The mark of its figure among those of the same pass, where they can be distinguished.
    pub mark: Option<Mark>,
}

/// The mark of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The rank of the figure.
    pub extreme: Extreme,
    /// It goes by bytes, although the rate of the pass is one of ops.
    pub by_bytes: bool,
}

impl Row<'_> {
    /// Workload and pass: `stream write`; the workload alone where it has but one kind of pass.
    pub(crate) fn pass_name(&self) -> String {
        if matches!(self.judged.pass, Pass::Mix | Pass::OpMix | Pass::App) {
            return self.run.spec.workload.name().to_owned();
        }
        format!("{} {}", self.run.spec.workload.name(), self.judged.pass.name())
    }

    /// Name shared by the rows that are compared and ranked with each other.
    ///
    /// It is the pass name, except for commands of the user: two different commands do different
    /// work, so each is a group of its own.
    pub(crate) fn comparison_name(&self) -> String {
        if self.is_program() {
            let command = self.run.spec.command.run.join(" ");
            return format!("{}: {command}", self.pass_name());
        }
        self.pass_name()
    }

    /// Whether it is a command of the user's, whose figure is a time.
    pub(crate) fn is_program(&self) -> bool {
        self.judged.pass == Pass::App
    }

    /// Returns the rank of its rate, unless rows of the pass are ranked by the bytes that they
    /// move.
    pub(crate) fn extreme_of_rate(&self) -> Option<Extreme> {
        match self.mark {
            Some(Mark { extreme, by_bytes: false }) => Some(extreme),
            _ => None,
        }
    }

    /// Returns the rank of its byte rate, which ranks mixes of several I/O sizes.
    pub(crate) fn extreme_of_byte_rate(&self) -> Option<Extreme> {
        match self.mark {
            Some(Mark { extreme, by_bytes: true }) => Some(extreme),
            _ => None,
        }
    }

    /// Why there is no figure, in a cell's words: `failed: ...`, `not possible: ...`.
    pub(crate) fn missing(&self) -> String {
        let lead = match &self.judged {
            judged if !judged.failures.is_empty() => "failed",
            judged if judged.impossible.is_some() => "not possible",
            _ => "not measured",
        };
        format!("{lead}: {}", self.judged.reason().unwrap_or("no figure"))
    }

    /// The code of a caveat, with the number of trials where it is not all of them:
    /// `cached (3 of 5)`.
    pub(crate) fn code(caveat: &stats::JudgedCaveat) -> String {
        match caveat.extent {
            Extent::Trials { seen, made } if seen < made => {
                format!("{} ({seen} of {made})", caveat.code)
            }
            _ => caveat.code.to_string(),
        }
    }

    /// The caveats that mark the row. What follows from its arrangement is a note of the campaign,
    /// and what can't move the figure does not mark it.
    pub(crate) fn marks(&self) -> Vec<&stats::JudgedCaveat> {
        let mut marks = Vec::with_capacity(self.judged.caveats.len());
        for caveat in &self.judged.caveats {
            if caveat.extent != Extent::Arrangement && !caveat.is_minor() {
                marks.push(caveat);
            }
        }
        marks
    }

    /// The codes of the caveats that mark it: `cached (3 of 5), not-durable`; empty without any.
    pub(crate) fn codes(&self) -> String {
        let mut codes = Vec::new();
        for caveat in self.marks() {
            codes.push(Self::code(caveat));
        }
        codes.join(", ")
    }

    /// Whether the row's figure may be compared with others.
    pub(crate) fn counts(&self) -> bool {
        self.judged.verdict != Verdict::Invalid && self.judged.rate.is_some()
    }
}
