//! Hosts and what is set up on them: storage, servers, mounts and other file systems.
//!
//! A lab is what a run needs of its hosts, an action is one change of a host, and a recipe
//! describes a file system that dfsbench does not know. Nothing here is carried out. Uses `text`
//! and `targets`.

pub mod action;
pub(crate) mod fact;
pub mod lab;
pub mod options;
pub mod system;
