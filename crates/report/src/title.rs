//! The line that describes a campaign: how it stands, when it started, who measured it.
//!
//! It knows the header of a campaign alone, so that lists, pages and joined campaigns share it.

use model::{Campaign, CampaignState};

use crate::show::utc;

/// Returns a one-line description of the campaign, without its name.
pub fn describe(campaign: &Campaign) -> String {
    describe_in_state(campaign, describe_state(campaign.state, Maker::Unknown))
}

/// Whether a process makes a campaign now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A process does.
    Running,
    /// It is unknown, or none does: what is not finished was killed.
    Unknown,
}

/// Names the state of a campaign.
pub const fn describe_state(state: CampaignState, maker: Maker) -> &'static str {
    match (state, maker) {
        (CampaignState::Running, Maker::Running) => "running",
        (CampaignState::Running, Maker::Unknown) => "not finished",
        (CampaignState::Complete, _) => "complete",
        (CampaignState::Interrupted, _) => "interrupted",
    }
}

/// Returns a one-line description of the campaign in a state, without its name.
pub fn describe_in_state(campaign: &Campaign, state: &str) -> String {
    format!(
        "{state}, started {}, dfsbench {}, campaign {}",
        utc(campaign.started_unix_ms),
        campaign.tool_version,
        campaign.id
    )
}
