//! The messages between controller and agents, and the transports that carry them.
//!
//! The controller sends an [`Order`], the agent answers with [`Report`]s; one order is in progress
//! at a time. [`Transport`] is the seam: in this process, or as [`wire`] messages through the
//! user's own ssh. A request to stop overtakes everything else, so it is not an order.

pub mod in_process;
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
    Assignment, Begun, Broken, ClockReading, Done, JournalLocation, KERNEL_FACT, Opening, Order,
    PassEnd, QuietWait, Report, RestoredChange,
};
pub use remote::{LEFT_TO_AGENT, MessageSender, Remote};
pub use request::{Answer, Request, WrongAnswer};
pub use wakeup::Wakeup;
pub use writer::Output;

/// The other side is gone; says why, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Gone(pub String);

/// A way to one agent.
pub trait Transport {
    /// Sends an order.
    ///
    /// # Errors
    /// When the agent is gone.
    fn send(&mut self, order: Order) -> Result<(), Gone>;

    /// Waits for the next report.
    ///
    /// # Errors
    /// When the agent is gone.
    fn receive(&mut self) -> Result<Report, Gone>;

    /// Receives a report that has arrived, without waiting.
    ///
    /// # Errors
    /// When the agent is gone.
    fn try_receive(&mut self) -> Result<Option<Report>, Gone>;

    /// Signals this wakeup from now on when something has arrived. A transport that never signals
    /// is polled now and then all the same.
    fn set_wakeup(&mut self, _wakeup: &Wakeup) {}

    /// Takes what is known about how the agent got to its host.
    fn take_facts(&mut self) -> Vec<model::Fact> {
        Vec::new()
    }

    /// Requests that what is in progress ends soon; the agent answers it, and waits for the next
    /// order.
    fn cancel(&mut self) {}

    /// Leaves the agent, without waiting until it has gone: dropping the transport does. So
    /// many of them can leave at one moment.
    fn leave(&mut self) {}

    /// Waits until the agent that was left has ended, but not for ever. Returns a sentence, with
    /// the name of its host, about an agent that has not ended and goes on by itself.
    fn await_end(&mut self) -> Option<String> {
        None
    }

    /// Checks that the agent is still there, without waiting.
    ///
    /// # Errors
    /// When it isn't.
    fn check_alive(&mut self) -> Result<(), Gone> {
        Ok(())
    }
}
