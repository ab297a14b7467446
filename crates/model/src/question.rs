//! The question that a campaign answers, in addition to its results.
//!
//! [`Question`] contains the request and is stored with the campaign. The answer is computed from
//! the trials, so a report generated a year later gives the same answer.

mod curve;
pub mod ladder;
mod ramp;

use serde::{Deserialize, Serialize};

use crate::faults::soak::Soak;
pub use ladder::Ladder;

pub use curve::{ClosedLoop, CurveRequest, LoadMaximum, ResponseBound};
pub use ramp::RampRequest;

/// The question that a campaign answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum Question {
    /// No question: just the results of a matrix.
    #[default]
    Figures,
    /// How response times increase with the offered load.
    Curve(CurveRequest),
    /// At how many clients, or at which load, a server breaks.
    Ramp(RampRequest),
    /// Whether a server survives hours of load, and how it behaves meanwhile.
    Soak(Soak),
    /// Which layer of the data path is the bottleneck.
    Ladder(Ladder),
    /// How much acknowledged data survives crashes; such a campaign has no runs.
    Durability,
}

impl Question {
    /// Returns true if the campaign can't be resumed: each step depends on those before it.
    pub const fn is_search(&self) -> bool {
        match self {
            Self::Curve(request) => request.bound.is_some(),
            Self::Ramp(_) | Self::Durability => true,
            _ => false,
        }
    }

    /// Returns the name used in results and commands.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Figures => "figures",
            Self::Curve(_) => "curve",
            Self::Ramp(_) => "ramp",
            Self::Soak(_) => "soak",
            Self::Ladder(_) => "ladder",
            Self::Durability => "durability",
        }
    }
}
