//! NFS v2 on the wire: golden bytes written by hand from RFC 1094, and properties.

#[path = "../common/mod.rs"]
mod common;
mod golden;
mod properties;
mod samples;
