//! The rendezvous of a controller with agents that another program has started.
//!
//! A scheduler starts processes on its hosts; each of them knows an address and a [`Token`] from
//! its environment and connects by TCP ([`join`]). The controller accepts an agent that proves that
//! it knows the token, and proves the same ([`Rendezvous`]); all that follows is encrypted. Then it
//! is an agent as any other. The address listens only until all have connected. Bytes of strangers
//! cost a bounded time and a bounded memory, and never keep an agent out.

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
pub use gather::{ExpectedAgents, GatherError, Gathered, JoinedAgent, Rendezvous};
pub use handshake::{Hello, Refusal};
pub use join::{JoinError, Joined, join};
pub(crate) use sealed::Link;
pub use starter::Starter;
pub use token::{NoToken, Token};
