//! The transport to an agent in this very process: two channels.
//!
//! An end that is dropped is how the other one learns that it is alone; there is nothing to close
//! and nothing to time out. An agent that talks through a stream has the same end, with the
//! stream's threads at the other side of the channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::bell::Rope;
use crate::{Bell, Gone, Order, Report, Transport};

/// The controller's end.
pub struct InProcess {
    orders: Sender<Order>,
    reports: Receiver<Report>,
    rope: Rope,
    cancelled: Arc<AtomicBool>,
}

/// The agent's end.
pub struct AgentEnd {
    orders: Receiver<Order>,
    reports: Sender<Report>,
    rope: Rope,
    cancelled: Arc<AtomicBool>,
}

/// Makes the two ends.
pub fn pair() -> (InProcess, AgentEnd) {
    let (orders_in, orders_out) = channel();
    let (reports_in, reports_out) = channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let rope = Rope::default();
    let controller = InProcess {
        orders: orders_in,
        reports: reports_out,
        rope: rope.clone(),
        cancelled: Arc::clone(&cancelled),
    };
    (controller, AgentEnd { orders: orders_out, reports: reports_in, rope, cancelled })
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

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }

    fn ring(&mut self, bell: &Bell) {
        self.rope.hang(bell);
    }

    fn cancel(&mut self) {
        self.cancelled.store(true, Relaxed);
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
        self.rope.pull();
    }

    /// Set while the controller wants what is under way to end; to be taken back by the agent when
    /// it begins something new.
    pub const fn cancelled(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }
}

impl Drop for AgentEnd {
    fn drop(&mut self) {
        self.rope.pull();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_and_a_lost_end_is_noticed() {
        let (mut controller, agent) = pair();
        controller.send(Order::LetGo).unwrap();
        assert_eq!(controller.try_receive(), Ok(None));
        assert!(matches!(agent.next_order(), Some(Order::LetGo)));
        agent.report(Report::Ended);
        controller.cancel();
        assert!(agent.cancelled().load(Relaxed));
        assert!(matches!(controller.receive(), Ok(Report::Ended)));
        drop(agent);
        assert_eq!(controller.send(Order::LetGo), Err(gone()));
        assert_eq!(controller.try_receive(), Err(gone()));
        assert!(controller.receive().is_err());
    }
}
