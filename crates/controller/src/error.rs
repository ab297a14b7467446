//! Why a campaign or a trial cannot continue.
//!
//! A trial that fails by itself becomes a row of the results with its reason, and the campaign
//! continues. Errors that end the campaign are returned to the caller.

use fleet::PeerGone;
use plan::PlanError;
use results::StoreError;

/// Why a campaign could not start or finish.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// None of the plan's targets can be used. Contains the reason of the first, which is a server
    /// or on another host.
    #[error("{0}")]
    Unusable(String),
    /// Same as [`Self::Unusable`], if the first target is a directory on this host: the user
    /// probably named the wrong one.
    #[error("{0}")]
    UnusableHere(String),
    /// The request is contradictory. Contains a sentence.
    #[error("{0}")]
    Request(String),
    /// The plan can't be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The campaign was stopped before its first trial.
    #[error("interrupted during setup; nothing was measured")]
    Interrupted,
    /// The results can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent of this process is gone.
    #[error(transparent)]
    Gone(#[from] PeerGone),
}

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

impl From<PeerGone> for TrialError {
    fn from(gone: PeerGone) -> Self {
        Self::CampaignOver(gone.into())
    }
}
