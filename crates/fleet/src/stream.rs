//! Both ends of a stream of messages: a thread reads, and a [`Writer`] speaks and beats.
//!
//! [`open`] greets at once and turns what comes into [`Event`]s, which its owner receives on the
//! thread that reads: each thread between a socket and the receiver costs a wake-up for every
//! message. Heartbeats come whatever else is in progress, and are not events: [`LastReceived::silence`]
//! says how long the other side has said nothing at all. A stream that ends or fails is the last
//! event.
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
    /// It is the dfsbench that this is.
    Greeted,
    /// It wants what is in progress, and what would follow, to end.
    Stop,
    /// It wants what is in progress to end.
    Cancel,
    /// It said something.
    Payload(In),
    /// It ended the stream.
    Closed,
    /// It is not understood, or the stream failed.
    Failed(WireError),
}

/// One end of a stream whose events wait until they are read.
pub(crate) struct Stream<In, Out> {
    /// Events from the other side, in order.
    pub events: Receiver<Event<In>>,
    /// The writer to the other side; the stream ends with the last of its clones.
    pub writer: Writer<Out>,
    heard: Arc<LastReceived>,
    wakeup: WakeupSlot,
}

impl<In, Out> Stream<In, Out>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
{
    /// Opens a stream of messages.
    pub(crate) fn open(input: impl Read + Send + 'static, output: impl Output + 'static) -> Self {
        let (happen, events) = channel();
        let wakeup = WakeupSlot::default();
        let happen = EventQueue { sender: Some(happen), wakeup: wakeup.clone() };
        let (writer, heard) = open(input, output, |_| move |event| happen.tell(event));
        Self { events, writer, heard, wakeup }
    }
}

impl<In, Out> Stream<In, Out> {
    /// How long nothing has been heard.
    pub(crate) fn silence(&self) -> Duration {
        self.heard.silence()
    }

    /// Says nothing any more, which ends this direction, and goes on to hear.
    pub(crate) fn end(self) -> Receiver<Event<In>> {
        self.events
    }

    /// Rings a wakeup from now on for each event.
    pub(crate) fn set_wakeup(&self, wakeup: &Wakeup) {
        self.wakeup.attach_to(wakeup);
    }
}

/// The destination of events: a queue, and the wakeup for each event and at the end.
struct EventQueue<In> {
    sender: Option<Sender<Event<In>>>,
    wakeup: WakeupSlot,
}

impl<In> EventQueue<In> {
    /// Passes one on; whether anybody wants to know.
    fn tell(&self, event: Event<In>) -> bool {
        let is_wanted = self.sender.as_ref().is_some_and(|to| to.send(event).is_ok());
        self.wakeup.notify();
        is_wanted
    }
}

impl<In> Drop for EventQueue<In> {
    fn drop(&mut self) {
        self.sender = None;
        self.wakeup.notify();
    }
}

/// When the other side was heard last.
pub(crate) struct LastReceived {
    begin: Instant,
    last_ms: AtomicU64,
}

impl LastReceived {
    fn now(&self) {
        self.last_ms.store(self.begin.elapsed().as_millis() as u64, Relaxed);
    }

    /// How long that is ago.
    pub(crate) fn silence(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)))
    }
}

/// Starts the two threads of one end. What `listener` makes, with the writer of this end before it,
/// is told what the other side does, until it no longer wants to know; it is dropped when nothing
/// more comes. The stream ends with the last writer.
pub(crate) fn open<In, Out, Hear>(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    listener: impl FnOnce(&Writer<Out>) -> Hear,
) -> (Writer<Out>, Arc<LastReceived>)
where
    In: DeserializeOwned + 'static,
    Out: Serialize + Send + 'static,
    Hear: FnMut(Event<In>) -> bool + Send + 'static,
{
    let heard = Arc::new(LastReceived { begin: Instant::now(), last_ms: AtomicU64::new(0) });
    let writer = Writer::begin(output);
    let (ears, hear) = (Arc::clone(&heard), listener(&writer));
    thread::spawn(move || listen(BufReader::with_capacity(READ_BYTES, input), &ears, hear));
    (writer, heard)
}

/// Reads until the stream ends, fails, or has no receiver left.
fn listen<In: DeserializeOwned>(
    mut input: impl Read,
    heard: &LastReceived,
    mut hear: impl FnMut(Event<In>) -> bool,
) {
    let greeting = Greeting::expect(&mut input);
    let mut next = Some(greeting.map_or_else(failed, |()| Event::Greeted));
    loop {
        heard.now();
        if let Some(event) = next {
            let is_last = matches!(event, Event::Closed | Event::Failed(_));
            if !hear(event) || is_last {
                return;
            }
        }
        next = match wire::read(&mut input) {
            Ok(Some(Message::Heartbeat)) => None,
            Ok(Some(Message::Stop)) => Some(Event::Stop),
            Ok(Some(Message::Cancel)) => Some(Event::Cancel),
            Ok(Some(Message::Payload(said))) => Some(Event::Payload(said)),
            Ok(None) => Some(Event::Closed),
            Err(error) => Some(failed(error)),
        };
    }
}

/// A stream that ends within a message has ended all the same.
fn failed<In>(error: WireError) -> Event<In> {
    match error {
        WireError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Event::Closed,
        error => Event::Failed(error),
    }
}
