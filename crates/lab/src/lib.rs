//! Inspects and changes a host: facts, counters, caches, and actions that can be undone.
//!
//! [`Lab`] keeps track of the changes made to this host; how to undo each one is on disk before it
//! is made. Every fact names its source, so that readers can check it. This crate only deals with
//! the local host. To set up several hosts, there is one `Lab` on each of them.
#![warn(unreachable_pub)]

mod actions;
pub mod activity;
mod additions;
pub mod cache;
mod clean;
mod commands;
mod compose;
mod compression;
pub mod counters;
pub mod disks;
mod error;
pub mod facts;
mod findings;
pub mod fuse;
mod hardware;
mod host;
mod invalidate;
mod kernel_settings;
mod lab;
mod log;
pub mod loops;
pub mod memory;
pub mod mounts;
mod mountstats;
pub mod namespaces;
mod options;
mod packages;
mod processes;
pub mod processors;
mod restore;
mod reuse;
mod safety;
mod servers;
mod step;
pub mod telemetry;
mod trust;
mod undo;
mod undo_guard;
mod unmount;

pub use actions::commands;
pub use clean::{CleanedChange, clean, clean_and_forget};
pub use compose::ComposeError;
pub use compose::{
    after_power_loss, compose, counters_of_system, disturbance, fresh_from, kill_of_system,
    outlasts_power_loss, redo_from, restart_of_system,
};
pub use error::LabError;
pub use lab::Lab;
pub use log::boot_id;
pub use reuse::reusable_steps;
pub use servers::is_serving_clients;
pub use unmount::force_off;

/// Prefix for the names of the agents' acknowledgement journals. They are in the undo log's folder
/// and exist only during a trial.
pub const ACK_JOURNAL_PREFIX: &str = "books.";

/// Folder of the control files of the kernel's NFS server. **Source:** nfsd(7).
const NFSD_FOLDER: &str = "/proc/fs/nfsd";

/// Our folder for everything that doesn't have to be on disk: mount points, symlinks to servers,
/// and their files.
pub const RUN: &str = "/run/dfsbench";
