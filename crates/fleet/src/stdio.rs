//! The agent's end of a stream: orders come in, reports go out, and a lost controller ends it all.
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

use crate::in_process::AgentEnd;
use crate::stream::{self, Event, LastReceived};
use crate::wire::Message;
use crate::writer::{Output, Writer};
use crate::{ClockReading, Order, Report};

/// A controller that says nothing for so long is gone; it notices a lost agent before.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// How often a running pass is told of at most.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// How often silence and signals are looked for.
const TICK: Duration = Duration::from_millis(200);

/// The flags by which an agent is told to end something.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Ends what is in progress; set when the controller wants that or is lost.
    pub stop: Arc<AtomicBool>,
    /// Leaves the controller as if it were lost; set by a signal, maybe.
    pub leave: Arc<AtomicBool>,
}

/// Serves a controller at the other end of a stream.
///
/// The clocks are read by `read_clocks` on the thread that receives the question: any other thread
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
    let over = |stop: &Arc<AtomicBool>| Over { stop: Arc::clone(stop), orders: orders.clone() };
    let (gone, left) = (over(&stop), over(&stop));
    let cancels = Arc::clone(&cancelled);
    let hear = move |event, writer: Option<Writer<Report>>| {
        match event {
            Event::Payload(Order::Crash) => crash_process(),
            Event::Payload(Order::Clock) => {
                // A controller that is gone needs no answer.
                let report = Message::Payload(Report::Clock(read_clocks()));
                let _ = writer.map(|writer| writer.say(report));
            }
            Event::Payload(order) => return gone.orders.send(Some(order)).is_ok(),
            Event::Stop => stop.store(true, Relaxed),
            Event::Cancel => cancels.store(true, Relaxed),
            Event::Greeted | Event::Closed | Event::Failed(_) => {}
        }
        true
    };
    let (writer, heard) = stream::open(input, output, |writer: &Writer<Report>| {
        let writer = writer.downgrade();
        move |event| hear(event, writer())
    });
    let (is_there, ended) = channel();
    thread::spawn(move || watch_controller(&heard, &leave, &ended, left));
    let mut teller = ReportSender { writer, held: None, told: Instant::now(), _is_there: is_there };
    AgentEnd::of(incoming, cancelled, move |report| teller.tell(report))
}

/// Ends the work in flight, and all further orders, once a controller is gone.
struct Over {
    stop: Arc<AtomicBool>,
    orders: Sender<Option<Order>>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // An agent that has ended already wants none.
        let _ = self.orders.send(None);
    }
}

/// Watches whether the controller is there and whether it is to be left, until the agent ends.
fn watch_controller(heard: &LastReceived, leave: &AtomicBool, ended: &Receiver<()>, over: Over) {
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if leave.load(Relaxed) || heard.silence() > LOST_AFTER {
            break;
        }
    }
    drop(over);
}

/// Passes on what the agent says, progress no more often than [`PROGRESS_EVERY`]: many agents that
/// tell a controller ten times a second what they do would keep it, and the network that is
/// measured, busy.
struct ReportSender {
    writer: Writer<Report>,
    held: Option<IntervalSample>,
    told: Instant,
    /// Ends the watch when it is dropped.
    _is_there: Sender<()>,
}

/// Kills this process, as a machine that loses power ends its programs.
fn crash_process() {
    // A process may always kill itself; nothing after it is executed.
    let _ = kill_process(getpid(), Signal::KILL);
}

impl ReportSender {
    fn tell(&mut self, report: Report) {
        let Report::Progress(sample) = report else {
            // What is an answer leaves nothing behind that would come after it.
            if let Some(rest) = self.held.take() {
                self.say(Report::Progress(rest));
            }
            return self.say(report);
        };
        let before = self.held.take().map_or((0, 0), |held| (held.ops, held.bytes));
        let (ops, bytes) = (before.0 + sample.ops, before.1 + sample.bytes);
        let all = IntervalSample { at_ns: sample.at_ns, ops, bytes };
        if self.told.elapsed() < PROGRESS_EVERY {
            self.held = Some(all);
            return;
        }
        self.told = Instant::now();
        self.say(Report::Progress(all));
    }

    /// A controller that is gone needs no answer.
    fn say(&self, report: Report) {
        let _ = self.writer.say(Message::Payload(report));
    }
}
