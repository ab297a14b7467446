//! Inspects and changes a host: facts, counters, caches, and actions that can be undone.
//!
//! [`Lab`] keeps track of the changes made to this host; how to undo each one is on disk before it
//! is made. Every fact names its source, so that readers can check it. This crate only deals with
//! the local host. To set up several hosts, there is one `Lab` on each of them.
#![warn(unreachable_pub)]

mod actions;
mod commands;
mod compose;
mod error;
pub mod facts;
pub mod host;
mod lab;
pub mod mounts;
pub mod telemetry;
mod undo;

pub use actions::commands;
pub use compose::ComposeError;
pub use compose::reuse::reusable_steps;
pub use compose::{
    DrainSteps, EvictSteps, ObjectSteps, after_power_loss, clients_of_system, compose,
    counters_of_system, disturbance, drain_of_system, evict_of_system, exits_of_system, fresh_from,
    kill_of_system, object_of_system, outlasts_power_loss, redo_from, restart_of_system,
};
pub use error::LabError;
pub use host::servers::is_serving_clients;
pub use lab::Lab;
pub use mounts::unmount::force_off;
pub use undo::clean::{CleanedChange, clean, clean_and_forget};
pub use undo::log::boot_id;

/// Prefix for the names of the agents' acknowledgement journals. They are in the undo log's folder
/// and exist only during a trial.
pub const ACK_JOURNAL_PREFIX: &str = "books.";

/// Folder of the control files of the kernel's NFS server. **Source:** nfsd(7).
const NFSD_FOLDER: &str = "/proc/fs/nfsd";

/// Where debugfs is mounted; readable by root only.
const DEBUGFS: &str = "/sys/kernel/debug";

/// Our folder for everything that doesn't have to be on disk: mount points, symlinks to servers,
/// and their files.
pub const RUN: &str = "/run/dfsbench";
