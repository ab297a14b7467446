//! How runs are repeated: from keys and flags to what is meant.
//!
//! `trials`, `discard`, `until`, `warmup_trials` and `order` stand at the head of a plan and are
//! the same for all its runs.

use model::{Discard, Order, Repetition};

use crate::meaning::defaults;
use crate::reading::document::{Field, Table};
use crate::reading::parse::bounded;
use crate::written::error::{Fault, Place, PlanError, Spot};
use crate::written::limits;
use crate::written::text::either;

/// The keys of a plan that this file reads.
pub(crate) const DISCARD: &str = "discard";
pub(crate) const UNTIL: &str = "until";
pub(crate) const WARMUP_TRIALS: &str = "warmup_trials";
pub(crate) const ORDER: &str = "order";

/// Repetition as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawRepetition {
    /// How often each run is repeated, at most.
    pub trials: Option<Spot<u32>>,
    /// Which trials are left out.
    pub discard: Option<Spot<Discard>>,
    /// When the interval is narrow enough, in thousandths of the median.
    pub until_permille: Option<Spot<u32>>,
    /// Trials that never count.
    pub warmup_trials: Option<Spot<u32>>,
    /// The order of the trials.
    pub order: Option<Spot<Order>>,
}

/// Repetition as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    pub trials: u32,
    pub each: Repetition,
    /// `None` where it follows from the runs.
    pub order: Option<Order>,
}

impl RawRepetition {
    /// Reads the keys.
    pub(crate) fn read(root: &Table<'_>) -> Result<Self, PlanError> {
        let count = |key, range| {
            let field = root.field(key);
            field.map(|field| bounded(&field, range).map(|spot| spot.map(|n| n as u32))).transpose()
        };
        Ok(Self {
            trials: count("trials", limits::TRIALS)?,
            discard: word(root, DISCARD, discard_named)?,
            until_permille: word(root, UNTIL, until_permille)?,
            warmup_trials: count(WARMUP_TRIALS, limits::WARMUP_TRIALS)?,
            order: word(root, ORDER, order_named)?,
        })
    }

    /// Lets what was given elsewhere win.
    pub(crate) fn replace(&mut self, with: Self) {
        self.trials = with.trials.or(self.trials);
        self.discard = with.discard.or(self.discard);
        self.until_permille = with.until_permille.or(self.until_permille);
        self.warmup_trials = with.warmup_trials.or(self.warmup_trials);
        self.order = with.order.or(self.order);
    }

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

/// Reads a key that is text.
fn word<T>(
    root: &Table<'_>,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Option<Spot<T>>, PlanError> {
    let one = |field: Field<'_>| {
        let text = field.text("\"..\"")?;
        let value = read(text.value).map_err(|fault| field.error(fault))?;
        Ok(Spot { value, place: text.place })
    };
    root.field(key).map(one).transpose()
}

/// Finds a discard policy by its name.
pub(crate) fn discard_named(name: &str) -> Result<Discard, Fault> {
    Discard::from_name(name).ok_or_else(|| not_one_of(Discard::NAMES, name))
}

/// Finds an order by its name.
pub(crate) fn order_named(name: &str) -> Result<Order, Fault> {
    Order::from_name(name).ok_or_else(|| not_one_of(Order::NAMES, name))
}

fn not_one_of(names: &[&str], name: &str) -> Fault {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Fault::new(format!("must be {}, not `{name}`", either(&names)))
}

/// Reads a share of the median, such as `2%`, in thousandths.
pub(crate) fn until_permille(text: &str) -> Result<u32, Fault> {
    let number = text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>());
    let range = limits::UNTIL_PERMILLE;
    match number {
        Some(Ok(percent))
            if percent * 10.0 >= range.min as f64 && percent * 10.0 <= range.max as f64 =>
        {
            Ok((percent * 10.0).round() as u32)
        }
        _ => Err(Fault::new(format!("must be \"0.1%\" to \"50%\", not `{text}`"))
            .hint("half the 95 % interval, as a share of the median")),
    }
}
