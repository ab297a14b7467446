//! Plans: TOML -> [`RawPlan`] -> [`Plan`] -> matrix -> runs.
//!
//! Pure: the text, the flags, the seed and everything else from outside the plan come in as
//! arguments; nothing here reads a clock, a file or the environment. There are three layers, each
//! using only itself and the ones before it: `syntax` (the contents of a plan, with lines), `parse`
//! (from text and flags to syntax, and back) and `resolve` ([`Plan`], with every default filled
//! in). All problems with a plan are reported as a [`PlanError`].
//!
//! The usual sequence of calls: [`RawPlan::parse`] or [`RawPlan::for_target`], [`RawPlan::apply`]
//! for flags, [`Plan::resolve`], then [`Plan::order`], [`estimate`](estimate()) and
//! [`Plan::to_toml`].

#![warn(unreachable_pub)]

mod parse;
mod resolve;
mod syntax;

/// Faults that the in-memory server can be told to make: their kinds, and how they are parsed.
pub mod fault {
    pub use crate::parse::fault::{check_faults, parse_fault};
    pub use crate::syntax::fault::*;
}

pub use parse::cluster::{ClusterKey, ClusterKeys, parse_cluster};
pub use parse::disturb::{names_disturbance, parse_disturbance};
pub use parse::fio_plan::{FioPlan, FioRequest, plan_like_fio};
pub use parse::keys::key_elsewhere;
pub use parse::overrides::Overrides;
pub use parse::page::reference_page;
pub use parse::recipe::{
    RECIPES, built_in_recipe, check_recipe, is_recipe_path, new_recipe, parse_recipe,
};
pub use parse::requirement::parse_requirements;
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
pub use syntax::cluster::{ClusterPlan, DataServerPlan, DataServersPlan, LayoutsPlan};
pub use syntax::error::{Located, PlanError, PlanPosition};
pub use syntax::hosts::UsedFrom;
pub use syntax::raw::RawPlan;
pub use syntax::suggestion::nearest_word;
pub use syntax::target::TargetArg;
