//! A stream of messages: one thread reads, and a [`Writer`] writes and sends heartbeats.
//!
//! [`open`] sends a greeting at once and turns incoming messages into [`Event`]s. They are handled
//! on the reading thread, because another thread in between would cost a wakeup per message.
//! Heartbeats aren't events, and they are received no matter what else is in progress:
//! [`LastReceived::silence`] is the time since the other side sent anything at all. The last event
//! reports that the stream ended or failed.
#![allow(clippy::disallowed_methods, reason = "detects dead peers by timeout")]

use std::io::{BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Wakeup;
use crate::wakeup::WakeupSlot;
use crate::wire::{self, Greeting, Message, WireError};
use crate::writer::{Output, Writer};

/// Size of a read, in bytes. Most messages are smaller.
const READ_BYTES: usize = 4 << 10;

/// An event from the other side.
pub(crate) enum Event<In> {
    /// It sent a greeting of the same version.
    Greeted,
    /// It wants the current work, and everything after it, to end.
    Stop,
    /// It wants the current work to end.
    Cancel,
    /// It sent an order or a report.
    Payload(In),
    /// It closed the stream.
    Closed,
    /// It sent something undecodable, or the stream failed.
    Failed(WireError),
}

/// One end of a stream, with events queued until they are read.
pub(crate) struct Stream<In, Out> {
    /// Events from the other side, in order.
    pub events: Receiver<Event<In>>,
    /// Writer to the other side. The stream is closed when the last clone is dropped.
    pub writer: Writer<Out>,
    last_received: Arc<LastReceived>,
    wakeup: WakeupSlot,
}

impl<In, Out> Stream<In, Out>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
{
    /// Opens a stream of messages.
    pub(crate) fn open(input: impl Read + Send + 'static, output: impl Output + 'static) -> Self {
        let (sender, events) = channel();
        let wakeup = WakeupSlot::default();
        let queue = EventQueue { sender: Some(sender), wakeup: wakeup.clone() };
        let (writer, last_received) = open(input, output, |_| move |event| queue.push_event(event));
        Self { events, writer, last_received, wakeup }
    }
}

impl<In, Out> Stream<In, Out> {
    /// Returns the time since anything was received.
    pub(crate) fn silence(&self) -> Duration {
        self.last_received.silence()
    }

    /// Closes this direction by dropping the writer. Returns the remaining events of the other
    /// direction.
    pub(crate) fn end_writing(self) -> Receiver<Event<In>> {
        self.events
    }

    /// Registers a wakeup to signal for each event.
    pub(crate) fn set_wakeup(&self, wakeup: &Wakeup) {
        self.wakeup.attach_to(wakeup);
    }
}

/// A queue of events that signals a wakeup for each of them and at the end.
struct EventQueue<In> {
    /// `None` only while it is being dropped.
    sender: Option<Sender<Event<In>>>,
    wakeup: WakeupSlot,
}

impl<In> EventQueue<In> {
    /// Queues an event. Returns true if there is still a receiver.
    fn push_event(&self, event: Event<In>) -> bool {
        let Some(sender) = &self.sender else { return false };
        let is_wanted = sender.send(event).is_ok();
        // Notify after queueing, so that the receiver finds the event when it wakes up.
        self.wakeup.notify();
        is_wanted
    }
}

impl<In> Drop for EventQueue<In> {
    fn drop(&mut self) {
        // Drop the sender first: the receiver is being woken to see the closed queue.
        self.sender = None;
        self.wakeup.notify();
    }
}

/// When the other side last sent anything.
pub(crate) struct LastReceived {
    begin: Instant,
    /// Milliseconds after `begin`. An atomic integer avoids the lock that an `Instant` would need.
    last_ms: AtomicU64,
}

impl LastReceived {
    fn note_now(&self) {
        self.last_ms.store(self.begin.elapsed().as_millis() as u64, Relaxed);
    }

    /// Returns the time since then.
    pub(crate) fn silence(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)))
    }
}

/// Starts the two threads of one end: one reads, one writes.
///
/// `make_handler` receives the writer of this end and returns the function to call, on the reading
/// thread, for each event. The handler returns whether it wants more events, and is dropped after
/// the last one. The stream is closed when the last clone of the writer is dropped.
pub(crate) fn open<In, Out, Handle>(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    make_handler: impl FnOnce(&Writer<Out>) -> Handle,
) -> (Writer<Out>, Arc<LastReceived>)
where
    In: DeserializeOwned + 'static,
    Out: Serialize + Send + 'static,
    Handle: FnMut(Event<In>) -> bool + Send + 'static,
{
    let received = Arc::new(LastReceived { begin: Instant::now(), last_ms: AtomicU64::new(0) });
    let writer = Writer::begin(output);
    let handle = make_handler(&writer);
    let last_received = Arc::clone(&received);
    let input = BufReader::with_capacity(READ_BYTES, input);
    thread::spawn(move || read_events(input, &last_received, handle));
    (writer, received)
}

/// Reads until the stream ends, fails, or no more events are wanted.
fn read_events<In: DeserializeOwned>(
    mut input: impl Read,
    last_received: &LastReceived,
    mut handle: impl FnMut(Event<In>) -> bool,
) {
    // Decode nothing before the greeting, since another version uses other messages.
    let mut next = match Greeting::expect(&mut input) {
        Ok(()) => Some(Event::Greeted),
        Err(error) => Some(failure_event(error)),
    };
    loop {
        last_received.note_now();
        if let Some(event) = next {
            let is_last = matches!(event, Event::Closed | Event::Failed(_));
            if !handle(event) || is_last {
                return;
            }
        }
        next = match wire::read(&mut input) {
            // Heartbeats only update `last_received`.
            Ok(Some(Message::Heartbeat)) => None,
            Ok(Some(Message::Stop)) => Some(Event::Stop),
            Ok(Some(Message::Cancel)) => Some(Event::Cancel),
            Ok(Some(Message::Payload(payload))) => Some(Event::Payload(payload)),
            Ok(None) => Some(Event::Closed),
            Err(error) => Some(failure_event(error)),
        };
    }
}

/// Turns an error into an event. A stream that ends in the middle of a message counts as closed.
fn failure_event<In>(error: WireError) -> Event<In> {
    match error {
        WireError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Event::Closed,
        error => Event::Failed(error),
    }
}
