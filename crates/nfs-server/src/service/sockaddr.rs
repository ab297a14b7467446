//! Socket addresses in this system's binary form, for UADDR2TADDR and TADDR2UADDR.
//!
//! Such a "transport address" is meaningful on this host only, so this is the layout of the system
//! calls: `sockaddr_in` and `sockaddr_in6`.
//!
//! **Source:** RFC 1833 section 2.2.1; ip(7), ipv6(7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::AddressFamily;

/// Lengths of the two structures, in bytes.
const V4_BYTES: usize = 16;
const V6_BYTES: usize = 28;

/// Encodes an address; the scope of an IPv6 address is 0.
pub(super) fn encode(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(V6_BYTES);
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    bytes.extend(family.as_raw().to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.extend(ip.octets());
            bytes.resize(V4_BYTES, 0);
        }
        IpAddr::V6(ip) => {
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
            bytes.resize(V6_BYTES, 0);
        }
    }
    bytes
}

/// Decodes an address, or returns `None` if the bytes are not one.
pub(super) fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let family = AddressFamily::from_raw(u16::from_ne_bytes(*family));
    let ip = match (family, bytes.len()) {
        (AddressFamily::INET, V4_BYTES) => IpAddr::V4(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        (AddressFamily::INET6, V6_BYTES) => {
            IpAddr::V6(Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_addresses_or_rejects() {
        for text in ["127.0.0.1:2049", "[2001:db8::1]:111"] {
            let address: SocketAddr = text.parse().unwrap();
            let bytes = encode(address);
            assert_eq!(decode(&bytes), Some(address));
            assert_eq!(decode(&bytes[1..]), None);
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[0xff; V4_BYTES]), None);
    }

    #[test]
    fn matches_system_layout() {
        let bytes = encode("1.2.3.4:258".parse().unwrap());
        assert_eq!(bytes[2..8], [1, 2, 1, 2, 3, 4]);
    }
}
