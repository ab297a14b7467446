//! The settings written in one place of a plan.
//!
//! [`Settings`] contains the levels of each setting with their places; omitted settings are not in
//! it. Each level has been checked against its own limits.

use std::collections::BTreeMap;

use model::setting::{Setting, Value};

use crate::syntax::error::Located;

/// The levels of the settings that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    levels: BTreeMap<Setting, Vec<Located<Value>>>,
}

impl Settings {
    /// Returns the levels of a setting, at least one; `None` if it was not written.
    pub fn get(&self, setting: Setting) -> Option<&[Located<Value>]> {
        self.levels.get(&setting).map(Vec::as_slice)
    }

    pub(crate) fn insert(&mut self, setting: Setting, levels: Vec<Located<Value>>) {
        debug_assert!(!levels.is_empty(), "{setting:?} needs a level");
        self.levels.insert(setting, levels);
    }

    /// Removes the levels of a setting, as if it had not been written.
    pub fn remove(&mut self, setting: Setting) {
        self.levels.remove(&setting);
    }
}
