//! Axes of charts: positions of values, and the labels of ticks.
//!
//! Positions are percentages of the width, so that a chart fits any width while its text keeps its
//! size.

use model::Pass;
use model::units::three_digits;

use crate::text_grid::width;

/// Position in percent, and label.
pub(crate) type Tick = (f64, String);

/// Width of a character and smallest gap between two labels, in percent of a picture on a phone,
/// which is 300 pixels wide.
const CHARACTER: f64 = 7.0 / 3.0;
const BETWEEN: f64 = 1.5;

/// Label of a horizontal axis with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    /// Position in percent of the picture's width.
    pub x: f64,
    /// SVG `text-anchor`: the part of the text that is at the position.
    pub anchor: &'static str,
    pub text: String,
}

impl Label {
    /// Both ends of the text on a phone, in percent of the width.
    fn ends(&self) -> (f64, f64) {
        let length = width(&self.text) as f64 * CHARACTER;
        let left = match self.anchor {
            "start" => self.x,
            "end" => self.x - length,
            _ => self.x - length / 2.0,
        };
        (left, left + length)
    }
}

/// Drops labels that would overlap on a phone, but not their tick lines. The first and last label
/// always stay.
pub(crate) fn keep_apart(labels: Vec<Label>) -> Vec<Label> {
    let count = labels.len();
    let mut kept: Vec<Label> = Vec::new();
    for (number, label) in labels.into_iter().enumerate() {
        let (left, _) = label.ends();
        let overlaps = |before: &Label| before.ends().1 + BETWEEN > left;
        if number + 1 == count {
            while kept.len() > 1 && kept.last().is_some_and(overlaps) {
                kept.pop();
            }
        } else if kept.last().is_some_and(overlaps) {
            continue;
        }
        kept.push(label);
    }
    kept
}

/// What a rate counts per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateUnit {
    Bytes,
    Ops,
    Entries,
}

impl RateUnit {
    /// Returns the unit of the pass's rate.
    pub(crate) const fn from_pass(pass: Pass) -> Self {
        match pass {
            _ if pass.is_byte_rate() => Self::Bytes,
            _ if pass.lists() => Self::Entries,
            _ => Self::Ops,
        }
    }
}

/// Axis from 0 to the highest rate, in a suitable unit.
pub(crate) struct RateAxis {
    end: f64,
    divisor: f64,
    /// Unit of the labels.
    pub unit: &'static str,
}

impl RateAxis {
    /// Creates an axis for rates up to `max` bytes or ops per second.
    pub(crate) fn new(counted: RateUnit, max: f64) -> Self {
        let (divisor, unit) = match (counted, max) {
            (RateUnit::Bytes, max) if max < 1e6 => (1e3, "kB/s"),
            (RateUnit::Bytes, _) => (1e6, "MB/s"),
            (RateUnit::Ops, max) if max < 1e3 => (1.0, "op/s"),
            (RateUnit::Ops, max) if max < 1e6 => (1e3, "kop/s"),
            (RateUnit::Ops, _) => (1e6, "Mop/s"),
            (RateUnit::Entries, max) if max < 1e3 => (1.0, "entries/s"),
            (RateUnit::Entries, max) if max < 1e6 => (1e3, "kentries/s"),
            (RateUnit::Entries, _) => (1e6, "Mentries/s"),
        };
        // Rates start at 0, so that the length of a bar is the rate and ratios are visible. The 2 %
        // leave room for the mark of the largest value.
        Self { end: if max > 0.0 { max * 1.02 } else { 1.0 }, divisor, unit }
    }

    /// Position of a rate in percent.
    pub(crate) fn at(&self, per_s: f64) -> f64 {
        per_s / self.end * 100.0
    }

    /// Formats a rate in the unit of the axis, without the unit.
    pub(crate) fn shown(&self, per_s: f64) -> String {
        three_digits(per_s / self.divisor)
    }

    /// About five ticks at round numbers.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        even_ticks(self.end / self.divisor)
    }

    /// The same ticks, with the unit added to the topmost one.
    pub(crate) fn ticks_with_unit(&self) -> Vec<Tick> {
        let mut ticks = self.ticks();
        if let Some((_, label)) = ticks.last_mut() {
            *label = format!("{label} {}", self.unit);
        }
        ticks
    }
}

/// About five ticks at round numbers from 0 to `end`.
pub(crate) fn even_ticks(end: f64) -> Vec<Tick> {
    const TICKS: f64 = 5.0;
    let step = round_step(end / TICKS);
    let count = (end / step) as usize;
    let decimals = if step >= 1.0 { 0 } else { 3 };
    let mut ticks = Vec::new();
    for number in 0..=count {
        let value = number as f64 * step;
        let label = format!("{value:.decimals$}");
        let short = if decimals > 0 { label.trim_end_matches('0') } else { &label };
        ticks.push((value / end * 100.0, short.trim_end_matches('.').to_owned()));
    }
    ticks
}

/// Rounds up to 1, 2 or 5 times a power of ten, and to at least a thousandth.
fn round_step(least: f64) -> f64 {
    let mut power = 1e-3;
    while power < 1e15 {
        for factor in [1.0, 2.0, 5.0] {
            if power * factor >= least {
                return power * factor;
            }
        }
        power *= 10.0;
    }
    power
}

/// Logarithmic axis over whole decades of time.
pub(crate) struct TimeAxis {
    first: u32,
    last: u32,
}

impl TimeAxis {
    /// Creates an axis that covers these times; 0 counts as 1 ns.
    pub(crate) fn new(min_ns: u64, max_ns: u64) -> Self {
        // A cache hit and a stall are six decades apart. Only a logarithmic axis can show both, and
        // whole decades give it round ticks.
        let first = min_ns.max(1).ilog10();
        let above = max_ns.max(1).ilog10();
        let whole = 10_u64.checked_pow(above) == Some(max_ns.max(1));
        let last = if whole { above } else { above + 1 };
        Self { first, last: last.max(first + 1) }
    }

    /// Position of a time in percent.
    pub(crate) fn at(&self, ns: u64) -> f64 {
        let decades = (ns.max(1) as f64).log10() - f64::from(self.first);
        decades / f64::from(self.last - self.first) * 100.0
    }

    /// One tick per decade.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
        let mut ticks = Vec::new();
        for decade in self.first..=self.last {
            let unit = (decade / 3).min(3);
            let label = format!("{} {}", 10_u64.pow(decade - unit * 3), UNITS[unit as usize]);
            let position =
                f64::from(decade - self.first) / f64::from(self.last - self.first) * 100.0;
            ticks.push((position, label));
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn chooses_round_ticks_and_unit() {
        let axis = RateAxis::new(RateUnit::Bytes, 1_234e6);
        assert_eq!((axis.unit, labels(&axis.ticks())), ("MB/s", vec!["0", "500", "1000"]));
        let axis = RateAxis::new(RateUnit::Ops, 1_900.0);
        assert_eq!(labels(&axis.ticks()), ["0", "0.5", "1", "1.5"]);
        assert!((axis.at(1_900.0) - 100.0 / 1.02).abs() < 1e-9);
        assert_eq!(RateAxis::new(RateUnit::Ops, 0.0).ticks().len(), 6);
        assert!(RateAxis::new(RateUnit::Bytes, 1e14).ticks().len() < 8);
    }

    #[test]
    fn omits_overlapping_labels() {
        let labels = |texts: &[&str]| {
            let mut labels = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                let x = number as f64 / (texts.len() - 1) as f64 * 100.0;
                let anchor = if x > 96.0 { "end" } else { "middle" };
                labels.push(Label { x, anchor, text: (*text).to_owned() });
            }
            labels
        };
        let texts = |labels: &[Label]| {
            labels.iter().map(|label| label.text.clone()).collect::<Vec<String>>().join("|")
        };
        let nines = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
        assert_eq!(texts(&keep_apart(labels(&nines))), "50 %|90 %|99 %|99.9 %|99.9999 %");
        // Out of eight decades, the last keeps its label and the one before it loses it.
        let decades = TimeAxis::new(10, 100_000_000).ticks();
        let decades: Vec<&str> = decades.iter().map(|(_, label)| label.as_str()).collect();
        let kept = keep_apart(labels(&decades));
        assert_eq!(texts(&kept), "10 ns|1 µs|10 µs|1 ms|100 ms");
        // Labels that fit all stay. The first and last stay even if they do not fit.
        assert_eq!(keep_apart(labels(&["0", "20", "40", "60"])).len(), 4);
        assert_eq!(keep_apart(labels(&[&"x".repeat(40), &"y".repeat(40)])).len(), 2);
    }

    #[test]
    fn times_have_whole_decades() {
        let axis = TimeAxis::new(15_000, 2_000_000);
        assert_eq!(labels(&axis.ticks()), ["10 µs", "100 µs", "1 ms", "10 ms"]);
        assert!((axis.at(10_000) - 0.0).abs() < 1e-9 && (axis.at(10_000_000) - 100.0).abs() < 1e-9);
        assert_eq!(labels(&TimeAxis::new(0, 0).ticks()), ["1 ns", "10 ns"]);
        assert_eq!(labels(&TimeAxis::new(100, 1_000).ticks()), ["100 ns", "1 µs"]);
        assert_eq!(TimeAxis::new(1, u64::MAX).ticks().last().unwrap().1, "100000000000 s");
    }
}
