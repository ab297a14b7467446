//! How runs are repeated, as it was written.
//!
//! `trials`, `discard`, `until`, `budget`, `warmup_trials`, `order` and `interference` stand at the
//! head of a plan and are the same for all its runs.

use model::{Discard, InterferenceRule, Order};

use crate::syntax::error::Located;

/// Repetition as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawRepetition {
    /// How often each run is repeated, at most.
    pub trials: Option<Located<u32>>,
    /// The trials that are left out.
    pub discard: Option<Located<Discard>>,
    /// When the interval is narrow enough, in thousandths of the median.
    pub until_permille: Option<Located<u32>>,
    /// After how long a campaign makes only the trials that each run needs, in milliseconds.
    pub budget_ms: Option<Located<u64>>,
    /// Trials that never count.
    pub warmup_trials: Option<Located<u32>>,
    /// The order of the trials.
    pub order: Option<Located<Order>>,
    /// What to do about trials that were disturbed from outside.
    pub interference: Option<Located<InterferenceRule>>,
}

impl RawRepetition {
    /// Lets what was given elsewhere win.
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
