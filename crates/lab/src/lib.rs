//! Reads from a host and changes it: facts, counters, caches, and actions that are undone.
//!
//! Principal type: [`Lab`], the changes that were made to this host, each with how it is undone
//! on disk before it is made. Everything here names its source, so that a reader can check it.
//! Nothing here knows of other hosts: a program that sets up several has a `Lab` on each.

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
mod portmap;
mod processes;
pub mod processors;
mod restore;
mod reuse;
pub mod safety;
mod servers;
mod step;
pub mod telemetry;
mod trust;
mod undo;
mod undo_guard;
mod unmount;

pub use actions::commands;
pub use clean::{Cleaned, clean, clean_and_forget};
pub use compose::{
    ComposeError, after_power_loss, compose, counters_of_system, disturbance, fresh_from,
    kill_of_system, outlasts_power_loss, redo_from, restart_of_system,
};
pub use error::LabError;
pub use lab::Lab;
pub use log::boot_id;
pub use reuse::reusable_steps;
pub use servers::is_serving_clients;
pub use unmount::force_off;

/// How the names of the acknowledgement journals of agents begin: files below the directory of the
/// undo log, as long as a trial lasts.
pub const ACK_JOURNAL_PREFIX: &str = "books.";

/// Folder of the control files of the kernel's NFS server. **Source:** nfsd(7).
const NFSD_FOLDER: &str = "/proc/fs/nfsd";

/// Folder of all of ours that needs no disk: mount points, links to servers, their files.
pub const RUN: &str = "/run/dfsbench";
