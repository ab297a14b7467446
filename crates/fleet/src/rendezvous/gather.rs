//! The controller's side of a rendezvous: listens until all agents have connected.
//!
//! A single thread serves all connections and never blocks on one of them. A stranger can hold one
//! of the [`HANDSHAKES_MAX`] slots for at most [`HANDSHAKE_WITHIN`]; if all slots are taken, the
//! oldest connection is dropped. An agent that has proved the token gets its stream, and with it
//! heartbeats, right away, while the others are still missing.
#![allow(clippy::disallowed_methods, reason = "waits for agents with a timeout")]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snow::StatelessTransportState as Keys;

use super::handshake::{AdmissionReply, ControllerHandshake, Hello, Refusal, Step};
use super::names::{self, RankedName};
use super::refusals::{Refusals, RefusedConnection};
use super::sealed::{Link, Opener, Sealer};
use super::token::Token;
use crate::stream::Stream;
use crate::wire::{Greeting, WireError};
use crate::{Order, Remote, Report, Transport as _};

/// Time limit for a handshake. Hosts may be busy starting a thousand agents.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of connections in the middle of a handshake.
const HANDSHAKES_MAX: usize = 1_024;

/// Maximum number of connections that the kernel queues for us.
const BACKLOG: i32 = 4_096;

/// How often the stop request and the launcher are checked.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An address where agents meet their controller. It listens until dropped.
pub struct Rendezvous {
    listener: TcpListener,
    token: Token,
}

/// How many agents to wait for, and how long.
pub struct ExpectedAgents {
    /// Number of agents.
    pub count: u32,
    /// Time limit for all of them to connect.
    pub within: Duration,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
}

/// An agent that has connected.
pub struct JoinedAgent {
    /// Host name of the agent, with a number from the second agent on a host on.
    pub name: String,
    /// What the agent sent about itself.
    pub hello: Hello,
    pub agent: Remote,
}

/// The result of a rendezvous.
pub struct GatheredAgents {
    /// The agents: the first one of each host, then the second ones, and so on.
    pub agents: Vec<JoinedAgent>,
    /// Refused connections, one sentence each.
    pub refused: Vec<String>,
}

/// Why the agents could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// Cannot listen on the address.
    #[error(
        "cannot listen on {address}: {error} (hint: set an address of this host with --listen)"
    )]
    Listen {
        /// The address we tried to listen on.
        address: SocketAddr,
        error: io::Error,
    },
    /// Not all agents connected in time.
    #[error(
        "{connected} of {count} agents connected within {within_s} s: {missing} \
         missing{refused}{hint}"
    )]
    TooFew {
        /// Number of agents that connected.
        connected: usize,
        /// Number of agents expected.
        count: u32,
        /// The time limit, in seconds.
        within_s: u64,
        /// List of the missing agents.
        missing: String,
        /// Description of the connections that were refused.
        refused: String,
        hint: &'static str,
    },
    /// The job was started with a different number of agents than expected.
    #[error(
        "the agent with rank {} on host {} was started as one of {}, but {count} are expected \
         (hint: set --agents)",
        hello.rank, hello.host, hello.size
    )]
    OtherSize {
        hello: Hello,
        /// Number of agents expected.
        count: u32,
    },
    /// An agent connected and was lost while we waited for the others.
    #[error("the agent with rank {rank} connected but was lost again: {why}")]
    LostAgain {
        rank: u32,
        /// The reason, if known.
        why: String,
    },
    /// The launcher that was supposed to start the agents has exited.
    #[error("{connected} of {count} agents connected: {missing} missing: {why}")]
    Launcher {
        /// Number of agents that connected.
        connected: usize,
        /// Number of agents expected.
        count: u32,
        /// List of the missing agents.
        missing: String,
        /// How the launcher exited.
        why: String,
    },
    /// The user stopped us while we waited for agents.
    #[error("stopped while waiting for agents: {connected} of {count} had connected")]
    Stopped {
        /// Number of agents that connected.
        connected: usize,
        /// Number of agents expected.
        count: u32,
    },
}

impl Rendezvous {
    /// Starts to listen. With port 0, the system picks a free one.
    ///
    /// # Errors
    /// If the address does not belong to this host or the port is taken.
    pub fn open(address: SocketAddr, token: Token) -> Result<Self, GatherError> {
        let listener =
            listen_at(address).map_err(|error| GatherError::Listen { address, error })?;
        Ok(Self { listener, token })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits until all agents have connected, then stops listening.
    ///
    /// `launcher` is called now and then to check whether the program that starts the agents is
    /// still running. If it returns an error, the wait ends.
    ///
    /// # Errors
    /// If some agents don't connect in time, or unexpected ones do. The agents that did connect
    /// lose their controller.
    pub fn gather(
        self,
        wanted: &ExpectedAgents,
        launcher: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<GatheredAgents, GatherError> {
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
            // Without its launcher, no further agent will connect, so check it every time.
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

/// Listens without blocking on accept.
fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Thousands of agents may connect at once, which is more than the standard library's backlog.
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

/// All connections of a rendezvous: those in their handshake and the agents that have connected.
struct Lobby {
    rendezvous: Rendezvous,
    count: u32,
    handshaking: Vec<Handshaking>,
    /// Agents that have finished their handshake, by rank.
    connected: BTreeMap<u32, Connected>,
    refused: Refusals,
}

impl Lobby {
    /// Waits a moment for input and handles it.
    fn run_once(&mut self) -> Result<(), GatherError> {
        let ready = self.wait_readable();
        // Iterate backwards: `swap_remove` moves the last element, which has already been handled.
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
        // A stranger that sends nothing must not keep its slot forever.
        let now = Instant::now();
        while let Some(index) =
            self.handshaking.iter().position(|it| now - it.since > HANDSHAKE_WITHIN)
        {
            let from = self.handshaking.swap_remove(index).from;
            let why = format!("no handshake within {} s", HANDSHAKE_WITHIN.as_secs());
            self.refused.note(from, RefusedConnection::from_stranger(why));
        }
        self.accept_waiting();
        Ok(())
    }

    /// Waits for a new connection, for input, or for one tick. Returns the indexes of the
    /// connections that have input.
    fn wait_readable(&self) -> Vec<usize> {
        let mut watched = vec![PollFd::new(&self.rendezvous.listener, PollFlags::IN)];
        for handshaking in &self.handshaking {
            watched.push(PollFd::new(&handshaking.socket, PollFlags::IN));
        }
        // If the wait is interrupted, it is merely shorter.
        let _ = poll(&mut watched, Some(&TICK));
        watched[1..]
            .iter()
            .enumerate()
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(index, _)| index)
            .collect()
    }

    /// Accepts all connections queued in the kernel.
    fn accept_waiting(&mut self) {
        loop {
            match self.rendezvous.listener.accept() {
                Ok((socket, address)) => self.begin_handshake(socket, address.ip()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Most likely we are out of file descriptors. Connections stay in the kernel's
                // queue until some are free.
                Err(_) => return,
            }
        }
    }

    fn begin_handshake(&mut self, socket: TcpStream, from: IpAddr) {
        // A socket that cannot be configured is unusable. The peer sees it closed.
        if socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_err() {
            return;
        }
        if self.handshaking.len() >= HANDSHAKES_MAX {
            // An agent finishes in milliseconds, so the oldest connection is most likely a
            // stranger.
            let oldest = (0..HANDSHAKES_MAX).min_by_key(|index| self.handshaking[*index].since);
            if let Some(index) = oldest {
                let from = self.handshaking.swap_remove(index).from;
                self.refused.note(
                    from,
                    RefusedConnection::from_stranger("dropped in favor of newer connections"),
                );
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
            refusal = Some(format!(
                "it was started as one of {}, but {} are expected",
                hello.size, self.count
            ));
        } else if let Some(other) = self.connected.get(&hello.rank) {
            let host = &other.hello.host;
            refusal = Some(format!("rank {} is already connected, from host {host}", hello.rank));
        }
        let from = known.from;
        // Tell the agent the reason, too: its own error message is often the first one people read.
        let answer = match &refusal {
            Some(why) => AdmissionReply::Refused(why.clone()),
            None => AdmissionReply::Welcome,
        };
        let (link, output) = match send_answer(known.socket, keys, &answer) {
            Ok(both) => both,
            Err(error) => {
                self.refused.note(from, RefusedConnection::agent(format!("it left: {error}")));
                return Ok(());
            }
        };
        if wrong_size {
            return Err(GatherError::OtherSize { hello, count: self.count });
        }
        if let Some(why) = refusal {
            self.refused.note(from, RefusedConnection::agent(why));
            return Ok(());
        }
        // Record 0 in this direction was the introduction.
        let stream = Stream::open(Opener::new(Arc::clone(&link), 1), output);
        self.connected.insert(hello.rank, Connected { hello, link, stream });
        Ok(())
    }

    fn timeout_error(&self, within: Duration) -> GatherError {
        let refused = self.refused.list();
        let hint = if refused.is_empty() && self.connected.is_empty() {
            " (hint: can the agents' hosts reach this one? set an address that they can reach with \
             --listen)"
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
        GatherError::Launcher {
            connected: self.connected.len(),
            count: self.count,
            missing: self.list_missing(),
            why,
        }
    }

    fn list_missing(&self) -> String {
        let is_one = self.connected.len() + 1 == self.count as usize;
        let ranks = names::list_missing(|rank| self.connected.contains_key(&rank), self.count);
        format!("{ranks} {}", if is_one { "is" } else { "are" })
    }

    /// Stops listening and creates transports to the agents.
    fn finish_gathering(mut self, stop: &Arc<AtomicBool>) -> Result<GatheredAgents, GatherError> {
        let refused = self.refused.list();
        let hellos: Vec<_> = self.connected.values().map(|agent| &agent.hello).collect();
        let seats = names::seat_agents(&hellos);
        let mut agents = Vec::with_capacity(seats.len());
        for RankedName { name, rank } in seats {
            let Some(connected) = self.connected.remove(&rank) else { unreachable!("one a seat") };
            let Connected { hello, link, stream } = connected;
            let mut agent = Remote::from_rendezvous(&name, stream, link, Arc::clone(stop));
            // An agent that connected early may have failed while we waited for the others.
            if let Err(gone) = agent.check_alive() {
                return Err(GatherError::LostAgain { rank: hello.rank, why: gone.0 });
            }
            agents.push(JoinedAgent { name, hello, agent });
        }
        Ok(GatheredAgents { agents, refused })
    }
}

impl Handshaking {
    /// Reads whatever has arrived and answers it. Returns the agent once it is authenticated.
    fn read_step(&mut self) -> Result<Option<(Hello, Keys)>, RefusedConnection> {
        let mut bytes = [0; 512];
        let len = match self.socket.read(&mut bytes) {
            Ok(0) => {
                let why = "it closed the connection during the handshake";
                return Err(RefusedConnection::from_stranger(why));
            }
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => {
                return Err(RefusedConnection::from_stranger(format!(
                    "the connection was lost: {error}"
                )));
            }
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

    /// Sends a few hundred bytes, which always fit into the send buffer of a fresh socket.
    fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), RefusedConnection> {
        let sent = self.socket.write_all(bytes);
        sent.map_err(|error| {
            RefusedConnection::from_stranger(format!("the connection was lost: {error}"))
        })
    }

    /// Sends our greeting to a peer that has greeted as dfsbench. Anyone else learns nothing.
    fn turn_away(&mut self, refusal: &Refusal) -> RefusedConnection {
        if matches!(refusal, Refusal::Token | Refusal::Wire(WireError::Version { .. })) {
            // If it fails, the peer has already left.
            let _ = self.send_bytes(&Greeting::own().to_bytes());
        }
        match refusal {
            Refusal::Wire(WireError::Version { .. }) => {
                RefusedConnection::agent(refusal.to_string())
            }
            Refusal::Wire(_) => RefusedConnection::from_stranger(refusal.to_string()),
            _ => RefusedConnection::agent(refusal.to_string()),
        }
    }
}

fn describe_refusals(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; refused: {}", refused.join("; ")) }
}

/// Answers an authenticated agent and switches its socket back to blocking mode.
fn send_answer(
    socket: TcpStream,
    keys: Keys,
    answer: &AdmissionReply,
) -> io::Result<(Arc<Link>, Sealer)> {
    // From here on, a dedicated thread reads from the socket and may block.
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
