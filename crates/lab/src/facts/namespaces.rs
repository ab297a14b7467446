//! Finds out whether a server's address belongs to this host, in any of its network namespaces.
//!
//! Other namespaces are inspected through `/proc/PID` and never entered. Without privileges only
//! the namespaces of the user's own processes are visible, and a container only sees its own. Since
//! private addresses are reused all over, an address alone proves little; something must also be
//! listening on the port there. **Source:** `proc_pid_net(5)`, `network_namespaces(7)`,
//! net/ipv4/fib_trie.c (`fib_trie_seq_show`) and net/ipv6/addrconf.c (`if6_seq_show`) of Linux.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use procfs::net::TcpState;
use procfs::process::Process;

use crate::host::processes;

/// A server in another network namespace of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceServer {
    /// The namespace as named by the kernel, such as `net:[4026532008]`.
    pub namespace: String,
    /// A process in that namespace.
    pub process: u32,
}

/// Returns true if an address belongs to this network namespace.
pub fn is_own_address(address: IpAddr) -> bool {
    has_address(Path::new("/proc/self/net"), address)
}

/// Finds another namespace of this host in which something listens on an address and port.
pub fn find_server(server: SocketAddr) -> Option<NamespaceServer> {
    let namespace_of = |pid: &str| {
        let link = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
        Some(link.to_string_lossy().into_owned())
    };
    let mut seen = BTreeSet::from([namespace_of("self")?]);
    for process in processes::numbers() {
        // Fails for processes that have exited or belong to other users.
        let Some(namespace) = namespace_of(&process.to_string()) else { continue };
        if seen.insert(namespace.clone())
            && has_address(&Path::new("/proc").join(process.to_string()).join("net"), server.ip())
            && listens(process, server.port())
        {
            return Some(NamespaceServer { namespace, process });
        }
    }
    None
}

/// Returns true if the namespace of a `/proc/PID/net` has an address.
fn has_address(net: &Path, address: IpAddr) -> bool {
    let read = |name: &str| fs::read_to_string(net.join(name)).unwrap_or_default();
    match address {
        IpAddr::V4(address) => local_v4(&read("fib_trie")).any(|local| local == address),
        IpAddr::V6(address) => local_v6(&read("if_inet6")).any(|local| local == address),
    }
}

/// Returns true if a socket in a process's namespace is listening on a port.
fn listens(process: u32, port: u16) -> bool {
    let Ok(process) = Process::new(process.cast_signed()) else { return false };
    let tcp = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
    let mut tcp = tcp.filter(|entry| entry.state == TcpState::Listen);
    let mut udp = [process.udp(), process.udp6()].into_iter().flatten().flatten();
    tcp.any(|entry| entry.local_address.port() == port)
        || udp.any(|entry| entry.local_address.port() == port)
}

/// Returns a host's own addresses according to a routing trie: a line with the address, followed by
/// one with the type of its route.
fn local_v4(fib_trie: &str) -> impl Iterator<Item = Ipv4Addr> {
    let mut last = None;
    fib_trie.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
            return None;
        }
        if line == "/32 host LOCAL" { last } else { None }
    })
}

/// Returns the addresses in `if_inet6`: 32 hexadecimal digits at the start of each line.
fn local_v6(if_inet6: &str) -> impl Iterator<Item = Ipv6Addr> {
    if_inet6.lines().filter_map(|line| {
        let digits = line.split_ascii_whitespace().next()?;
        u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    /// As printed by Linux 6.12, shortened.
    const FIB_TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe \
        UNICAST\n     +-- 10.77.2.0/24 2 0 2\n        |-- 10.77.2.0\n           /24 link \
        UNICAST\n        |-- 10.77.2.2\n           /32 host LOCAL\n        |-- 10.77.2.255\n\
        \x20          /32 link BROADCAST\n     +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.0\n\
        \x20             /8 host LOCAL\n           |-- 127.0.0.1\n              /32 host LOCAL\n";

    #[test]
    fn parses_own_addresses_only() {
        let v4: Vec<Ipv4Addr> = local_v4(FIB_TRIE).collect();
        assert_eq!(v4, [Ipv4Addr::new(10, 77, 2, 2), Ipv4Addr::LOCALHOST]);
        let if_inet6 = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        let v6: Vec<Ipv6Addr> = local_v6(if_inet6).collect();
        assert_eq!(v6, ["fd00::2".parse::<Ipv6Addr>().unwrap(), Ipv6Addr::LOCALHOST]);
        assert_eq!((local_v4("").count(), local_v6("x y\n").count()), (0, 0));
    }

    #[test]
    fn knows_addresses_of_this_namespace() {
        assert!(is_own_address(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own_address(Ipv4Addr::new(192, 0, 2, 77).into()));
        assert!(!is_own_address("2001:db8::77".parse().unwrap()));
    }

    #[test]
    fn finds_listening_ports_only() {
        let us = std::process::id();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for port in [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()] {
            assert!(listens(us, port), "{port}");
            // It is in this namespace, not in another one.
            assert_eq!(find_server((Ipv4Addr::LOCALHOST, port).into()), None);
        }
        assert!(!listens(us, 1));
    }
}
