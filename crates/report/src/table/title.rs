//! The line that describes a campaign, and the titles of pages.
//!
//! It needs only the header of a campaign, so that lists, pages and joined campaigns share it.

use model::{Campaign, CampaignState};

use crate::chart::cut;
use crate::humanize::{counted, listed, utc};

/// Maximum number of targets to name in a title, and length of each.
const TARGETS_MAX: usize = 2;
const TARGET_MAX: usize = 48;

/// Returns the title of a page with its targets, each once, and its date:
/// `quick: nfs://server/export and /srv, 2025-11-21 19:17 UTC`.
pub(crate) fn page_title(name: &str, targets: &[&str], date: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for target in targets {
        let target = cut(target, TARGET_MAX);
        if !names.contains(&target) {
            names.push(target);
        }
    }
    let more = names.len().saturating_sub(TARGETS_MAX);
    names.truncate(TARGETS_MAX);
    if more > 0 {
        names.push(counted(more, "more target"));
    }
    match names.as_slice() {
        [] => format!("{name}, {date}"),
        names => format!("{name}: {}, {date}", listed(names)),
    }
}

/// Returns a one-line description of the campaign, without its name.
pub(crate) fn describe(campaign: &Campaign) -> String {
    describe_in_state(campaign, describe_state(campaign.state, CampaignProcess::Unknown))
}

/// Whether a process makes a campaign now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CampaignProcess {
    /// A process does.
    Running,
    /// It is unknown, or none does: what is not finished was killed.
    Unknown,
}

/// Names the state of a campaign.
pub(crate) const fn describe_state(state: CampaignState, maker: CampaignProcess) -> &'static str {
    match (state, maker) {
        (CampaignState::Running, CampaignProcess::Running) => "running",
        (CampaignState::Running, CampaignProcess::Unknown) => "not finished",
        (CampaignState::Complete, _) => "complete",
        (CampaignState::Interrupted, _) => "interrupted",
    }
}

/// Returns a one-line description of the campaign in a state, without its name.
pub(crate) fn describe_in_state(campaign: &Campaign, state: &str) -> String {
    format!(
        "{state}, started {}, dfsbench {}, campaign {}",
        utc(campaign.started_unix_ms),
        campaign.tool_version,
        campaign.id
    )
}
