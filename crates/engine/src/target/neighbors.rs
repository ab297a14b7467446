//! Other campaigns that work in the same target at the same time.
//!
//! A working directory shows that its campaign is alive in two ways. The mark in it is changed
//! before and after each pass, so its time moves; that is seen from any host, by comparing two
//! looks ([`Neighbors::active_since`]). And on directories of this host the campaign holds a shared
//! lock on its working directory, which ends with its process. What a killed campaign left behind
//! does neither.

use std::collections::BTreeMap;

/// Working directories of other campaigns in a target, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors(BTreeMap<String, Signs>);

/// What a working directory shows of its campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signs {
    /// When the mark and the directory itself were changed last, by the clock of the file system.
    pub changed: [Option<(i64, u32)>; 2],
    /// A process on this host works in it.
    pub is_held: bool,
}

impl Neighbors {
    /// Adds a working directory.
    pub(super) fn add(&mut self, place: String, signs: Signs) {
        self.0.insert(place, signs);
    }

    /// Describes the working directories in which another campaign has worked since an earlier
    /// look, each with the sign that shows it.
    pub fn active_since(&self, before: &Self) -> Vec<String> {
        let mut active = Vec::new();
        for (place, now) in &self.0 {
            let sign = match before.0.get(place) {
                _ if now.is_held => "a process of this host has it open (flock)",
                None => "it was made meanwhile",
                Some(then) if then.changed != now.changed => "it was changed meanwhile",
                Some(_) => continue,
            };
            active.push(format!("{place}: {sign}"));
        }
        for place in before.0.keys() {
            if !self.0.contains_key(place) {
                active.push(format!("{place}: it was removed meanwhile"));
            }
        }
        active
    }
}
