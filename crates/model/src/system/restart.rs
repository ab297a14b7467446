//! How the servers of a system start again.

use serde::{Deserialize, Serialize};

/// How servers start again on the files that they have kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Not at all after their host lost power or an invalidation ended them: what they need is
    /// gone, and their steps make a new system.
    #[default]
    Never,
    /// By all steps.
    AllSteps,
    /// After a loss of power, by the steps that don't make the system: all that they need is
    /// below `{storage}` and `{state}`. No invalidation ends them.
    OnState,
}
