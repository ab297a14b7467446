//! The in-memory server of a plan: its memory, its NFS versions and its faults.
//!
//! [`ServerPlan`] is `[server]` with every default filled in; its text parses back to an equal
//! value.

use std::fmt::Write as _;

use model::NfsVersion;

use crate::syntax::cluster::ClusterPlan;
use crate::syntax::fault::KINDS;
use crate::syntax::fault::PlannedFault;
use crate::syntax::text::{list_of, quoted, size};

/// The in-memory server of targets with `embedded = true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Memory it may use for files, in bytes.
    pub memory_bytes: u64,
    /// Threads it runs.
    pub threads: u32,
    /// Whether to discard written data and return zeros.
    pub discard: bool,
    /// Whether to enforce mode bits and owners.
    pub permissions: bool,
    /// Whether to grant read delegations to clients of v4.1 and later.
    pub delegations: bool,
    /// Versions of NFS that it offers.
    pub versions: Vec<NfsVersion>,
    /// Its data servers, if it is the metadata server of a cluster.
    pub cluster: Option<ClusterPlan>,
    /// The faults that it plans.
    pub faults: Vec<PlannedFault>,
    /// Seed of the random choices of faults.
    pub fault_seed: u64,
}

impl ServerPlan {
    /// Writes the section in the form of a plan.
    pub(crate) fn write(&self, out: &mut String) {
        let versions: Vec<&str> = self.versions.iter().map(|version| version.name()).collect();
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "[server]\nmemory = {}\nthreads = {}\ndiscard = {}\npermissions = {}\n\
             delegations = {}\nnfsvers = {}\n",
            quoted(&size(self.memory_bytes)),
            self.threads,
            self.discard,
            self.permissions,
            self.delegations,
            list_of(&versions)
        );
        if let Some(cluster) = &self.cluster {
            cluster.write(out);
        }
        let _ = write!(out, "\n[server.faults]\nseed = {}\n", self.fault_seed);
        for kind in &KINDS {
            let values: Vec<_> = self
                .faults
                .iter()
                .filter(|fault| fault.kind() == kind.name)
                .map(|fault| fault.value())
                .collect();
            let _ = match values.as_slice() {
                [] => Ok(()),
                _ if kind.form.is_empty() => writeln!(out, "{} = true", kind.name),
                [one] => writeln!(out, "{} = {}", kind.name, quoted(one)),
                many => writeln!(out, "{} = {}", kind.name, list_of(many)),
            };
        }
    }
}
