//! The transport to an agent in another process, at the other end of an ssh or of a socket.
//!
//! [`Remote`] owns the transport. An agent that ends, is not understood, or sends nothing for
//! [`LOST_AFTER`] counts as lost: its process here is killed, and the reason ends with the last
//! words of that on stderr, or its socket is closed. When dropped, the stream is ended, and the
//! agent gets [`LEAVE_WITHIN`] to follow.
#![allow(clippy::disallowed_methods, reason = "whether a process lives is a matter of real time")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::rendezvous::Link;
use crate::stream::{Event, Stream};
use crate::wire::Message;
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

/// How long last words are waited for when a process has ended.
const WORDS_WITHIN: Duration = Duration::from_millis(300);

/// Bytes of a line on stderr that are kept.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// An agent in a process of its own.
pub struct Remote {
    host: String,
    way: Way,
    /// `None` once the agent was told to leave.
    stream: Option<Stream<Report, Order>>,
    /// The events after the last one, and until when the agent's end is waited for.
    leaving: Option<(Receiver<Event<Report>>, Instant)>,
    stop: Arc<AtomicBool>,
    /// When the agent was sent the request to stop.
    stopped_at: Option<Instant>,
    lost: Option<Gone>,
}

/// The means by which an agent is reached.
enum Way {
    /// The agent is, or is behind, a process of ours.
    Process(Child, StderrLines),
    /// It came by itself.
    Socket(Arc<Link>),
}

impl Way {
    /// Ends it at once, and returns its last words, if there are any.
    fn cut_off(&mut self) -> Option<String> {
        match self {
            Self::Process(child, words) => {
                // It may have gone already.
                let _ = child.kill();
                let _ = child.wait();
                words.last()
            }
            Self::Socket(link) => {
                link.cut();
                None
            }
        }
    }

    /// Waits until it has ended by itself, or the deadline has passed; says whether it has ended.
    fn await_end(&mut self, events: &Receiver<Event<Report>>, deadline: Instant) -> bool {
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
                    Ok(Event::Greeted | Event::Stop | Event::Cancel | Event::Payload(_)) => {}
                    Ok(Event::Closed | Event::Failed(_)) => return true,
                    Err(error) => return error == RecvTimeoutError::Disconnected,
                }
            },
        }
    }
}

impl Remote {
    /// Starts the process and waits until the agent greets.
    ///
    /// `stop` is the user's wish to stop, which is passed on while a report is waited for.
    ///
    /// # Errors
    /// When it can't be started, or no agent of this version greets in time.
    pub fn start(command: &mut Command, host: &str, stop: Arc<AtomicBool>) -> Result<Self, Gone> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            Gone(format!("host {host}: can't start `{program}`: {error}"))
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("three pipes were asked for");
        };
        let stream = Stream::open(stdout, stdin);
        let words = StderrLines::of(stderr);
        let way = Way::Process(child, words);
        let mut remote = Self::new(host, way, stream, stop);
        // A login on a slow host comes before the greeting, so silence may last longer here.
        match remote.next_event(GREET_WITHIN)? {
            Event::Greeted => Ok(remote),
            _ => Err(remote.disconnect("the agent did not greet")),
        }
    }

    /// Makes the transport to an agent that came by itself, at the other end of that stream.
    pub(crate) fn from_rendezvous(
        name: &str,
        stream: Stream<Report, Order>,
        link: Arc<Link>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self::new(name, Way::Socket(link), stream, stop)
    }

    fn new(host: &str, way: Way, stream: Stream<Report, Order>, stop: Arc<AtomicBool>) -> Self {
        let (host, stream) = (host.to_owned(), Some(stream));
        Self { host, way, stream, leaving: None, stop, stopped_at: None, lost: None }
    }

    /// Returns the process at this end; `None` where the agent came by itself.
    pub fn process_id(&self) -> Option<u32> {
        match &self.way {
            Way::Process(child, _) => Some(child.id()),
            Way::Socket(_) => None,
        }
    }

    /// Waits for the agent's next event, but not for longer than it may be silent.
    fn next_event(&mut self, silence_max: Duration) -> Result<Event<Report>, Gone> {
        loop {
            if let Some(event) = self.event_within(TICK, silence_max)? {
                return Ok(event);
            }
        }
    }

    /// Waits so long for the agent's next event.
    fn event_within(
        &mut self,
        wait: Duration,
        silence_max: Duration,
    ) -> Result<Option<Event<Report>>, Gone> {
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
            let _ = stream.writer.say(Message::Stop);
            self.stopped_at = Some(Instant::now());
        }
        if self.stopped_at.is_some_and(|at| at.elapsed() > ANSWER_AFTER_STOP) {
            return Err(self.leave_to_agent());
        }
        Ok(None)
    }

    /// Leaves an agent that doesn't answer after a request to stop. The process at this end isn't
    /// killed: it may be the agent, which goes on with what it restores.
    fn leave_to_agent(&mut self) -> Gone {
        // The end of its stream is how the agent learns of it.
        drop(self.stream.take().map(Stream::end));
        let seconds = ANSWER_AFTER_STOP.as_secs();
        let why = format!("no answer for {seconds} s after the wish to stop");
        let gone = Gone(format!("host {}: {why}; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        gone
    }

    fn disconnect_silent(&mut self, silence: Duration) -> Gone {
        self.disconnect(&format!("no sign of life for {:.0} s", silence.as_secs_f64()))
    }

    /// Cuts the agent off and keeps the reason, with its last words.
    fn disconnect(&mut self, why: &str) -> Gone {
        // The end of the stream tells the agent that its controller is gone.
        self.stream = None;
        let said = self.way.cut_off().map_or(String::new(), |line| format!(": {line}"));
        let gone = Gone(format!("host {}: {why}{said}", self.host));
        self.lost = Some(gone.clone());
        gone
    }
}

impl Transport for Remote {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        self.check_alive()?;
        // Whether it arrives shows in the answer.
        let sent = self.stream.as_ref().map(|stream| stream.writer.say(Message::Payload(order)));
        if matches!(sent, Some(Ok(()))) {
            Ok(())
        } else {
            Err(self.disconnect("the agent is gone"))
        }
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        loop {
            if let Event::Payload(report) = self.next_event(LOST_AFTER)? {
                return Ok(report);
            }
        }
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

    fn cancel(&mut self) {
        // An agent that can't be reached is noticed at the next event.
        if let Some(stream) = &self.stream {
            let _ = stream.writer.say(Message::Cancel);
        }
    }

    fn leave(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.leaving = Some((stream.end(), Instant::now() + LEAVE_WITHIN));
        }
    }

    fn await_end(&mut self) -> Option<String> {
        self.leave();
        let (events, deadline) = self.leaving.take()?;
        // Without a request to stop there is no hurry: it is killed when this is dropped.
        let Some(stopped_at) = self.stopped_at else {
            self.way.await_end(&events, deadline);
            return None;
        };
        let deadline = deadline.min(stopped_at + LEAVE_AFTER_STOP);
        if self.way.await_end(&events, deadline) {
            return None;
        }
        let gone =
            Gone(format!("host {}: its agent has not ended yet; {LEFT_TO_AGENT}", self.host));
        self.lost = Some(gone.clone());
        Some(gone.0)
    }

    fn check_alive(&mut self) -> Result<(), Gone> {
        if let Some(gone) = &self.lost {
            return Err(gone.clone());
        }
        let silence = self.stream.as_ref().map(Stream::silence);
        if silence.is_none_or(|silence| silence > LOST_AFTER) {
            return Err(self.disconnect_silent(LOST_AFTER));
        }
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // An agent that was left to restore its host must not be killed.
        let left = self.await_end();
        let is_left = self.lost.as_ref().is_some_and(|gone| gone.0.contains(LEFT_TO_AGENT));
        if left.is_none() && !is_left {
            self.way.cut_off();
        }
    }
}

/// The last line with a letter or digit in it that a process wrote to stderr.
pub(crate) struct StderrLines {
    last: Arc<Mutex<Option<String>>>,
    reader: JoinHandle<()>,
}

impl StderrLines {
    /// Reads until the stream ends, and keeps the last line that says something.
    pub(crate) fn of(stderr: impl Read + Send + 'static) -> Self {
        Self::read_lines(stderr, |_| ())
    }

    /// Starts a connection as [`StderrLines::of`] does; `hear` gets each line that isn't empty.
    pub(crate) fn read_lines(
        stderr: impl Read + Send + 'static,
        mut hear: impl FnMut(&str) + Send + 'static,
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
                let text = String::from_utf8_lossy(&line);
                let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
                if !text.is_empty() {
                    hear(&text);
                }
                if text.chars().any(char::is_alphanumeric) {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                }
            }
        });
        Self { last, reader }
    }

    /// Returns the last line so far, once the process has ended or soon after.
    pub(crate) fn last(&self) -> Option<String> {
        // A process that inherited stderr may hold it open for longer.
        let deadline = Instant::now() + WORDS_WITHIN;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
