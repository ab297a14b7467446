//! Campaigns from plan to results: on scripted hosts, with several agents, and on one.

#[path = "../../../agent/tests/agent_thread/mod.rs"]
mod agent_thread;
#[path = "../campaign/mod.rs"]
mod campaign;
mod drift;
mod evidence;
mod hosts;
mod several_agents;
#[path = "../campaign/shared_directory.rs"]
mod shared_directory;
mod walk;
