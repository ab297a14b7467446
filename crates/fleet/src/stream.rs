//! Both ends of a stream of messages: a thread reads, a thread writes and beats.
//!
//! [`open`] greets at once and turns what comes into [`Event`]s, which whoever opens it hears on
//! the thread that reads: each thread between a socket and whoever waits for it costs a wake-up for
//! every message. Beats are written each [`BEAT_EVERY`] whatever else is under way, and are not
//! events: [`Heard::silence`] says how long the other side has said nothing at all. A stream that
//! ends or fails is the last event.
#![allow(clippy::disallowed_methods, reason = "whether a peer lives is a matter of real time")]

use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Bell;
use crate::bell::Rope;
use crate::wire::{self, Greeting, Message, WireError};

/// What is read at a time, in bytes: most messages are smaller.
const READ_BYTES: usize = 4 << 10;

/// How often each side says that it is there.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);

/// What the other side did.
pub(crate) enum Event<In> {
    /// It is the dfsbench that this is.
    Greeted,
    /// It wants what is under way, and what would follow, to end.
    Stop,
    /// It wants what is under way to end.
    Cancel,
    /// It said something.
    Said(In),
    /// It ended the stream.
    Closed,
    /// It is not understood, or the stream failed.
    Failed(WireError),
}

/// One end of a stream whose events wait until somebody asks for them.
pub(crate) struct Stream<In, Out> {
    /// What the other side did, in order.
    pub events: Receiver<Event<In>>,
    /// What is said to it; the stream ends with the last of its clones.
    pub messages: Sender<Message<Out>>,
    heard: Arc<Heard>,
    rope: Rope,
}

impl<In, Out> Stream<In, Out>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
{
    /// Opens one.
    pub(crate) fn open(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Self {
        let (happen, events) = channel();
        let rope = Rope::default();
        let happen = Happen { sender: Some(happen), rope: rope.clone() };
        let (messages, heard) = open(input, output, move |event| happen.tell(event));
        Self { events, messages, heard, rope }
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

    /// Rings a bell from now on for each event.
    pub(crate) fn ring(&self, bell: &Bell) {
        self.rope.hang(bell);
    }
}

/// Where events go that somebody asks for, and what rings then and at the end.
struct Happen<In> {
    sender: Option<Sender<Event<In>>>,
    rope: Rope,
}

impl<In> Happen<In> {
    /// Passes one on; whether anybody wants to know.
    fn tell(&self, event: Event<In>) -> bool {
        let is_wanted = self.sender.as_ref().is_some_and(|to| to.send(event).is_ok());
        self.rope.pull();
        is_wanted
    }
}

impl<In> Drop for Happen<In> {
    fn drop(&mut self) {
        self.sender = None;
        self.rope.pull();
    }
}

/// When the other side was heard last.
pub(crate) struct Heard {
    begin: Instant,
    last_ms: AtomicU64,
}

impl Heard {
    fn now(&self) {
        self.last_ms.store(self.begin.elapsed().as_millis() as u64, Relaxed);
    }

    /// How long that is ago.
    pub(crate) fn silence(&self) -> Duration {
        self.begin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)))
    }
}

/// Starts the two threads of one end. `hear` is told what the other side does, until it no longer
/// wants to know; it is dropped when nothing more comes. The stream ends with the last sender.
pub(crate) fn open<In, Out>(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    hear: impl FnMut(Event<In>) -> bool + Send + 'static,
) -> (Sender<Message<Out>>, Arc<Heard>)
where
    In: DeserializeOwned + 'static,
    Out: Serialize + Send + 'static,
{
    let heard = Arc::new(Heard { begin: Instant::now(), last_ms: AtomicU64::new(0) });
    let (messages, outgoing) = channel();
    let ears = Arc::clone(&heard);
    thread::spawn(move || listen(BufReader::with_capacity(READ_BYTES, input), &ears, hear));
    thread::spawn(move || talk(output, &outgoing));
    (messages, heard)
}

/// Reads until the stream ends, fails, or nobody wants to know.
fn listen<In: DeserializeOwned>(
    mut input: impl Read,
    heard: &Heard,
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
            Ok(Some(Message::Beat)) => None,
            Ok(Some(Message::Stop)) => Some(Event::Stop),
            Ok(Some(Message::Cancel)) => Some(Event::Cancel),
            Ok(Some(Message::Said(said))) => Some(Event::Said(said)),
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

/// Writes what is said, and beats in between, until nobody can say anything any more.
fn talk<Out: Serialize>(mut output: impl Write, outgoing: &Receiver<Message<Out>>) {
    let greet = |output: &mut dyn Write| {
        output.write_all(&Greeting::ours().to_bytes()).and_then(|()| output.flush())
    };
    if greet(&mut output).is_err() {
        return;
    }
    loop {
        let message = match outgoing.recv_timeout(BEAT_EVERY) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Message::Beat,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // A peer that can't be written to can't be read from either: the other thread tells.
        if wire::write(&mut output, &message).is_err() {
            return;
        }
    }
}
