//! Shared by the tests of this crate.

use plan::{Plan, PlanError, RawPlan, Surroundings};

/// Surroundings that differ from all defaults.
pub fn around() -> Surroundings {
    Surroundings { temp_dir: "/scratch/dfsbench".into(), uid: 7, gid: 8, seed: 9, job: None }
}

/// Parses and resolves a plan with the source name `p.toml`.
pub fn plan(text: &str) -> Result<Plan, PlanError> {
    Plan::resolve(&RawPlan::parse(text, "p.toml")?, &around())
}
