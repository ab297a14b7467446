//! Transport to an agent in another process, reached through ssh or a socket.
//!
//! An agent counts as lost if it exits, sends something undecodable, or sends nothing for
//! [`LOST_AFTER`]. [`Remote`] then kills the local process and appends its last line on stderr to
//! the reason, or closes the socket. Dropping a [`Remote`] closes the stream and gives the agent
//! `LEAVE_WITHIN` to exit.
#![allow(clippy::disallowed_methods, reason = "detects dead processes by timeout")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::Fact;
use model::printable::is_steering;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rendezvous::Link;
use crate::stream::{Event, Stream};
use crate::wire::Message;
use crate::writer::Writer;
use crate::{Order, PeerGone, Report, Transport, Wakeup};

/// Silence after which an agent counts as lost.
pub const LOST_AFTER: Duration = Duration::from_millis(2_900);

/// Time limit for an agent's greeting, including the login on its host.
pub(crate) const GREET_WITHIN: Duration = Duration::from_secs(20);

/// Time limit for an agent to exit on its own once its stream has been closed.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// Time limit for an answer after a stop request. An agent that is stuck longer is left to finish
/// on its own.
pub(crate) const ANSWER_AFTER_STOP: Duration = Duration::from_secs(10);

/// Total time limit for an agent to exit after a stop request.
pub(crate) const LEAVE_AFTER_STOP: Duration = Duration::from_secs(13);

/// Note for hosts whose changes have yet to be restored by their agent.
pub const LEFT_TO_AGENT: &str = "its agent will restore the host as soon as it can (hint: run \
                                 `dfsbench clean` on that host to see what remains)";

/// How often silence and stop requests are checked.
const TICK: Duration = Duration::from_millis(100);

/// How long to wait for the last line on stderr after a process has exited.
const LAST_LINE_WITHIN: Duration = Duration::from_millis(300);

/// Maximum length of a line kept from stderr, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// An agent in another process that receives `Out` and sends `In`.
pub struct Remote<In = Report, Out = Order> {
    host: String,
    connection: Connection,
    /// `None` once the stream has been closed.
    stream: Option<Stream<In, Out>>,
    /// Set while disconnecting: remaining events, and the deadline for the agent to exit.
    leaving: Option<(Receiver<Event<In>>, Instant)>,
    stop: Arc<AtomicBool>,
    /// When the stop request was sent to the agent.
    stopped_at: Option<Instant>,
    lost: Option<PeerGone>,
    /// Facts about how the agent got to its host.
    facts: Vec<Fact>,
}

/// How an agent is reached.
enum Connection {
    /// A local process, which either is the agent or (like ssh) leads to it.
    Process(Child, StderrReader),
    /// A connection that the agent opened.
    Socket(Arc<Link>),
}

impl Connection {
    /// Cuts the connection immediately. Returns the process's last line on stderr, if any.
    fn cut_off(&mut self) -> Option<String> {
        match self {
            Self::Process(child, stderr) => {
                // It may already have exited.
                let _ = child.kill();
                let _ = child.wait();
                stderr.last_line()
            }
            Self::Socket(link) => {
                link.cut();
                None
            }
        }
    }

    /// Waits until the agent has exited on its own or the deadline passes. Returns true if it has
    /// exited.
    fn await_end<In>(&mut self, events: &Receiver<Event<In>>, deadline: Instant) -> bool {
        match self {
            Self::Process(child, _) => {
                // Poll the process itself, since its pipes may be closed long before it exits.
                while matches!(child.try_wait(), Ok(None)) {
                    if Instant::now() >= deadline {
                        return false;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                true
            }
            Self::Socket(_) => loop {
                let left = deadline.saturating_duration_since(Instant::now());
                match events.recv_timeout(left) {
                    // Reports still in flight; no order is waiting for them anymore.
                    Ok(Event::Greeted | Event::Stop | Event::Cancel | Event::Payload(_)) => {}
                    Ok(Event::Closed | Event::Failed(_)) => return true,
                    Err(error) => return error == RecvTimeoutError::Disconnected,
                }
            },
        }
    }
}

impl<In, Out> Remote<In, Out>
where
    In: DeserializeOwned + Send + 'static,
    Out: Serialize + Send + 'static,
{
    /// Starts the process and waits for the agent's greeting.
    ///
    /// `stop` is the user's stop request. It is forwarded to the agent while waiting for a report.
    ///
    /// # Errors
    /// If the process cannot be started, or no agent of the same version greets in time.
    pub fn start(
        command: &mut Command,
        host: &str,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, PeerGone> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let program = command.get_program().to_string_lossy();
                return Err(PeerGone(format!("host {host}: cannot start `{program}`: {error}")));
            }
        };
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("stdin, stdout and stderr are pipes");
        };
        let stream = Stream::open(stdout, stdin);
        let stderr = StderrReader::start(stderr, |_| ());
        let mut remote = Self::new(host, Connection::Process(child, stderr), stream, stop);
        // The greeting comes after the login, which may be slow, so allow a longer silence here.
        match remote.next_event(GREET_WITHIN)? {
            Event::Greeted => Ok(remote),
            _ => Err(remote.disconnect("the agent sent no greeting")),
        }
    }

    pub fn send_message(&mut self, message: Out) -> Result<(), PeerGone> {
        self.check_life()?;
        // Whether it was received shows in the answer.
        if let Some(stream) = &self.stream
            && stream.writer.send(Message::Payload(message)).is_ok()
        {
            return Ok(());
        }
        Err(self.disconnect("the agent is gone"))
    }

    /// Returns a sender for other threads. Messages to an agent that is gone are dropped.
    pub fn sender(&self) -> Option<MessageSender<Out>> {
        self.stream.as_ref().map(|stream| MessageSender::new(stream.writer.clone()))
    }

    /// Waits for the next message.
    pub fn receive_message(&mut self) -> Result<In, PeerGone> {
        loop {
            if let Event::Payload(message) = self.next_event(LOST_AFTER)? {
                return Ok(message);
            }
        }
    }

    /// Waits for the agent's next event, at most for the silence it is allowed.
    fn next_event(&mut self, silence_max: Duration) -> Result<Event<In>, PeerGone> {
        loop {
            if let Some(event) = self.event_within(TICK, silence_max)? {
                return Ok(event);
            }
        }
    }

    /// Waits up to `wait` for the agent's next event and forwards a stop request in the meantime.
    fn event_within(
        &mut self,
        wait: Duration,
        silence_max: Duration,
    ) -> Result<Option<Event<In>>, PeerGone> {
        let stream = match (&self.lost, &self.stream) {
            (None, Some(stream)) => stream,
            (Some(gone), _) => return Err(gone.clone()),
            (None, None) => {
                return Err(PeerGone(format!("host {}: already disconnected", self.host)));
            }
        };
        match stream.events.recv_timeout(wait) {
            Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                return Err(self.disconnect("the agent is gone"));
            }
            Ok(Event::Failed(error)) => return Err(self.disconnect(&error.to_string())),
            Ok(event) => return Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stream.silence() > silence_max {
            return Err(self.disconnect_silent(silence_max));
        }
        if self.stop.load(Relaxed) && self.stopped_at.is_none() {
            // If the agent is unreachable, the next event will show it.
            let _ = stream.writer.send(Message::Stop);
            self.stopped_at = Some(Instant::now());
        }
        if let Some(stopped_at) = self.stopped_at
            && stopped_at.elapsed() > ANSWER_AFTER_STOP
        {
            return Err(self.leave_to_agent());
        }
        Ok(None)
    }
}

impl Remote {
    /// Creates the transport to an agent that connected on its own.
    pub(crate) fn from_rendezvous(
        name: &str,
        stream: Stream<Report, Order>,
        link: Arc<Link>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self::new(name, Connection::Socket(link), stream, stop)
    }
}

impl<In, Out> Remote<In, Out> {
    fn new(
        host: &str,
        connection: Connection,
        stream: Stream<In, Out>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let host = host.to_owned();
        let stream = Some(stream);
        let facts = Vec::new();
        Self { host, connection, stream, leaving: None, stop, stopped_at: None, lost: None, facts }
    }

    /// Adds a fact about how the agent got to its host.
    pub(crate) fn add_fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Returns the ID of the local process, or `None` if the agent connected on its own.
    pub fn process_id(&self) -> Option<u32> {
        match &self.connection {
            Connection::Process(child, _) => Some(child.id()),
            Connection::Socket(_) => None,
        }
    }

    /// Gives up on an agent that doesn't answer a stop request. The local process isn't killed,
    /// because it may be the agent, still restoring its host.
    fn leave_to_agent(&mut self) -> PeerGone {
        // The agent notices that its stream was closed.
        self.stream = None;
        let seconds = ANSWER_AFTER_STOP.as_secs();
        let why = format!("the agent did not answer a request to stop for {seconds} s");
        let gone = PeerGone(format!("host {}: {why}; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        gone
    }

    fn disconnect_silent(&mut self, silence: Duration) -> PeerGone {
        self.disconnect(&format!("the agent has been silent for {:.0} s", silence.as_secs_f64()))
    }

    /// Cuts off the agent and remembers the reason, with its last line on stderr.
    fn disconnect(&mut self, why: &str) -> PeerGone {
        // The agent notices that its stream was closed, which means that the controller is gone.
        self.stream = None;
        let reason = with_last_line(why.to_owned(), self.connection.cut_off());
        let gone = PeerGone(format!("host {}: {reason}", self.host));
        self.lost = Some(gone.clone());
        gone
    }

    fn check_life(&mut self) -> Result<(), PeerGone> {
        if let Some(gone) = &self.lost {
            return Err(gone.clone());
        }
        match &self.stream {
            Some(stream) if stream.silence() <= LOST_AFTER => Ok(()),
            _ => Err(self.disconnect_silent(LOST_AFTER)),
        }
    }

    fn end_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.leaving = Some((stream.end_writing(), Instant::now() + LEAVE_WITHIN));
        }
    }

    fn await_agent_end(&mut self) -> Option<String> {
        self.end_stream();
        let (events, deadline) = self.leaving.take()?;
        // Without a stop request there is no hurry: the process is killed when `self` is dropped.
        let Some(stopped_at) = self.stopped_at else {
            self.connection.await_end(&events, deadline);
            return None;
        };
        let deadline = deadline.min(stopped_at + LEAVE_AFTER_STOP);
        if self.connection.await_end(&events, deadline) {
            return None;
        }
        let gone =
            PeerGone(format!("host {}: its agent is still running; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        Some(gone.0)
    }
}

impl Transport for Remote {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        self.send_message(order)
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.receive_message()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        loop {
            match self.event_within(Duration::ZERO, LOST_AFTER)? {
                Some(Event::Payload(report)) => return Ok(Some(report)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn set_wakeup(&mut self, wakeup: &Wakeup) {
        if let Some(stream) = &self.stream {
            stream.set_wakeup(wakeup);
        }
    }

    fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    fn cancel(&mut self) {
        // If the agent is unreachable, the next event will show it.
        if let Some(stream) = &self.stream {
            let _ = stream.writer.send(Message::Cancel);
        }
    }

    fn leave(&mut self) {
        self.end_stream();
    }

    fn await_end(&mut self) -> Option<String> {
        self.await_agent_end()
    }

    fn check_alive(&mut self) -> Result<(), PeerGone> {
        self.check_life()
    }
}

/// Sends messages to the other side from any thread.
pub struct MessageSender<Out>(Writer<Out>);

impl<Out> Clone for MessageSender<Out> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Out: Serialize + Send + 'static> MessageSender<Out> {
    pub(crate) const fn new(writer: Writer<Out>) -> Self {
        Self(writer)
    }

    /// Sends a message without waiting. It is dropped if the other side is gone.
    pub fn send(&self, message: Out) {
        let _ = self.0.send(Message::Payload(message));
    }
}

impl<In, Out> Drop for Remote<In, Out> {
    fn drop(&mut self) {
        // An agent that is still restoring its host must not be killed.
        let left = self.await_agent_end();
        let is_left = self.lost.as_ref().is_some_and(|gone| gone.0.contains(LEFT_TO_AGENT));
        if left.is_none() && !is_left {
            self.connection.cut_off();
        }
    }
}

/// Appends a process's last line on stderr, if there is one, to a reason.
pub(crate) fn with_last_line(reason: String, last_line: Option<String>) -> String {
    match last_line {
        Some(line) => format!("{reason}: {line}"),
        None => reason,
    }
}

/// Reads a process's stderr and remembers the last line that contains a letter or digit.
pub(crate) struct StderrReader {
    last: Arc<Mutex<Option<String>>>,
    reader: JoinHandle<()>,
}

impl StderrReader {
    /// Starts a thread that reads until the stream ends and calls `on_line` for each non-empty
    /// line.
    pub(crate) fn start(
        stderr: impl Read + Send + 'static,
        mut on_line: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        let last = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&last);
        let reader = thread::spawn(move || {
            let mut input = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
                if !matches!(read, Ok(len) if len > 0) {
                    return;
                }
                let mut text = String::from_utf8_lossy(&line).trim().to_owned();
                // It will be part of a single-line message.
                text.retain(|c| !c.is_control() && !is_steering(c));
                if !text.is_empty() {
                    on_line(&text);
                }
                if text.chars().any(char::is_alphanumeric) {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                }
            }
        });
        Self { last, reader }
    }

    /// Returns the last line. Call this once the process has exited; it waits briefly for the
    /// reader.
    pub(crate) fn last_line(&self) -> Option<String> {
        // A child that inherited stderr may keep it open longer.
        let deadline = Instant::now() + LAST_LINE_WITHIN;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
