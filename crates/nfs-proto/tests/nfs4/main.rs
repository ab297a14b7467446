//! NFS v4 against bytes written by hand, and against arbitrary bytes.

#[path = "../common/mod.rs"]
mod common;
mod compound;
mod golden;
mod layout_bodies;
mod layouts;
mod ops;
mod properties;
mod results;
