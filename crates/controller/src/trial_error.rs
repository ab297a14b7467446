//! Why a trial cannot continue.
//!
//! A trial that fails by itself becomes a row of the results with its reason, and the campaign
//! continues. Errors that end the campaign are returned to the caller.

use fleet::Gone;

use crate::ControllerError;

pub(crate) enum TrialError {
    /// The campaign cannot continue either.
    CampaignOver(ControllerError),
    /// The trial failed; the reason is stored in the results.
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
