//! How runs are repeated, with every default filled in.
//!
//! Refuses what leaves nothing to judge by: too few trials for the discard policy, or for an
//! interval to be asked.

use model::{Discard, Order, Repetition};

use crate::meaning::defaults;
use crate::written::error::{Fault, Place, PlanError};
use crate::written::limits;
use crate::written::repetition::RawRepetition;

/// Repetition as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub trials: u32,
    pub each: Repetition,
    /// `None` where it follows from the runs.
    pub order: Option<Order>,
}

impl RawRepetition {
    /// Fills in the defaults and refuses what leaves nothing to judge by.
    pub(crate) fn resolve(&self) -> Result<Repeated, PlanError> {
        let until = self.until_permille.map_or(0, |until| until.value);
        let usual = if until == 0 { defaults::TRIALS } else { defaults::TRIALS_UNTIL };
        let trials = self.trials.map_or(usual, |trials| trials.value);
        let discard = self.discard.map_or(Discard::None, |discard| discard.value);
        let place = |spot: Option<Place>| {
            self.trials.map(|trials| trials.place).or(spot).unwrap_or(Place::Whole)
        };
        if discard != Discard::None && trials < limits::DISCARD_TRIALS_MIN {
            let what = format!(
                "discard {discard} of {trials} trial{} leaves nothing to judge by",
                if trials == 1 { "" } else { "s" }
            );
            let hint = format!("at least {} trials", limits::DISCARD_TRIALS_MIN);
            let place = place(self.discard.map(|discard| discard.place));
            return Err(Fault::new(what).hint(hint).at(place));
        }
        if until > 0 && trials <= limits::UNTIL_TRIALS_MIN {
            let least = limits::UNTIL_TRIALS_MIN;
            let what = format!("until has no effect on {trials} trials: {least} are always made");
            let place = place(self.until_permille.map(|until| until.place));
            return Err(Fault::new(what).hint("trials is then the most that are made").at(place));
        }
        let warmup_trials = self.warmup_trials.map_or(0, |warmup| warmup.value);
        Ok(Repeated {
            trials,
            each: Repetition { discard, until_permille: until, warmup_trials },
            order: self.order.map(|order| order.value),
        })
    }
}
