//! The writing end of a stream: it writes at once where no caller has to wait for it, else by a
//! thread.
//!
//! A [`Writer`] writes a short message itself while nothing waits before it and the stream has
//! space: a thread between the sender and the stream costs a wake-up for every message. All else
//! goes to that thread, so a sender never waits for the other side. The thread greets, too, and
//! sends a heartbeat where nothing else was sent of late.
#![allow(clippy::disallowed_methods, reason = "whether a peer lives is a matter of real time")]

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::wire::{self, Greeting, Message};

/// Longest time in which each side sends nothing: then it sends a heartbeat.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Bytes that a short message has at most: wherever anything at all can be written, it can be. A
/// pipe that has space takes a page, and a socket a third of what it keeps.
///
/// **Source:** pipe(7), `PIPE_BUF`; `sk_stream_is_writeable` of Linux.
const SHORT_BYTES: usize = 1 << 10;

/// A destination of bytes that can be polled.
pub trait Output: Write + AsFd + Send {}

impl<O: Write + AsFd + Send> Output for O {}

/// A sender of messages; the stream ends with the last one of its clones.
pub(crate) struct Writer<Out>(Arc<WriterShared<Out>>);

impl<Out> Clone for Writer<Out> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The state that all clones of a writer share.
struct WriterShared<Out> {
    later: Sender<Message<Out>>,
    queue: Arc<WriterQueue>,
}

/// The queue that senders and the writing thread share.
struct WriterQueue {
    /// `None` once it has failed.
    output: Mutex<Option<OpenOutput>>,
    /// How many messages the thread has yet to write; the greeting is one.
    waiting: AtomicUsize,
}

/// A stream that can be written to.
struct OpenOutput {
    output: Box<dyn Output>,
    /// The time of the last write.
    written_at: Instant,
}

/// An error: the stream can't be written to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteFailed;

impl<Out: Serialize + Send + 'static> Writer<Out> {
    /// Starts the thread, which greets at once.
    pub(crate) fn begin(output: impl Output + 'static) -> Self {
        let open = OpenOutput { output: Box::new(output), written_at: Instant::now() };
        let queue = WriterQueue { output: Mutex::new(Some(open)), waiting: AtomicUsize::new(1) };
        let (later, outgoing) = channel();
        let shared = WriterShared { later, queue: Arc::new(queue) };
        let queue = Arc::clone(&shared.queue);
        thread::spawn(move || run_writer(&queue, &outgoing));
        Self(Arc::new(shared))
    }

    /// Sends a message, without waiting.
    ///
    /// # Errors
    /// When nothing can be sent any more.
    pub(crate) fn send(&self, message: Message<Out>) -> Result<(), WriteFailed> {
        let WriterShared { later, queue } = &*self.0;
        if queue.write_at_once(&message)? {
            return Ok(());
        }
        // Counted before it is queued: from here on no other sender may overtake it.
        queue.waiting.fetch_add(1, AcqRel);
        match later.send(message) {
            Ok(()) => Ok(()),
            Err(_) => Err(WriteFailed),
        }
    }

    /// Returns a function that gives this sender, or `None` once the stream has ended: for holders
    /// that must not keep it open.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + use<Out> {
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(Self)
    }
}

impl WriterQueue {
    /// Writes a short message where nothing waits and the stream has space; says whether it did.
    fn write_at_once(&self, message: &Message<impl Serialize>) -> Result<bool, WriteFailed> {
        // Messages must arrive in the order in which they were sent: none overtakes a queued one.
        if self.waiting.load(Acquire) > 0 {
            return Ok(false);
        }
        // A lock that is held means that a write is in progress, which may take long.
        let Ok(mut output) = self.output.try_lock() else { return Ok(false) };
        let open = output.as_mut().ok_or(WriteFailed)?;
        if !is_writable(&open.output) {
            return Ok(false);
        }
        // A message without a frame ends the stream in the thread.
        let Ok(frame) = wire::to_frame(message) else { return Ok(false) };
        if frame.len() > SHORT_BYTES {
            return Ok(false);
        }
        if open.write_flushed(&frame).is_err() {
            *output = None;
            return Err(WriteFailed);
        }
        Ok(true)
    }

    /// Writes bytes, however long that takes; a stream that fails is closed.
    fn write_blocking(&self, bytes: &[u8]) -> Result<(), WriteFailed> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let open = output.as_mut().ok_or(WriteFailed)?;
        if open.write_flushed(bytes).is_err() {
            *output = None;
            return Err(WriteFailed);
        }
        Ok(())
    }

    /// Returns how long nothing was written; the time of a heartbeat where nothing can be written
    /// any more, so that the thread tries and finds out.
    fn silence(&self) -> Duration {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match &*output {
            Some(open) => open.written_at.elapsed(),
            None => HEARTBEAT_EVERY,
        }
    }

    fn close(&self) {
        *self.output.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl OpenOutput {
    fn write_flushed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.output.flush()?;
        self.written_at = Instant::now();
        Ok(())
    }
}

/// Says whether a short message can be written without waiting.
fn is_writable(output: &impl AsFd) -> bool {
    let mut watched = [PollFd::new(output, PollFlags::OUT)];
    // A timeout of zero: poll only reports the state.
    let polled = poll(&mut watched, Some(&Timespec::default()));
    polled.is_ok() && watched[0].revents().contains(PollFlags::OUT)
}

/// Writes queued messages, and a heartbeat where there are none for long, until no sender is left.
///
/// A peer that can't be written to can't be read from either: the reading side reports it.
fn run_writer<Out: Serialize>(queue: &WriterQueue, outgoing: &Receiver<Message<Out>>) {
    let _ = write_messages(queue, outgoing);
    queue.close();
}

fn write_messages<Out: Serialize>(
    queue: &WriterQueue,
    outgoing: &Receiver<Message<Out>>,
) -> Result<(), WriteFailed> {
    // First, so that a peer of another version can name both before it reads a message.
    queue.write_blocking(&Greeting::ours().to_bytes())?;
    queue.waiting.fetch_sub(1, AcqRel);
    let mut silence = Duration::ZERO;
    loop {
        let (message, waited) = match outgoing.recv_timeout(HEARTBEAT_EVERY.saturating_sub(silence))
        {
            Ok(message) => (message, 1),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                silence = queue.silence();
                if silence < HEARTBEAT_EVERY {
                    continue;
                }
                (Message::Heartbeat, 0)
            }
        };
        silence = Duration::ZERO;
        // Counted down only once it is written, so that nothing overtakes it meanwhile.
        queue.write_blocking(&wire::to_frame(&message).map_err(|_| WriteFailed)?)?;
        queue.waiting.fetch_sub(waited, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Makes a writer and the socket that it writes to, once it has greeted.
    fn pair() -> (Writer<String>, UnixStream) {
        let (here, mut there) = UnixStream::pair().unwrap();
        let writer = Writer::begin(here);
        Greeting::expect(&mut there).unwrap();
        while writer.0.queue.waiting.load(Acquire) > 0 {
            thread::yield_now();
        }
        (writer, there)
    }

    /// Reads the next payload.
    fn receive(there: &mut UnixStream) -> Option<String> {
        loop {
            match wire::read(there).unwrap() {
                Some(Message::Payload(text)) => return Some(text),
                Some(_) => {}
                None => return None,
            }
        }
    }

    #[test]
    fn a_sender_never_waits_for_the_other_side_and_messages_keep_their_order() {
        let (writer, mut there) = pair();
        let long = "x".repeat(1 << 22);
        // No one reads yet, and a stream keeps less than that.
        for text in ["first", &long, "third", &long, "last"] {
            writer.send(Message::Payload(text.to_owned())).unwrap();
        }
        for text in ["first", &long, "third", &long, "last"] {
            assert!(receive(&mut there).unwrap() == text, "{text:.5}");
        }
        let faint = writer.downgrade();
        faint().unwrap().send(Message::Payload("faint".into())).unwrap();
        drop(writer);
        assert!(faint().is_none());
        assert_eq!(receive(&mut there).as_deref(), Some("faint"));
        assert_eq!(receive(&mut there), None);
    }

    #[test]
    fn short_messages_wait_while_the_reader_does_not_read() {
        let (writer, mut there) = pair();
        let short = "x".repeat(SHORT_BYTES - 16);
        // A stream of this kind keeps some 200 KiB.
        let count = 2_000;
        for _ in 0..count {
            writer.send(Message::Payload(short.clone())).unwrap();
        }
        assert!(writer.0.queue.waiting.load(Acquire) > 0);
        drop(writer);
        assert_eq!(std::iter::from_fn(|| receive(&mut there)).count(), count);
    }

    #[test]
    fn the_next_send_reports_a_stream_that_failed() {
        let (writer, mut there) = pair();
        writer.send(Message::Payload("received".into())).unwrap();
        assert_eq!(receive(&mut there).as_deref(), Some("received"));
        drop(there);
        assert_eq!(writer.send(Message::Payload("lost".into())), Err(WriteFailed));
        assert_eq!(writer.send(Message::Payload("lost".into())), Err(WriteFailed));
        let (writer, mut there) = pair();
        drop(writer);
        assert_eq!(there.read(&mut [0]).unwrap(), 0);
    }
}
