//! The agent's end of a stream: receives orders, sends reports, and ends with a lost controller.
//!
//! A controller is lost when it ends the stream, sends what can't be decoded, or nothing for
//! [`LOST_AFTER`]. Then the request to stop is set, so that what is in progress ends, and there is
//! no next order.
#![allow(
    clippy::disallowed_methods,
    reason = "how often progress travels is a matter of real time"
)]

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

/// A controller that sends nothing for so long is gone; it notices a lost agent before.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// Shortest time between two reports of a running pass.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// How often silence and signals are checked.
const TICK: Duration = Duration::from_millis(200);

/// The flags that end something an agent does.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Ends what is in progress; set when the controller wants that or is lost.
    pub stop: Arc<AtomicBool>,
    /// Leaves the controller as if it were lost; set by a signal, maybe.
    pub leave: Arc<AtomicBool>,
}

/// Serves a controller at the other end of a stream.
///
/// The clocks are read by `read_clocks` on the thread that receives the order: any other thread
/// had to be woken for it, and the clocks would be no better known.
pub fn agent_end(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    read_clocks: impl Fn() -> ClockReading + Send + 'static,
    flags: Flags,
) -> AgentEnd {
    let Flags { stop, leave } = flags;
    let (orders, incoming) = channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    // Two of them: the end of the stream and a silent controller are noticed by different threads.
    let at_stream_end = StopAll { stop: Arc::clone(&stop), orders: orders.clone() };
    let at_silence = StopAll { stop: Arc::clone(&stop), orders };
    let requested_cancel = Arc::clone(&cancelled);
    let (writer, last_received) = stream::open(input, output, |writer: &Writer<Report>| {
        // Held weakly: the reading thread must not keep the stream open.
        let writer = writer.downgrade();
        move |event| {
            match event {
                Event::Payload(Order::Crash) => crash_process(),
                Event::Payload(Order::Clock) => {
                    if let Some(writer) = writer() {
                        // A controller that is gone needs no answer.
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

/// Serves a controller that speaks in other messages than orders: calls `handle` with each, on the
/// thread that reads. `on_end` is called once when the controller is gone.
///
/// The sender keeps the stream open.
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
            // The watch sees the end of this sender where the stream has ended.
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

/// Ends the work in flight, and all further orders, when it is dropped: the controller is gone.
struct StopAll {
    stop: Arc<AtomicBool>,
    orders: Sender<Option<Order>>,
}

impl Drop for StopAll {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // An agent that has ended already wants none.
        let _ = self.orders.send(None);
    }
}

/// Watches whether the controller is there and whether it is to be left, until the agent ends.
fn watch_controller(
    last_received: &LastReceived,
    leave: &AtomicBool,
    agent_ended: &Receiver<()>,
    at_silence: StopAll,
) {
    // The channel carries nothing: it is disconnected when the agent drops its sender.
    while agent_ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if leave.load(Relaxed) || last_received.silence() > LOST_AFTER {
            break;
        }
    }
    drop(at_silence);
}

/// Kills this process, as a machine that loses power ends its programs.
fn crash_process() {
    // A process may always kill itself; nothing after it is executed.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// A sender of an agent's reports, which sends progress no more often than [`PROGRESS_EVERY`]:
/// many agents that report ten times a second would keep the controller, and the network that is
/// measured, busy.
struct ReportSender {
    writer: Writer<Report>,
    /// Progress that was not sent yet: ops and bytes since the last report.
    held: Option<IntervalSample>,
    sent_at: Instant,
    /// Ends the watch when it is dropped.
    _agent_lives: Sender<()>,
}

impl ReportSender {
    fn send_report(&mut self, report: Report) {
        let Report::Progress(mut sample) = report else {
            // Held progress goes first: an answer is the last report of its order.
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

    /// Sends a report; a controller that is gone needs none.
    fn send_now(&self, report: Report) {
        let _ = self.writer.send(Message::Payload(report));
    }
}
