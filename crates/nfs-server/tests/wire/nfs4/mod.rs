//! NFS v4 over the wire: what each minor version promises, and what bad calls get.
//!
//! `fixtures` makes compounds and sessions; the tests state requests and expected replies with it.

mod any;
mod bad;
mod data;
mod delegations;
pub mod fixtures;
mod grace;
mod names;
mod plain;
mod sessions;
mod xattrs;
