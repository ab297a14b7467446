//! The secret that a campaign and its agents share.
//!
//! [`Token`] travels in the environment of a job, never on a command line, and is shown by
//! nothing: its `Debug` hides it. It is the pre-shared key of the handshake.

use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::str::FromStr;

/// Bytes of a token.
const LEN: usize = 32;

/// The secret that admits to a controller; 32 random bytes, written as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; LEN]);

impl Token {
    /// Draws a random token.
    ///
    /// # Errors
    /// When the system has no random bytes to give.
    ///
    /// **Source:** random(4).
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; LEN];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Makes a token of these very bytes.
    pub const fn from_bytes(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the token.
    pub(crate) const fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// Returns the token as it stands in an environment; it must be shown to no one else.
    pub fn to_secret_text(&self) -> String {
        let mut text = String::with_capacity(2 * LEN);
        for byte in self.0 {
            // Writing to a string never fails.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// A text that is no token. The text is no part of the message, since it may be most of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has {characters} characters, where a token is {} hexadecimal digits", 2 * LEN)]
pub struct NoToken {
    /// How long the text is.
    characters: usize,
}

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let text = text.trim();
        if text.len() != 2 * LEN {
            return Err(NoToken { characters: text.chars().count() });
        }
        let mut bytes = [0; LEN];
        for (index, digit) in text.bytes().enumerate() {
            let Some(value) = char::from(digit).to_digit(16) else {
                return Err(NoToken { characters: text.chars().count() });
            };
            // The first of two digits is the higher one.
            bytes[index / 2] = bytes[index / 2] << 4 | value as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_never_shown() {
        let token = Token::draw().unwrap();
        let text = token.to_secret_text();
        assert_eq!(text.len(), 64);
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        assert_ne!(token, Token::draw().unwrap());
    }

    #[test]
    fn a_text_that_is_no_token_is_refused_without_being_shown() {
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)] {
            let error = text.parse::<Token>().unwrap_err().to_string();
            assert!(
                error.ends_with("characters, where a token is 64 hexadecimal digits"),
                "{error}"
            );
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
