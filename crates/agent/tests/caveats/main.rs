//! Every caveat that an agent raises: its cause is planted, and a clean run is silent about it.

#[path = "../agent_thread/mod.rs"]
mod agent_thread;
#[allow(dead_code, reason = "not every test uses all of it")]
mod driven_agent;
mod recovery;
mod stamps;

mod accounting;
mod causes;
mod delegations;
mod direct;
mod figures;
mod kv_cache;
mod listing;
mod localio;
mod loops;
mod media;
mod memory;
mod mount;
mod neighbors;
mod offered;
mod page;
mod panics;
mod paths;
mod pnfs;
mod segments;
mod timeline;
mod training;
mod transport;
