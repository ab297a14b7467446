//! The agent's end of a stream: receives orders, sends reports, and stops if the controller is
//! lost.
//!
//! A controller is lost if it closes the stream, sends something undecodable, or sends nothing for
//! [`LOST_AFTER`]. The agent then gets a stop request for its current work, and no further orders.
#![allow(clippy::disallowed_methods, reason = "limits how often progress is sent")]

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use model::IntervalSample;
use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::in_process::AgentEnd;
use crate::remote::MessageSender;
use crate::stream::{self, Event, LastReceived};
use crate::wire::Message;
use crate::writer::{Output, Writer};
use crate::{ClockReading, Order, Report};

/// Silence after which a controller counts as lost. A controller notices a lost agent sooner.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// Minimum time between two progress reports of a running pass.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// How often silence and signals are checked.
const TICK: Duration = Duration::from_millis(200);

/// Flags that interrupt an agent.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Stops the current work. Set if the controller requests it or is lost.
    pub stop: Arc<AtomicBool>,
    /// Disconnects as if the controller were lost. May be set by a signal handler.
    pub leave: Arc<AtomicBool>,
}

/// Serves a controller at the other end of a stream.
///
/// `read_clocks` is called on the thread that receives the order. Waking up another thread first
/// would only make the reading less accurate.
pub fn agent_end(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    read_clocks: impl Fn() -> ClockReading + Send + 'static,
    flags: Flags,
) -> AgentEnd {
    let Flags { stop, leave } = flags;
    let (orders, incoming) = channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    // There are two, since the end of the stream and a silent controller are noticed by different
    // threads.
    let at_stream_end = StopAll { stop: Arc::clone(&stop), orders: orders.clone() };
    let at_silence = StopAll { stop: Arc::clone(&stop), orders };
    let requested_cancel = Arc::clone(&cancelled);
    let (writer, last_received) = stream::open(input, output, |writer: &Writer<Report>| {
        // A weak reference, so that the reading thread doesn't keep the stream open.
        let writer = writer.downgrade();
        move |event| {
            match event {
                Event::Payload(Order::Crash) => crash_process(),
                Event::Payload(Order::Clock) => {
                    if let Some(writer) = writer() {
                        // If the controller is gone, nobody needs the answer.
                        let _ = writer.send(Message::Payload(Report::Clock(read_clocks())));
                    }
                }
                Event::Payload(order) => return at_stream_end.orders.send(Some(order)).is_ok(),
                Event::Stop => stop.store(true, Relaxed),
                Event::Cancel => requested_cancel.store(true, Relaxed),
                Event::Greeted | Event::Closed | Event::Failed(_) => {}
            }
            true
        }
    });
    let (agent_lives, agent_ended) = channel();
    thread::spawn(move || watch_controller(&last_received, &leave, &agent_ended, at_silence));
    let sent_at = Instant::now();
    let mut sender = ReportSender { writer, held: None, sent_at, _agent_lives: agent_lives };
    AgentEnd::new(incoming, cancelled, move |report| sender.send_report(report))
}

/// Serves a controller that uses other message types than orders. Calls `handle` for each message
/// on the reading thread, and `on_end` once the controller is gone.
///
/// The returned sender keeps the stream open.
pub fn message_end<In, Out>(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    flags: Flags,
    mut handle: impl FnMut(In) + Send + 'static,
    on_end: impl FnOnce() + Send + 'static,
) -> MessageSender<Out>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
{
    let Flags { stop, leave } = flags;
    let (reading, ended) = channel::<()>();
    let requested_stop = Arc::clone(&stop);
    let (writer, last_received) = stream::open(input, output, move |_| {
        move |event| {
            // Moved in here: dropping it when the stream ends tells the watching thread.
            let _ = &reading;
            match event {
                Event::Payload(message) => handle(message),
                Event::Stop | Event::Cancel => requested_stop.store(true, Relaxed),
                Event::Greeted | Event::Closed | Event::Failed(_) => {}
            }
            true
        }
    });
    thread::spawn(move || {
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if leave.load(Relaxed) || last_received.silence() > LOST_AFTER {
                break;
            }
        }
        stop.store(true, Relaxed);
        on_end();
    });
    MessageSender::new(writer)
}

/// Stops the current work and all further orders when dropped, because the controller is gone.
struct StopAll {
    stop: Arc<AtomicBool>,
    orders: Sender<Option<Order>>,
}

impl Drop for StopAll {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Fails if the agent has already finished.
        let _ = self.orders.send(None);
    }
}

/// Waits until the controller is lost or `leave` is set, unless the agent finishes first.
fn watch_controller(
    last_received: &LastReceived,
    leave: &AtomicBool,
    agent_ended: &Receiver<()>,
    at_silence: StopAll,
) {
    // Nothing is ever sent on this channel. It disconnects when the agent drops its sender.
    while agent_ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if leave.load(Relaxed) || last_received.silence() > LOST_AFTER {
            break;
        }
    }
    drop(at_silence);
}

/// Kills this process, simulating the loss of power.
fn crash_process() {
    // A process can always kill itself, and nothing after this line is executed.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Sends an agent's reports, with progress at most every [`PROGRESS_EVERY`]. Many agents reporting
/// ten times a second would keep the controller busy, and the network under test, too.
struct ReportSender {
    writer: Writer<Report>,
    /// Progress not sent yet: ops and bytes since the last report.
    held: Option<IntervalSample>,
    sent_at: Instant,
    /// Dropping it ends the watching thread.
    _agent_lives: Sender<()>,
}

impl ReportSender {
    fn send_report(&mut self, report: Report) {
        let Report::Progress(mut sample) = report else {
            // Send held progress first, since an answer must be the last report of its order.
            if let Some(rest) = self.held.take() {
                self.send_now(Report::Progress(rest));
            }
            return self.send_now(report);
        };
        if let Some(held) = self.held.take() {
            sample.ops += held.ops;
            sample.bytes += held.bytes;
        }
        if self.sent_at.elapsed() < PROGRESS_EVERY {
            self.held = Some(sample);
            return;
        }
        self.sent_at = Instant::now();
        self.send_now(Report::Progress(sample));
    }

    /// Sends a report. It is dropped if the controller is gone.
    fn send_now(&self, report: Report) {
        let _ = self.writer.send(Message::Payload(report));
    }
}
