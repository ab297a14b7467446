//! How runs are repeated, as written.
//!
//! `trials`, `discard`, `until`, `budget`, `warmup_trials`, `order` and `interference` are
//! top-level keys of a plan and apply to all its runs.

use model::{Discard, InterferenceRule, Order};

use crate::syntax::error::Located;

/// Repetition as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawRepetition {
    /// Number of trials of each run, or its maximum.
    pub trials: Option<Located<u32>>,
    /// The trials to leave out.
    pub discard: Option<Located<Discard>>,
    /// Half-width of the interval at which a run needs no more trials, in thousandths of the
    /// median.
    pub until_permille: Option<Located<u32>>,
    /// Time after which runs only get the trials that they need, in milliseconds.
    pub budget_ms: Option<Located<u64>>,
    /// Number of warm-up trials.
    pub warmup_trials: Option<Located<u32>>,
    /// The order of the trials.
    pub order: Option<Located<Order>>,
    /// What to do about trials that were disturbed from outside.
    pub interference: Option<Located<InterferenceRule>>,
}

impl RawRepetition {
    /// Overrides values with those given elsewhere.
    pub(crate) fn replace(&mut self, with: Self) {
        self.trials = with.trials.or(self.trials);
        self.discard = with.discard.or(self.discard);
        self.until_permille = with.until_permille.or(self.until_permille);
        self.budget_ms = with.budget_ms.or(self.budget_ms);
        self.warmup_trials = with.warmup_trials.or(self.warmup_trials);
        self.order = with.order.or(self.order);
        self.interference = with.interference.or(self.interference);
    }
}
