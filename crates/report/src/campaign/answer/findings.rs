//! Collects the differences found in a pass and puts them into a sentence.
//!
//! [`Findings`] collects them during the comparison; [`Finding`] is the result.

use stats::effects::LevelEffect;

use crate::humanize::listed;

/// Maximum number of differences to report; the rest are only counted.
const CLAUSES_MAX: usize = 4;

/// Difference within a pass.
pub(super) struct Finding {
    /// Sentence to print, without a full stop.
    pub sentence: String,
    /// True if intervals were compared, false if there were too few trials.
    pub by_intervals: bool,
    /// Largest ratio in the sentence; 1 if there is none.
    pub apart: f64,
}

/// Part of the sentence about a pass.
enum Clause {
    /// The results in `fast` are `ratios` times as high as `slow`.
    Ahead { fast: Vec<String>, slow: String, ratios: Ratios },
    /// Statement without a ratio.
    Text(String),
}

/// Findings collected so far in one pass.
#[derive(Default)]
pub(super) struct Findings {
    /// Results are command times, so higher is slower.
    are_times: bool,
    clauses: Vec<Clause>,
    level: usize,
    /// Sides with at least one pair that is level.
    level_sides: Vec<[String; 2]>,
    unknown: usize,
    apart: Option<f64>,
}

impl Findings {
    /// `are_times` is set if the results are command times.
    pub(super) fn new(are_times: bool) -> Self {
        Self { are_times, ..Self::default() }
    }

    /// Adds a statement that is not a difference, or not one of known size.
    pub(super) fn text(&mut self, text: String) {
        self.clauses.push(Clause::Text(text));
    }

    /// Adds a difference in words, with its largest ratio.
    pub(super) fn difference(&mut self, text: String, apart: f64) {
        self.text(text);
        self.widen(apart);
    }

    fn widen(&mut self, apart: f64) {
        self.apart = Some(apart.max(self.apart.unwrap_or(apart)));
    }

    /// Counts pairs whose intervals overlap, and pairs with too few trials.
    pub(super) fn count(&mut self, level: usize, unknown: usize) {
        self.level += level;
        self.unknown += unknown;
    }

    /// Records two sides with at least one pair that is level.
    pub(super) fn level(&mut self, one: &str, other: &str) {
        self.level_sides.push([one.to_owned(), other.to_owned()]);
    }

    /// Records that one side is ahead. Sides that are ahead of the same one are merged into one
    /// clause.
    pub(super) fn record_lead(&mut self, fast_side: String, slow_side: String, ratios: Ratios) {
        self.widen(ratios.largest);
        for clause in &mut self.clauses {
            if let Clause::Ahead { fast, slow, ratios: known } = clause
                && *slow == slow_side
                && known.interval.is_none()
                && ratios.interval.is_none()
            {
                fast.push(fast_side);
                known.smallest = known.smallest.min(ratios.smallest);
                known.largest = known.largest.max(ratios.largest);
                return;
            }
        }
        self.clauses.push(Clause::Ahead { fast: vec![fast_side], slow: slow_side, ratios });
    }

    /// Builds the sentence about a pass with `figures` results; `None` if nothing was compared.
    pub(super) fn into_finding(self, figures: usize) -> Option<Finding> {
        let compared = self.level > 0 || !self.clauses.is_empty();
        if !compared && self.unknown == 0 {
            return None;
        }
        let more = self.clauses.len().saturating_sub(CLAUSES_MAX);
        let mut parts: Vec<String> = Vec::new();
        for clause in self.clauses.iter().take(CLAUSES_MAX) {
            parts.push(clause.words(self.are_times));
        }
        let alone = parts.is_empty();
        let only_pair = self.only_level_pair(figures).filter(|_| alone);
        if more > 0 {
            parts.push(format!("{more} more in the table"));
        } else if let Some([one, other]) = only_pair {
            parts.push(format!("no measurable difference between {one} and {other}"));
        } else if self.level > 0 {
            // Results that were compared with none of the others may still differ from all of them.
            parts.push(match self.level {
                _ if alone => "No measurable difference".to_owned(),
                1 => "no measurable difference in one other pair".to_owned(),
                level => format!("no measurable difference in {level} other pairs"),
            });
        }
        if self.unknown > 0 {
            let unknown = if compared {
                "too few trials to compare the others"
            } else {
                "Too few trials to compare them"
            };
            parts.push(unknown.to_owned());
        }
        let sentence = parts.join("; ");
        Some(Finding { sentence, by_intervals: compared, apart: self.apart.unwrap_or(1.0) })
    }

    /// The only pair that was compared among more than two results, if it is level.
    fn only_level_pair(&self, figures: usize) -> Option<&[String; 2]> {
        let [pair] = self.level_sides.as_slice() else { return None };
        if figures > 2 && self.level == 1 && self.unknown == 0 { Some(pair) } else { None }
    }
}

impl Clause {
    fn words(&self, are_times: bool) -> String {
        match self {
            Self::Ahead { fast, slow, ratios } if are_times => {
                let times = ratios.as_times();
                let interval = ratios.as_interval();
                format!("{slow} takes {times} as long as {}{interval}", listed(fast))
            }
            Self::Ahead { fast, slow, ratios } => {
                let are = if fast.len() == 1 { "is" } else { "are" };
                let times = ratios.as_times();
                let interval = ratios.as_interval();
                format!("{} {are} {times} {slow}{interval}", listed(fast))
            }
            Self::Text(text) => text.clone(),
        }
    }
}

/// Range of some ratios, or a single ratio with its interval.
#[derive(Clone, Copy)]
pub(super) struct Ratios {
    pub smallest: f64,
    pub largest: f64,
    /// The 95 % confidence interval, if the ratio is a factor's effect.
    pub interval: Option<(f64, f64)>,
}

impl Ratios {
    /// Takes the smallest and largest of several ratios.
    pub(super) fn from_all(ratios: impl Iterator<Item = f64>) -> Self {
        let mut found = Self { smallest: f64::INFINITY, largest: 0.0, interval: None };
        for ratio in ratios {
            found.smallest = found.smallest.min(ratio);
            found.largest = found.largest.max(ratio);
        }
        found
    }

    pub(super) const fn from_one(ratio: f64) -> Self {
        Self { smallest: ratio, largest: ratio, interval: None }
    }

    /// Takes the effect of a factor's level, or its inverse if the level is slower.
    pub(super) fn from_effect(effect: &LevelEffect) -> Self {
        let mut ratio = effect.ratio;
        let (mut lo, mut hi) = effect.interval;
        if ratio < 1.0 {
            ratio = 1.0 / ratio;
            (lo, hi) = (1.0 / hi, 1.0 / lo);
        }
        Self { smallest: ratio, largest: ratio, interval: Some((lo, hi)) }
    }

    /// Formats the ratio or range: `3.2x`, or `3.2x to 3.6x`.
    pub(super) fn as_times(self) -> String {
        let smallest = format_times(self.smallest);
        let largest = format_times(self.largest);
        if smallest == largest { smallest } else { format!("{smallest} to {largest}") }
    }

    /// Formats the interval to follow a clause: ` (2.9x to 3.6x)`; empty if there is none.
    pub(super) fn as_interval(self) -> String {
        let Some((lo, hi)) = self.interval else { return String::new() };
        format!(" ({} to {})", format_times(lo), format_times(hi))
    }
}

/// Formats a ratio with two digits, or three near 1.
fn format_times(ratio: f64) -> String {
    match ratio {
        r if r < 1.095 => format!("{r:.2}x"),
        r if r < 9.95 => format!("{r:.1}x"),
        r => format!("{r:.0}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_pair_without_difference() {
        let find = |figures| {
            let mut findings = Findings::default();
            findings.count(1, 0);
            findings.level("dir (posix)", "dir (uring)");
            findings.into_finding(figures).unwrap().sentence
        };
        insta::assert_snapshot!(
            find(3),
            @"no measurable difference between dir (posix) and dir (uring)"
        );
        assert_eq!(find(2), "No measurable difference");
    }

    #[test]
    fn adds_digits_to_ratios_near_one() {
        let ranges = [(3.21, 3.56), (2.0, 2.04), (1.04, 1.3), (12.4, 101.0)];
        let shown = ranges
            .map(|(smallest, largest)| Ratios { smallest, largest, interval: None }.as_times());
        assert_eq!(shown, ["3.2x to 3.6x", "2.0x", "1.04x to 1.3x", "12x to 101x"]);
    }
}
