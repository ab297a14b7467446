//! The handshake by which two ends of a connection prove the same token, without any socket.
//!
//! [`AgentHandshake`] is the agent's half, [`ControllerHandshake`] the controller's. The agent
//! greets and sends the first message of Noise's NNpsk0, whose key is the token; the controller
//! greets only a side that greeted rightly, and sends the second. Then the agent introduces itself,
//! sealed: only a record of *this* handshake opens, so a replay of what another agent sent gets no
//! further. The greetings are in the clear, so that two versions can name each other; the handshake
//! covers them.
//!
//! **Source:** the Noise Protocol Framework, revision 34, sections 7.4 (NN) and 9 (psk0).

use serde::{Deserialize, Serialize};
use snow::{Builder, HandshakeState, StatelessTransportState as Keys};

use super::sealed;
use super::token::Token;
use crate::wire::{Greeting, WireError};

/// Name of the Noise handshake and its algorithms.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Bytes of a message of the handshake: a public key and a tag.
const MESSAGE_BYTES: usize = 32 + 16;

/// Bytes of the record in which an agent introduces itself, at most.
const HELLO_BYTES_MAX: usize = 1 << 10;

/// Bytes of a host's name, at most. **Source:** gethostname(2), HOST_NAME_MAX; RFC 1035, 2.3.4.
const NAME_BYTES_MAX: usize = 255;

/// Bytes of a kernel's identity, at most: it is a UUID. **Source:** random(4), boot_id.
const KERNEL_BYTES_MAX: usize = 36;

/// The introduction of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Rank of the agent, from 0.
    pub rank: u32,
    /// How many its launcher started.
    pub size: u32,
    /// Name of its host, as the host gives it.
    pub host: String,
    /// Identity of the kernel that it runs on, which tells two hosts of one name apart; empty where
    /// it is not known.
    pub kernel: String,
}

impl Hello {
    /// Says whether the host's name can be one: it becomes part of messages, tables and file names.
    pub fn is_plain(&self) -> bool {
        (1..=NAME_BYTES_MAX).contains(&self.host.len())
            && self.kernel.len() <= KERNEL_BYTES_MAX
            && self.host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    }
}

/// The answer of a controller to an agent that it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// It is one of the campaign's agents.
    Welcome,
    /// It isn't; the reason is a sentence.
    Refused(String),
}

/// The reason why a handshake can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The other side is another dfsbench, or none.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It does not know the token.
    #[error("its token is not that of the campaign")]
    Token,
    /// The agent's introduction was not sealed for this connection.
    #[error("its introduction was recorded on another connection, or damaged on its way")]
    Replayed,
    /// It knows the token, but its introduction is not valid.
    #[error("it knows the token, but its introduction makes no sense")]
    Nonsense,
}

/// The side of a handshake.
#[derive(Clone, Copy)]
enum Side {
    Agent,
    Controller,
}

/// Makes one half of the handshake. The greetings are its prologue, so that it fails where one of
/// them was altered on its way.
fn build_half(token: &Token, side: Side) -> HandshakeState {
    let greeting = Greeting::ours().to_bytes();
    let builder = Builder::new(PATTERN.parse().expect("the pattern is one that snow knows"));
    let builder = builder.psk(0, token.bytes()).expect("a token has the length of a key");
    let builder = builder.prologue(&greeting).expect("there is one prologue");
    let half = match side {
        Side::Agent => builder.build_initiator(),
        Side::Controller => builder.build_responder(),
    };
    half.expect("a token and a greeting are all that the pattern needs")
}

/// The agent's half.
pub(super) struct AgentHandshake {
    noise: HandshakeState,
}

impl AgentHandshake {
    /// Begins the handshake; returns the bytes to be sent first, too.
    pub(super) fn begin(token: &Token) -> (Self, Vec<u8>) {
        let mut noise = build_half(token, Side::Agent);
        let mut bytes = Greeting::ours().to_bytes();
        let begin = bytes.len();
        bytes.resize(begin + MESSAGE_BYTES, 0);
        noise.write_message(&[], &mut bytes[begin..]).expect("the buffer holds the message");
        (Self { noise }, bytes)
    }

    /// Returns the size of the answer that follows the controller's greeting.
    pub(super) const fn answer_bytes() -> usize {
        MESSAGE_BYTES
    }

    /// Ends with that answer; returns the keys, and the record that introduces this agent.
    ///
    /// # Errors
    /// When the answer was made without the token.
    pub(super) fn end(mut self, answer: &[u8], hello: &Hello) -> Result<(Keys, Vec<u8>), Refusal> {
        self.noise.read_message(answer, &mut []).map_err(|_| Refusal::Token)?;
        let keys = self.noise.into_stateless_transport_mode().map_err(|_| Refusal::Token)?;
        let text = postcard::to_stdvec(hello).map_err(|_| Refusal::Nonsense)?;
        let mut record = Vec::new();
        sealed::seal_record(&keys, 0, &text, &mut record).map_err(|_| Refusal::Nonsense)?;
        Ok((keys, record))
    }
}

/// The next step of a handshake after some bytes.
pub(super) enum Step {
    /// It waits for more.
    More,
    /// It sends this and waits for more.
    Send(Vec<u8>),
    /// It knows who has connected.
    Known(Hello, Box<Keys>),
}

/// The controller's half.
pub(super) struct ControllerHandshake {
    input: Vec<u8>,
    state: State,
}

enum State {
    /// A greeting and the first message are awaited.
    AwaitsFirst(Box<HandshakeState>),
    /// The agent's introduction is awaited.
    AwaitsHello(Box<Keys>),
    /// Nothing more is awaited.
    Ended,
}

impl ControllerHandshake {
    pub(super) fn new(token: &Token) -> Self {
        let noise = build_half(token, Side::Controller);
        Self { input: Vec::new(), state: State::AwaitsFirst(Box::new(noise)) }
    }

    /// Handles received bytes, in whatever pieces they arrive.
    ///
    /// # Errors
    /// When the connection is to be refused.
    pub(super) fn receive_bytes(&mut self, bytes: &[u8]) -> Result<Step, Refusal> {
        self.input.extend(bytes);
        // A step that fails leaves `Ended` behind, so a refused connection gets no second try.
        match std::mem::replace(&mut self.state, State::Ended) {
            State::AwaitsFirst(noise) => self.answer_first(noise),
            State::AwaitsHello(keys) => self.read_hello(keys),
            State::Ended => Err(Refusal::Nonsense),
        }
    }

    /// Awaits greeting and first message, and answers both at once.
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
        // An agent waits for the answer, so more bytes than the message are not an agent's.
        if rest.len() > MESSAGE_BYTES || noise.read_message(rest, &mut []).is_err() {
            return Err(Refusal::Token);
        }
        let mut answer = Greeting::ours().to_bytes();
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
        // Before the record is opened its length is unproved: it bounds what is buffered.
        if len > HELLO_BYTES_MAX {
            return Err(Refusal::Replayed);
        }
        if self.input.len() < 2 + len {
            self.state = State::AwaitsHello(keys);
            return Ok(Step::More);
        }
        // An agent sends nothing more before it is answered.
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

    /// Makes a controller's half and the two messages of an agent with the same token.
    fn whole() -> (ControllerHandshake, Vec<u8>, Vec<u8>) {
        let token = Token::from_bytes([7; 32]);
        let mut controller = ControllerHandshake::new(&token);
        let (agent, first) = AgentHandshake::begin(&token);
        let Ok(Step::Send(answer)) = controller.receive_bytes(&first) else {
            panic!("the first part is refused")
        };
        let answer = &answer[answer.len() - AgentHandshake::answer_bytes()..];
        let (_, second) = agent.end(answer, &hello()).unwrap();
        (controller, first, second)
    }

    fn refused(step: Result<Step, Refusal>) -> String {
        step.err().expect("it is let in").to_string()
    }

    #[test]
    fn an_agent_with_the_token_is_known() {
        let (mut controller, _, second) = whole();
        // In whatever pieces it comes.
        assert!(matches!(controller.receive_bytes(&second[..1]), Ok(Step::More)));
        assert!(matches!(controller.receive_bytes(&second[1..9]), Ok(Step::More)));
        let Ok(Step::Known(received, _)) = controller.receive_bytes(&second[9..]) else { panic!() };
        assert_eq!(received, hello());
    }

    #[test]
    fn another_token_shows_on_either_side() {
        let (agent, first) = AgentHandshake::begin(&Token::from_bytes([7; 32]));
        let mut controller = ControllerHandshake::new(&Token::from_bytes([8; 32]));
        assert_eq!(
            refused(controller.receive_bytes(&first)),
            "its token is not that of the campaign"
        );
        let answer = [9; MESSAGE_BYTES];
        let error = agent.end(&answer, &hello()).err().unwrap().to_string();
        assert_eq!(error, "its token is not that of the campaign");
    }

    #[test]
    fn an_introduction_that_was_recorded_on_another_connection_is_refused() {
        let (_, first, second) = whole();
        let mut controller = ControllerHandshake::new(&Token::from_bytes([7; 32]));
        assert!(matches!(controller.receive_bytes(&first), Ok(Step::Send(_))));
        let why = refused(controller.receive_bytes(&second));
        assert_eq!(
            why,
            "its introduction was recorded on another connection, or damaged on its way"
        );
    }

    #[test]
    fn an_agent_of_an_odd_name_is_refused() {
        for host in ["", "a b", "a\n", "ä", &"x".repeat(256)] {
            let token = Token::from_bytes([7; 32]);
            let mut controller = ControllerHandshake::new(&token);
            let (agent, first) = AgentHandshake::begin(&token);
            let Ok(Step::Send(answer)) = controller.receive_bytes(&first) else { panic!() };
            let answer = &answer[answer.len() - MESSAGE_BYTES..];
            let odd = Hello { host: host.to_owned(), ..hello() };
            let (_, second) = agent.end(answer, &odd).unwrap();
            assert!(
                refused(controller.receive_bytes(&second)).contains("makes no sense"),
                "{host:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic_and_never_open(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
            greeted in any::<bool>(),
            piece in 1_usize..600,
        ) {
            let mut sent = if greeted { Greeting::ours().to_bytes() } else { Vec::new() };
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
