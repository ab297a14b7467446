//! Access control by network address.
//!
//! A [`Network`] is an address with a prefix length; an [`AllowList`] is checked for every accepted
//! connection and every datagram. An IPv4 address that arrives mapped into IPv6 is treated as IPv4.
//! This guards against accidents; it is not authentication.
//!
//! **Source:** RFC 4632 section 3.1 (prefixes), RFC 4291 section 2.5.5.2 (mapped addresses).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

/// A range of addresses, such as `10.0.0.0/8`, `fd00::/8` or one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// The text is not a range of addresses.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not an address range; use an address or a range such as 192.168.1.0/24")]
pub struct NetworkError(pub String);

impl Network {
    /// Creates the range of all addresses that share the first `prefix_bits` bits with `address`;
    /// bits beyond the length of the address (32 or 128) are ignored.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Self {
        let address = address.to_canonical();
        Self { address, prefix_bits: prefix_bits.min(width_bits(address)) }
    }

    /// Returns true if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix_bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix_bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(NetworkError(text.to_owned()));
        };
        let width = width_bits(address);
        match prefix.unwrap_or(&width.to_string()).parse() {
            Ok(prefix_bits) if prefix_bits <= width => Ok(Self { address, prefix_bits }),
            _ => Err(NetworkError(text.to_owned())),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// The peers that are let in.
#[derive(Clone, Debug)]
pub(crate) struct AllowList {
    pub(crate) networks: Vec<Network>,
    /// Whether loopback is let in even if no network on the list contains it.
    pub(crate) loopback: bool,
}

impl AllowList {
    /// Returns true if the peer is let in.
    pub(crate) fn admits(&self, peer: IpAddr) -> bool {
        let own = self.loopback && peer.to_canonical().is_loopback();
        own || self.networks.iter().any(|network| network.contains(peer))
    }
}

fn width_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        network.parse::<Network>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn prefixes_decide() {
        assert!(contains("10.1.0.0/16", "10.1.255.3"));
        assert!(!contains("10.1.0.0/16", "10.2.0.1"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(contains("192.0.2.7", "192.0.2.7"));
        assert!(!contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("fd00::/8", "fd12::1"));
        assert!(!contains("fd00::/8", "fe80::1"));
        assert!(!contains("0.0.0.0/0", "::1"));
    }

    #[test]
    fn judges_mapped_address_as_ipv4() {
        assert!(contains("10.0.0.0/8", "::ffff:10.9.9.9"));
        assert!(!contains("10.0.0.0/8", "::ffff:11.9.9.9"));
        let list = AllowList { networks: Vec::new(), loopback: true };
        assert!(list.admits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!list.admits("192.0.2.1".parse().unwrap()));
        assert!(
            !AllowList { networks: Vec::new(), loopback: false }
                .admits("127.0.0.1".parse().unwrap())
        );
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "host", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/8/8"] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError(text.to_owned())));
        }
        assert_eq!("10.0.0.0/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
    }
}
