//! Messages between the controller and its agents, and the transports that carry them.
//!
//! The controller sends an [`Order`] and the agent answers with [`Report`]s; only one order is in
//! progress at a time. A [`Transport`] either stays in this process or carries [`wire`] messages,
//! for example over the user's own ssh. A stop request is not an order, because it has to overtake
//! everything else.
#![warn(unreachable_pub)]

pub mod clock;
pub mod in_process;
pub mod job;
mod json;
mod order;
pub mod remote;
pub mod rendezvous;
pub mod request;
pub mod ssh;
pub mod stdio;
mod stream;
mod wakeup;
pub mod wire;
mod writer;

pub use order::{
    Assignment, ClockReading, HostPermissions, JournalLocation, KERNEL_FACT, KindTotals, Order,
    PROBE_FILE, PassEnd, QuietWait, Report, RestoredChange, TrialAbort, TrialSetup,
};
pub use remote::{LEFT_TO_AGENT, MessageSender, Remote};
pub use request::WrongAnswer;
pub use request::{AnswerReader, Request};
pub use wakeup::Wakeup;
pub use writer::Output;

/// The other side is gone. Contains the reason, if known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeerGone(pub String);

/// Connection to one agent.
pub trait Transport {
    fn send(&mut self, order: Order) -> Result<(), PeerGone>;

    /// Waits for the next report.
    fn receive(&mut self) -> Result<Report, PeerGone>;

    /// Returns a report if one has already arrived, without waiting.
    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone>;

    /// Registers a wakeup to signal whenever something arrives. A transport that never signals
    /// still works, because the controller also polls now and then.
    fn set_wakeup(&mut self, _wakeup: &Wakeup) {}

    /// Takes the facts collected about how the agent got to its host.
    fn take_facts(&mut self) -> Vec<model::Fact> {
        Vec::new()
    }

    /// Asks the agent to cancel the current work. It still answers the order, then waits for the
    /// next one.
    fn cancel(&mut self) {}

    /// Starts to disconnect without waiting for the agent to exit, so that many agents can be
    /// released at the same time. Dropping the transport does the waiting.
    fn leave(&mut self) {}

    /// Waits, up to a limit, until a released agent has exited. If it is still running after that,
    /// returns a sentence about it, including its host name.
    fn await_end(&mut self) -> Option<String> {
        None
    }

    /// Checks that the agent is still there, without waiting.
    fn check_alive(&mut self) -> Result<(), PeerGone> {
        Ok(())
    }
}
