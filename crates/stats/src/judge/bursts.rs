//! Finds passes whose rate fell to a lower level for good.

use std::fmt::Write as _;

use model::units::Nanos;
use model::{CaveatCode, Evidence, Pass, PassResult, RunSpec};

use super::{CaveatExtent, JudgedCaveat, TrialGroups};
use crate::criteria::LEVEL_RATIO_MIN;
use crate::level_drop::{LevelDrop, RateInterval, describe_amount, level_drop};
use crate::steady;

/// Looks for a drop in a pass, while all workers were busy.
pub(super) fn drop_of(spec: &RunSpec, result: &PassResult) -> Option<LevelDrop> {
    // A pass of one command has the rate of that command.
    if result.pass.is_timed_as_whole() {
        return None;
    }
    let amount_of = |ops, bytes| if result.pass.is_byte_rate() { bytes } else { ops };
    let intervals: Vec<RateInterval> = steady::busy_samples(spec, result)
        .into_iter()
        .map(|(lasts_ns, sample)| RateInterval {
            begins_ns: sample.at_ns - lasts_ns,
            ends_ns: sample.at_ns,
            amount: amount_of(sample.ops, sample.bytes),
        })
        .collect();
    let mut drop = level_drop(&intervals)?;
    // What was done before all workers were busy counts as well.
    let before = result.samples.iter().take_while(|sample| sample.at_ns <= intervals[0].begins_ns);
    drop.amount += before.map(|sample| amount_of(sample.ops, sample.bytes)).sum::<u64>();
    Some(drop)
}

/// Raises a caveat if the rate fell in at least one valid trial.
pub(super) fn check_burst(
    spec: &RunSpec,
    sorted: &TrialGroups<'_>,
    pass: Pass,
) -> Option<JudgedCaveat> {
    let drops = sorted.sound.iter().filter_map(|trial| drop_of(spec, trial.result));
    let mut drops: Vec<LevelDrop> = drops.collect();
    drops.sort_by_key(|drop| drop.at_ns);
    let middle = drops.get(drops.len() / 2)?;
    let mut evidence = middle.describe(pass);
    if spec.warmup_ns() > 0 {
        evidence.push_str(", after the warm-up");
    }
    if let (Some(first), Some(last)) = (drops.first(), drops.last())
        && drops.len() > 1
    {
        let amounts = || drops.iter().map(|drop| drop.amount);
        let [least, most] = [amounts().min(), amounts().max()]
            .map(|amount| describe_amount(amount.unwrap_or(0), pass));
        let (first, last) = (Nanos(first.at_ns), Nanos(last.at_ns));
        // Writing to a string cannot fail.
        let _ = write!(evidence, "; over the trials after {first} to {last}, {least} to {most}");
    }
    let seen = drops.len() as u32;
    let extent = CaveatExtent::Trials { seen, made: sorted.made };
    let ratio = middle.before_per_s / middle.after_per_s;
    let source = "rates before and after the change";
    let data = Evidence::new(ratio, LEVEL_RATIO_MIN, "times", source);
    Some(JudgedCaveat::new(CaveatCode::Burst, extent, evidence, Some(data)))
}
