//! Operations on this host that both steps and their undoing need: no plan, no order, no log.
//!
//! Each module holds one subject of the host: it reads its state from where the kernel keeps it,
//! and brings it to another. What belongs together for a run is decided by [`crate::actions`];
//! nothing here knows of actions, of steps or of the undo log.

pub mod calendar;
pub mod devices;
pub mod exports;
pub mod filler;
pub mod grace;
pub mod interfaces;
pub mod nfsd;
pub mod path_probe;
