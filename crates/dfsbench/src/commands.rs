//! The subcommands, a module for each or for several that belong together. Each takes its parsed
//! arguments and returns the exit code.

pub(crate) mod agent;
pub(crate) mod bisect;
pub(crate) mod bundle;
pub(crate) mod campaign;
pub(crate) mod capture;
pub(crate) mod catalog;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod contenders;
pub(crate) mod contents;
pub(crate) mod curve;
pub(crate) mod describe;
pub(crate) mod durability;
pub(crate) mod k8s;
pub(crate) mod ladder;
pub(crate) mod manual;
pub(crate) mod pace;
pub(crate) mod probe;
pub(crate) mod ramp;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod serve;
pub(crate) mod slurm;
pub(crate) mod soak;
pub(crate) mod system_up;
pub(crate) mod systems;
pub(crate) mod trace_export;
pub(crate) mod verify;
pub(crate) mod view;
