//! Whether the rate of a soak fell to a lower level for good, apart from the effects of faults.

use model::{Pass, Soak, Trial};

use super::{Effect, find_pass};
use crate::level_drop::{LevelDrop, RateInterval, level_drop};

/// Looks for a drop over all segments, in measured time from the start of the soak.
pub(super) fn find_burst(soak: &Soak, trials: &[Trial], effects: &[Effect]) -> Option<LevelDrop> {
    let segment_ns = soak.segment_ms.saturating_mul(1_000_000);
    let mut intervals = Vec::new();
    for trial in trials {
        let Some(load) = find_pass(trial, Pass::Mix) else { continue };
        let start_ns = u64::from(trial.index).saturating_mul(segment_ns);
        let usual_ns = load.samples.first().map_or(0, |first| first.at_ns);
        let mut begins_ns = 0;
        for sample in &load.samples {
            let interval = RateInterval {
                begins_ns: start_ns.saturating_add(begins_ns),
                ends_ns: start_ns.saturating_add(sample.at_ns),
                amount: sample.ops,
            };
            // The last one is a rest, in which the load ends.
            let is_whole = sample.at_ns.saturating_sub(begins_ns) >= usual_ns / 2;
            begins_ns = sample.at_ns;
            if is_whole && !effects.iter().any(|effect| is_within(effect, &interval, segment_ns)) {
                intervals.push(interval);
            }
        }
    }
    level_drop(&intervals)
}

/// Returns true if an interval overlaps with a fault or the time until the rate had recovered.
fn is_within(effect: &Effect, interval: &RateInterval, segment_ns: u64) -> bool {
    let over_ns = match (effect.detect_ns, effect.recover_ns) {
        (_, Some(recover_ns)) => effect.begun_ns.saturating_add(recover_ns),
        (Some(_), None) => effect.segment.saturating_add(1).saturating_mul(segment_ns),
        (None, None) => effect.begun_ns,
    };
    interval.begins_ns <= over_ns && effect.begun_ns <= interval.ends_ns
}
