//! Transport names and textual addresses.
//!
//! A universal address is the printed IP address followed by the two bytes of the port, all joined
//! by dots: `127.0.0.1.8.1` is port 2049. **Source:** RFC 5665 sections 5.2.3.1, 5.2.3.3 and
//! 5.2.3.4.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// A transport, by the name used in registrations. **Source:** RFC 5665 section 5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetId {
    /// TCP over IPv4.
    Tcp,
    /// UDP over IPv4.
    Udp,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl NetId {
    /// All supported transports.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Tcp6, Self::Udp6];

    /// Returns the name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tcp6 => "tcp6",
            Self::Udp6 => "udp6",
        }
    }

    /// Returns the transport of this name, if it is supported.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|netid| netid.name().as_bytes() == name)
    }

    /// Returns the transport for an address.
    pub const fn from_address(udp: bool, address: IpAddr) -> Self {
        match (udp, address) {
            (false, IpAddr::V4(_)) => Self::Tcp,
            (true, IpAddr::V4(_)) => Self::Udp,
            (false, IpAddr::V6(_)) => Self::Tcp6,
            (true, IpAddr::V6(_)) => Self::Udp6,
        }
    }

    /// Returns true if this is UDP.
    pub const fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Udp6)
    }

    /// Returns true if this transport uses IPv6 addresses.
    pub const fn is_ipv6(self) -> bool {
        matches!(self, Self::Tcp6 | Self::Udp6)
    }
}

/// An address and port as text, stored inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniversalAddress {
    text: [u8; Self::BYTES_MAX],
    len: u8,
}

impl UniversalAddress {
    /// Longest text: an IPv6 address with an IPv4 tail, and two bytes of a port.
    const BYTES_MAX: usize = 45 + 8;

    /// Formats an address; the scope of an IPv6 address is lost.
    pub fn new(address: SocketAddr) -> Self {
        let mut printed = Self { text: [0; Self::BYTES_MAX], len: 0 };
        // The port follows the address as two decimal bytes, which keeps one syntax for IPv4 and
        // IPv6: the last two dots always belong to the port.
        let [high, low] = address.port().to_be_bytes();
        write!(printed, "{}.{high}.{low}", address.ip()).expect("the text fits its longest form");
        printed
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }

    /// Parses the text of an address; `None` if it is not one.
    pub fn parse(text: &[u8]) -> Option<SocketAddr> {
        let text = std::str::from_utf8(text).ok()?;
        let (rest, low) = text.rsplit_once('.')?;
        let (address, high) = rest.rsplit_once('.')?;
        let port = u16::from_be_bytes([byte(high)?, byte(low)?]);
        Some(SocketAddr::new(address.parse().ok()?, port))
    }
}

/// Parses a decimal byte; refuses a sign, which the standard parser accepts.
fn byte(text: &str) -> Option<u8> {
    if text.bytes().all(|digit| digit.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl std::fmt::Write for UniversalAddress {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let at = self.len as usize;
        let to = self.text.get_mut(at..at + text.len()).ok_or(std::fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len() as u8;
        Ok(())
    }
}

impl std::fmt::Debug for UniversalAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UniversalAddress({})", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_and_come_back() {
        let cases = [
            ("127.0.0.1:2049", "127.0.0.1.8.1"),
            ("0.0.0.0:111", "0.0.0.0.0.111"),
            ("[::1]:2049", "::1.8.1"),
            ("[::]:65535", "::.255.255"),
            ("[::ffff:10.0.0.1]:111", "::ffff:10.0.0.1.0.111"),
        ];
        for (address, text) in cases {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(UniversalAddress::new(address).as_bytes(), text.as_bytes());
            assert_eq!(UniversalAddress::parse(text.as_bytes()), Some(address));
        }
    }

    #[test]
    fn the_longest_address_fits() {
        let all = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
        let text = UniversalAddress::new(all);
        assert_eq!(UniversalAddress::parse(text.as_bytes()), Some(all));
    }

    #[test]
    fn rejects_text_that_is_no_address() {
        let texts = ["", "1.2", "127.0.0.1", "127.0.0.1.8", "127.0.0.1.256.1", "127.0.0.1.+8.1"];
        for text in texts.into_iter().chain(["127.0.0.1.8.", "::1.-1.0", "host.8.1"]) {
            assert_eq!(UniversalAddress::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(UniversalAddress::parse(&[0xff, b'.', b'1', b'.', b'1']), None);
    }

    #[test]
    fn transports_have_names() {
        for netid in NetId::ALL {
            assert_eq!(NetId::from_name(netid.name().as_bytes()), Some(netid));
        }
        assert_eq!(NetId::from_name(b"local"), None);
        assert_eq!(NetId::from_address(true, "::1".parse().unwrap()), NetId::Udp6);
    }
}
