//! Collects the settings in effect after an action and where they differ from the requested ones.
//!
//! Every fact in [`Findings`] names its source.

use model::{Difference, EffectiveSettings, Fact};

/// Facts and differences found for one action.
#[derive(Debug)]
pub(crate) struct Findings {
    scope: &'static str,
    found: EffectiveSettings,
}

impl Findings {
    /// Creates an empty collection for one `scope`: `host`, `server`, `target` or `network`.
    pub(crate) fn new(scope: &'static str) -> Self {
        Self { scope, found: EffectiveSettings::default() }
    }

    /// Adds a fact.
    pub(crate) fn fact(&mut self, name: &str, value: impl Into<String>, source: impl Into<String>) {
        self.found.facts.push(Fact::new(self.scope, name, value, source));
    }

    /// Adds facts that were read elsewhere.
    pub(crate) fn extend(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.found.facts.extend(facts);
    }

    /// Adds a fact, and a difference if it isn't as requested.
    ///
    /// Any whitespace counts as a single space, because the kernel separates list items with tabs.
    pub(crate) fn compare(&mut self, name: &str, requested: &str, found: &str, source: &str) {
        let requested = join_words(requested);
        let found = join_words(found);
        self.fact(name, &found, source);
        if requested != found {
            self.add_difference(name, requested, found, source);
        }
    }

    /// Adds a difference between the requested and the actual setting.
    pub(crate) fn add_difference(
        &mut self,
        name: &str,
        requested: impl Into<String>,
        found: impl Into<String>,
        source: &str,
    ) {
        self.found.differences.push(Difference {
            name: name.to_owned(),
            requested: requested.into(),
            found: found.into(),
            source: source.to_owned(),
        });
    }

    pub(crate) fn finish(self) -> EffectiveSettings {
        self.found
    }
}

/// Replaces each run of whitespace by a single space.
fn join_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
