//! Where a plan comes from, and what `--dry-run` shows of it.

pub(crate) mod dry_run;
pub(crate) mod plan_source;
pub(crate) mod presets;
pub(crate) mod secrets;
pub(crate) mod surroundings;
