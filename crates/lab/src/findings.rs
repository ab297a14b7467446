//! Puts together what is effective after an action, and where that is not what was requested.
//!
//! Principal type: [`Findings`]. Every fact names where it was read.

use model::{Difference, EffectiveSettings, Fact};

/// Facts and differences of one action, as they are found.
#[derive(Debug)]
pub struct Findings {
    scope: &'static str,
    found: EffectiveSettings,
}

impl Findings {
    /// Makes a collection of facts about one `scope`: `host`, `server`, `target` or `network`.
    pub fn new(scope: &'static str) -> Self {
        Self { scope, found: EffectiveSettings::default() }
    }

    /// Notes a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<String>, source: impl Into<String>) {
        self.found.facts.push(Fact::new(self.scope, name, value, source));
    }

    /// Notes facts that were read elsewhere.
    pub fn extend(&mut self, facts: impl IntoIterator<Item = Fact>) {
        self.found.facts.extend(facts);
    }

    /// Notes a fact that was requested, and a difference where it isn't so.
    ///
    /// White space counts as one blank: the kernel prints lists with tabs.
    pub fn compare(&mut self, name: &str, requested: &str, found: &str, source: &str) {
        let (requested, found) = (join_words(requested), join_words(found));
        self.fact(name, &found, source);
        if requested != found {
            self.differ(name, requested, found, source);
        }
    }

    /// Notes that something was requested and is not so.
    pub fn differ(
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

    /// All of it.
    pub fn done(self) -> EffectiveSettings {
        self.found
    }
}

/// Joins the words of a text by one blank each.
fn join_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
