//! The question that a campaign was made to answer, beside its figures.
//!
//! [`Question`] is the principal type. It holds the request and is stored with the campaign; the
//! answer is computed from the trials, so that a report made a year later gives the same.

mod curve;
pub mod ladder;
mod ramp;

use serde::{Deserialize, Serialize};

use crate::soak::Soak;
pub use ladder::Ladder;

pub use curve::{ClosedLoop, CurveRequest, LoadMaximum, ResponseBound};
pub use ramp::RampRequest;

/// The question that a campaign was made to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "snake_case")]
pub enum Question {
    /// The figures of a matrix, and no more.
    #[default]
    Figures,
    /// How response times rise with the offered load.
    Curve(CurveRequest),
    /// With how many clients, or how much load, a server gives in.
    Ramp(RampRequest),
    /// Whether a server survives hours of load and its behaviour meanwhile.
    Soak(Soak),
    /// Finds the layer of the data path that limits.
    Ladder(Ladder),
    /// What crashes leave of what was acknowledged; such a campaign has no runs.
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

    /// Its name, as results and commands spell it.
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
