//! The writing end of a stream. Callers write directly if they don't have to wait; otherwise a
//! thread does it.
//!
//! A [`Writer`] writes a short message itself if nothing is queued and the stream has space,
//! because passing every message through a thread would cost a wakeup each. Everything else goes to
//! the thread, so a sender never waits for the other side. The thread also sends the greeting, and
//! a heartbeat if nothing else was sent recently.
#![allow(clippy::disallowed_methods, reason = "detects dead peers by timeout")]

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

/// Time without other messages after which each side sends a heartbeat.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Maximum size of a short message, in bytes. A stream that is writable at all has room for one: a
/// writable pipe takes at least a page, and a writable socket a third of its buffer.
///
/// **Source:** pipe(7), `PIPE_BUF`; `sk_stream_is_writeable` of Linux.
const SHORT_BYTES: usize = 1 << 10;

/// A writer that can be polled.
pub trait Output: Write + AsFd + Send {}

impl<O: Write + AsFd + Send> Output for O {}

/// Sends messages. The stream is closed when the last clone is dropped.
pub(crate) struct Writer<Out>(Arc<WriterShared<Out>>);

impl<Out> Clone for Writer<Out> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// State shared by all clones of a writer.
struct WriterShared<Out> {
    later: Sender<Message<Out>>,
    queue: Arc<WriterQueue>,
}

/// Queue between senders and the writing thread.
struct WriterQueue {
    /// `None` once writing has failed.
    output: Mutex<Option<OpenOutput>>,
    /// Number of messages the thread has yet to write, including the greeting.
    waiting: AtomicUsize,
}

/// A stream that can still be written to.
struct OpenOutput {
    output: Box<dyn Output>,
    /// When something was last written.
    written_at: Instant,
}

/// The stream cannot be written to anymore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteFailed;

impl<Out: Serialize + Send + 'static> Writer<Out> {
    /// Starts the thread, which sends the greeting immediately.
    pub(crate) fn begin(output: impl Output + 'static) -> Self {
        let open = OpenOutput { output: Box::new(output), written_at: Instant::now() };
        let queue = WriterQueue { output: Mutex::new(Some(open)), waiting: AtomicUsize::new(1) };
        let (later, outgoing) = channel();
        let shared = WriterShared { later, queue: Arc::new(queue) };
        let queue = Arc::clone(&shared.queue);
        thread::spawn(move || run_writer(&queue, &outgoing));
        Self(Arc::new(shared))
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// If nothing can be sent anymore.
    pub(crate) fn send(&self, message: Message<Out>) -> Result<(), WriteFailed> {
        let WriterShared { later, queue } = &*self.0;
        if queue.write_at_once(&message)? {
            return Ok(());
        }
        // Count it before queueing it: from here on, no other sender may overtake it.
        queue.waiting.fetch_add(1, AcqRel);
        later.send(message).map_err(|_| WriteFailed)
    }

    /// Returns a function that upgrades to this sender, or to `None` once the stream has been
    /// closed. For holders that must not keep the stream open.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + use<Out> {
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(Self)
    }
}

impl WriterQueue {
    /// Writes a short message if nothing is queued and the stream has space. Returns true if it
    /// did.
    fn write_at_once(&self, message: &Message<impl Serialize>) -> Result<bool, WriteFailed> {
        // Messages must arrive in the order in which they were sent, so none may overtake a queued
        // one.
        if self.waiting.load(Acquire) > 0 {
            return Ok(false);
        }
        // If the lock is held, a write is in progress, and that may take long.
        let Ok(mut output) = self.output.try_lock() else { return Ok(false) };
        let open = output.as_mut().ok_or(WriteFailed)?;
        if !is_writable(&open.output) {
            return Ok(false);
        }
        // If encoding fails, let the thread run into it and close the stream.
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

    /// Writes bytes, blocking if necessary. Closes the stream if it fails.
    fn write_blocking(&self, bytes: &[u8]) -> Result<(), WriteFailed> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let open = output.as_mut().ok_or(WriteFailed)?;
        if open.write_flushed(bytes).is_err() {
            *output = None;
            return Err(WriteFailed);
        }
        Ok(())
    }

    /// Returns the time since the last write. Once writing has failed, returns the heartbeat
    /// interval, so that the thread tries to write and notices.
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

/// Returns true if a short message can be written without blocking.
fn is_writable(output: &impl AsFd) -> bool {
    let mut watched = [PollFd::new(output, PollFlags::OUT)];
    // With a timeout of zero, poll only reports the state.
    let polled = poll(&mut watched, Some(&Timespec::default()));
    polled.is_ok() && watched[0].revents().contains(PollFlags::OUT)
}

/// Writes queued messages, and heartbeats in between, until no sender is left.
///
/// Errors are ignored here: if the peer cannot be written to, reading fails, too, and is reported
/// there.
fn run_writer<Out: Serialize>(queue: &WriterQueue, outgoing: &Receiver<Message<Out>>) {
    let _ = write_messages(queue, outgoing);
    queue.close();
}

fn write_messages<Out: Serialize>(
    queue: &WriterQueue,
    outgoing: &Receiver<Message<Out>>,
) -> Result<(), WriteFailed> {
    // Comes first, so that a peer of another version can report both versions before it reads a
    // message.
    queue.write_blocking(&Greeting::own().to_bytes())?;
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
        // Decrement only after writing, so that nothing overtakes the message.
        queue.write_blocking(&wire::to_frame(&message).map_err(|_| WriteFailed)?)?;
        queue.waiting.fetch_sub(waited, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Returns a writer and the socket it writes to, after the greeting.
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
    fn never_blocks_sender() {
        let (writer, mut there) = pair();
        let long = "x".repeat(1 << 22);
        // Nobody is reading yet, and the socket buffer is smaller than this.
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
    fn queues_messages_for_slow_reader() {
        let (writer, mut there) = pair();
        let short = "x".repeat(SHORT_BYTES - 16);
        // The buffer of such a socket is about 200 KiB.
        let count = 2_000;
        for _ in 0..count {
            writer.send(Message::Payload(short.clone())).unwrap();
        }
        assert!(writer.0.queue.waiting.load(Acquire) > 0);
        drop(writer);
        assert_eq!(std::iter::from_fn(|| receive(&mut there)).count(), count);
    }

    #[test]
    fn reports_failed_stream_on_next_send() {
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
