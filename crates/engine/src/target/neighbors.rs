//! Other campaigns that work in the same target at the same time.
//!
//! There are two signs that a working directory's campaign is active. First, its mark is touched
//! before and after each pass, which is visible on any host by comparing two looks
//! ([`Neighbors::active_since`]). Second, on local directories the campaign holds a shared lock,
//! which disappears with its process. The leftovers of a killed campaign show neither sign.

use std::collections::BTreeMap;

/// Working directories of other campaigns in a target, at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors(BTreeMap<String, Signs>);

/// Signs of activity in a working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signs {
    /// When the mark and the directory itself were last changed, according to the file system's
    /// clock.
    pub changed: [Option<(i64, u32)>; 2],
    /// Whether a process on this host works in it.
    pub is_held: bool,
}

impl Neighbors {
    /// Adds a working directory.
    pub(super) fn add(&mut self, place: String, signs: Signs) {
        self.0.insert(place, signs);
    }

    /// Describes the working directories in which other campaigns have been active since an earlier
    /// look, each with the evidence for it.
    pub fn active_since(&self, before: &Self) -> Vec<String> {
        let mut active = Vec::new();
        for (place, now) in &self.0 {
            let sign = match before.0.get(place) {
                _ if now.is_held => "a process on this host has it open (flock)",
                None => "it was created during the trial",
                Some(then) if then.changed != now.changed => "it was modified during the trial",
                Some(_) => continue,
            };
            active.push(format!("{place}: {sign}"));
        }
        for place in before.0.keys() {
            if !self.0.contains_key(place) {
                active.push(format!("{place}: it was removed during the trial"));
            }
        }
        active
    }
}
