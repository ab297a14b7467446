//! One of several loads of a plan, which run alone and together.
//!
//! Each run is one load, either alone or beside others. Runs with the same group are made at the
//! same time, as one step of the campaign. So every load has trials, rows and caveats of its own,
//! and what the others cost it is the effect of [`NamedLoad::beside`].

use serde::{Deserialize, Serialize};

use crate::text::units::Nanos;

/// Separates names of loads.
const SEPARATOR: &str = "+";

/// Which of several loads a run is, and which others run at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedLoad {
    pub name: String,
    /// Names of the loads that run at the same time, in the order of the plan; empty if it runs
    /// alone.
    pub beside: Vec<String>,
    /// How long after the beginning of the window it starts, in milliseconds, if others run at the
    /// same time.
    pub start_ms: u64,
    /// Number of the runs that are made at the same time; 0 for a load that runs alone.
    pub group: u32,
    /// Another load that runs at the same time has agents on a host of this one.
    pub shares_hosts: bool,
}

impl NamedLoad {
    /// Shown if no other load runs at the same time.
    pub const ALONE: &str = "none";

    /// Name of the setting with the name of the load.
    pub const NAME: &str = "load";

    /// Name of the setting with the loads that run at the same time.
    pub const BESIDE: &str = "beside";

    /// Returns the settings that distinguish its runs.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![(Self::NAME, self.name.clone()), (Self::BESIDE, self.company())];
        if self.start_ms > 0 {
            let start_ns = self.start_ms.saturating_mul(1_000_000);
            settings.push(("load_start", Nanos(start_ns).exact()));
        }
        settings
    }

    /// Names the loads that run at the same time: `backup+scan`, or `none`.
    pub fn company(&self) -> String {
        if self.beside.is_empty() { Self::ALONE.to_owned() } else { self.beside.join(SEPARATOR) }
    }
}
