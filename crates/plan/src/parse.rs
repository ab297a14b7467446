//! The second layer: parses a plan's text and flags into `syntax`, and writes syntax back as text.
//!
//! Every form that is read here is also written here. The layer depends on `syntax` only and has no
//! notion of runs: it checks single values, and leaves their combinations to `resolve`.

pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod conclusion;
pub(crate) mod disturb;
pub(crate) mod document;
pub(crate) mod fault;
pub(crate) mod fault_text;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod level;
pub(crate) mod load;
pub(crate) mod overrides;
pub(crate) mod page;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod recipe;
pub(crate) mod recipe_problems;
pub(crate) mod reference;
pub(crate) mod repetition;
pub(crate) mod requirement;
pub(crate) mod scale;
pub(crate) mod section;
pub(crate) mod server;
pub(crate) mod systems;
pub(crate) mod target_text;
pub(crate) mod targets;
pub(crate) mod values;
pub(crate) mod work;
