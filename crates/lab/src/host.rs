//! Operations on this host used by both steps and undo, independent of plans, ordering and the log.
//!
//! Each module covers one aspect of the host: it reads the state from the kernel and changes it.
//! `crate::actions` decides which operations belong together for a run. Nothing here depends on
//! actions, steps or the undo log.

pub(crate) mod additions;
pub mod cache;
pub(crate) mod calendar;
pub(crate) mod devices;
pub(crate) mod exports;
pub(crate) mod filler;
pub(crate) mod grace;
pub(crate) mod interfaces;
pub(crate) mod invalidate;
pub(crate) mod kernel_settings;
pub(crate) mod nfsd;
pub(crate) mod path_probe;
pub(crate) mod processes;
pub(crate) mod safety;
pub(crate) mod servers;
pub(crate) mod trust;
