//! The agent of this very process, for campaigns that other hosts make.

use fleet::{Gone, Order, Report, Transport};

/// Nobody wants it: an order to it is a fault.
pub struct Nobody;

impl Transport for Nobody {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        panic!("{order:?}");
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        Err(Gone("nobody is there".to_owned()))
    }

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
        self.receive().map(Some)
    }
}
