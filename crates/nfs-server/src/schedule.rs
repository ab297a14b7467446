//! Planned events of the whole server, each at its time after the start.
//!
//! If there are any, a thread of its own waits for them; stopping the schedule interrupts the wait.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::controls::Controls;
use crate::fault::{ScheduledEvent, ServerEvent};

/// The waiting thread; dropping it stops and joins it.
#[derive(Debug)]
pub(crate) struct Schedule {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Schedule {
    /// Starts the clock for `events`; `None` if there are none.
    pub(crate) fn start(
        events: &[ScheduledEvent],
        controls: Arc<Controls>,
    ) -> io::Result<Option<Self>> {
        if events.is_empty() {
            return Ok(None);
        }
        let mut events = events.to_vec();
        events.sort_by_key(|event| event.after_ns);
        let (stop, stopped) = mpsc::channel::<()>();
        let start_ns = monotonic_ns();
        let run = move || {
            // Each wait is computed from the start, so that a late event does not shift later ones.
            // The channel carries nothing: closing it interrupts the wait when the server is
            // stopped.
            for ScheduledEvent { after_ns, event } in events {
                let scheduled_ns = start_ns.saturating_add(after_ns);
                let wait = Duration::from_nanos(scheduled_ns.saturating_sub(monotonic_ns()));
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                match event {
                    ServerEvent::Stall { duration_ns } => controls.stall(duration_ns),
                    ServerEvent::Restart => controls.restart(),
                    ServerEvent::Die => controls.die(),
                    ServerEvent::Layouts(event) => controls.take_back_layouts(event),
                }
            }
        };
        let thread = thread::Builder::new().name("nfs-server-plan".to_owned()).spawn(run)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It only sends orders; a panic there is a bug, and its message has been printed.
            let _ = thread.join();
        }
    }
}
