//! Both ends of a stream of messages: a thread reads, and a [`Writer`] writes and sends heartbeats.
//!
//! [`open`] greets at once and turns what is received into [`Event`]s, which its owner receives on
//! the thread that reads: each thread between a socket and the receiver costs a wake-up for every
//! message. Heartbeats are received whatever else is in progress, and are not events:
//! [`LastReceived::silence`] is the time since the other side sent anything at all. A stream that
//! ends or fails is the last event.
#![allow(clippy::disallowed_methods, reason = "whether a peer lives is a matter of real time")]

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

/// Size of a read, in bytes: most messages are smaller.
const READ_BYTES: usize = 4 << 10;

/// An event from the other side.
pub(crate) enum Event<In> {
    /// It greeted, and is of the same version.
    Greeted,
    /// It requests the end of the current work and of everything after it.
    Stop,
    /// It requests the end of the current work.
    Cancel,
    /// It sent an order or a report.
    Payload(In),
    /// It ended the stream.
    Closed,
    /// It sent something that can't be decoded, or the stream failed.
    Failed(WireError),
}

/// One end of a stream whose events wait until they are read.
pub(crate) struct Stream<In, Out> {
    /// Events from the other side, in order.
    pub events: Receiver<Event<In>>,
    /// The writer to the other side; the stream ends with the last of its clones.
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
    /// Returns how long nothing has been received.
    pub(crate) fn silence(&self) -> Duration {
        self.last_received.silence()
    }

    /// Ends this direction by dropping the writer, and keeps the events of the other one.
    pub(crate) fn end_writing(self) -> Receiver<Event<In>> {
        self.events
    }

    /// Signals a wakeup from now on for each event.
    pub(crate) fn set_wakeup(&self, wakeup: &Wakeup) {
        self.wakeup.attach_to(wakeup);
    }
}

/// The destination of events: a queue, and the wakeup for each event and at the end.
struct EventQueue<In> {
    /// `None` only while it is dropped.
    sender: Option<Sender<Event<In>>>,
    wakeup: WakeupSlot,
}

impl<In> EventQueue<In> {
    /// Passes an event on; returns whether there is still a receiver.
    fn push_event(&self, event: Event<In>) -> bool {
        let Some(sender) = &self.sender else { return false };
        let is_wanted = sender.send(event).is_ok();
        // After the event: a receiver that wakes up must find it.
        self.wakeup.notify();
        is_wanted
    }
}

impl<In> Drop for EventQueue<In> {
    fn drop(&mut self) {
        // The end of the queue is what the receiver is woken for, so the sender goes first.
        self.sender = None;
        self.wakeup.notify();
    }
}

/// The time at which the other side last sent anything.
pub(crate) struct LastReceived {
    begin: Instant,
    /// Milliseconds after `begin`: an atomic number where an `Instant` would need a lock.
    last_ms: AtomicU64,
}

impl LastReceived {
    fn note_now(&self) {
        self.last_ms.store(self.begin.elapsed().as_millis() as u64, Relaxed);
    }

    /// Returns how long that is ago.
    pub(crate) fn silence(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)))
    }
}

/// Starts the two threads of one end: one reads, one writes.
///
/// `make_handler` is given the writer of this end and makes the function that is called, on the
/// reading thread, with each event. The handler returns whether it wants further events, and is
/// dropped after the last. The stream ends with the last clone of the writer.
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

/// Reads until the stream ends, fails, or no further event is wanted.
fn read_events<In: DeserializeOwned>(
    mut input: impl Read,
    last_received: &LastReceived,
    mut handle: impl FnMut(Event<In>) -> bool,
) {
    // Nothing is decoded before the greeting: a side of another version sends other messages.
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
            // It shows by `last_received` alone.
            Ok(Some(Message::Heartbeat)) => None,
            Ok(Some(Message::Stop)) => Some(Event::Stop),
            Ok(Some(Message::Cancel)) => Some(Event::Cancel),
            Ok(Some(Message::Payload(payload))) => Some(Event::Payload(payload)),
            Ok(None) => Some(Event::Closed),
            Err(error) => Some(failure_event(error)),
        };
    }
}

/// Makes the event of an error; a stream that ends within a message has ended all the same.
fn failure_event<In>(error: WireError) -> Event<In> {
    match error {
        WireError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Event::Closed,
        error => Event::Failed(error),
    }
}
