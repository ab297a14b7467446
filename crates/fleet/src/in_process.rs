//! The transport to an agent in this very process: two channels.
//!
//! An end that is dropped is how the other one learns that it is alone; there is nothing to close
//! and nothing to time out. An agent that talks through a stream has the same end, with the
//! stream's threads at the other side of the channels.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::{Gone, Order, Report, Transport};

/// The controller's end.
pub struct InProcess {
    orders: Sender<Order>,
    reports: Receiver<Report>,
}

/// The agent's end.
pub struct AgentEnd {
    orders: Receiver<Order>,
    reports: Sender<Report>,
}

/// Makes the two ends.
pub fn pair() -> (InProcess, AgentEnd) {
    let (orders_in, orders_out) = channel();
    let (reports_in, reports_out) = channel();
    (
        InProcess { orders: orders_in, reports: reports_out },
        AgentEnd { orders: orders_out, reports: reports_in },
    )
}

impl InProcess {
    /// Takes it apart into its two channels.
    pub(crate) fn into_channels(self) -> (Sender<Order>, Receiver<Report>) {
        (self.orders, self.reports)
    }
}

impl Transport for InProcess {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        self.orders.send(order).map_err(|_| gone())
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        self.reports.recv().map_err(|_| gone())
    }
}

fn gone() -> Gone {
    Gone("the agent is gone".to_owned())
}

impl AgentEnd {
    /// Waits for the next order; `None` when the controller is gone.
    pub fn next_order(&self) -> Option<Order> {
        self.orders.recv().ok()
    }

    /// Answers; a controller that is gone needs no answer.
    pub fn report(&self, report: Report) {
        let _ = self.reports.send(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_and_a_lost_end_is_noticed() {
        let (mut controller, agent) = pair();
        controller.send(Order::End).unwrap();
        assert!(matches!(agent.next_order(), Some(Order::End)));
        agent.report(Report::Ended);
        assert!(matches!(controller.receive(), Ok(Report::Ended)));
        drop(agent);
        assert_eq!(controller.send(Order::End), Err(gone()));
        assert!(controller.receive().is_err());
    }
}
