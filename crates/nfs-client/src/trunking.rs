//! Whether several addresses are one server.
//!
//! In v4.1 and later, a server names itself in EXCHANGE_ID: [`ServerOwner`]. Before that, a client
//! can only compare a directory as it is seen through both addresses. **Source:** RFC 8881 section
//! 2.10.5.

use std::fmt::{self, Write as _};

/// The names that a server gives itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerOwner {
    /// Name of the server (`so_major_id`).
    pub major: Vec<u8>,
    /// The part of it that has the same sessions (`so_minor_id`).
    pub minor: u64,
    /// The servers among which identifiers are unique (`eir_server_scope`).
    pub scope: Vec<u8>,
}

/// What two addresses of a client's server have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trunking {
    /// Connections to both may be in the same session.
    Session,
    /// Both know the client, but each needs a session of its own.
    ClientId,
    /// They are different servers.
    Nothing,
}

impl ServerOwner {
    /// Compares the server with that of another address, which returned the same client ID.
    ///
    /// **Source:** RFC 8881 section 2.10.5.
    pub fn trunking_with(&self, other: &Self) -> Trunking {
        if self.major != other.major || self.scope != other.scope {
            Trunking::Nothing
        } else if self.minor == other.minor {
            Trunking::Session
        } else {
            Trunking::ClientId
        }
    }
}

/// Names as text if they are printable, otherwise in hex, each at most 32 characters.
impl fmt::Display for ServerOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, scope) = (shown(&self.major), shown(&self.scope));
        write!(f, "{major} (minor {}", self.minor)?;
        if self.scope == self.major { f.write_str(")") } else { write!(f, ", scope {scope})") }
    }
}

fn shown(name: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 32;
    let is_text = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    let mut text = String::new();
    for byte in name {
        // Writing to a String can't fail.
        let _ =
            if is_text { write!(text, "{}", *byte as char) } else { write!(text, "{byte:02x}") };
    }
    if text.len() > CHARACTERS_MAX {
        text.truncate(CHARACTERS_MAX);
        text.push_str("..");
    }
    if text.is_empty() { "(no name)".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(major: &str, minor: u64, scope: &str) -> ServerOwner {
        ServerOwner { major: major.into(), minor, scope: scope.into() }
    }

    #[test]
    fn compares_owner_and_scope() {
        let first = owner("filer", 1, "cluster");
        for (other, expected) in [
            (owner("filer", 1, "cluster"), Trunking::Session),
            (owner("filer", 2, "cluster"), Trunking::ClientId),
            (owner("filer", 1, "other"), Trunking::Nothing),
            (owner("filer2", 1, "cluster"), Trunking::Nothing),
        ] {
            assert_eq!(first.trunking_with(&other), expected, "{other}");
        }
    }

    #[test]
    fn prints_names_that_are_not_text() {
        assert_eq!(owner("filer", 1, "cluster").to_string(), "filer (minor 1, scope cluster)");
        assert_eq!(owner("filer", 0, "filer").to_string(), "filer (minor 0)");
        assert_eq!(owner("\0\u{1}", 0, "\0\u{1}").to_string(), "0001 (minor 0)");
        assert_eq!(owner("", 0, "").to_string(), "(no name) (minor 0)");
        assert_eq!(
            owner(&"x".repeat(50), 0, "s").to_string().len(),
            34 + " (minor 0, scope s)".len()
        );
    }
}
