//! Where agents that something else has started meet their controller.
//!
//! A scheduler starts processes on its hosts; each of them knows an address and a [`Token`] from
//! its environment and comes by TCP ([`join`]). The controller lets in an agent that proves that it
//! knows the token, and proves the same ([`Rendezvous`]); all that follows is encrypted. Then it is
//! an agent as any other. The address listens only until all have come. What strangers send costs
//! a bounded time and a bounded memory, and never keeps an agent out.

mod agent_rank;
mod gather;
mod handshake;
mod join;
mod names;
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
