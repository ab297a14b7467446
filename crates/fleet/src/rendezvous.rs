//! Connects a controller with agents started by another program, such as a batch scheduler.
//!
//! The scheduler starts processes on its hosts. Each of them gets an address and a [`Token`] from
//! its environment and connects by TCP ([`join`]). Agent and controller ([`Rendezvous`]) prove to
//! each other that they have the token; everything after that is encrypted. From then on the agent
//! is like any other. The controller stops listening once all agents have connected. Connections
//! from strangers use bounded time and memory and cannot keep an agent out.

mod agent_rank;
mod gather;
mod handshake;
mod join;
mod names;
mod refusals;
mod sealed;
mod starter;
mod token;

pub use agent_rank::{AGENTS_MAX, AgentRank};
pub use gather::JoinedAgent;
pub use gather::{ExpectedAgents, GatherError, GatheredAgents, Rendezvous};
pub use handshake::{Hello, Refusal};
pub use join::{ControllerStream, JoinError, join};
pub(crate) use sealed::Link;
pub use starter::Starter;
pub use token::NoToken;
pub use token::Token;
