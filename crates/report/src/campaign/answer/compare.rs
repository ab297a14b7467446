//! Finds differences within a pass, between targets and between the values of a setting.
//!
//! [`finding`] is the entry point. Two results are compared only if everything else is equal,
//! except that targets of different kinds may also differ in their backend.

use model::RunSpec;
use stats::effects::LevelEffect;

use super::findings::{Finding, Findings, Ratios};
use super::group::{Group, TARGETS_MAX, UsableRow};
use super::relation::{Relation, compare_rows, level_with};
use super::trend;
use crate::factor_effects::PassFactors;
use crate::humanize::listed;
use crate::table::NOT_APPLICABLE;
use crate::table::factor_levels::DATA_SERVERS;

/// Maximum number of differing pairs to name when other pairs of the same two sides do not differ.
const PAIRS_NAMED_MAX: usize = 2;

/// Maximum number of pairs to compare for two targets. A sentence about more would not say anything
/// useful.
const PAIRS_COMPARED_MAX: usize = 250_000;

/// Describes what differs among the results of a pass; `None` if there is only one.
///
/// If a single target was measured under several settings, the ratios are the factor effects that
/// the rest of the report shows, too.
pub(super) fn finding(group: &Group<'_>, factors: Option<&PassFactors>) -> Option<Finding> {
    if group.measured().len() < 2 {
        return None;
    }
    let mut findings = Findings::new(group.pass.is_timed_as_whole());
    let targets = group.targets();
    if targets.len() <= TARGETS_MAX {
        for (number, one) in targets.iter().enumerate() {
            for other in &targets[number + 1..] {
                targets_apart(group, one, other, &mut findings);
            }
        }
    }
    let one_factor = targets.len() == 1 && group.varying(&group.figures).len() == 1;
    let is_whole = group.is_short() || one_factor;
    // The effects are averages over all targets, so they describe a target only if it is the only
    // one.
    let factors = if targets.len() == 1 { factors } else { None };
    if is_whole {
        for target in &targets {
            factors_apart(group, factors, target, &mut findings);
        }
    }
    match findings.into_finding(group.measured().len()) {
        Some(finding) if is_whole || !finding.by_intervals => Some(finding),
        Some(finding) => {
            let ends = ends_apart(group);
            let sentence = format!("{}. {}", finding.sentence, ends.sentence);
            let apart = finding.apart.max(ends.apart);
            Some(Finding { sentence, by_intervals: true, apart })
        }
        None => Some(ends_apart(group)),
    }
}

/// Compares the results of two targets that have the same settings.
fn targets_apart(group: &Group<'_>, one: &str, other: &str, findings: &mut Findings) {
    let mut pairs = Vec::new();
    let of_one = group.figures_of(one);
    let of_other = group.figures_of(other);
    if of_one.len() * of_other.len() > PAIRS_COMPARED_MAX {
        return;
    }
    for a in of_one {
        pairs.extend(of_other.iter().filter(|b| is_alike(group, &a, b)).map(|b| (a, *b)));
    }
    ComparedSides { one, other, effect: None }.compare(group, &pairs, findings);
}

/// Returns true if two results of different targets may be compared. Neither may measure only the
/// tool, and all settings of the work and all columns that both have must be equal. Targets of
/// different kinds may differ in `backend` and `direct`.
fn is_alike<'a>(group: &Group<'a>, a: &UsableRow<'a>, b: &UsableRow<'a>) -> bool {
    let one = &a.row.run.spec;
    let other = &b.row.run.spec;
    if one.target.keeps_nothing() || other.target.keeps_nothing() {
        return false;
    }
    let same_kind = std::mem::discriminant(&one.target) == std::mem::discriminant(&other.target);
    // The NFS client in user space has no page cache to bypass, so `direct` means nothing there.
    for ((name, value), (_, other)) in group.settings(a).zip(group.settings(b)) {
        let either_lacks_it = value == NOT_APPLICABLE || other == NOT_APPLICABLE;
        let is_of_kind = matches!(name, "backend" | "direct") && !same_kind;
        // How many data servers a cluster has is a property of it, unless a setting requests them.
        let is_of_cluster = name == DATA_SERVERS && !requests_data_servers(one);
        if value != other && !either_lacks_it && !is_of_kind && !is_of_cluster {
            return false;
        }
    }
    one.file_sizes == other.file_sizes && work_identity(one) == work_identity(other)
}

/// Returns true if the number of data servers is a setting of the run.
fn requests_data_servers(spec: &RunSpec) -> bool {
    spec.settings().iter().any(|(name, _)| *name == DATA_SERVERS)
}

/// Returns what identifies the work itself, independent of target and backend.
fn work_identity(spec: &RunSpec) -> [u64; 5] {
    let has_blocks = model::setting::Setting::IoSize.has_workload(spec.workload);
    let io_size = if has_blocks { spec.io_size_bytes } else { 0 };
    let has_reads = model::setting::Setting::ReadPercent.has_workload(spec.workload);
    let reads = if has_reads { spec.read_percent } else { 0 };
    let [workers, files] = [spec.workers, spec.files].map(u64::from);
    [workers, files, spec.file_size_bytes, io_size.into(), reads.into()]
}

/// Compares the results of a target that differ in exactly one setting.
fn factors_apart(
    group: &Group<'_>,
    factors: Option<&PassFactors>,
    target: &str,
    findings: &mut Findings,
) {
    let figures = group.figures_of(target);
    for name in group.varying(&figures) {
        if name == "rate" {
            trend::offered(target, &figures, findings);
            continue;
        }
        let alike = split_by_other_settings(group, &figures, name);
        if trend::is_number(group, &figures, name) {
            trend::describe_trend(group, factors, name, &alike, findings);
            continue;
        }
        let mut values: Vec<String> = Vec::new();
        for figure in &figures {
            let value = group.label(figure, &[name]);
            if !value.is_empty() && !values.contains(&value) {
                values.push(value);
            }
        }
        for (number, one) in values.iter().enumerate() {
            for other in &values[number + 1..] {
                let pairs = pair_values(group, name, &alike, [one, other]);
                let effect = match (pairs.first(), factors) {
                    (Some((a, b)), Some(factors)) => {
                        factors.effect_between(name, group.value(a, name), group.value(b, name))
                    }
                    _ => None,
                };
                let mut sides = [one.clone(), other.clone()];
                if group.targets().len() > 1 {
                    sides = sides.map(|value| format!("{target} ({value})"));
                }
                // If several settings change together, the difference cannot be attributed to this
                // one.
                let also = differing_settings(name, &pairs);
                if also.is_empty() {
                    let sides = ComparedSides { one: &sides[0], other: &sides[1], effect };
                    sides.compare(group, &pairs, findings);
                } else {
                    let [one, other] = &sides;
                    let differ = if also.len() == 1 { "differs" } else { "differ" };
                    findings.text(format!(
                        "{one} and {other} are not compared: {} {differ}, too",
                        listed(&also)
                    ));
                }
            }
        }
    }
}

/// Names the settings other than `name` that differ within some pair, including settings without a
/// column in the report.
fn differing_settings(name: &str, pairs: &[(UsableRow<'_>, UsableRow<'_>)]) -> Vec<String> {
    let mut differing: Vec<String> = Vec::new();
    for (a, b) in pairs {
        let others = b.row.run.spec.settings();
        for (setting, value) in a.row.run.spec.settings() {
            let differs = others.iter().any(|(other, known)| *other == setting && *known != value);
            if differs && setting != name && !differing.iter().any(|known| known == setting) {
                differing.push(setting.to_owned());
            }
        }
    }
    differing
}

/// Pairs the results that have one value of a setting with those that have the other.
fn pair_values<'a>(
    group: &Group<'a>,
    name: &str,
    alike: &[Vec<UsableRow<'a>>],
    values: [&str; 2],
) -> Vec<(UsableRow<'a>, UsableRow<'a>)> {
    let mut pairs = Vec::new();
    for part in alike {
        let [one, other] =
            values.map(|value| part.iter().find(|figure| group.label(figure, &[name]) == value));
        if let (Some(one), Some(other)) = (one, other) {
            pairs.push((*one, *other));
        }
    }
    pairs
}

/// Groups the results so that those in one group differ only in the setting `name`.
fn split_by_other_settings<'a>(
    group: &Group<'a>,
    figures: &[UsableRow<'a>],
    name: &str,
) -> Vec<Vec<UsableRow<'a>>> {
    let mut keys = Vec::new();
    let mut parts: Vec<Vec<UsableRow<'a>>> = Vec::new();
    for figure in figures {
        let others: Vec<_> = group.settings(figure).filter(|(column, _)| *column != name).collect();
        let known = keys.iter().position(|known| *known == others);
        if known.is_none() {
            keys.push(others);
            parts.push(Vec::new());
        }
        parts[known.unwrap_or(keys.len() - 1)].push(*figure);
    }
    parts
}

/// Two sides to compare, by pairs of results.
struct ComparedSides<'s> {
    one: &'s str,
    other: &'s str,
    /// Effect of one side relative to the other, in either direction, with all other settings
    /// equal.
    effect: Option<LevelEffect>,
}

impl ComparedSides<'_> {
    /// Reports how the two sides differ: as a whole if all pairs agree, otherwise pair by pair.
    fn compare<'a>(
        &self,
        group: &Group<'a>,
        pairs: &[(UsableRow<'a>, UsableRow<'a>)],
        findings: &mut Findings,
    ) {
        let mut above = Vec::new();
        let mut below = Vec::new();
        let mut level = 0;
        let mut unknown = 0;
        for (a, b) in pairs {
            match compare_rows(a, b) {
                Relation::Above(ratio) => above.push((a, b, ratio)),
                Relation::Below(ratio) => below.push((b, a, ratio)),
                Relation::Level => level += 1,
                Relation::Unknown => unknown += 1,
            }
        }
        findings.count(level, unknown);
        let one = self.one;
        let other = self.other;
        if level > 0 {
            findings.level(one, other);
        }
        for (fast, slow, apart) in [(one, other, &above), (other, one, &below)] {
            let ratios = Ratios::from_all(apart.iter().map(|(.., ratio)| *ratio));
            if apart.len() == pairs.len() && !apart.is_empty() {
                // Prefer the effect from the analysis: unlike the individual ratios, it has an
                // interval.
                let ratios = match &self.effect {
                    Some(effect) => Ratios::from_effect(effect),
                    None => ratios,
                };
                findings.record_lead(fast.to_owned(), slow.to_owned(), ratios);
            } else if above.len() + below.len() <= PAIRS_NAMED_MAX {
                for (fast, slow, ratio) in apart {
                    let fast = group.place(fast);
                    let slow = group.place(slow);
                    findings.record_lead(fast, slow, Ratios::from_one(*ratio));
                }
            } else if !apart.is_empty() {
                let some = apart.len();
                let all = pairs.len();
                let times = ratios.as_times();
                let text = format!("{fast} is {times} {slow} in {some} of {all} pairs");
                findings.difference(text, ratios.largest);
            }
        }
    }
}

/// Reports the ratio of the highest and lowest result, and how many results are level with the
/// highest, for groups that are too large to compare in full. The two are not compared if they
/// belong to different targets, because their settings may differ as well.
fn ends_apart(group: &Group<'_>) -> Finding {
    let (lowest, highest) = group.extremes();
    let figures = group.measured();
    let same_target = lowest.target() == highest.target();
    let mut finding = Finding { sentence: String::new(), by_intervals: false, apart: 1.0 };
    if group.is_short() && !same_target {
        "Not compared: no two results have the same settings".clone_into(&mut finding.sentence);
        return finding;
    }
    // Subtract one because the highest is level with itself.
    let others = figures.len() - 1;
    let level = level_with(group, &highest).len().saturating_sub(1);
    let count =
        format!("{level} of the other {others} results are indistinguishable from the highest");
    let ends = compare_rows(&highest, &lowest);
    finding.by_intervals = ends != Relation::Unknown;
    finding.sentence = match ends {
        Relation::Unknown => "Too few trials to compare them".to_owned(),
        Relation::Above(ratio) if same_target => {
            finding.apart = ratio;
            format!("The highest is {} the lowest; {count}", Ratios::from_one(ratio).as_times())
        }
        Relation::Above(_) => count,
        Relation::Below(_) | Relation::Level => {
            "No measurable difference between the highest and the lowest".to_owned()
        }
    };
    finding
}
