//! The secret shared by a campaign and its agents.
//!
//! A [`Token`] is passed in the environment of a job, never on a command line, and nothing prints
//! it: its `Debug` output hides the value. It is the pre-shared key of the handshake.

use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::str::FromStr;

const LEN: usize = 32;

/// The secret that admits an agent to its controller: 32 random bytes, written as 64 hexadecimal
/// digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; LEN]);

impl Token {
    /// Generates a random token.
    ///
    /// # Errors
    /// If the system's random number generator cannot be read.
    ///
    /// **Source:** random(4).
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; LEN];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Creates a token from the given bytes.
    pub const fn from_bytes(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// Returns the token in the form used in the environment. It must not be shown anywhere else.
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

/// The text is not a token. The error doesn't quote it, since it may be most of a real one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has {} hexadecimal digits, but this one has {characters} characters", 2 * LEN)]
pub struct NoToken {
    /// Length of the text, in characters.
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
            // The first of the two digits is the more significant one.
            bytes[index / 2] = bytes[index / 2] << 4 | value as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_token_after_reading() {
        let token = Token::draw().unwrap();
        let text = token.to_secret_text();
        assert_eq!(text.len(), 64);
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        assert_ne!(token, Token::draw().unwrap());
    }

    #[test]
    fn rejects_bad_token_without_showing() {
        let texts = ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)];
        let errors = texts.map(|text| text.parse::<Token>().unwrap_err().to_string());
        for (text, error) in texts.iter().zip(&errors) {
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
        insta::assert_snapshot!(errors.join("\n"), @"
        a token has 64 hexadecimal digits, but this one has 0 characters
        a token has 64 hexadecimal digits, but this one has 2 characters
        a token has 64 hexadecimal digits, but this one has 64 characters
        a token has 64 hexadecimal digits, but this one has 63 characters
        a token has 64 hexadecimal digits, but this one has 32 characters
        ");
    }
}
