//! NFS v4 against bytes laid out by hand, and against any bytes at all.

#[path = "../common/mod.rs"]
mod common;
mod compound;
mod golden;
mod ops;
mod properties;
mod results;
