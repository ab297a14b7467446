//! In-process transport: a controller and its agent connected by two channels.
//!
//! Each end notices that the other one is gone because its channel closes, so there is nothing to
//! shut down and no timeout. An agent that is reached through a stream uses the same [`AgentEnd`];
//! the thread that reads the stream feeds it the orders.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::wakeup::WakeupSlot;
use crate::{Order, PeerGone, Report, Transport, Wakeup};

/// The controller's end of the channel pair.
pub struct InProcess {
    orders: Sender<Option<Order>>,
    reports: Receiver<Report>,
    wakeup: WakeupSlot,
    cancelled: Arc<AtomicBool>,
}

/// The agent's end of the channel pair.
pub struct AgentEnd {
    /// `None` means that no more orders will come.
    orders: Receiver<Option<Order>>,
    is_over: Cell<bool>,
    /// An order that arrived while only disturbances were accepted.
    held: Cell<Option<Order>>,
    report: RefCell<Box<SendReport>>,
    cancelled: Arc<AtomicBool>,
}

/// Function that sends a report to the controller.
pub(crate) type SendReport = dyn FnMut(Report) + Send;

/// Sends reports to a controller in the same process.
struct Reports {
    sender: Option<Sender<Report>>,
    wakeup: WakeupSlot,
}

/// Creates the two connected ends.
pub fn pair() -> (InProcess, AgentEnd) {
    let (orders_in, orders_out) = channel();
    let (reports_in, reports_out) = channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let wakeup = WakeupSlot::default();
    let controller = InProcess {
        orders: orders_in,
        reports: reports_out,
        wakeup: wakeup.clone(),
        cancelled: Arc::clone(&cancelled),
    };
    let reports = Reports { sender: Some(reports_in), wakeup };
    (controller, AgentEnd::new(orders_out, cancelled, move |report| reports.send_report(report)))
}

impl Reports {
    fn send_report(&self, report: Report) {
        if let Some(sender) = &self.sender {
            // If the controller is gone, nobody needs the answer.
            let _ = sender.send(report);
        }
        self.wakeup.notify();
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        // Drop the sender first: the controller is being woken to see the closed channel.
        self.sender = None;
        self.wakeup.notify();
    }
}

impl Transport for InProcess {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        self.orders.send(Some(order)).map_err(|_| agent_gone())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.reports.recv().map_err(|_| agent_gone())
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(agent_gone()),
        }
    }

    fn set_wakeup(&mut self, wakeup: &Wakeup) {
        self.wakeup.attach_to(wakeup);
    }

    fn cancel(&mut self) {
        self.cancelled.store(true, Relaxed);
    }
}

fn agent_gone() -> PeerGone {
    PeerGone("the agent is gone".to_owned())
}

impl AgentEnd {
    /// Creates an end that takes orders from a channel and sends reports through `report`.
    pub(crate) fn new(
        orders: Receiver<Option<Order>>,
        cancelled: Arc<AtomicBool>,
        report: impl FnMut(Report) + Send + 'static,
    ) -> Self {
        let report: Box<SendReport> = Box::new(report);
        Self {
            orders,
            is_over: Cell::new(false),
            held: Cell::new(None),
            report: RefCell::new(report),
            cancelled,
        }
    }

    /// Waits for the next order. Returns `None` if the controller is gone.
    pub fn next_order(&self) -> Option<Order> {
        if self.is_over.get() {
            return None;
        }
        let order = match self.held.take() {
            Some(held) => Some(held),
            None => self.orders.recv().unwrap_or(None),
        };
        self.is_over.set(order.is_none());
        order
    }

    /// Returns a pending order to start or end a disturbance, if there is one. Any other order is
    /// kept for [`Self::next_order`].
    pub fn try_disturbance(&self) -> Option<Order> {
        let mut arrived = self.held.take();
        if arrived.is_none()
            && let Ok(order) = self.orders.try_recv()
        {
            self.is_over.set(order.is_none());
            arrived = order;
        }
        match arrived {
            Some(order @ (Order::Disturb(_) | Order::EndDisturbance)) => Some(order),
            other => {
                self.held.set(other);
                None
            }
        }
    }

    /// Sends a report. It is dropped if the controller is gone.
    pub fn report(&self, report: Report) {
        (self.report.borrow_mut())(report);
    }

    /// Flag that the controller sets to cancel the current work. The agent must clear it before it
    /// starts something new.
    pub const fn cancelled(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_disturbance_and_queues_orders() {
        let (mut controller, agent) = pair();
        assert!(agent.try_disturbance().is_none());
        for order in [Order::EndDisturbance, Order::Release, Order::EndDisturbance] {
            controller.send(order).unwrap();
        }
        assert_eq!(agent.try_disturbance(), Some(Order::EndDisturbance));
        assert_eq!((agent.try_disturbance(), agent.try_disturbance()), (None, None));
        assert_eq!(agent.next_order(), Some(Order::Release));
        assert_eq!(agent.next_order(), Some(Order::EndDisturbance));
    }

    #[test]
    fn delivers_orders_and_notices_loss() {
        let (mut controller, agent) = pair();
        controller.send(Order::Release).unwrap();
        assert_eq!(controller.try_receive(), Ok(None));
        assert!(matches!(agent.next_order(), Some(Order::Release)));
        agent.report(Report::Ended);
        controller.cancel();
        assert!(agent.cancelled().load(Relaxed));
        assert!(matches!(controller.receive(), Ok(Report::Ended)));
        drop(agent);
        assert_eq!(controller.send(Order::Release), Err(agent_gone()));
        assert_eq!(controller.try_receive(), Err(agent_gone()));
        assert!(controller.receive().is_err());
    }
}
