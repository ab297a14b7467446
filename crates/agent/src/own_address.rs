//! Addresses of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use lab::facts::namespaces;

pub(crate) const NFS_PORT: u16 = 2049;

/// Returns true if a name or an address belongs to this host.
pub(crate) fn is_own_host(host: &str) -> bool {
    let Ok(mut addresses) = (host, NFS_PORT).to_socket_addrs() else { return false };
    addresses.any(|address| is_own(address.ip()))
}

/// Returns true if an address belongs to this host. When a host sends to one of its own addresses,
/// the source address is the same.
pub(crate) fn is_own(address: IpAddr) -> bool {
    // Connecting a datagram socket sends nothing; it only selects the source address.
    let sends_from_it = || {
        let socket = UdpSocket::bind(SocketAddr::new(unspecified(address), 0)).ok()?;
        socket.connect((address, NFS_PORT)).ok()?;
        Some(socket.local_addr().ok()?.ip() == address)
    };
    sends_from_it().unwrap_or(false) || namespaces::is_own_address(address)
}

/// Returns the unspecified address of the same family.
const fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
