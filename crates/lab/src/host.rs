//! Operations on this host used by both steps and undo, independent of plans, ordering and the log.
//!
//! Each module covers one aspect of the host: it reads the state from the kernel and changes it.
//! [`crate::actions`] decides which operations belong together for a run. Nothing here depends on
//! actions, steps or the undo log.

pub mod calendar;
pub mod devices;
pub mod exports;
pub mod filler;
pub mod grace;
pub mod interfaces;
pub mod nfsd;
pub mod path_probe;
