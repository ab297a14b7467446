//! Plans from a few lines of TOML, and campaigns that have not been made yet.

use model::{Campaign, CampaignState, Question};
use plan::{Plan, RawPlan, Surroundings};

/// The plan of a text.
pub fn plan(text: &str) -> Plan {
    let raw = RawPlan::parse(text, "t").unwrap();
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 3, job: None };
    Plan::resolve(&raw, &around).unwrap()
}

/// A campaign of it that has no trials yet.
pub fn header(plan: &Plan) -> Campaign {
    Campaign {
        id: 0,
        name: plan.name.clone(),
        started_unix_ms: 0,
        tool_version: "test".into(),
        command: String::new(),
        question: Question::Figures,
        plan_toml: plan.to_toml(),
        seed: plan.seed,
        state: CampaignState::Running,
        facts: Vec::new(),
        ceiling: None,
        durability: Vec::new(),
        runs: Vec::new(),
    }
}
