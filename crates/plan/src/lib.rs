//! Plans: TOML -> [`RawPlan`] -> [`Plan`] -> matrix -> runs.
//!
//! Pure: the text, the flags, the seed and everything else that is not in the plan come in as
//! arguments, and nothing here reads a clock, a file or the environment. Three layers, each using
//! itself and those before it, without circles: `written` (what a plan says, with lines),
//! `reading` (from text and flags to that, and back) and `meaning` ([`Plan`], with nothing left
//! open). What can be wrong with a plan is one [`PlanError`].
//!
//! The way: [`RawPlan::parse`] or [`RawPlan::for_target`], then [`RawPlan::apply`] for flags, then
//! [`Plan::resolve`]; then [`Plan::order`], [`estimate`](estimate()) and [`Plan::to_toml`].

mod meaning;
mod reading;
mod written;

/// Planned faults of the in-memory server: what they are, and how they are read.
pub mod fault {
    pub use crate::reading::fault::{check_faults, parse_fault};
    pub use crate::written::fault::*;
}

pub use meaning::defaults;
pub use meaning::estimate::{
    BYTES_PER_S, Estimate, METADATA_OPS_PER_S, RANDOM_OPS_PER_S, Rates, RunEstimate,
    TRIAL_OVERHEAD_MS, TargetEstimate, estimate, estimate_at,
};
pub use meaning::ladder::BesideServer;
pub use meaning::order::Step;
pub use meaning::pace::{
    Pace, ProbeTrial, TimedRates, can_be_reduced, estimate_by, reduced, work_of,
};
pub use meaning::programs::chosen_programs;
pub use meaning::resolve::Plan;
pub use meaning::server::ServerPlan;
pub use meaning::surroundings::Surroundings;
pub use reading::disturb::{names_disturbance, parse_disturbance};
pub use reading::keys::{key_elsewhere, reference};
pub use reading::overrides::Overrides;
pub use reading::page::reference_page;
pub use reading::recipe::{RECIPES, built_in_recipe, is_recipe_path, parse_recipe};
pub use reading::section::{KeyDoc, Section};
pub use reading::server::{parse_server_memory, parse_versions};
pub use reading::target::parse_target;
pub use written::address::{NfsAddress, User};
pub use written::error::{Located, Place, PlanError};
pub use written::hosts::UsedFrom;
pub use written::lab::{LabArg, SystemArg};
pub use written::limits;
pub use written::near::nearest_word;
pub use written::raw::{RawFaults, RawPlan, RawServer, RawTarget, RawWorkload};
pub use written::repetition::RawRepetition;
pub use written::settings::Settings;
pub use written::target::TargetArg;
