//! How runs are repeated, with every default filled in.
//!
//! Refuses what leaves nothing to judge by: too few trials for the discard policy, or for the
//! interval of `until`.

use model::{Discard, Order, Repetition};

use crate::resolve::defaults;
use crate::syntax::error::{Fault, Place, PlanError};
use crate::syntax::limits;
use crate::syntax::repetition::RawRepetition;

/// Repetition as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub trials: u32,
    pub each: Repetition,
    /// 0 where time is no bound.
    pub budget_ms: u64,
    /// `None` where it follows from the runs.
    pub order: Option<Order>,
}

impl RawRepetition {
    /// Fills in the defaults and refuses what leaves nothing to judge by.
    pub(crate) fn resolve(&self) -> Result<Repeated, PlanError> {
        let trials = match (self.trials, self.until_permille) {
            (Some(trials), _) => trials.value,
            (None, None) => defaults::TRIALS,
            (None, Some(_)) => defaults::TRIALS_UNTIL,
        };
        let mut each = Repetition::default();
        if let Some(discard) = self.discard {
            each.discard = discard.value;
            if discard.value != Discard::None && trials < limits::DISCARD_TRIALS_MIN {
                let s = if trials == 1 { "" } else { "s" };
                let what = format!(
                    "discard {} of {trials} trial{s} leaves nothing to judge by",
                    discard.value
                );
                let hint = format!("at least {} trials", limits::DISCARD_TRIALS_MIN);
                return Err(Fault::new(what).hint(hint).at(self.place_of_trials(discard.place)));
            }
        }
        if let Some(until) = self.until_permille {
            each.until_permille = until.value;
            let least = limits::UNTIL_TRIALS_MIN;
            if trials <= least {
                let what =
                    format!("until has no effect on {trials} trials: {least} are always made");
                let hint = "trials is then the most that are made";
                return Err(Fault::new(what).hint(hint).at(self.place_of_trials(until.place)));
            }
        }
        if let Some(warmup) = self.warmup_trials {
            each.warmup_trials = warmup.value;
        }
        if let Some(interference) = self.interference {
            each.interference = interference.value;
        }
        let budget_ms = self.budget_ms.map_or(0, |budget| budget.value);
        Ok(Repeated { trials, each, budget_ms, order: self.order.map(|order| order.value) })
    }

    /// Returns the place of the number of trials, which is the first to change; `other` where it
    /// was left out.
    fn place_of_trials(&self, other: Place) -> Place {
        match self.trials {
            Some(trials) => trials.place,
            None => other,
        }
    }
}
