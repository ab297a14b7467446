//! The sections of a plan, and the documentation of one key.
//!
//! [`Section`] is a table of a plan's text, or its top; [`KeyDoc`] is a row of the table of keys.
//! The rows stand in `reference`, those of settings in `model::setting`.

use std::borrow::Cow;

use Section::{Conclusion, Disturb, Faults, Host, Plan, Server, Settings, Target, Workload};
use model::setting::Setting;

/// The section of a plan in which a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Before any table.
    Plan,
    /// Key of `[server]`.
    Server,
    /// Key of `[server.faults]`.
    Faults,
    /// In a `[[host]]`.
    Host,
    /// In a `[[target]]`.
    Target,
    /// In `[factors]`, or in a `[[workload]]`, which wins.
    Settings,
    /// In a `[[workload]]`.
    Workload,
    /// In a `[[disturb]]`.
    Disturb,
    /// In a `[[conclusion]]`.
    Conclusion,
}

impl Section {
    /// The heading that such keys stand under.
    pub const fn title(self) -> &'static str {
        match self {
            Plan => "top level",
            Server => "[server]",
            Faults => "[server.faults]",
            Host => "[[host]]",
            Target => "[[target]]",
            Settings => "[factors]",
            Workload => "[[workload]]",
            Disturb => "[[disturb]]",
            Conclusion => "[[conclusion]]",
        }
    }

    /// Returns the section as a message says it.
    pub(crate) fn within(self) -> String {
        let preposition = if self == Plan { "at" } else { "in" };
        format!("{preposition} {}", self.title())
    }

    /// Says whether `doc` is of a key that may stand here.
    pub(crate) fn holds(self, doc: &KeyDoc) -> bool {
        match self {
            _ if doc.section == self => true,
            Workload => doc.section == Settings,
            Target if doc.section == Settings => {
                Setting::OF_TARGETS.iter().any(|setting| setting.key() == doc.key)
            }
            _ => false,
        }
    }
}

/// One key: all that a reference page says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    /// The key as plans write it.
    pub key: &'static str,
    /// The section in which it stands.
    pub section: Section,
    /// The kind of its value: `size`, `integer`, `time`, `text`, `true or false`, `table` ...
    pub kind: &'static str,
    /// Unit of the number; empty where there is none.
    pub unit: &'static str,
    /// The legal values.
    pub legal: Cow<'static, str>,
    /// The value where it is left out.
    pub default: Cow<'static, str>,
    /// The effect of the key.
    pub meaning: Cow<'static, str>,
}
