//! Addresses of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use lab::namespaces;

/// The port of NFS.
pub(crate) const NFS_PORT: u16 = 2049;

/// Returns true if a name or an address is one of this host's own.
pub(crate) fn is_host_here(host: &str) -> bool {
    let Ok(mut addresses) = (host, NFS_PORT).to_socket_addrs() else { return false };
    addresses.any(|address| is_own(address.ip()))
}

/// Returns true if an address leads to this host itself: to its own addresses a host sends from
/// those addresses.
pub(crate) fn is_own(address: IpAddr) -> bool {
    // A datagram socket that connects sends nothing; it only learns its own address.
    let sends_from_it = || {
        let socket = UdpSocket::bind(SocketAddr::new(unspecified(address), 0)).ok()?;
        socket.connect((address, NFS_PORT)).ok()?;
        Some(socket.local_addr().ok()?.ip() == address)
    };
    sends_from_it().unwrap_or(false) || namespaces::is_own_address(address)
}

/// Returns the address that stands for all of this host's, of the same family.
const fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
