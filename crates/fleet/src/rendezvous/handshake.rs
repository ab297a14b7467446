//! The handshake in which agent and controller prove to each other that they have the same token.
//! Performs no I/O.
//!
//! [`AgentHandshake`] is the agent's half, [`ControllerHandshake`] the controller's. The agent
//! sends its greeting and the first message of Noise's NNpsk0, keyed with the token. The controller
//! replies with its own greeting and the second message, but only to a peer that sent a valid
//! greeting. The agent then introduces itself in an encrypted record. Its key belongs to this
//! handshake, so replaying another agent's record fails. Greetings are sent in the clear, so that
//! different versions can identify each other, but they are authenticated by the handshake.
//!
//! **Source:** the Noise Protocol Framework, revision 34, sections 7.4 (NN) and 9 (psk0).

use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState, StatelessTransportState as Keys};

use super::sealed;
use super::token::Token;
use crate::wire::{Greeting, WireError};

/// Noise protocol name: handshake pattern and algorithms.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Bytes of a handshake message: a public key and a tag.
const MESSAGE_BYTES: usize = 32 + 16;

/// Maximum size of the record in which an agent introduces itself, in bytes.
const HELLO_BYTES_MAX: usize = 1 << 10;

/// Maximum length of a host name, in bytes. **Source:** gethostname(2), HOST_NAME_MAX; RFC 1035,
/// 2.3.4.
const NAME_BYTES_MAX: usize = 255;

/// Maximum length of a kernel's identity, which is a UUID, in bytes. **Source:** random(4),
/// boot_id.
const KERNEL_BYTES_MAX: usize = 36;

/// An agent's introduction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Rank of the agent, from 0.
    pub rank: u32,
    /// Number of agents started by its launcher.
    pub size: u32,
    /// Name of its host, as reported by the host.
    pub host: String,
    /// Identity of the running kernel, to distinguish hosts that have the same name. Empty if
    /// unknown.
    pub kernel: String,
}

impl Hello {
    /// Returns true if the host name is safe to use in messages, tables and file names.
    pub fn is_plain(&self) -> bool {
        (1..=NAME_BYTES_MAX).contains(&self.host.len())
            && self.kernel.len() <= KERNEL_BYTES_MAX
            && self.host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    }
}

/// The controller's answer to an authenticated agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AdmissionReply {
    /// The agent is part of the campaign.
    Welcome,
    /// The agent is not wanted; contains the reason as a sentence.
    Refused(String),
}

/// Why a handshake cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The peer is not dfsbench, or a different version.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The peer doesn't have the token.
    #[error("it has the wrong token")]
    Token,
    /// The agent's introduction was not encrypted for this connection.
    #[error("its introduction was replayed from another connection, or damaged in transit")]
    Replayed,
    /// The peer has the token, but its introduction is invalid.
    #[error("it has the right token, but its introduction is malformed")]
    Nonsense,
}

#[derive(Clone, Copy)]
enum Side {
    Agent,
    Controller,
}

/// Creates one half of the handshake. The greetings are its prologue, so it fails if one of them
/// was modified in transit.
fn build_half(token: &Token, side: Side) -> HandshakeState {
    let greeting = Greeting::own().to_bytes();
    let builder = Builder::new(PATTERN.parse().expect("snow supports the pattern"));
    let builder = builder.psk(0, token.bytes()).expect("a token is as long as a key");
    let builder = builder.prologue(&greeting).expect("the prologue is set once");
    let half = match side {
        Side::Agent => builder.build_initiator(),
        Side::Controller => builder.build_responder(),
    };
    half.expect("the pattern needs only a token and a prologue")
}

/// The agent's half of the handshake.
pub(super) struct AgentHandshake {
    noise: HandshakeState,
}

impl AgentHandshake {
    /// Starts the handshake. Also returns the first bytes to send.
    pub(super) fn begin(token: &Token) -> (Self, Vec<u8>) {
        let mut noise = build_half(token, Side::Agent);
        let mut bytes = Greeting::own().to_bytes();
        let begin = bytes.len();
        bytes.resize(begin + MESSAGE_BYTES, 0);
        noise.write_message(&[], &mut bytes[begin..]).expect("the message fits in the buffer");
        (Self { noise }, bytes)
    }

    /// Returns the size of the message that follows the controller's greeting.
    pub(super) const fn answer_bytes() -> usize {
        MESSAGE_BYTES
    }

    /// Finishes the handshake with the controller's message. Returns the keys and the record that
    /// introduces this agent.
    pub(super) fn end(mut self, answer: &[u8], hello: &Hello) -> Result<(Keys, Vec<u8>), Refusal> {
        self.noise.read_message(answer, &mut []).map_err(|_| Refusal::Token)?;
        let keys = self.noise.into_stateless_transport_mode().map_err(|_| Refusal::Token)?;
        let text = postcard::to_stdvec(hello).map_err(|_| Refusal::Nonsense)?;
        let mut record = Vec::new();
        sealed::seal_record(&keys, 0, &text, &mut record).map_err(|_| Refusal::Nonsense)?;
        Ok((keys, record))
    }
}

/// What to do after some bytes were received.
pub(super) enum Step {
    /// Wait for more bytes.
    More,
    /// Send these bytes, then wait for more.
    Send(Vec<u8>),
    /// The agent is authenticated and has introduced itself.
    Known(Hello, Box<Keys>),
}

/// The controller's half of the handshake.
pub(super) struct ControllerHandshake {
    input: Vec<u8>,
    state: State,
}

enum State {
    /// Waiting for a greeting and the first message.
    AwaitsFirst(Box<HandshakeState>),
    /// Waiting for the agent's introduction.
    AwaitsHello(Box<Keys>),
    /// Finished or failed.
    Ended,
}

impl ControllerHandshake {
    pub(super) fn new(token: &Token) -> Self {
        let noise = build_half(token, Side::Controller);
        Self { input: Vec::new(), state: State::AwaitsFirst(Box::new(noise)) }
    }

    /// Handles received bytes, no matter how they are split.
    pub(super) fn receive_bytes(&mut self, bytes: &[u8]) -> Result<Step, Refusal> {
        self.input.extend(bytes);
        // A failing step leaves `Ended` behind, so a refused connection gets no second try.
        match std::mem::replace(&mut self.state, State::Ended) {
            State::AwaitsFirst(noise) => self.answer_first(noise),
            State::AwaitsHello(keys) => self.read_hello(keys),
            State::Ended => Err(Refusal::Nonsense),
        }
    }

    /// Waits for the greeting and the first message, and answers both at once.
    fn answer_first(&mut self, mut noise: Box<HandshakeState>) -> Result<Step, Refusal> {
        let Some(greeting) = Greeting::expect_in(&self.input)? else {
            self.state = State::AwaitsFirst(noise);
            return Ok(Step::More);
        };
        let rest = &self.input[greeting..];
        if rest.len() < MESSAGE_BYTES {
            self.state = State::AwaitsFirst(noise);
            return Ok(Step::More);
        }
        // An agent waits for the answer at this point, so a peer that has sent more isn't an agent.
        if rest.len() > MESSAGE_BYTES || noise.read_message(rest, &mut []).is_err() {
            return Err(Refusal::Token);
        }
        let mut answer = Greeting::own().to_bytes();
        let begin = answer.len();
        answer.resize(begin + MESSAGE_BYTES, 0);
        noise.write_message(&[], &mut answer[begin..]).map_err(|_| Refusal::Token)?;
        let keys = noise.into_stateless_transport_mode().map_err(|_| Refusal::Token)?;
        self.input.clear();
        self.state = State::AwaitsHello(Box::new(keys));
        Ok(Step::Send(answer))
    }

    fn read_hello(&mut self, keys: Box<Keys>) -> Result<Step, Refusal> {
        let len = match self.input[..] {
            [high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
            _ => HELLO_BYTES_MAX,
        };
        // The length isn't authenticated until the record has been opened, but it determines how
        // much we buffer, so bound it first.
        if len > HELLO_BYTES_MAX {
            return Err(Refusal::Replayed);
        }
        if self.input.len() < 2 + len {
            self.state = State::AwaitsHello(keys);
            return Ok(Step::More);
        }
        // An agent sends nothing more until it gets an answer.
        if self.input.len() > 2 + len {
            return Err(Refusal::Replayed);
        }
        let mut text = Vec::new();
        let opened = sealed::open_record(&keys, 0, &self.input[2..], &mut text);
        opened.map_err(|_| Refusal::Replayed)?;
        match postcard::take_from_bytes::<Hello>(&text) {
            Ok((hello, [])) if hello.is_plain() => Ok(Step::Known(hello, keys)),
            _ => Err(Refusal::Nonsense),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello { rank: 1, size: 2, host: "node-1.example".into(), kernel: String::new() }
    }

    /// Returns a controller's half and the two messages of an agent with the same token.
    fn whole() -> (ControllerHandshake, Vec<u8>, Vec<u8>) {
        let token = Token::from_bytes([7; 32]);
        let mut controller = ControllerHandshake::new(&token);
        let (agent, first) = AgentHandshake::begin(&token);
        let Ok(Step::Send(answer)) = controller.receive_bytes(&first) else {
            panic!("the first part was rejected")
        };
        let answer = &answer[answer.len() - AgentHandshake::answer_bytes()..];
        let (_, second) = agent.end(answer, &hello()).unwrap();
        (controller, first, second)
    }

    fn refused(step: Result<Step, Refusal>) -> String {
        step.err().expect("it was accepted").to_string()
    }

    #[test]
    fn accepts_agent_with_token() {
        let (mut controller, _, second) = whole();
        // In pieces of any size.
        assert!(matches!(controller.receive_bytes(&second[..1]), Ok(Step::More)));
        assert!(matches!(controller.receive_bytes(&second[1..9]), Ok(Step::More)));
        let Ok(Step::Known(received, _)) = controller.receive_bytes(&second[9..]) else { panic!() };
        assert_eq!(received, hello());
    }

    #[test]
    fn another_token_shows_on_either_side() {
        let (agent, first) = AgentHandshake::begin(&Token::from_bytes([7; 32]));
        let mut controller = ControllerHandshake::new(&Token::from_bytes([8; 32]));
        let theirs = refused(controller.receive_bytes(&first));
        insta::assert_snapshot!(theirs, @"it has the wrong token");
        let answer = [9; MESSAGE_BYTES];
        let ours = agent.end(&answer, &hello()).err().unwrap().to_string();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn rejects_replayed_introduction() {
        let (_, first, second) = whole();
        let mut controller = ControllerHandshake::new(&Token::from_bytes([7; 32]));
        assert!(matches!(controller.receive_bytes(&first), Ok(Step::Send(_))));
        insta::assert_snapshot!(
            refused(controller.receive_bytes(&second)),
            @"its introduction was replayed from another connection, or damaged in transit"
        );
    }

    #[test]
    fn rejects_odd_agent_name() {
        for host in ["", "a b", "a\n", "ä", &"x".repeat(256)] {
            let token = Token::from_bytes([7; 32]);
            let mut controller = ControllerHandshake::new(&token);
            let (agent, first) = AgentHandshake::begin(&token);
            let Ok(Step::Send(answer)) = controller.receive_bytes(&first) else { panic!() };
            let answer = &answer[answer.len() - MESSAGE_BYTES..];
            let odd = Hello { host: host.to_owned(), ..hello() };
            let (_, second) = agent.end(answer, &odd).unwrap();
            assert!(
                refused(controller.receive_bytes(&second)).contains("is malformed"),
                "{host:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
            greeted in any::<bool>(),
            piece in 1_usize..600,
        ) {
            let mut sent = if greeted { Greeting::own().to_bytes() } else { Vec::new() };
            sent.extend(&bytes);
            let mut controller = ControllerHandshake::new(&Token::from_bytes([7; 32]));
            for piece in sent.chunks(piece) {
                let step = controller.receive_bytes(piece);
                prop_assert!(!matches!(step, Ok(Step::Known(..) | Step::Send(_))));
            }
            let (mut controller, _, _) = whole();
            for piece in bytes.chunks(piece) {
                prop_assert!(!matches!(controller.receive_bytes(piece), Ok(Step::Known(..))));
            }
        }

        #[test]
        fn one_changed_bit_is_refused(bit in any::<prop::sample::Index>()) {
            let (mut controller, mut first, mut second) = whole();
            let bit = bit.index(8 * second.len());
            second[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(controller.receive_bytes(&second), Ok(Step::Known(..))));
            let bit = bit % (8 * first.len());
            first[bit / 8] ^= 1 << (bit % 8);
            let mut controller = ControllerHandshake::new(&Token::from_bytes([7; 32]));
            prop_assert!(!matches!(controller.receive_bytes(&first), Ok(Step::Send(_))));
        }
    }
}
