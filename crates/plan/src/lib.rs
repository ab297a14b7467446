//! Plans: TOML -> [`RawPlan`] -> [`Plan`] -> matrix -> runs.
//!
//! Pure: the text, the flags, the seed and everything else that is not in the plan come in as
//! arguments, and nothing here reads a clock, a file or the environment. [`RawPlan`] is what was
//! written, with lines; [`Plan`] is what is meant, with nothing left open. What can be wrong with
//! a plan is one [`PlanError`], which says where, what, the value, and a hint.
//!
//! The way: [`RawPlan::parse`] or [`RawPlan::for_target`], then [`RawPlan::apply`] for flags, then
//! [`Plan::resolve`]; then [`Plan::order`], [`estimate`](estimate()) and [`Plan::to_toml`].

mod address;
mod checks;
pub mod defaults;
mod disturb;
mod document;
mod error;
mod estimate;
pub mod fault;
mod keys;
mod lab;
mod ladder;
mod level;
pub mod limits;
mod matrix;
mod order;
mod overrides;
mod page;
mod parse;
mod parse_hosts;
mod parse_targets;
mod placement;
mod raw;
mod reference;
mod repetition;
mod resolve;
mod server;
mod target;
mod text;
mod work;
mod write;

pub use address::{NfsAddress, User};
pub use disturb::parse_disturbance;
pub use error::{Place, PlanError, Spot};
pub use estimate::{
    BYTES_PER_S, Estimate, METADATA_OPS_PER_S, RANDOM_OPS_PER_S, RunEstimate, TRIAL_OVERHEAD_MS,
    TargetEstimate, estimate,
};
pub use keys::{KeyDoc, Section, nearest_word, reference};
pub use lab::LabArg;
pub use ladder::BesideServer;
pub use order::Step;
pub use overrides::Overrides;
pub use page::reference_page;
pub use placement::UsedFrom;
pub use raw::{RawFaults, RawPlan, RawServer, RawTarget, RawWorkload, Settings};
pub use repetition::RawRepetition;
pub use resolve::{Plan, Surroundings};
pub use server::{ServerPlan, parse_server_memory, parse_versions};
pub use target::{TargetArg, parse_target};
