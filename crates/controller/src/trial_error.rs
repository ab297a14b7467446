//! The reasons for which a trial does not go on.

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
