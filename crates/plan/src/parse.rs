//! The second layer: from a plan's text and the flags to what they say, and back to text.
//!
//! Every form that is read here is written here. It uses `syntax` and knows nothing of runs: a
//! value alone is judged, how values go together is left to `resolve`.

pub(crate) mod address;
pub(crate) mod conclusion;
pub(crate) mod disturb;
pub(crate) mod document;
pub(crate) mod fault;
pub(crate) mod fault_text;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod level;
pub(crate) mod overrides;
pub(crate) mod page;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod recipe;
pub(crate) mod reference;
pub(crate) mod repetition;
pub(crate) mod scale;
pub(crate) mod section;
pub(crate) mod server;
pub(crate) mod systems;
pub(crate) mod target_text;
pub(crate) mod targets;
pub(crate) mod values;
pub(crate) mod work;
