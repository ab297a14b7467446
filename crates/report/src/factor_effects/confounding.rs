//! Finds what changes together with a factor if campaigns differ in more than one thing.
//!
//! Two kernels on two machines have only one ratio, which is that of the pair, so the report names
//! both. Within a campaign, the plan varies settings on purpose, and the notes on nested factors
//! cover them.

use std::collections::BTreeMap;

use super::Factor;
use crate::humanize::listed;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Maximum number of names to list; the rest are only counted.
const NAMES_MAX: usize = 6;

/// Property that distinguishes campaigns without being a condition of the measurement.
pub(super) const NO_CAUSE: &str = "campaign";

/// Finds what changes together with each factor. `levels` are those of the rows.
pub(super) fn mark(
    sheet: &Sheet<'_>,
    rows: &[&Row<'_>],
    factors: &mut [Factor],
    levels: &[Vec<usize>],
) {
    let Some(joined) = sheet.joined else { return };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &sheet.stated {
        names.push(name);
    }
    for property in joined.hidden_properties() {
        names.push(&property.name);
    }
    names.retain(|name| *name != NO_CAUSE);
    let members: Vec<_> = rows
        .iter()
        .map(|row| joined.member_of(row.run.index as usize).map(|member| &member.label))
        .collect();
    for (number, factor) in factors.iter_mut().enumerate() {
        if factor.levels.len() < 2 {
            continue;
        }
        let of_rows: Vec<usize> = levels.iter().map(|levels| levels[number]).collect();
        factor.is_between = joined.members().len() > 1 && determines(&members, &of_rows);
        if !factor.is_between {
            continue;
        }
        for name in &names {
            // A fact with the name of the factor is the factor itself, read back.
            if name.ends_with(&format!(".{}", factor.name)) {
                continue;
            }
            let values: Vec<_> = rows.iter().map(|row| sheet.value(row, name)).collect();
            let is_known = values.iter().all(|value| value != NOT_APPLICABLE);
            if is_known && determines(&values, &of_rows) && determines(&of_rows, &values) {
                factor.together.push((*name).to_owned());
            }
        }
    }
}

/// Returns true if each value in `one` occurs with only one value in `other`.
fn determines<A: Ord, B: PartialEq>(one: &[A], other: &[B]) -> bool {
    let mut known: BTreeMap<&A, &B> = BTreeMap::new();
    one.iter().zip(other).all(|(a, b)| *known.entry(a).or_insert(b) == b)
}

/// Describes what cannot be separated from a factor, and what may contribute to its ratio.
pub(super) fn notes(factors: &[Factor], campaigns: Option<usize>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut between = Vec::new();
    for factor in factors {
        if !factor.together.is_empty() {
            notes.push(format!(
                "{} changes together with {}: the campaigns differ in more than one thing, so its \
                 ratio includes the effects of all of them.",
                factor.name,
                factor.list_together(),
            ));
        }
        if factor.is_between && factor.name != NO_CAUSE {
            between.push(factor.name.clone());
        }
    }
    if !between.is_empty() {
        let verb = if between.len() == 1 { "differs" } else { "differ" };
        if let Some(campaigns) = campaigns {
            notes.push(format!(
                "{} {verb} only between campaigns: each of the {campaigns} campaigns counts as one \
                 observation in the interval.",
                listed(&between)
            ));
            return notes;
        }
        let its = if between.len() == 1 { "its ratio" } else { "their ratios" };
        notes.push(format!(
            "{} {verb} only between campaigns: anything else that changed from one campaign to the \
             other, known or not, is part of {its}.",
            listed(&between)
        ));
    }
    notes
}

impl Factor {
    /// Names what changes together with the factor: the first few, and the number of others.
    pub(crate) fn list_together(&self) -> String {
        let mut names = self.together.clone();
        if names.len() > NAMES_MAX {
            let more = names.len() - NAMES_MAX;
            names.truncate(NAMES_MAX);
            names.push(format!("{more} more"));
        }
        listed(&names)
    }
}
