//! NFS v4 over the wire: what each minor version promises, and what bad calls get.
//!
//! `kit` makes compounds and sessions; the tests say with it what is asked and what must come.

mod any;
mod bad;
mod data;
mod grace;
mod kit;
mod names;
mod plain;
mod sessions;
