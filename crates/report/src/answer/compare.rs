//! Which figures of a pass differ: targets with targets, values of a setting with each other.
//!
//! [`finding`] is the principal function. Two figures are compared where they differ in nothing
//! but what is compared; targets of different kinds may also differ in their backend.

use model::Target;
use stats::criteria::TRIALS_MIN;

use super::group::{Figure, Group};
use super::trend;
use crate::sheet::NOT_APPLICABLE;
use crate::show::listed;

/// So many differences are told; more are counted.
const CLAUSES_MAX: usize = 4;
/// So many pairs that are apart are named where others of the same two sides are not.
const PAIRS_NAMED_MAX: usize = 2;

/// What differs in a pass.
pub struct Finding {
    /// What is to be said, without a full stop.
    pub sentence: String,
    /// Whether intervals were compared for it; else there were too few trials.
    pub by_intervals: bool,
}

/// How one figure lies to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Relation {
    /// The intervals are apart, and it is so many times the other.
    Above(f64),
    /// The intervals are apart, and the other is so many times it.
    Below(f64),
    /// The intervals overlap.
    Level,
    /// Too few trials to know.
    Unknown,
}

/// Compares two figures.
pub fn relation(one: &Figure<'_>, other: &Figure<'_>) -> Relation {
    let (a, b) = (&one.rate, &other.rate);
    if a.n < TRIALS_MIN || b.n < TRIALS_MIN {
        Relation::Unknown
    } else if a.overlaps(b) {
        Relation::Level
    } else if a.median > b.median {
        Relation::Above(a.median / b.median)
    } else {
        Relation::Below(b.median / a.median)
    }
}

/// A difference to be told.
enum Clause {
    /// These are so many times that one.
    Ahead { fast: Vec<String>, slow: String, ratios: (f64, f64) },
    /// Something else.
    Text(String),
}

/// What has been found so far in one pass.
#[derive(Default)]
pub struct Findings {
    clauses: Vec<Clause>,
    level: usize,
    unknown: usize,
}

impl Findings {
    /// Adds a difference in words.
    pub fn text(&mut self, text: String) {
        self.clauses.push(Clause::Text(text));
    }

    /// Counts pairs that can't be told apart.
    pub fn count(&mut self, level: usize, unknown: usize) {
        self.level += level;
        self.unknown += unknown;
    }

    /// Adds that one side is ahead; whoever else is ahead of the same side joins it.
    fn ahead(&mut self, fast_side: String, slow_side: String, ratio: (f64, f64)) {
        for clause in &mut self.clauses {
            if let Clause::Ahead { fast, slow, ratios } = clause
                && *slow == slow_side
            {
                fast.push(fast_side);
                *ratios = (ratios.0.min(ratio.0), ratios.1.max(ratio.1));
                return;
            }
        }
        self.clauses.push(Clause::Ahead { fast: vec![fast_side], slow: slow_side, ratios: ratio });
    }

    /// Puts it into a sentence; `None` when nothing was compared.
    fn told(self) -> Option<Finding> {
        let compared = self.level > 0 || !self.clauses.is_empty();
        if !compared && self.unknown == 0 {
            return None;
        }
        let more = self.clauses.len().saturating_sub(CLAUSES_MAX);
        let shown = self.clauses.iter().take(CLAUSES_MAX).map(Clause::told);
        let mut parts: Vec<String> = shown.collect();
        let alone = parts.is_empty();
        if more > 0 {
            parts.push(format!("{more} more in the table"));
        } else if self.level > 0 {
            parts.push(if alone { "within the noise" } else { "else within the noise" }.into());
        }
        if self.unknown > 0 {
            let all = if compared { "the others" } else { "them" };
            parts.push(format!("too few trials to tell {all} apart"));
        }
        let mut sentence = parts.join("; ");
        if alone {
            sentence[..1].make_ascii_uppercase();
        }
        Some(Finding { sentence, by_intervals: compared })
    }
}

impl Clause {
    fn told(&self) -> String {
        match self {
            Self::Ahead { fast, slow, ratios } => {
                let are = if fast.len() == 1 { "is" } else { "are" };
                format!("{} {are} {} {slow}", listed(fast), times(*ratios))
            }
            Self::Text(text) => text.clone(),
        }
    }
}

/// Says what differs among the figures of a pass; `None` where one stands alone.
pub fn finding(group: &Group<'_>) -> Option<Finding> {
    if group.figures.len() < 2 {
        return None;
    }
    let mut findings = Findings::default();
    let targets = group.targets();
    let one_factor = targets.len() == 1 && group.varying(&group.figures).len() == 1;
    if group.is_short() {
        for (number, one) in targets.iter().enumerate() {
            for other in &targets[number + 1..] {
                targets_apart(group, one, other, &mut findings);
            }
        }
    }
    if group.is_short() || one_factor {
        for target in &targets {
            factors_apart(group, target, &mut findings);
        }
    }
    findings.told().or_else(|| Some(ends_apart(group)))
}

/// Compares each figure of one target with those of another that have the same settings.
fn targets_apart<'a>(group: &Group<'a>, one: &str, other: &str, findings: &mut Findings) {
    let mut pairs = Vec::new();
    for a in group.of(one) {
        let of_other = group.of(other).into_iter();
        pairs.extend(of_other.filter(|b| is_alike(group, &a, b)).map(|b| (a, b)));
    }
    let place = |figure: &Figure<'a>| group.place(figure);
    sides_apart(one, other, &pairs, &place, findings);
}

/// Whether two figures of different targets may be compared: neither is that of the tool alone,
/// and every setting that both have is the same, but for the backend where the kinds differ.
fn is_alike<'a>(group: &Group<'a>, a: &Figure<'a>, b: &Figure<'a>) -> bool {
    let (one, other) = (&a.row.run.spec.target, &b.row.run.spec.target);
    if matches!(one, Target::Null) || matches!(other, Target::Null) {
        return false;
    }
    let same_kind = std::mem::discriminant(one) == std::mem::discriminant(other);
    group.settings(a).zip(group.settings(b)).all(|((name, value), (_, other))| {
        let either_lacks_it = value == NOT_APPLICABLE || other == NOT_APPLICABLE;
        value == other || either_lacks_it || (name == "backend" && !same_kind)
    })
}

/// Compares the figures of a target that differ in one setting only.
fn factors_apart<'a>(group: &Group<'a>, target: &str, findings: &mut Findings) {
    let figures = group.of(target);
    for name in group.varying(&figures) {
        let alike = partitions(group, &figures, name);
        if trend::is_number(name) {
            trend::along(group, name, &alike, findings);
            continue;
        }
        let value = |figure: &Figure<'a>| group.label(figure, &[name]);
        let mut values: Vec<String> = Vec::new();
        for figure in &figures {
            if !values.contains(&value(figure)) {
                values.push(value(figure));
            }
        }
        let whole = |value: &str| match group.targets().len() {
            1 => value.to_owned(),
            _ => format!("{target} ({value})"),
        };
        for (number, one) in values.iter().enumerate() {
            for other in &values[number + 1..] {
                let of = |part: &[Figure<'a>], wanted: &str| {
                    part.iter().find(|figure| value(figure) == wanted).copied()
                };
                let pair = |part: &Vec<Figure<'a>>| Some((of(part, one)?, of(part, other)?));
                let pairs: Vec<_> = alike.iter().filter_map(pair).collect();
                let place = |figure: &Figure<'a>| group.place(figure);
                sides_apart(&whole(one), &whole(other), &pairs, &place, findings);
            }
        }
    }
}

/// Figures that differ in one setting only, together.
fn partitions<'a>(
    group: &Group<'a>,
    figures: &[Figure<'a>],
    name: &str,
) -> Vec<Vec<Figure<'a>>> {
    let others = |figure: &Figure<'a>| -> Vec<(&str, &str)> {
        group.settings(figure).filter(|(column, _)| *column != name).collect()
    };
    let mut parts: Vec<Vec<Figure<'a>>> = Vec::new();
    for figure in figures {
        match parts.iter_mut().find(|part| others(&part[0]) == others(figure)) {
            Some(part) => part.push(*figure),
            None => parts.push(vec![*figure]),
        }
    }
    parts
}

/// Tells how two sides differ: as a whole where all pairs agree, else by the pairs.
fn sides_apart<'a>(
    one: &str,
    other: &str,
    pairs: &[(Figure<'a>, Figure<'a>)],
    place: &dyn Fn(&Figure<'a>) -> String,
    findings: &mut Findings,
) {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    let (mut level, mut unknown) = (0, 0);
    for (a, b) in pairs {
        match relation(a, b) {
            Relation::Above(ratio) => above.push((a, b, ratio)),
            Relation::Below(ratio) => below.push((b, a, ratio)),
            Relation::Level => level += 1,
            Relation::Unknown => unknown += 1,
        }
    }
    findings.count(level, unknown);
    for (fast, slow, apart) in [(one, other, &above), (other, one, &below)] {
        let ratios = range(apart.iter().map(|(.., ratio)| *ratio));
        if apart.len() == pairs.len() && !apart.is_empty() {
            findings.ahead(fast.to_owned(), slow.to_owned(), ratios);
        } else if above.len() + below.len() <= PAIRS_NAMED_MAX {
            for (fast, slow, ratio) in apart {
                findings.ahead(place(fast), place(slow), (*ratio, *ratio));
            }
        } else if !apart.is_empty() {
            findings.text(format!(
                "{fast} is {} {slow} in {} of {} pairs",
                times(ratios),
                apart.len(),
                pairs.len()
            ));
        }
    }
}

/// Tells how far the ends lie apart and how many are level with the best, where more would be
/// too much to tell.
fn ends_apart(group: &Group<'_>) -> Finding {
    let (lowest, highest) = group.extremes();
    let said = |sentence: String, by_intervals| Finding { sentence, by_intervals };
    match relation(&highest, &lowest) {
        Relation::Unknown => said("Too few trials to tell them apart".into(), false),
        Relation::Above(ratio) => {
            let others = group.figures.len() - 1;
            let level = group.figures.iter().filter(|f| relation(f, &highest) == Relation::Level);
            let level = level.count() - 1;
            let times = times((ratio, ratio));
            let sentence =
                format!("The highest is {times} the lowest; {level} of {others} are level with it");
            said(sentence, true)
        }
        _ => said("The ends are within the noise".into(), true),
    }
}

/// The smallest and the largest of some ratios.
pub fn range(ratios: impl Iterator<Item = f64>) -> (f64, f64) {
    ratios.fold((f64::INFINITY, 0.0), |(lo, hi), ratio| (lo.min(ratio), hi.max(ratio)))
}

/// How many times: `3.2x`, or `3.2x to 3.6x`.
pub fn times((lo, hi): (f64, f64)) -> String {
    let shown = |ratio: f64| match ratio {
        r if r < 1.095 => format!("{r:.2}x"),
        r if r < 9.95 => format!("{r:.1}x"),
        r => format!("{r:.0}x"),
    };
    if shown(lo) == shown(hi) { shown(lo) } else { format!("{} to {}", shown(lo), shown(hi)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_two_digits_and_more_where_they_are_near_one() {
        let shown = [(3.21, 3.56), (2.0, 2.04), (1.04, 1.3), (12.4, 101.0)].map(times);
        assert_eq!(shown, ["3.2x to 3.6x", "2.0x", "1.04x to 1.3x", "12x to 101x"]);
    }
}
