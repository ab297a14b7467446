//! Hosts and their setup: storage, servers, mounts and other file systems.
//!
//! A lab describes the requirements of a run on its hosts, an action is one change of a host, and a
//! recipe describes a file system that has no support in dfsbench itself. Nothing here is executed.
//! Uses `text` and `targets`.

pub mod action;
pub(crate) mod fact;
pub mod lab;
pub mod options;
pub mod system;
