//! The reasons for which a trial does not go on.
//!
//! Principal type: [`TrialError`]. A trial that failed by itself becomes a row of the results with
//! its reason, and the campaign goes on; what ends the campaign is returned to the caller.

use fleet::Gone;

use crate::ControllerError;

/// The reason for which a trial does not go on.
pub(crate) enum TrialError {
    /// The campaign can't go on either.
    CampaignOver(ControllerError),
    /// The trial failed; the reason is kept in the results.
    Failed(String),
}

impl From<String> for TrialError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<ControllerError> for TrialError {
    fn from(error: ControllerError) -> Self {
        Self::CampaignOver(error)
    }
}

impl From<Gone> for TrialError {
    fn from(gone: Gone) -> Self {
        Self::CampaignOver(gone.into())
    }
}
