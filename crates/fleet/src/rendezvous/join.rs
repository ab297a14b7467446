//! The agent's side of a rendezvous: connects to its controller.
//!
//! Schedulers start processes in any order, so [`join`] keeps trying while no controller is
//! listening. A refusal by a controller is final. The result is the two halves of an encrypted
//! stream.
#![allow(clippy::disallowed_methods, reason = "waits for the controller with a timeout")]

use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::handshake::{AdmissionReply, AgentHandshake, Hello, Refusal};
use super::sealed::{Link, Opener, Sealer};
use super::token::Token;
use crate::wire::{Greeting, WireError};
use crate::writer::Output;

/// Time limit for a single attempt to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Time limit for the controller's part of the handshake. It may have thousands to do.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Pause between attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Maximum size of a controller's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Why an agent could not connect to its controller.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// No controller is listening there.
    #[error(
        "no controller answered at {address} within {within_s} s: {error} (hint: a controller \
         stops listening once all of its agents have connected)"
    )]
    NoController {
        address: String,
        /// How long we tried, in seconds.
        within_s: u64,
        /// Error of the last attempt.
        error: io::Error,
    },
    /// The controller ended the handshake.
    #[error(
        "the controller at {0} rejected this agent (hint: DFSBENCH_TOKEN must be the campaign's \
         token)"
    )]
    Rejected(String),
    /// The answer isn't from a controller of the same version that has the token.
    #[error("the controller at {address}: {refusal}")]
    WrongController {
        /// The address that answered.
        address: String,
        /// What is wrong with it.
        refusal: Refusal,
    },
    /// The controller authenticated this agent but does not expect it.
    #[error("the controller at {address} does not expect this agent: {why}")]
    Unwanted {
        address: String,
        /// The controller's reason.
        why: String,
    },
    /// This agent was stopped before it could connect.
    #[error("stopped while connecting to the controller")]
    Stopped,
}

/// An encrypted stream to the controller.
pub struct ControllerStream {
    /// The controller's messages.
    pub input: Box<dyn Read + Send>,
    /// Messages to the controller.
    pub output: Box<dyn Output>,
}

/// Connects to the controller at an address such as `host:port`.
///
/// # Errors
/// If no controller answers in time, a wrong one answers, or it does not expect this agent.
pub fn join(
    address: &str,
    token: &Token,
    hello: &Hello,
    within: Duration,
    leave: &AtomicBool,
) -> Result<ControllerStream, JoinError> {
    let deadline = Instant::now() + within;
    loop {
        if leave.load(Relaxed) {
            return Err(JoinError::Stopped);
        }
        let error = match connect(address) {
            Ok(socket) => match introduce_agent(socket, address, token, hello) {
                Err(AttemptError::Lost(error)) => error,
                Err(AttemptError::Final(error)) => return Err(error),
                Ok(joined) => return Ok(joined),
            },
            Err(error) => error,
        };
        if Instant::now() + AGAIN_AFTER > deadline {
            let within_s = within.as_secs();
            return Err(JoinError::NoController { address: address.to_owned(), within_s, error });
        }
        thread::sleep(AGAIN_AFTER);
    }
}

/// Connects to the first of a name's addresses that accepts the connection.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for socket_address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket_address, CONNECT_WITHIN) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Why an attempt failed.
enum AttemptError {
    /// The connection was lost before the outcome was known; try again.
    Lost(io::Error),
    /// Trying again would fail in the same way.
    Final(JoinError),
}

impl From<io::Error> for AttemptError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

fn introduce_agent(
    mut socket: TcpStream,
    address: &str,
    token: &Token,
    hello: &Hello,
) -> Result<ControllerStream, AttemptError> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    socket.set_write_timeout(Some(ANSWER_WITHIN))?;
    let stranger = |refusal| {
        AttemptError::Final(JoinError::WrongController { address: address.to_owned(), refusal })
    };
    let (handshake, bytes) = AgentHandshake::begin(token);
    socket.write_all(&bytes)?;
    match Greeting::expect(&mut socket) {
        Ok(()) => {}
        Err(WireError::Io(error)) => return Err(AttemptError::Lost(error)),
        Err(error) => return Err(stranger(error.into())),
    }
    let mut answer = [0; AgentHandshake::answer_bytes()];
    // A controller that closes the connection after its greeting has rejected the token.
    if socket.read_exact(&mut answer).is_err() {
        return Err(rejected(address));
    }
    let (keys, record) = handshake.end(&answer, hello).map_err(stranger)?;
    socket.write_all(&record)?;
    let link = Link::new(socket, keys);
    let mut input = Opener::new(std::sync::Arc::clone(&link), 0);
    let Ok(answer) = read_answer(&mut input) else { return Err(rejected(address)) };
    if let AdmissionReply::Refused(why) = answer {
        let address = address.to_owned();
        return Err(AttemptError::Final(JoinError::Unwanted { address, why }));
    }
    // From here on, heartbeats show whether the controller is alive.
    link.socket().set_read_timeout(None)?;
    link.socket().set_write_timeout(None)?;
    let output = Sealer::new(link, 1);
    Ok(ControllerStream { input: Box::new(input), output: Box::new(output) })
}

fn rejected(address: &str) -> AttemptError {
    AttemptError::Final(JoinError::Rejected(address.to_owned()))
}

/// Reads one answer: two bytes of length, followed by that many bytes of postcard.
fn read_answer(input: &mut impl Read) -> io::Result<AdmissionReply> {
    let mut head = [0; 2];
    input.read_exact(&mut head)?;
    let len = u64::from(u16::from_be_bytes(head)).min(ANSWER_BYTES_MAX);
    let mut body = Vec::new();
    input.take(len).read_to_end(&mut body)?;
    postcard::from_bytes(&body).map_err(|_| ErrorKind::InvalidData.into())
}
