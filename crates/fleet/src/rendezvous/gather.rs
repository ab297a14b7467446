//! The controller's side of a rendezvous: listens until all agents have connected.
//!
//! One thread serves all connections, without waiting for any of them: a stranger holds one of
//! [`HANDSHAKES_MAX`] slots for [`HANDSHAKE_WITHIN`] at most, and the oldest is dropped where all
//! are taken. An agent that has proved the token gets a stream at once, so that each side knows
//! that the other lives while the rest is awaited.
#![allow(clippy::disallowed_methods, reason = "whether agents come is a matter of real time")]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snow::StatelessTransportState as Keys;

use super::handshake::{Answer, ControllerHandshake, Hello, Refusal, Step};
use super::names::{self, Seat};
use super::refusals::{Refusals, Refused};
use super::sealed::{Link, Opener, Sealer};
use super::token::Token;
use crate::stream::Stream;
use crate::wire::{Greeting, WireError};
use crate::{Order, Remote, Report, Transport as _};

/// How long a handshake may take, on a host that is busy with starting a thousand agents, too.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Connections that may be in the middle of a handshake, at most.
const HANDSHAKES_MAX: usize = 1_024;

/// Connections that the kernel keeps for us, at most.
const BACKLOG: i32 = 4_096;

/// How often a request to stop and the launcher are checked.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An address where agents meet a controller; listens as long as it lives.
pub struct Rendezvous {
    listener: TcpListener,
    token: Token,
}

/// The agents that are expected, and how long they are waited for.
pub struct ExpectedAgents {
    /// How many agents.
    pub count: u32,
    /// How long all of them may take.
    pub within: Duration,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
}

/// An agent that has connected.
pub struct JoinedAgent {
    /// Its name: that of its host, and its number there from the second agent of a host on.
    pub name: String,
    /// The introduction of the agent.
    pub hello: Hello,
    /// The transport to it.
    pub agent: Remote,
}

/// All agents that connected.
pub struct Gathered {
    /// The agents: the first one of each host, then the second ones, and so on.
    pub agents: Vec<JoinedAgent>,
    /// Those that were not let in, in a sentence each.
    pub refused: Vec<String>,
}

/// The reason why agents could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The address can't be listened on.
    #[error("can't listen at {address}: {error} (hint: --listen names an address of this host)")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// Not all connected in time.
    #[error(
        "{connected} of {count} agents connected within {within_s} s: {missing} \
         missing{refused}{hint}"
    )]
    TooFew {
        /// How many connected.
        connected: usize,
        /// How many were wanted.
        count: u32,
        /// How long they were waited for, in seconds.
        within_s: u64,
        /// The agents that are missing.
        missing: String,
        /// The connections that were refused.
        refused: String,
        /// A hint at what to do.
        hint: &'static str,
    },
    /// Another number was started than is wanted.
    #[error(
        "the agent of rank {} on host {} is one of {}, and {count} are wanted (hint: --agents)",
        hello.rank, hello.host, hello.size
    )]
    OtherSize {
        /// The introduction of the agent.
        hello: Hello,
        /// How many are wanted.
        count: u32,
    },
    /// One connected and was lost again.
    #[error("the agent of rank {rank} connected and was lost: {why}")]
    LostAgain {
        /// The rank of the agent.
        rank: u32,
        /// The reason, as far as it is known.
        why: String,
    },
    /// The launcher that was to start the agents has ended.
    #[error("{connected} of {count} agents connected: {missing} missing: {why}")]
    Launcher {
        /// How many connected.
        connected: usize,
        /// How many were wanted.
        count: u32,
        /// The agents that are missing.
        missing: String,
        /// How the launcher ended.
        why: String,
    },
    /// Stopped while agents were awaited.
    #[error("stopped while agents were awaited: {connected} of {count} had connected")]
    Stopped {
        /// How many connected.
        connected: usize,
        /// How many were wanted.
        count: u32,
    },
}

impl Rendezvous {
    /// Begins to listen; with port 0 the system chooses one.
    ///
    /// # Errors
    /// When the address is not this host's, or its port is taken.
    pub fn open(address: SocketAddr, token: Token) -> Result<Self, GatherError> {
        let listener = match listen_at(address) {
            Ok(listener) => listener,
            Err(error) => return Err(GatherError::Listen { address, error }),
        };
        Ok(Self { listener, token })
    }

    /// Returns the address that it listens on.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits until all agents have connected, and listens no longer.
    ///
    /// `launcher` reports now and then whether whatever starts the agents still can; its error ends
    /// the waiting.
    ///
    /// # Errors
    /// When some don't connect in time, or others do. The agents that connected lose their
    /// controller.
    pub fn gather(
        self,
        wanted: &ExpectedAgents,
        launcher: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Gathered, GatherError> {
        let mut lobby = Lobby {
            rendezvous: self,
            count: wanted.count,
            handshaking: Vec::new(),
            connected: BTreeMap::new(),
            refused: Refusals::default(),
        };
        let deadline = Instant::now() + wanted.within;
        while lobby.connected.len() < wanted.count as usize {
            if wanted.stop.load(Relaxed) {
                return Err(GatherError::Stopped {
                    connected: lobby.connected.len(),
                    count: wanted.count,
                });
            }
            // Checked each time: without its launcher no further agent will connect.
            if let Err(why) = launcher() {
                return Err(lobby.launcher_error(why));
            }
            if Instant::now() > deadline {
                return Err(lobby.timeout_error(wanted.within));
            }
            lobby.run_once()?;
        }
        lobby.finish_gathering(&wanted.stop)
    }
}

/// Begins to listen without waiting for connections.
fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Thousands of agents may connect at once: more than the standard library keeps waiting.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// A connection in the middle of its handshake.
struct Handshaking {
    socket: TcpStream,
    from: IpAddr,
    since: Instant,
    handshake: ControllerHandshake,
}

/// An agent that has proved the token.
struct Connected {
    hello: Hello,
    link: Arc<Link>,
    stream: Stream<Report, Order>,
}

/// The connections in their handshakes, and the agents that have connected.
struct Lobby {
    rendezvous: Rendezvous,
    count: u32,
    handshaking: Vec<Handshaking>,
    /// Agents whose handshake has ended, by rank.
    connected: BTreeMap<u32, Connected>,
    refused: Refusals,
}

impl Lobby {
    /// Waits a little for input and handles it.
    fn run_once(&mut self) -> Result<(), GatherError> {
        let ready = self.wait_readable();
        // From the last to the first: a removal moves the last one, which was handled by then.
        for index in ready.into_iter().rev() {
            let handshaking = &mut self.handshaking[index];
            match handshaking.read_step() {
                Ok(None) => {}
                Ok(Some((hello, keys))) => {
                    let known = self.handshaking.swap_remove(index);
                    self.receive_agent(known, hello, keys)?;
                }
                Err(why) => {
                    let from = self.handshaking.swap_remove(index).from;
                    self.refused.note(from, why);
                }
            }
        }
        // A stranger that sends nothing must not hold its slot for ever.
        let now = Instant::now();
        while let Some(index) =
            self.handshaking.iter().position(|it| now - it.since > HANDSHAKE_WITHIN)
        {
            let from = self.handshaking.swap_remove(index).from;
            let why = format!("it sent too little for {} s", HANDSHAKE_WITHIN.as_secs());
            self.refused.note(from, Refused::stranger(why));
        }
        self.accept_waiting();
        Ok(())
    }

    /// Waits until a connection is made or can be read from, or a while has passed; returns the
    /// places of those that can be read from.
    fn wait_readable(&self) -> Vec<usize> {
        let mut watched = vec![PollFd::new(&self.rendezvous.listener, PollFlags::IN)];
        for handshaking in &self.handshaking {
            watched.push(PollFd::new(&handshaking.socket, PollFlags::IN));
        }
        // An interrupted wait is a short one.
        let _ = poll(&mut watched, Some(&TICK));
        let mut readable = Vec::new();
        for (index, fd) in watched[1..].iter().enumerate() {
            if !fd.revents().is_empty() {
                readable.push(index);
            }
        }
        readable
    }

    /// Accepts all connections that wait in the kernel.
    fn accept_waiting(&mut self) {
        loop {
            match self.rendezvous.listener.accept() {
                Ok((socket, address)) => self.begin_handshake(socket, address.ip()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Mostly there are no descriptors left: connections stay in the kernel until there
                // are.
                Err(_) => return,
            }
        }
    }

    fn begin_handshake(&mut self, socket: TcpStream, from: IpAddr) {
        // A socket that can't be set up can't be used; its owner sees it closed.
        if socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_err() {
            return;
        }
        if self.handshaking.len() >= HANDSHAKES_MAX {
            // The oldest: an agent needs milliseconds, so this is most likely no agent.
            let oldest = (0..HANDSHAKES_MAX).min_by_key(|index| self.handshaking[*index].since);
            if let Some(index) = oldest {
                let from = self.handshaking.swap_remove(index).from;
                self.refused.note(from, Refused::stranger("it was dropped for newer connections"));
            }
        }
        let handshake = ControllerHandshake::new(&self.rendezvous.token);
        self.handshaking.push(Handshaking { socket, from, since: Instant::now(), handshake });
    }

    /// Adds an agent that has proved the token.
    fn receive_agent(
        &mut self,
        known: Handshaking,
        hello: Hello,
        keys: Keys,
    ) -> Result<(), GatherError> {
        let wrong_size = hello.size != self.count || hello.rank >= self.count;
        let mut refusal = None;
        if wrong_size {
            refusal = Some(format!("it is one of {}, and {} are wanted", hello.size, self.count));
        } else if let Some(other) = self.connected.get(&hello.rank) {
            let host = &other.hello.host;
            refusal = Some(format!("rank {} is there already, from host {host}", hello.rank));
        }
        let from = known.from;
        // The agent learns the reason, too: its own message is often read first.
        let answer = match &refusal {
            Some(why) => Answer::Refused(why.clone()),
            None => Answer::Welcome,
        };
        let (link, output) = match send_answer(known.socket, keys, &answer) {
            Ok(both) => both,
            Err(error) => {
                self.refused.note(from, Refused::agent(format!("it left: {error}")));
                return Ok(());
            }
        };
        if wrong_size {
            return Err(GatherError::OtherSize { hello, count: self.count });
        }
        if let Some(why) = refusal {
            self.refused.note(from, Refused::agent(why));
            return Ok(());
        }
        // Record 0 of its direction was the introduction.
        let stream = Stream::open(Opener::new(Arc::clone(&link), 1), output);
        self.connected.insert(hello.rank, Connected { hello, link, stream });
        Ok(())
    }

    fn timeout_error(&self, within: Duration) -> GatherError {
        let refused = self.refused.list();
        let hint = if refused.is_empty() && self.connected.is_empty() {
            " (hint: can its hosts reach this one? --listen names an address that they can)"
        } else {
            ""
        };
        GatherError::TooFew {
            connected: self.connected.len(),
            count: self.count,
            within_s: within.as_secs(),
            missing: self.list_missing(),
            refused: describe_refusals(&refused),
            hint,
        }
    }

    fn launcher_error(&self, why: String) -> GatherError {
        let (connected, count) = (self.connected.len(), self.count);
        GatherError::Launcher { connected, count, missing: self.list_missing(), why }
    }

    fn list_missing(&self) -> String {
        let is_one = self.connected.len() + 1 == self.count as usize;
        let ranks = names::list_missing(|rank| self.connected.contains_key(&rank), self.count);
        format!("{ranks} {}", if is_one { "is" } else { "are" })
    }

    /// Ends the listening and makes transports of the agents that connected.
    fn finish_gathering(mut self, stop: &Arc<AtomicBool>) -> Result<Gathered, GatherError> {
        let refused = self.refused.list();
        let mut hellos = Vec::with_capacity(self.connected.len());
        for agent in self.connected.values() {
            hellos.push(&agent.hello);
        }
        let seats = names::seat_agents(&hellos);
        let mut agents = Vec::with_capacity(seats.len());
        for Seat { name, rank } in seats {
            let Some(connected) = self.connected.remove(&rank) else { unreachable!("one a seat") };
            let Connected { hello, link, stream } = connected;
            let mut agent = Remote::from_rendezvous(&name, stream, link, Arc::clone(stop));
            // One that connected early may have failed while the others were awaited.
            if let Err(gone) = agent.check_alive() {
                return Err(GatherError::LostAgain { rank: hello.rank, why: gone.0 });
            }
            agents.push(JoinedAgent { name, hello, agent });
        }
        Ok(Gathered { agents, refused })
    }
}

impl Handshaking {
    /// Reads the bytes that were sent, and answers; returns the agent, once it is known.
    fn read_step(&mut self) -> Result<Option<(Hello, Keys)>, Refused> {
        let mut bytes = [0; 512];
        let len = match self.socket.read(&mut bytes) {
            Ok(0) => {
                let why = "it closed the connection before it introduced itself";
                return Err(Refused::stranger(why));
            }
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(Refused::stranger(format!("it was lost: {error}"))),
        };
        match self.handshake.receive_bytes(&bytes[..len]) {
            Ok(Step::More) => Ok(None),
            Ok(Step::Known(hello, keys)) => Ok(Some((hello, *keys))),
            Ok(Step::Send(answer)) => {
                self.send_bytes(&answer)?;
                Ok(None)
            }
            Err(refusal) => Err(self.turn_away(&refusal)),
        }
    }

    /// Sends a few hundred bytes, which always fit into what the system keeps for a fresh socket.
    fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let sent = self.socket.write_all(bytes);
        sent.map_err(|error| Refused::stranger(format!("it was lost: {error}")))
    }

    /// Sends our greeting to a dfsbench, which has greeted; others learn nothing.
    fn turn_away(&mut self, refusal: &Refusal) -> Refused {
        if matches!(refusal, Refusal::Token | Refusal::Wire(WireError::Version { .. })) {
            // A failure means that it has left already.
            let _ = self.send_bytes(&Greeting::ours().to_bytes());
        }
        match refusal {
            Refusal::Wire(WireError::Version { .. }) => Refused::agent(refusal.to_string()),
            Refusal::Wire(_) => Refused::stranger(refusal.to_string()),
            _ => Refused::agent(refusal.to_string()),
        }
    }
}

fn describe_refusals(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; refused: {}", refused.join("; ")) }
}

/// Answers an agent that is known, and makes its socket one that may be waited on.
fn send_answer(socket: TcpStream, keys: Keys, answer: &Answer) -> io::Result<(Arc<Link>, Sealer)> {
    // From here on a thread of its own reads from the socket, and may block.
    socket.set_nonblocking(false)?;
    let body = postcard::to_stdvec(answer).map_err(|_| ErrorKind::InvalidData)?;
    let head = u16::try_from(body.len()).map_err(|_| ErrorKind::InvalidData)?;
    let link = Link::new(socket, keys);
    let mut output = Sealer::new(Arc::clone(&link), 0);
    output.write_all(&head.to_be_bytes())?;
    output.write_all(&body)?;
    output.flush()?;
    Ok((link, output))
}
