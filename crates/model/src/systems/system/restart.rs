//! How the servers of a system restart.

use serde::{Deserialize, Serialize};

/// How servers restart on existing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Not possible after a power loss or an invalidation, because what they need is gone and their
    /// steps create a new system.
    #[default]
    Never,
    /// By running all steps.
    AllSteps,
    /// After a power loss, by the steps that don't create the system, because all they need is
    /// below `{storage}` and `{state}`. Invalidations don't stop them.
    OnState,
}
