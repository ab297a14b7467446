//! How a result changes with a numeric setting: it rises, falls, stays flat, or has a best value.
//!
//! It rises if the last value is above the first and no value is above a later one, each with
//! intervals that do not overlap. Falling is the reverse.

use super::findings::{Findings, Ratios};
use super::group::{Group, UsableRow};
use super::relation::{Relation, compare_rows};
use crate::factor_effects::PassFactors;
use crate::humanize::listed;
use crate::table::setting_number::quantity;
use stats::Rate;
use stats::curve::SUSTAINED_SHARE_MIN;

enum Trend<'a> {
    /// Rises by this factor from first to last.
    Rises(f64),
    /// Falls by this factor.
    Falls(f64),
    /// All intervals overlap.
    Flat,
    /// Goes both up and down: the two results that are farthest apart, higher one first, and their
    /// ratio.
    Varies(UsableRow<'a>, UsableRow<'a>, f64),
    /// Too few trials.
    Unknown,
}

/// Returns true if a setting is a number in all of these results to which it applies.
pub(super) fn is_number(group: &Group<'_>, figures: &[UsableRow<'_>], name: &str) -> bool {
    let mut is_number = false;
    for figure in figures {
        let Some(value) = group.value(figure, name) else { continue };
        if quantity(name, value).is_none() {
            return false;
        }
        is_number = true;
    }
    is_number
}

/// Numeric value of a setting. Results to which it does not apply sort last.
fn setting_number(group: &Group<'_>, figure: &UsableRow<'_>, name: &str) -> f64 {
    match group.value(figure, name) {
        Some(value) => quantity(name, value).unwrap_or(f64::INFINITY),
        None => f64::INFINITY,
    }
}

/// Describes how the results of one target change with a numeric setting. Each group in `alike` has
/// results that differ in no other column. Settings that change along with it (`files` with
/// `workers`) are named.
pub(super) fn describe_trend<'a>(
    group: &Group<'a>,
    factors: Option<&PassFactors>,
    name: &str,
    alike: &[Vec<UsableRow<'a>>],
    findings: &mut Findings,
) {
    let mut parts = alike.to_vec();
    parts.retain(|part| part.len() > 1);
    for part in &mut parts {
        part.sort_by(|a, b| {
            setting_number(group, a, name).total_cmp(&setting_number(group, b, name))
        });
    }
    let Some(ends) = name_extremes(group, name, &parts) else { return };
    let target = parts[0][0].target();
    let trends: Vec<Trend<'a>> = parts.iter().map(|part| follow_trend(part)).collect();
    if let [Trend::Varies(high, low, ratio)] = trends.as_slice() {
        let best = group.label(high, &[name]);
        let worst = group.label(low, &[name]);
        let times = Ratios::from_one(*ratio).as_times();
        let along = settings_varied_within(name, &parts).join(", ");
        let along = if along.is_empty() { along } else { format!(" (other {along} too)") };
        let text = format!("{target} is best at {best}: {times} that at {worst}{along}");
        findings.difference(text, *ratio);
        return;
    }
    let describe = |count: usize, words: &str| match count {
        all if all == trends.len() => format!("{target} {words} with {ends}"),
        some => format!("{target} {words} with {ends} in {some} of {} settings", trends.len()),
    };
    let mut rises = Vec::new();
    let mut falls = Vec::new();
    let mut varies = 0;
    let mut flat = 0;
    let mut unknown = 0;
    for trend in &trends {
        match trend {
            Trend::Rises(ratio) => rises.push(*ratio),
            Trend::Falls(ratio) => falls.push(*ratio),
            Trend::Varies(..) => varies += 1,
            Trend::Flat => flat += 1,
            Trend::Unknown => unknown += 1,
        }
    }
    let verbs = if group.pass.is_timed_as_whole() {
        ["gets faster", "gets slower"]
    } else {
        ["rises", "falls"]
    };
    for (verb, ratios) in verbs.into_iter().zip([&rises, &falls]) {
        if !ratios.is_empty() {
            // If all groups have the same trend, the average effect from end to end describes them
            // all.
            let mut effect = None;
            if ratios.len() == trends.len()
                && let (Some(factors), Some(first), Some(last)) =
                    (factors, parts[0].first(), parts[0].last())
            {
                let first = group.value(first, name);
                let last = group.value(last, name);
                effect = factors.effect_between(name, last, first);
            }
            let range = match effect {
                Some(effect) => Ratios::from_effect(&effect),
                None => Ratios::from_all(ratios.iter().copied()),
            };
            let words = format!("{verb} {}{}", range.as_times(), range.as_interval());
            findings.difference(describe(ratios.len(), &words), range.largest);
        }
    }
    if varies > 0 {
        findings.text(describe(varies, "goes up and down"));
    }
    if flat == trends.len() && group.targets().len() == 1 {
        findings.text(describe(flat, "shows no measurable difference"));
    } else {
        findings.count(flat, 0);
    }
    findings.count(0, unknown);
}

/// The setting with its first and last value, and the settings that change with it: `workers 1 to
/// 16 (and files)`. `None` if there is no pair.
fn name_extremes<'a>(
    group: &Group<'a>,
    name: &str,
    parts: &[Vec<UsableRow<'a>>],
) -> Option<String> {
    let all = parts.iter().flatten();
    let order = |a: &&UsableRow<'a>, b: &&UsableRow<'a>| {
        setting_number(group, a, name).total_cmp(&setting_number(group, b, name))
    };
    let first = all.clone().min_by(order)?;
    let last = all.max_by(order)?;
    let last = group.label(last, &[name]);
    let last = last.strip_prefix(name).unwrap_or(&last);
    let along: Vec<String> =
        settings_varied_within(name, parts).into_iter().map(str::to_owned).collect();
    let along = if along.is_empty() { String::new() } else { format!(" (and {})", listed(&along)) };
    Some(format!("{} to{last}{along}", group.label(first, &[name])))
}

/// Describes how far a target kept up with the offered loads.
pub(super) fn offered(target: &str, figures: &[UsableRow<'_>], findings: &mut Findings) {
    let mut loads = Vec::new();
    for figure in figures {
        if let Some(offered) = figure.row.judged.offered_per_s {
            let requested = figure.row.run.spec.load.rate_per_s;
            let done = figure.row.judged.ops_per_s.map_or(0.0, |ops| ops.median);
            loads.push((requested, done >= offered * SUSTAINED_SHARE_MIN));
        }
    }
    loads.sort_unstable();
    let Some((highest, _)) = loads.last() else { return };
    let highest = Rate::Ops(*highest as f64);
    findings.text(match loads.iter().find(|(_, keeps_up)| !keeps_up) {
        None => format!("{target} kept up with every offered load, up to {highest}"),
        Some((load, _)) => {
            let load = Rate::Ops(*load as f64);
            format!("{target} did not keep up with {load} offered")
        }
    });
}

/// Settings that vary within some group although they have no column.
fn settings_varied_within(name: &str, parts: &[Vec<UsableRow<'_>>]) -> Vec<&'static str> {
    let mut along = Vec::new();
    for part in parts {
        let first = part[0].row.run.spec.settings();
        for figure in &part[1..] {
            for setting in figure.row.run.spec.settings() {
                if setting.0 != name && !first.contains(&setting) && !along.contains(&setting.0) {
                    along.push(setting.0);
                }
            }
        }
    }
    along
}

/// Determines the trend of results that are sorted by the setting.
fn follow_trend<'a>(part: &[UsableRow<'a>]) -> Trend<'a> {
    let mut up = false;
    let mut down = false;
    let mut widest: Option<(UsableRow<'a>, UsableRow<'a>, f64)> = None;
    for (index, early) in part.iter().enumerate() {
        for late in &part[index + 1..] {
            let (high, low, ratio) = match compare_rows(late, early) {
                Relation::Above(ratio) => {
                    up = true;
                    (late, early, ratio)
                }
                Relation::Below(ratio) => {
                    down = true;
                    (early, late, ratio)
                }
                Relation::Level => continue,
                Relation::Unknown => return Trend::Unknown,
            };
            if widest.as_ref().is_none_or(|(.., widest)| ratio > *widest) {
                widest = Some((*high, *low, ratio));
            }
        }
    }
    let Some((high, low, ratio)) = widest else { return Trend::Flat };
    match (compare_rows(&part[part.len() - 1], &part[0]), up, down) {
        (Relation::Above(ratio), _, false) => Trend::Rises(ratio),
        (Relation::Below(ratio), false, _) => Trend::Falls(ratio),
        _ => Trend::Varies(high, low, ratio),
    }
}
