//! Encoding of messages: a greeting with a fixed layout, then frames.
//!
//! The [`Greeting`] never changes its layout, so that any two versions can identify each other. A
//! frame consists of a four-byte big-endian length and that many bytes of postcard. Lengths up to
//! [`FRAME_BYTES_MAX`] are accepted, but memory only grows with the bytes that actually arrive.
//! Anything else is a [`WireError`].
//!
//! **Source:** the postcard wire format, version 1.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Protocol version. Must change whenever orders or reports do.
pub const PROTOCOL: u32 = 8;

/// Maximum size of a message, in bytes. A pass's latencies of 10,000 clients take a tenth of it.
pub const FRAME_BYTES_MAX: u32 = 64 << 20;

/// First bytes of each side's greeting.
const MAGIC: [u8; 8] = *b"DFSBENCH";

/// Maximum allocation before the bytes for it have arrived.
const STEP_BYTES: usize = 64 << 10;

/// Why messages could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side isn't dfsbench, or something else writes to its stream.
    #[error(
        "it answered `{0}`, which is not from an agent (hint: shell startup files must not print \
         anything)"
    )]
    NotDfsbench(String),
    /// The other side is a different version of dfsbench.
    #[error("it runs dfsbench {theirs}, but this is dfsbench {ours}")]
    Version {
        /// The other side's greeting.
        theirs: Greeting,
        ours: Greeting,
    },
    /// The length of a frame is too large.
    #[error("received a message of {0} bytes; the limit is {FRAME_BYTES_MAX}")]
    TooLong(u32),
    /// The bytes are not a valid message.
    #[error("received {len} bytes that are not a message: {reason}")]
    Garbage {
        /// Number of bytes.
        len: usize,
        /// What is wrong with them.
        reason: String,
    },
    /// The message cannot be encoded.
    #[error("cannot send a message: {0}")]
    Unsendable(String),
    /// The stream ended or failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One message, in either direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message<T> {
    /// Heartbeat: the sender is still alive.
    Heartbeat,
    /// End the current work as soon as possible, and start nothing else.
    Stop,
    /// End the current work as soon as possible, but continue with what follows.
    Cancel,
    /// An order or a report.
    Payload(T),
}

/// Identifies a dfsbench process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Protocol version.
    pub protocol: u32,
    /// Program version.
    pub version: String,
}

impl std::fmt::Display for Greeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (protocol {})", self.version, self.protocol)
    }
}

impl Greeting {
    /// Returns the greeting of this program.
    pub fn own() -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Encodes the greeting. The version is truncated to 255 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = &self.version.as_bytes()[..self.version.len().min(255)];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.protocol.to_be_bytes());
        bytes.push(version.len() as u8);
        bytes.extend(version);
        bytes
    }

    /// Reads a greeting and compares it with ours.
    ///
    /// # Errors
    /// If it is not a greeting or belongs to another version.
    pub fn expect(input: &mut impl Read) -> Result<(), WireError> {
        // Read byte by byte, since a stranger's first line may be shorter than a greeting.
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
        let ours = Self::own();
        if protocol == ours.protocol && version == ours.version.as_bytes() {
            return Ok(());
        }
        let theirs = Self { protocol, version: printable(&version) };
        Err(WireError::Version { theirs, ours })
    }

    /// Looks for a greeting at the start of the bytes received so far. Returns its length, or
    /// `None` if more bytes are needed.
    ///
    /// # Errors
    /// Same as [`Greeting::expect`], as soon as the outcome is known.
    pub(crate) fn expect_in(bytes: &[u8]) -> Result<Option<usize>, WireError> {
        let begin = bytes.len().min(MAGIC.len());
        if bytes[..begin] != MAGIC[..begin] {
            // This cannot become a greeting anymore. The error quotes what is there.
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

/// Reads one byte of a greeting. If the stream ends early, the error quotes the bytes before it.
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

/// Creates an error that quotes the rest of the stranger's first line, as far as it has arrived.
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

/// Encodes a message as a frame.
pub(crate) fn to_frame<T: Serialize>(message: &Message<T>) -> Result<Vec<u8>, WireError> {
    // Reserve space for the length, so that the frame can be written in one piece.
    let mut frame = match postcard::to_extend(message, vec![0; 4]) {
        Ok(frame) => frame,
        Err(error) => return Err(WireError::Unsendable(error.to_string())),
    };
    let bytes = frame.len() - 4;
    let len = u32::try_from(bytes).unwrap_or(u32::MAX);
    if len > FRAME_BYTES_MAX {
        let most = format!("it has {bytes} bytes, but the limit is {FRAME_BYTES_MAX}");
        return Err(WireError::Unsendable(most));
    }
    frame[..4].copy_from_slice(&len.to_be_bytes());
    Ok(frame)
}

/// Writes and flushes one message.
pub fn write<T: Serialize>(output: &mut impl Write, message: &Message<T>) -> Result<(), WireError> {
    output.write_all(&to_frame(message)?)?;
    output.flush()?;
    Ok(())
}

/// Reads one message. Returns `None` if the stream ends between messages.
///
/// # Errors
/// If the bytes are not a message, or the stream ends in the middle of one.
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
    // Don't trust the length: allocate one step and let the buffer grow with the bytes received.
    let mut body = Vec::with_capacity((len as usize).min(STEP_BYTES));
    input.take(u64::from(len)).read_to_end(&mut body)?;
    if body.len() < len as usize {
        return Err(stream_ended());
    }
    let reason = match postcard::take_from_bytes(&body) {
        Ok((message, [])) => return Ok(Some(message)),
        Ok((_, rest)) => format!("{} trailing bytes", rest.len()),
        Err(error) => error.to_string(),
    };
    Err(WireError::Garbage { len: body.len(), reason })
}

fn stream_ended() -> WireError {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the connection was closed in the middle of a message",
    )
    .into()
}
