//! The transport to an agent in another process, at the other end of an ssh or of a socket.
//!
//! [`Remote`] owns the transport. An agent that ends, is not understood, or sends nothing for
//! [`LOST_AFTER`] counts as lost: its process here is killed, and the reason ends with its last
//! line on stderr, or its socket is closed. When dropped, the stream is ended, and the agent gets
//! [`LEAVE_WITHIN`] to follow.
#![allow(clippy::disallowed_methods, reason = "whether a process lives is a matter of real time")]

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
use crate::{Gone, Order, Report, Transport, Wakeup};

/// Silence after which an agent counts as lost.
pub const LOST_AFTER: Duration = Duration::from_millis(2_900);

/// How long an agent may take to greet, its host's login included.
pub const GREET_WITHIN: Duration = Duration::from_secs(20);

/// How long an agent may take to end by itself, once its stream has ended.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// How long an agent may take for an answer once it was sent a request to stop: what hangs there
/// is its own to end.
pub const ANSWER_AFTER_STOP: Duration = Duration::from_secs(10);

/// How long after a request to stop an agent is waited for at most, in all.
pub const LEAVE_AFTER_STOP: Duration = Duration::from_secs(13);

/// The note on a host that is left with changes that its agent has yet to restore.
pub const LEFT_TO_AGENT: &str = "it is left to its agent, which restores it as soon as it can \
                                 (hint: `dfsbench clean` on that host shows what is left)";

/// How often silence and a request to stop are checked.
const TICK: Duration = Duration::from_millis(100);

/// How long the last line on stderr is waited for when a process has ended.
const LAST_LINE_WITHIN: Duration = Duration::from_millis(300);

/// Bytes of a line on stderr that are kept.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// An agent in a process of its own, which is sent `Out` and sends `In`.
pub struct Remote<In = Report, Out = Order> {
    host: String,
    connection: Connection,
    /// `None` once the stream was ended.
    stream: Option<Stream<In, Out>>,
    /// The events after the last one, and until when the agent's end is waited for.
    leaving: Option<(Receiver<Event<In>>, Instant)>,
    stop: Arc<AtomicBool>,
    /// When the agent was sent the request to stop.
    stopped_at: Option<Instant>,
    lost: Option<Gone>,
    /// Facts about how the agent got to its host.
    facts: Vec<Fact>,
}

/// The means by which an agent is reached.
enum Connection {
    /// The agent is, or is behind, a process of ours.
    Process(Child, StderrReader),
    /// The agent connected by itself.
    Socket(Arc<Link>),
}

impl Connection {
    /// Ends it at once, and returns the process's last line on stderr, if there is any.
    fn cut_off(&mut self) -> Option<String> {
        match self {
            Self::Process(child, stderr) => {
                // It may have gone already.
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

    /// Waits until it has ended by itself, or the deadline has passed; says whether it has ended.
    fn await_end<In>(&mut self, events: &Receiver<Event<In>>, deadline: Instant) -> bool {
        match self {
            Self::Process(child, _) => {
                // The process is polled: its pipes may be closed long before it ends.
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
                    // Reports that were still in flight; no order waits for them any more.
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
    /// Starts the process and waits until the agent greets.
    ///
    /// `stop` is the user's request to stop, which is passed on while a report is waited for.
    ///
    /// # Errors
    /// When it can't be started, or no agent of this version greets in time.
    pub fn start(command: &mut Command, host: &str, stop: Arc<AtomicBool>) -> Result<Self, Gone> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let program = command.get_program().to_string_lossy();
                return Err(Gone(format!("host {host}: can't start `{program}`: {error}")));
            }
        };
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("the command has three pipes");
        };
        let stream = Stream::open(stdout, stdin);
        let stderr = StderrReader::start(stderr, |_| ());
        let mut remote = Self::new(host, Connection::Process(child, stderr), stream, stop);
        // A login on a slow host comes before the greeting, so silence may last longer here.
        match remote.next_event(GREET_WITHIN)? {
            Event::Greeted => Ok(remote),
            _ => Err(remote.disconnect("the agent did not greet")),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the agent is gone.
    pub fn send_message(&mut self, message: Out) -> Result<(), Gone> {
        self.check_life()?;
        // Whether it arrives shows in the answer.
        if let Some(stream) = &self.stream
            && stream.writer.send(Message::Payload(message)).is_ok()
        {
            return Ok(());
        }
        Err(self.disconnect("the agent is gone"))
    }

    /// Returns a sender of messages for other threads; what it sends to an agent that is gone is
    /// lost.
    pub fn sender(&self) -> Option<MessageSender<Out>> {
        self.stream.as_ref().map(|stream| MessageSender::new(stream.writer.clone()))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// When the agent is gone.
    pub fn receive_message(&mut self) -> Result<In, Gone> {
        loop {
            if let Event::Payload(message) = self.next_event(LOST_AFTER)? {
                return Ok(message);
            }
        }
    }

    /// Waits for the agent's next event, but not for longer than it may be silent.
    fn next_event(&mut self, silence_max: Duration) -> Result<Event<In>, Gone> {
        loop {
            if let Some(event) = self.event_within(TICK, silence_max)? {
                return Ok(event);
            }
        }
    }

    /// Waits `wait` for the agent's next event; passes on a request to stop meanwhile.
    fn event_within(
        &mut self,
        wait: Duration,
        silence_max: Duration,
    ) -> Result<Option<Event<In>>, Gone> {
        let stream = match (&self.lost, &self.stream) {
            (None, Some(stream)) => stream,
            (Some(gone), _) => return Err(gone.clone()),
            (None, None) => return Err(Gone(format!("host {}: it was left", self.host))),
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
            // An agent that can't be reached is noticed at the next event.
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
    /// Makes the transport to an agent that connected by itself, at the other end of that stream.
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
        let (host, stream) = (host.to_owned(), Some(stream));
        let facts = Vec::new();
        Self { host, connection, stream, leaving: None, stop, stopped_at: None, lost: None, facts }
    }

    /// Adds a fact about how the agent got to its host.
    pub(crate) fn add_fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Returns the process at this end; `None` where the agent connected by itself.
    pub fn process_id(&self) -> Option<u32> {
        match &self.connection {
            Connection::Process(child, _) => Some(child.id()),
            Connection::Socket(_) => None,
        }
    }

    /// Leaves an agent that doesn't answer after a request to stop. The process at this end isn't
    /// killed: it may be the agent, which goes on with what it restores.
    fn leave_to_agent(&mut self) -> Gone {
        // The end of its stream is how the agent learns of it.
        self.stream = None;
        let seconds = ANSWER_AFTER_STOP.as_secs();
        let why = format!("no answer for {seconds} s after the request to stop");
        let gone = Gone(format!("host {}: {why}; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        gone
    }

    fn disconnect_silent(&mut self, silence: Duration) -> Gone {
        self.disconnect(&format!("no sign of life for {:.0} s", silence.as_secs_f64()))
    }

    /// Cuts the agent off and keeps the reason, with its last line on stderr.
    fn disconnect(&mut self, why: &str) -> Gone {
        // The end of the stream is how the agent learns that its controller is gone.
        self.stream = None;
        let reason = with_last_line(why.to_owned(), self.connection.cut_off());
        let gone = Gone(format!("host {}: {reason}", self.host));
        self.lost = Some(gone.clone());
        gone
    }

    fn check_life(&mut self) -> Result<(), Gone> {
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
        // Without a request to stop there is no hurry: it is killed when this is dropped.
        let Some(stopped_at) = self.stopped_at else {
            self.connection.await_end(&events, deadline);
            return None;
        };
        let deadline = deadline.min(stopped_at + LEAVE_AFTER_STOP);
        if self.connection.await_end(&events, deadline) {
            return None;
        }
        let gone =
            Gone(format!("host {}: its agent has not ended yet; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        Some(gone.0)
    }
}

impl Transport for Remote {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        self.send_message(order)
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        self.receive_message()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
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
        // An agent that can't be reached is noticed at the next event.
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

    fn check_alive(&mut self) -> Result<(), Gone> {
        self.check_life()
    }
}

/// Sends messages to the other side, from any thread.
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

    /// Sends a message, without waiting; one for a side that is gone is lost.
    pub fn send(&self, message: Out) {
        let _ = self.0.send(Message::Payload(message));
    }
}

impl<In, Out> Drop for Remote<In, Out> {
    fn drop(&mut self) {
        // An agent that was left to restore its host must not be killed.
        let left = self.await_agent_end();
        let is_left = match &self.lost {
            Some(gone) => gone.0.contains(LEFT_TO_AGENT),
            None => false,
        };
        if left.is_none() && !is_left {
            self.connection.cut_off();
        }
    }
}

/// Adds the last line that a process wrote to stderr to a reason, if there is one.
pub(crate) fn with_last_line(reason: String, last_line: Option<String>) -> String {
    match last_line {
        Some(line) => format!("{reason}: {line}"),
        None => reason,
    }
}

/// A reader of a process's stderr, which keeps the last line with a letter or digit in it.
pub(crate) struct StderrReader {
    last: Arc<Mutex<Option<String>>>,
    reader: JoinHandle<()>,
}

impl StderrReader {
    /// Starts a thread that reads until the stream ends; `on_line` gets each line that isn't empty.
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
                // It becomes part of a message of one line.
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

    /// Returns the last line so far, once the process has ended or soon after.
    pub(crate) fn last_line(&self) -> Option<String> {
        // A process that inherited stderr may hold it open for longer.
        let deadline = Instant::now() + LAST_LINE_WITHIN;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
