//! Messages as bytes: a greeting of a fixed shape, then frames.
//!
//! The [`Greeting`] never changes its shape, so that any two versions can tell each other which
//! they are. A frame is a length of four bytes, the most significant first, and so many bytes of
//! postcard. A length is believed up to [`FRAME_BYTES_MAX`], and even then memory grows only with
//! the bytes that really come. Whatever else comes is one [`WireError`].
//!
//! **Source:** the postcard wire format, version 1.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Changes whenever orders or reports do.
pub const PROTOCOL: u32 = 8;

/// No message is longer, in bytes; 10,000 clients' times in one pass take a tenth of it.
pub const FRAME_BYTES_MAX: u32 = 64 << 20;

/// How each side begins.
const MAGIC: [u8; 8] = *b"DFSBENCH";

/// Largest allocation that is made before its bytes have come.
const STEP_BYTES: usize = 64 << 10;

/// Why bytes could not be read as messages, or not be written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side is no dfsbench, or something else writes into its stream.
    #[error(
        "it answered `{0}`, which no agent sends (hint: nothing in its shell's start-up files may \
         print)"
    )]
    NotDfsbench(String),
    /// The other side is another dfsbench.
    #[error("it runs dfsbench {theirs}, and this is dfsbench {ours}")]
    Version {
        /// The greeting of the other side.
        theirs: Greeting,
        /// The greeting of this side.
        ours: Greeting,
    },
    /// A length that no message has.
    #[error("a message claims to have {0} bytes, where {FRAME_BYTES_MAX} are the most")]
    TooLong(u32),
    /// Bytes that are no message.
    #[error("{len} bytes are no message: {reason}")]
    Garbage {
        /// How many they are.
        len: usize,
        /// The reason why they are wrong.
        reason: String,
    },
    /// A message that can't be put into bytes.
    #[error("a message can't be sent: {0}")]
    Unsendable(String),
    /// The stream ended or failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One message in either direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message<T> {
    /// A heartbeat: the sender is still there.
    Heartbeat,
    /// End what is in progress, as soon as can be, and all that would follow.
    Stop,
    /// End what is in progress, as soon as can be, and go on with what follows.
    Cancel,
    /// An order or a report.
    Payload(T),
}

/// The identity of a dfsbench process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The protocol that it speaks.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
}

impl std::fmt::Display for Greeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (protocol {})", self.version, self.protocol)
    }
}

impl Greeting {
    /// This very program's.
    pub fn ours() -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Puts it into bytes; of a version longer than 255 bytes the first 255 are sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = &self.version.as_bytes()[..self.version.len().min(255)];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.protocol.to_be_bytes());
        bytes.push(version.len() as u8);
        bytes.extend(version);
        bytes
    }

    /// Reads one and holds it against ours.
    ///
    /// # Errors
    /// When it is none, or another version's.
    pub fn expect(input: &mut impl Read) -> Result<(), WireError> {
        // Byte by byte: a stranger's first line may be shorter than a greeting.
        let mut head = Vec::new();
        while head.len() < MAGIC.len() && MAGIC.starts_with(&head) {
            head.push(read_byte(input, &head)?);
        }
        if head != MAGIC {
            return Err(describe_stranger(input, head));
        }
        let mut fixed = [0; 5];
        input.read_exact(&mut fixed)?;
        let [p0, p1, p2, p3, len] = fixed;
        let mut version = vec![0; usize::from(len)];
        input.read_exact(&mut version)?;
        let protocol = u32::from_be_bytes([p0, p1, p2, p3]);
        let ours = Self::ours();
        if protocol == ours.protocol && version == ours.version.as_bytes() {
            return Ok(());
        }
        let theirs = Self { protocol, version: printable(&version) };
        Err(WireError::Version { theirs, ours })
    }

    /// Looks for a greeting at the start of the bytes so far, and returns its length; `None` where
    /// bytes are missing.
    ///
    /// # Errors
    /// As [`Greeting::expect`], as soon as that is clear.
    pub(crate) fn expect_in(bytes: &[u8]) -> Result<Option<usize>, WireError> {
        let begin = bytes.len().min(MAGIC.len());
        if bytes[..begin] != MAGIC[..begin] {
            // It is no greeting, whatever follows: the error quotes what is there.
            Self::expect(&mut &*bytes)?;
        }
        let Some(version_len) = bytes.get(HEAD_BYTES - 1) else { return Ok(None) };
        let len = HEAD_BYTES + usize::from(*version_len);
        if bytes.len() < len {
            return Ok(None);
        }
        Self::expect(&mut &*bytes)?;
        Ok(Some(len))
    }
}

/// Bytes of a greeting before its version.
const HEAD_BYTES: usize = MAGIC.len() + 5;

/// Reads one byte of a greeting; the error quotes the bytes before an early end of the stream.
fn read_byte(input: &mut impl Read, before: &[u8]) -> Result<u8, WireError> {
    let mut byte = [0];
    match input.read_exact(&mut byte) {
        Ok(()) => Ok(byte[0]),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !before.is_empty() => {
            Err(WireError::NotDfsbench(printable(before)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Names who is there by the rest of the first line, as far as it comes at once.
fn describe_stranger(input: &mut impl Read, mut head: Vec<u8>) -> WireError {
    let mut more = [0; 80];
    if !head.contains(&b'\n') {
        let len = input.read(&mut more).unwrap_or(0);
        head.extend(&more[..len]);
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    WireError::NotDfsbench(printable(line))
}

pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace(char::is_control, ".")
}

/// Puts one message into a frame.
///
/// # Errors
/// When it is too long, or can't be put into bytes.
pub fn to_frame<T: Serialize>(message: &Message<T>) -> Result<Vec<u8>, WireError> {
    // Space for the length is left before the message, which is then written in one piece.
    let mut frame = match postcard::to_extend(message, vec![0; 4]) {
        Ok(frame) => frame,
        Err(error) => return Err(WireError::Unsendable(error.to_string())),
    };
    let bytes = frame.len() - 4;
    let len = u32::try_from(bytes).unwrap_or(u32::MAX);
    if len > FRAME_BYTES_MAX {
        let most = format!("it has {bytes} bytes, where {FRAME_BYTES_MAX} are the most");
        return Err(WireError::Unsendable(most));
    }
    frame[..4].copy_from_slice(&len.to_be_bytes());
    Ok(frame)
}

/// Writes one message and sees that it leaves.
///
/// # Errors
/// When it has no frame, or the stream fails.
pub fn write<T: Serialize>(output: &mut impl Write, message: &Message<T>) -> Result<(), WireError> {
    output.write_all(&to_frame(message)?)?;
    output.flush()?;
    Ok(())
}

/// Reads one message; `None` where the stream ends between two.
///
/// # Errors
/// When what comes is no message, or the stream ends within one.
pub fn read<T: DeserializeOwned>(input: &mut impl Read) -> Result<Option<Message<T>>, WireError> {
    let mut head = Vec::with_capacity(4);
    input.take(4).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    let head: [u8; 4] = head.try_into().map_err(|_| stream_ended())?;
    let len = u32::from_be_bytes(head);
    if len > FRAME_BYTES_MAX {
        return Err(WireError::TooLong(len));
    }
    // A length alone allocates no more than a step: the buffer grows with bytes that were received.
    let mut body = Vec::with_capacity((len as usize).min(STEP_BYTES));
    input.take(u64::from(len)).read_to_end(&mut body)?;
    if body.len() < len as usize {
        return Err(stream_ended());
    }
    let reason = match postcard::take_from_bytes(&body) {
        Ok((message, [])) => return Ok(Some(message)),
        Ok((_, rest)) => format!("{} too many", rest.len()),
        Err(error) => error.to_string(),
    };
    Err(WireError::Garbage { len: body.len(), reason })
}

fn stream_ended() -> WireError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended within a message").into()
}
