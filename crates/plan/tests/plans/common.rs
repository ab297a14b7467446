//! What the tests of this crate share.

use plan::{Plan, PlanError, RawPlan, Surroundings};

/// Surroundings that are easy to tell from defaults.
pub fn around() -> Surroundings {
    Surroundings { temp_dir: "/scratch/dfsbench".into(), uid: 7, gid: 8, seed: 9, job: None }
}

/// Reads and resolves a plan that is called `p.toml`.
pub fn plan(text: &str) -> Result<Plan, PlanError> {
    Plan::resolve(&RawPlan::parse(text, "p.toml")?, &around())
}
