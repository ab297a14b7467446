//! Orders to all loops at once: stall, or restart.
//!
//! A restart has three steps: each loop closes its connections and reports it, then the state is
//! forgotten while no loop answers, then all continue.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use crate::clock::monotonic_ns;
use crate::fault::{FaultKind, LayoutEvent};
use crate::mailbox::{LoopOrder, Mailbox};
use crate::service::Shared;
use crate::sync;

/// Orders to all loops; see the module.
#[derive(Debug)]
pub(crate) struct Controls {
    shared: Arc<Shared>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Only one restart at a time.
    turn: Mutex<()>,
}

impl Controls {
    pub(crate) fn new(shared: Arc<Shared>, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        Self { shared, mailboxes, turn: Mutex::default() }
    }

    /// Stalls all loops for a while; returns at once.
    pub(crate) fn stall(&self, duration_ns: u64) {
        let until_ns = monotonic_ns().saturating_add(duration_ns);
        for mailbox in &self.mailboxes {
            mailbox.send(LoopOrder::StallUntil(until_ns));
        }
    }

    /// Makes all loops close their connections and ports; returns at once.
    pub(crate) fn die(&self) {
        for mailbox in &self.mailboxes {
            mailbox.send(LoopOrder::Die);
        }
    }

    /// Recalls, revokes or fences all layouts.
    pub(crate) fn take_back_layouts(&self, event: LayoutEvent) {
        self.shared.take_back_layouts(event);
        if let Some(mailbox) = self.mailboxes.first() {
            mailbox.send(LoopOrder::CountFault(FaultKind::Layouts));
        }
    }

    /// Restarts; returns when it is done.
    pub(crate) fn restart(&self) {
        let _turn = sync::lock(&self.turn);
        let (closed, all_closed) = mpsc::channel();
        let mut held = Vec::new();
        for mailbox in &self.mailboxes {
            let (hold, released) = mpsc::channel();
            held.push(hold);
            mailbox.send(LoopOrder::Restart(closed.clone(), released));
        }
        drop(closed);
        // Each loop holds a clone of `closed` and drops it when its connections are closed; the
        // channel ends with the last. No state is touched before that, so no reply of the old start
        // can be built from state of the new one. A loop that has ended already drops its orders,
        // and with them its clone, so this can't wait forever.
        let _ = all_closed.recv();
        self.shared.forget_state();
        drop(held);
    }
}
