//! Plans: TOML -> [`RawPlan`] -> [`Plan`] -> matrix -> runs.
//!
//! Pure: the text, the flags, the seed and everything else that is not in the plan come in as
//! arguments, and nothing here reads a clock, a file or the environment. Three layers, each using
//! itself and those before it, without circles: `syntax` (what a plan says, with lines), `parse`
//! (from text and flags to that, and back) and `resolve` ([`Plan`], with nothing left open). What
//! can be wrong with a plan is one [`PlanError`].
//!
//! The way: [`RawPlan::parse`] or [`RawPlan::for_target`], then [`RawPlan::apply`] for flags, then
//! [`Plan::resolve`]; then [`Plan::order`], [`estimate`](estimate()) and [`Plan::to_toml`].

#![warn(unreachable_pub)]

mod parse;
mod resolve;
mod syntax;

/// Planned faults of the in-memory server: what they are, and how they are read.
pub mod fault {
    pub use crate::parse::fault::{check_faults, parse_fault};
    pub use crate::syntax::fault::*;
}

pub use parse::disturb::{names_disturbance, parse_disturbance};
pub use parse::keys::key_elsewhere;
pub use parse::overrides::Overrides;
pub use parse::page::reference_page;
pub use parse::recipe::{RECIPES, built_in_recipe, parse_recipe};
pub use parse::section::KeyDoc;
pub use parse::server::{parse_server_memory, parse_versions};
pub use parse::target_text::parse_target;
pub use resolve::estimate::{Estimate, Rates, estimate, estimate_at};
pub use resolve::ladder::BesideServer;
pub use resolve::order::Step;
pub use resolve::pace::{
    Pace, ProbeTrial, TimedRates, can_be_reduced, estimate_by, reduced, work_of,
};
pub use resolve::plan::Plan;
pub use resolve::programs::chosen_programs;
pub use resolve::server::ServerPlan;
pub use resolve::surroundings::Surroundings;
pub use syntax::address::{NfsAddress, User};
pub use syntax::error::{Located, Place, PlanError};
pub use syntax::hosts::UsedFrom;
pub use syntax::near::nearest_word;
pub use syntax::raw::RawPlan;
pub use syntax::target::TargetArg;
