//! The question of `dfsbench curve`: how response times rise with the offered load.
//!
//! [`CurveRequest`] is the principal type. It holds the requested mix, too, since the rule
//! about shares is judged from results alone.

use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::units::Nanos;

/// A requested load curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurveRequest {
    /// Load points, in ops per second, ascending; empty where a bound was searched for.
    pub loads_per_s: Vec<u64>,
    /// The mix as plans call it; empty where it has no name.
    pub mix_name: String,
    /// Share of each kind of op, in hundredths of a percent; empty where no rule needs them.
    pub mix: Vec<(OpKind, u32)>,
    /// The heaviest load.
    pub maximum: LoadMaximum,
    /// The bound that was searched for.
    pub bound: Option<ResponseBound>,
}

/// The heaviest load of a curve, and where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadMaximum {
    /// In ops per second.
    pub per_s: u64,
    /// The closed loop that found it; `None` where the user named it.
    pub found: Option<ClosedLoop>,
}

/// A short closed loop with the mix of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClosedLoop {
    /// Ops that it did.
    pub ops: u64,
    /// In so many nanoseconds.
    pub window_ns: u64,
    /// Files that it worked on; 0 where they were those of the load points.
    pub files: u32,
}

/// The longest accepted response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseBound {
    /// The bound in nanoseconds.
    pub most_ns: u64,
    /// The share of ops that keep the bound, in thousandths; `None` bounds the mean of all.
    pub quantile_permille: Option<u32>,
}

impl ResponseBound {
    /// The response time that it is about: `mean` or `p99`.
    pub fn name(&self) -> String {
        match self.quantile_permille {
            None => "mean".to_owned(),
            Some(permille) if permille.is_multiple_of(10) => format!("p{}", permille / 10),
            Some(permille) => format!("p{}.{}", permille / 10, permille % 10),
        }
    }

    /// In words: `a mean response time of 5.00 ms`.
    pub fn describe(&self) -> String {
        format!("a {} response time of at most {}", self.name(), Nanos(self.most_ns))
    }
}

impl ClosedLoop {
    /// Ops per second.
    pub fn per_s(&self) -> u64 {
        (u128::from(self.ops) * 1_000_000_000 / u128::from(self.window_ns.max(1))) as u64
    }
}
