//! External disturbances of a pass: the hypervisor, other programs, memory pressure, heat.
//!
//! [`Interference`] contains the records of one pass. Every number is independent of the pass's
//! result: none is divided by the work done, and none includes the run's own activity. `stats`
//! decides which trials are set aside because of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::units::three_digits;
use crate::text::words::words;

words! {
    /// A source of interference.
    InterferenceSource {
        /// The hypervisor ran something else: thousandths of the workers' time.
        Steal = "steal",
        /// Other programs used the CPUs: thousandths of all CPU time.
        Programs = "programs",
        /// Other programs moved data to and from storage: bytes per second.
        Disk = "disk",
        /// Tasks waited for memory: thousandths of the time.
        Memory = "memory",
        /// CPUs were throttled because of heat: thousandths of all CPU time.
        Heat = "heat",
    }
}

words! {
    /// How to treat trials that were disturbed from outside.
    InterferenceRule {
        /// Set them aside and make others in their place.
        Repeat = "repeat",
        /// Let them count.
        Keep = "keep",
    }
}

impl InterferenceSource {
    /// Returns true if its numbers are thousandths; else they are bytes per second.
    pub const fn is_share(self) -> bool {
        !matches!(self, Self::Disk)
    }

    /// Shows a number with its unit: `12.3 %`.
    pub fn show(self, found: u64) -> String {
        if self.is_share() {
            format!("{} %", three_digits(found as f64 / 10.0))
        } else {
            format!("{} MB/s", three_digits(found as f64 / 1e6))
        }
    }

    /// Describes a number in a clause: `the hypervisor took 12.3 % of the workers' time`.
    pub fn describe(self, found: &str) -> String {
        match self {
            Self::Steal => format!("the hypervisor took {found} of the workers' time"),
            Self::Programs => format!("other programs used {found} of the CPUs"),
            Self::Disk => format!("other programs moved {found} to and from storage"),
            Self::Memory => format!("tasks waited for memory {found} of the time"),
            Self::Heat => format!("CPUs were throttled because of heat {found} of the time"),
        }
    }

    /// Names it as a cause that rates follow: `the hypervisor's steal`.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Steal => "the hypervisor's steal time",
            Self::Programs => "the CPU time of other programs",
            Self::Disk => "the storage traffic of other programs",
            Self::Memory => "memory pressure",
            Self::Heat => "thermal throttling",
        }
    }
}

/// Records of one pass; a source that could not be read is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Interference(BTreeMap<InterferenceSource, u64>);

impl Interference {
    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the record of a source.
    pub fn get(&self, source: InterferenceSource) -> Option<u64> {
        self.0.get(&source).copied()
    }

    /// Adds the record of a source, if it is known.
    #[must_use]
    pub fn with(mut self, source: InterferenceSource, found: Option<u64>) -> Self {
        if let Some(found) = found {
            self.0.insert(source, found);
        }
        self
    }

    /// Adds another host. For each source, the larger number counts, since the slowest host
    /// determines the duration for all.
    pub fn merge(&mut self, other: &Self) {
        for (source, found) in &other.0 {
            let known = self.0.entry(*source).or_default();
            *known = (*known).max(*found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_host_counts() {
        let of = |steal, programs| {
            Interference::default()
                .with(InterferenceSource::Steal, steal)
                .with(InterferenceSource::Programs, programs)
        };
        let mut all = of(Some(30), None);
        all.merge(&of(Some(10), Some(40)));
        assert_eq!(all, of(Some(30), Some(40)));
        assert_eq!(all.get(InterferenceSource::Heat), None);
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(json, r#"{"steal":30,"programs":40}"#);
        assert_eq!(serde_json::from_str::<Interference>(&json).unwrap(), all);
    }

    #[test]
    fn numbers_have_units() {
        let show = |source: InterferenceSource, found| source.describe(&source.show(found));
        let steal = show(InterferenceSource::Steal, 123);
        let disk = show(InterferenceSource::Disk, 25_000_000);
        insta::assert_snapshot!([steal, disk].join("\n"), @"
        the hypervisor took 12.3 % of the workers' time
        other programs moved 25.0 MB/s to and from storage
        ");
    }
}
