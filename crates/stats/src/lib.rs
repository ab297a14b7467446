//! What the trials of a campaign say, and how far it can be trusted.
//!
//! [`summary`] condenses the figures of several trials: median, spread and a confidence interval.
//! [`judge::pass`] applies it to one pass of a run, sets invalid trials aside, gathers the
//! caveats and gives the verdict. The thresholds stand in [`criteria`], each with its reason.
//! Pure: the same trials give the same figures on every machine, to the last bit; no clock,
//! no file, no libm function whose last digit differs between systems.

pub mod criteria;
mod fairness;
pub mod judge;
mod outlier;
mod rate;
mod summary;

pub use fairness::{ClientShare, Fairness, jain_index};
pub use judge::{Cpu, CpuUnit, Extent, Failure, Judged, JudgedCaveat, Point};
pub use outlier::{Score, modified_z_scores};
pub use rate::Rate;
pub use summary::{Summary, median, summary};
