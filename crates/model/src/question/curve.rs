//! The question of `dfsbench curve`: how response times increase with the offered load.
//!
//! [`CurveRequest`] also contains the requested mix, because the rule about shares is evaluated
//! from results alone.

use serde::{Deserialize, Serialize};

use crate::runs::op::OpKind;
use crate::text::units::Nanos;

/// A requested load curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurveRequest {
    /// Load points in ops per second, ascending; empty when searching for a bound.
    pub loads_per_s: Vec<u64>,
    /// Name of the mix in plans; empty if it has none.
    pub mix_name: String,
    /// Share of each kind of op, in hundredths of a percent; empty if no rule needs them.
    pub mix: Vec<(OpKind, u32)>,
    /// The highest load.
    pub maximum: LoadMaximum,
    /// The response time bound, if the curve searches for one.
    pub bound: Option<ResponseBound>,
}

/// The highest load of a curve, and how it was determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadMaximum {
    /// Ops per second.
    pub per_s: u64,
    /// The closed loop that determined it; `None` if the user specified it.
    pub found: Option<ClosedLoop>,
}

/// A short closed loop with the mix of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClosedLoop {
    /// Ops completed.
    pub ops: u64,
    /// Duration in nanoseconds.
    pub window_ns: u64,
    /// Number of files used; 0 if they were the same as for the load points.
    pub files: u32,
}

/// The maximum acceptable response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseBound {
    /// The bound in nanoseconds.
    pub most_ns: u64,
    /// Share of ops that must be within the bound, in thousandths; `None` applies the bound to the
    /// mean.
    pub quantile_permille: Option<u32>,
}

impl ResponseBound {
    /// Returns the name of the bounded statistic: `mean` or `p99`.
    pub fn name(&self) -> String {
        match self.quantile_permille {
            None => "mean".to_owned(),
            Some(permille) if permille.is_multiple_of(10) => format!("p{}", permille / 10),
            Some(permille) => format!("p{}.{}", permille / 10, permille % 10),
        }
    }

    /// Describes the bound: `a mean response time of at most 5.00 ms`.
    pub fn describe(&self) -> String {
        format!("a {} response time of at most {}", self.name(), Nanos(self.most_ns))
    }
}

impl ClosedLoop {
    /// Returns the rate in ops per second.
    pub fn per_s(&self) -> u64 {
        (u128::from(self.ops) * 1_000_000_000 / u128::from(self.window_ns.max(1))) as u64
    }
}
