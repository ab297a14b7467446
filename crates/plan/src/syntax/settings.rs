//! The settings that were written, in one place of a plan.
//!
//! [`Settings`] holds the levels of each, with the place of every level; a setting that
//! was left out is not in it. Each level alone is within its limits.

use std::collections::BTreeMap;

use model::setting::{Setting, Value};

use crate::syntax::error::Located;

/// The levels of those settings that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    levels: BTreeMap<Setting, Vec<Located<Value>>>,
}

impl Settings {
    /// The levels of a setting, at least one; `None` where it was not written.
    pub fn get(&self, setting: Setting) -> Option<&[Located<Value>]> {
        self.levels.get(&setting).map(Vec::as_slice)
    }

    pub(crate) fn insert(&mut self, setting: Setting, levels: Vec<Located<Value>>) {
        debug_assert!(!levels.is_empty(), "{setting:?} needs a level");
        self.levels.insert(setting, levels);
    }

    /// Takes the levels of a setting away, as if it had not been written.
    pub fn remove(&mut self, setting: Setting) {
        self.levels.remove(&setting);
    }
}
