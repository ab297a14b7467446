//! Reads the sentences that a plan declares from its text, which every campaign keeps.
//!
//! What the data say about them is judged in `conclusions`.

use model::{Campaign, Conclusion};
use serde::Deserialize;

/// The part of a plan that the sentences stand in.
#[derive(Deserialize)]
struct PlanText {
    #[serde(default)]
    conclusion: Vec<Conclusion>,
}

/// Reads the sentences that a campaign's plan declares.
pub fn of_campaign(campaign: &Campaign) -> Vec<Conclusion> {
    // Plans of many runs are long, and few declare sentences.
    if !campaign.plan_toml.contains("[[conclusion]]") {
        return Vec::new();
    }
    match toml::from_str::<PlanText>(&campaign.plan_toml) {
        Ok(plan) => plan.conclusion,
        // Results files hold what was written into them: a plan that can't be read declares none.
        Err(_) => Vec::new(),
    }
}
