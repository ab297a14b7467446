//! Lists the trials that were set aside because something outside of the run disturbed them.

use std::collections::BTreeMap;

use model::{InterferenceRule, InterferenceSource};
use stats::DisturbedTrial;

use super::load;
use crate::table::{Row, Sheet};

/// Heading of the lines of [`lines`].
pub(crate) const TITLE: &str = "Trials set aside (disturbed from outside)";

/// Describes the rule and its effect; `None` if nothing was recorded, as in earlier releases.
pub(crate) fn rule(sheet: &Sheet<'_>) -> Option<String> {
    let recorded = sheet.rows.iter().filter(|row| is_recorded(row));
    let mut rules = recorded.map(|row| row.run.spec.repetition.interference);
    if rules.next()? == InterferenceRule::Keep {
        return Some("trials disturbed from outside count (interference keep).".into());
    }
    let rule = "trials disturbed by the hypervisor, other programs, memory pressure or heat are \
        set aside and repeated, unless most of a result's trials were disturbed; their rates play \
        no role in this";
    Some(format!("{rule}. {}", summary(sheet).unwrap_or_else(|| "None was set aside.".into())))
}

/// Counts the trials set aside and names what disturbed them; `None` if there are none.
pub(crate) fn summary(sheet: &Sheet<'_>) -> Option<String> {
    let mut made = 0;
    let mut count = 0;
    // Number of trials that each source disturbed most, with the smallest and largest disturbance.
    let mut sources: BTreeMap<InterferenceSource, (u32, u64, u64)> = BTreeMap::new();
    for row in &sheet.rows {
        made += row.judged.trials_made;
        for DisturbedTrial { disturbance, .. } in &row.judged.set_aside {
            count += 1;
            let found = disturbance.found;
            let (trials, least, most) =
                sources.entry(disturbance.source).or_insert((0, found, found));
            *trials += 1;
            *least = (*least).min(found);
            *most = (*most).max(found);
        }
    }
    let mut parts = Vec::new();
    for (source, (trials, least, most)) in sources {
        let shown = if least == most {
            source.show(most)
        } else {
            format!("{} to {}", source.show(least), source.show(most))
        };
        let limit = source.show(stats::interference::limit_of(source));
        parts.push(format!("{} (limit {limit}) in {trials}", source.describe(&shown)));
    }
    if parts.is_empty() {
        return None;
    }
    let were = if count == 1 { "was" } else { "were" };
    Some(format!("{count} of {made} trials {were} set aside: {}.", parts.join("; ")))
}

/// Returns a line for each result with trials that were set aside.
pub(crate) fn lines(sheet: &Sheet<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        let of_row = row.judged.set_aside.iter();
        let worst = of_row
            .max_by(|one, other| one.disturbance.excess().total_cmp(&other.disturbance.excess()));
        let Some(worst) = worst else { continue };
        lines.push(format!(
            "{}: {} of {}; in trial {}, {}",
            sheet.name(row),
            row.judged.set_aside.len(),
            row.judged.trials_made,
            worst.trial_index + 1,
            worst.disturbance.describe(),
        ));
    }
    load::keep_first_lines(lines)
}

fn is_recorded(row: &Row<'_>) -> bool {
    let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
    passes.into_iter().any(|pass| !pass.scope.interference.is_empty())
}
