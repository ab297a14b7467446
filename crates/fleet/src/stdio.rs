//! The agent's end of a stream: orders come in, reports go out, and a lost controller ends it all.
//!
//! A controller is lost when it ends the stream, says what nobody understands, or nothing for
//! [`LOST_AFTER`]. Then the wish to stop is set, so that what is under way ends, and there is no
//! next order.
#![allow(
    clippy::disallowed_methods,
    reason = "how often progress travels is a matter of real time"
)]

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use model::IntervalSample;

use crate::in_process::{self, AgentEnd};
use crate::stream::{self, Event, Stream};
use crate::wire::Message;
use crate::{Order, Report};

/// A controller that says nothing for so long is gone; it notices a lost agent before.
pub const LOST_AFTER: Duration = Duration::from_secs(5);

/// How often a running pass is told of at most.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// How often silence and signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// Serves a controller at the other end of a stream.
///
/// `stop` ends what is under way, and is set when the controller wants that or is lost. When
/// `leave` is set, by a signal maybe, the controller is left as if it were lost.
pub fn agent_end(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: Arc<AtomicBool>,
    leave: Arc<AtomicBool>,
) -> AgentEnd {
    let stream = stream::open::<Order, Report>(input, output);
    let (controller, end) = in_process::pair();
    let (orders, reports) = controller.into_channels();
    let messages = stream.messages.clone();
    let cancelled = Arc::clone(end.cancelled());
    thread::spawn(move || tell(&reports, &messages));
    thread::spawn(move || {
        while let Some(order) = next(&stream, (&stop, &cancelled), &leave) {
            if orders.send(order).is_err() {
                return;
            }
        }
        stop.store(true, Relaxed);
    });
    end
}

/// Passes on what the agent says, progress no more often than [`PROGRESS_EVERY`]: many agents that
/// tell a controller ten times a second what they do would keep it, and the network that is
/// measured, busy.
fn tell(reports: &Receiver<Report>, messages: &Sender<Message<Report>>) {
    let mut held: Option<IntervalSample> = None;
    let mut told = Instant::now();
    let mut say = |report: Report| messages.send(Message::Said(report)).is_ok();
    for report in reports {
        let is_there = if let Report::Progress(sample) = report {
            let before = held.take().map_or((0, 0), |held| (held.ops, held.bytes));
            let (ops, bytes) = (before.0 + sample.ops, before.1 + sample.bytes);
            let all = IntervalSample { at_ns: sample.at_ns, ops, bytes };
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                say(Report::Progress(all))
            } else {
                held = Some(all);
                true
            }
        } else {
            // What is an answer leaves nothing behind that would come after it.
            let rest = held.take().map(Report::Progress);
            rest.is_none_or(&mut say) && say(report)
        };
        if !is_there {
            return;
        }
    }
}

/// The next order; `None` where there will be none.
fn next(
    stream: &Stream<Order, Report>,
    (stop, cancelled): (&AtomicBool, &AtomicBool),
    leave: &AtomicBool,
) -> Option<Order> {
    loop {
        match stream.events.recv_timeout(TICK) {
            Ok(Event::Said(order)) => return Some(order),
            Ok(Event::Stop) => stop.store(true, Relaxed),
            Ok(Event::Cancel) => cancelled.store(true, Relaxed),
            Ok(Event::Greeted) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Closed | Event::Failed(_)) | Err(RecvTimeoutError::Disconnected) => {
                return None;
            }
        }
        if leave.load(Relaxed) || stream.silence() > LOST_AFTER {
            return None;
        }
    }
}
