//! The sections of a plan, and the documentation of a key.
//!
//! A [`Section`] is a table of a plan or its top level; a [`KeyDoc`] is a row of the table of keys.
//! The rows are in `reference`, those of settings in `model::setting`.

use std::borrow::Cow;

use Section::{
    Conclusion, Disturb, Faults, Host, Load, Plan, Require, Server, Settings, Target, Workload,
};
use model::setting::Setting;

/// The section of a plan that contains a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The top level, before any table.
    Plan,
    /// Key of `[server]`.
    Server,
    /// Key of `[server.faults]`.
    Faults,
    /// In a `[[host]]`.
    Host,
    /// In a `[[target]]`.
    Target,
    /// In `[factors]` or in a `[[workload]]`; the workload takes precedence.
    Settings,
    /// In a `[[workload]]`.
    Workload,
    /// In a `[[load]]`.
    Load,
    /// In a `[[disturb]]`.
    Disturb,
    /// In a `[[conclusion]]`.
    Conclusion,
    /// In a `[[require]]`.
    Require,
}

/// Keys of a `[[workload]]` that a `[[load]]` may contain, too.
const OF_LOADS: [&str; 4] = ["kind", "shares", "mix_from", "mix_since"];

impl Section {
    /// The heading of the section.
    pub const fn title(self) -> &'static str {
        match self {
            Plan => "top level",
            Server => "[server]",
            Faults => "[server.faults]",
            Host => "[[host]]",
            Target => "[[target]]",
            Settings => "[factors]",
            Workload => "[[workload]]",
            Load => "[[load]]",
            Disturb => "[[disturb]]",
            Conclusion => "[[conclusion]]",
            Require => "[[require]]",
        }
    }

    /// Returns the section as named in messages.
    pub(crate) fn within(self) -> String {
        let preposition = if self == Plan { "at" } else { "in" };
        format!("{preposition} {}", self.title())
    }

    /// Returns true if the section may contain this key.
    pub(crate) fn may_contain(self, doc: &KeyDoc) -> bool {
        match self {
            _ if doc.section == self => true,
            Load if doc.section == Workload => OF_LOADS.contains(&doc.key),
            Workload | Load => doc.section == Settings,
            Target if doc.section == Settings => {
                Setting::OF_TARGETS.iter().any(|setting| setting.key() == doc.key)
            }
            _ => false,
        }
    }
}

/// Documentation of one key, as shown in the plan reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    pub key: &'static str,
    pub section: Section,
    /// The kind of its value: `size`, `integer`, `time`, `text`, `true or false`, `table` ...
    pub kind: &'static str,
    /// Unit of the number; empty if it has none.
    pub unit: &'static str,
    /// The legal values.
    pub legal: Cow<'static, str>,
    pub default: Cow<'static, str>,
    /// The effect of the key.
    pub meaning: Cow<'static, str>,
}
