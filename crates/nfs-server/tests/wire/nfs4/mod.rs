//! NFS v4 over the wire: the features of each minor version, and the replies to bad calls.
//!
//! `fixtures` builds compounds and sessions; the tests use it for requests and expected replies.

mod any;
mod bad;
mod copies;
mod data;
mod delegations;
pub mod fixtures;
mod grace;
mod names;
mod plain;
mod pnfs;
mod pnfs_v4;
mod sessions;
mod xattrs;
