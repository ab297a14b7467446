//! Parses how runs are repeated, from the top-level keys of a plan.
//!
//! These are `trials`, `discard`, `until`, `budget`, `warmup_trials`, `order`, `interference`,
//! `fair` and `quiet`; flags use the same parsers.

use model::contender::Fairness;
use model::setting::Range;
use model::units::parse_time_ns;
use model::{Discard, InterferenceRule, Order};

use crate::parse::document::{Field, Table};
use crate::parse::values::bounded_u32;
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::limits;
use crate::syntax::repetition::RawRepetition;
use crate::syntax::text::{join_with_or, time};

/// Top-level keys that this file reads.
pub(crate) const DISCARD: &str = "discard";
pub(crate) const UNTIL: &str = "until";
pub(crate) const BUDGET: &str = "budget";
pub(crate) const WARMUP_TRIALS: &str = "warmup_trials";
pub(crate) const ORDER: &str = "order";
pub(crate) const INTERFERENCE: &str = "interference";

impl RawRepetition {
    /// Parses the keys.
    pub(crate) fn read(root: &Table<'_>) -> Result<Self, PlanError> {
        Ok(Self {
            trials: root.read("trials", |field| bounded_u32(field, limits::TRIALS))?,
            discard: read_word(root, DISCARD, discard_named)?,
            until_permille: read_word(root, UNTIL, until_permille)?,
            budget_ms: read_word(root, BUDGET, budget_ms)?,
            warmup_trials: root
                .read(WARMUP_TRIALS, |field| bounded_u32(field, limits::WARMUP_TRIALS))?,
            order: read_word(root, ORDER, order_named)?,
            interference: read_word(root, INTERFERENCE, interference_named)?,
        })
    }
}

/// Parses a key whose value is a word.
fn read_word<T>(
    root: &Table<'_>,
    key: &'static str,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Option<Located<T>>, PlanError> {
    root.read(key, |field: &Field<'_>| field.parse("\"..\"", read))
}

/// Finds a discard policy by name.
pub(crate) fn discard_named(name: &str) -> Result<Discard, Fault> {
    Discard::from_name(name).ok_or_else(|| not_one_of(Discard::NAMES, name))
}

/// Finds an order by name.
pub(crate) fn order_named(name: &str) -> Result<Order, Fault> {
    Order::from_name(name).ok_or_else(|| not_one_of(Order::NAMES, name))
}

/// Finds a rule for disturbed trials by name.
pub(crate) fn interference_named(name: &str) -> Result<InterferenceRule, Fault> {
    InterferenceRule::from_name(name).ok_or_else(|| not_one_of(InterferenceRule::NAMES, name))
}

/// Parses the rule for contenders that differ in more than the system.
pub(crate) fn read_fairness(root: &Table<'_>) -> Result<Option<Located<Fairness>>, PlanError> {
    read_word(root, "fair", |name| {
        Fairness::from_name(name).ok_or_else(|| not_one_of(Fairness::NAMES, name))
    })
}

/// Parses the maximum time to wait for idle hosts before a trial, such as `10s`.
pub(crate) fn read_quiet_ms(root: &Table<'_>) -> Result<Option<Located<u64>>, PlanError> {
    read_word(root, "quiet", |text| time_ms(text, limits::QUIET_MS))
}

fn not_one_of(names: &[&str], name: &str) -> Fault {
    let quoted = format!("\"{}\"", names.join("\" \""));
    let quoted: Vec<&str> = quoted.split(' ').collect();
    Fault::new(format!("must be {}, not `{name}`", join_with_or(&quoted)))
}

/// Parses a share of the median, such as `2%`, into thousandths.
pub(crate) fn until_permille(text: &str) -> Result<u32, Fault> {
    let range = limits::UNTIL_PERMILLE;
    if let Some(number) = text.trim().strip_suffix('%')
        && let Ok(percent) = number.trim().parse::<f64>()
        && percent * 10.0 >= range.min as f64
        && percent * 10.0 <= range.max as f64
    {
        return Ok((percent * 10.0).round() as u32);
    }
    Err(Fault::new(format!("must be \"0.1%\" to \"50%\", not `{text}`"))
        .hint("half the 95 % interval, as a share of the median"))
}

/// Parses the time budget of a campaign, such as `75s`, into milliseconds.
pub(crate) fn budget_ms(text: &str) -> Result<u64, Fault> {
    time_ms(text, limits::BUDGET_MS)
}

/// Parses a time within a range into milliseconds.
fn time_ms(text: &str, range: Range) -> Result<u64, Fault> {
    let ms = parse_time_ns(text)? / 1_000_000;
    if (range.min..=range.max).contains(&ms) {
        return Ok(ms);
    }
    let span = format!("{} to {}", time(range.min), time(range.max));
    Err(Fault::new(format!("must be {span}, not {text}")).hint(range.reason))
}
