//! The in-memory server of a plan: what it holds, what it offers, and what it does wrong.
//!
//! [`ServerPlan`] is `[server]` with every default filled in, and writes what reads back to the
//! same.

use std::fmt::Write as _;

use model::NfsVersion;

use crate::meaning::defaults;
use crate::written::fault::KINDS;
use crate::written::fault::PlannedFault;
use crate::written::raw::RawServer;
use crate::written::text::{quoted, size};

/// The in-memory server of targets with `embedded = true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Memory it may use for files, in bytes.
    pub memory_bytes: u64,
    /// Threads it runs.
    pub threads: u32,
    /// Written data is thrown away, and zeros are read.
    pub discard: bool,
    /// Versions of NFS that it offers.
    pub versions: Vec<NfsVersion>,
    /// The faults that it plans.
    pub faults: Vec<PlannedFault>,
    /// Seed of the random choices of faults.
    pub fault_seed: u64,
}

impl ServerPlan {
    /// Fills in defaults; faults follow the plan's seed where they have none.
    pub(crate) fn resolve(raw: &RawServer, seed: u64) -> Self {
        Self {
            memory_bytes: raw.memory_bytes.map_or(defaults::SERVER_MEMORY_BYTES, |m| m.value),
            threads: raw.threads.map_or(defaults::SERVER_THREADS, |threads| threads.value),
            discard: raw.discard.is_some_and(|discard| discard.value),
            versions: raw.versions.clone().unwrap_or_else(|| NfsVersion::ALL.to_vec()),
            faults: raw.faults.planned.clone(),
            fault_seed: raw.faults.seed.unwrap_or(seed),
        }
    }

    /// Writes it as a plan does.
    pub(crate) fn write(&self, out: &mut String) {
        let versions: Vec<String> = self.versions.iter().map(|v| quoted(v.name())).collect();
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "[server]\nmemory = {}\nthreads = {}\ndiscard = {}\nnfsvers = [{}]\n",
            quoted(&size(self.memory_bytes)),
            self.threads,
            self.discard,
            versions.join(", ")
        );
        let _ = write!(out, "\n[server.faults]\nseed = {}\n", self.fault_seed);
        for kind in &KINDS {
            let same = self.faults.iter().filter(|fault| fault.kind() == kind.name);
            let values: Vec<String> = same.map(|fault| quoted(&fault.value())).collect();
            let _ = match values.as_slice() {
                [] => Ok(()),
                _ if kind.form.is_empty() => writeln!(out, "{} = true", kind.name),
                [one] => writeln!(out, "{} = {one}", kind.name),
                many => writeln!(out, "{} = [{}]", kind.name, many.join(", ")),
            };
        }
    }
}
