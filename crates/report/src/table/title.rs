//! Line that describes a campaign, and titles of pages.
//!
//! Only the header of a campaign is needed, so lists, pages and joined campaigns can all use it.

use model::{Campaign, CampaignState};

use crate::chart::cut;
use crate::humanize::{counted, listed, utc};

/// Maximum number of targets to name in a title, and maximum length of each.
const TARGETS_MAX: usize = 2;
const TARGET_MAX: usize = 48;

/// Returns the title of a page with its distinct targets and its date: `quick: nfs://server/export
/// and /srv, 2025-11-21 19:17 UTC`.
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

/// Whether a process is running a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CampaignProcess {
    /// A process is running it.
    Running,
    /// Unknown, or no process is: if the campaign is not finished, it was killed.
    Unknown,
}

pub(crate) const fn describe_state(state: CampaignState, maker: CampaignProcess) -> &'static str {
    match (state, maker) {
        (CampaignState::Running, CampaignProcess::Running) => "running",
        (CampaignState::Running, CampaignProcess::Unknown) => "not finished",
        (CampaignState::Complete, _) => "complete",
        (CampaignState::Interrupted, _) => "interrupted",
    }
}

/// Returns a one-line description of the campaign in a given state, without its name.
pub(crate) fn describe_in_state(campaign: &Campaign, state: &str) -> String {
    format!(
        "{state}, started {}, dfsbench {}, campaign {}",
        utc(campaign.started_unix_ms),
        campaign.tool_version,
        campaign.id
    )
}
