//! The agent of this very process, for campaigns that other hosts make.

use fleet::{Gone, Order, Report, Transport};

/// An agent that must get no orders: an order to it is a bug.
pub struct NoAgent;

impl Transport for NoAgent {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        panic!("{order:?}");
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        Err(Gone("no agent is there".to_owned()))
    }

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
        self.receive().map(Some)
    }
}
