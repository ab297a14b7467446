//! Every caveat that an agent raises: its cause is planted, and a clean run is silent about it.

mod recovery;
#[allow(dead_code, reason = "shared with the tests of programs")]
mod rig;
mod stamps;

mod accounting;
mod causes;
mod direct;
mod figures;
mod localio;
mod loops;
mod memory;
mod mount;
mod neighbors;
mod offered;
mod page;
mod panics;
mod segments;
mod timeline;
