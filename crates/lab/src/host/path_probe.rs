//! Tests whether full-size packets reach the other hosts, since otherwise an NFS mount hangs.
//!
//! A switch or host with a smaller MTU silently drops large frames but passes small ones, so
//! everything seems fine until data is sent. We send one full-size datagram, with fragmentation
//! disabled, to a port on which nothing listens. The other kernel replies with an ICMP message.
//! This requires neither a program there nor privileges here. **Source:** ip(7),
//! `IP_PMTUDISC_PROBE`; RFC 1122, 4.1.3.1 (port unreachable); traceroute(8), 33434 and up.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use model::Peer;
use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use crate::error::LabError;

/// A port on which nothing listens, as used by traceroute.
pub(crate) const PORT: u16 = 33_434;
/// How long each attempt waits. After a burst of six, a host sends at most one such ICMP message
/// per second to each peer. **Source:** icmp(7), `icmp_ratelimit`.
const WAITS_MS: [u64; 3] = [300, 700, 1_200];
/// Size of the IP and UDP headers, for IPv4 and IPv6. **Source:** RFC 791, 3.1; RFC 8200, 3; RFC
/// 768.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];
/// Sizes to try if full-size packets are lost: the largest one below the full size is used. The MTU
/// of Ethernet, and sizes that every host accepts. **Source:** RFC 894; RFC 791, 3.2.
const USUAL_BYTES: [u32; 3] = [1_500, 576, 128];

/// The outcome of sending datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The other host has answered.
    Arrived,
    /// There was no answer.
    Unanswered,
    /// The packet was larger than the MTU of this host's interface, or than one reported by a
    /// router.
    TooLarge,
}

/// Tests the path to another host with full-size packets.
///
/// # Errors
/// If they are lost while smaller ones get through, or the host's name cannot be resolved. If a
/// host answers neither, it may have a firewall. That proves nothing, and the action's check
/// reports it.
pub(crate) fn try_path(peer: &Peer, bytes: u32) -> Result<(), LabError> {
    let Peer { name, address } = peer;
    let smaller = USUAL_BYTES.into_iter().find(|usual| *usual < bytes);
    let full = send_until_answered(peer, bytes)?;
    let passes = match (full, smaller) {
        (Outcome::Arrived, _) | (Outcome::Unanswered, None) => return Ok(()),
        (_, Some(smaller)) if send_until_answered(peer, smaller)? == Outcome::Arrived => {
            format!("{smaller} bytes get through")
        }
        (Outcome::Unanswered, _) => return Ok(()),
        (Outcome::TooLarge, _) => "a router or this host rejects them".to_owned(),
    };
    Err(LabError::Refused(format!(
        "packets of {bytes} bytes to {name} ({address}) are lost ({passes}): something on the path \
         has a smaller MTU (hint: set the MTU to {bytes} on every host, bridge and switch on the \
         path, or use a smaller `mtu`)"
    )))
}

/// Sends datagrams of a given size until one is answered.
///
/// # Errors
/// If the other host's name cannot be resolved.
pub(crate) fn send_until_answered(peer: &Peer, bytes: u32) -> Result<Outcome, LabError> {
    match resolve_and_probe(&peer.address, bytes) {
        Ok(outcome) => Ok(outcome),
        Err(why) => {
            let Peer { name, address } = peer;
            let what = format!("cannot use the address of {name}, `{address}`: {why}");
            Err(LabError::Refused(what))
        }
    }
}

fn resolve_and_probe(address: &str, bytes: u32) -> io::Result<Outcome> {
    let mut addresses = (address.trim_matches(['[', ']']), PORT).to_socket_addrs()?;
    let Some(address) = addresses.next() else {
        return Err(io::Error::other("the name has no address"));
    };
    probe(address, bytes)
}

fn probe(address: SocketAddr, bytes: u32) -> io::Result<Outcome> {
    let here: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(here)?;
    // Never fragment, and ignore the path MTU that the kernel has cached.
    if address.is_ipv4() {
        set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    socket.connect(address)?;
    let headers = HEADERS[usize::from(address.is_ipv6())];
    let payload = vec![0; (bytes as usize).saturating_sub(headers)];
    for wait_ms in WAITS_MS {
        socket.set_read_timeout(Some(Duration::from_millis(wait_ms)))?;
        match exchange(&socket, &payload) {
            Ok(_) => return Ok(Outcome::Arrived),
            // The other host's ICMP message "port unreachable".
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Ok(Outcome::Arrived);
            }
            Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                return Ok(Outcome::TooLarge);
            }
            // No answer in time, or no route yet: a link that was just reconfigured may need a
            // moment.
            Err(_) => {}
        }
    }
    Ok(Outcome::Unanswered)
}

fn exchange(socket: &UdpSocket, payload: &[u8]) -> io::Result<usize> {
    socket.send(payload)?;
    socket.recv(&mut [0; 16])
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;
    use std::thread;

    use super::*;
    use crate::commands::is_root;

    fn peer(address: &str) -> Peer {
        Peer { name: "server".into(), address: address.into() }
    }

    #[test]
    fn reports_packets_that_arrive() {
        assert_eq!(send_until_answered(&peer("127.0.0.1"), 9_000).unwrap(), Outcome::Arrived);
        try_path(&peer("127.0.0.1"), 9_000).unwrap();
        let error = try_path(&peer("no such name"), 9_000).unwrap_err().to_string();
        assert!(error.contains("server, `no such name`"), "{error}");
    }

    /// Two hosts, simulated by network namespaces with a virtual cable between them.
    struct Hosts([String; 2]);

    impl Hosts {
        /// Creates them with the given MTUs. Returns `None` if this host doesn't allow that.
        fn new(mtus: [u32; 2]) -> Option<Self> {
            let names = ["a", "b"].map(|end| format!("dfs-{}-{end}", std::process::id()));
            if !is_root() {
                return None;
            }
            let hosts = Self(names);
            let [a, b] = &hosts.0;
            for name in [a, b] {
                ip(&["netns", "add", name])?;
            }
            ip(&[
                "-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b,
            ])?;
            for (at, (name, mtu)) in hosts.0.iter().zip(mtus).enumerate() {
                let address = format!("10.77.1.{}/24", at + 1);
                ip(&["-n", name, "address", "add", &address, "dev", "eth0"])?;
                ip(&["-n", name, "link", "set", "eth0", "mtu", &mtu.to_string(), "up"])?;
            }
            Some(hosts)
        }
    }

    impl Drop for Hosts {
        fn drop(&mut self) {
            for name in &self.0 {
                let _ = ip(&["netns", "delete", name]);
            }
        }
    }

    fn ip(words: &[&str]) -> Option<()> {
        let done = Command::new("ip").args(words).output().ok()?;
        done.status.success().then_some(())
    }

    /// Tests the path from the first host to the second.
    fn test_path_from(host: &str, bytes: u32) -> Result<(), LabError> {
        let space = File::open(format!("/run/netns/{host}")).unwrap();
        let tried = thread::spawn(move || {
            // Only affects this thread.
            rustix::thread::move_into_link_name_space(rustix::fd::AsFd::as_fd(&space), None)
                .unwrap();
            try_path(&peer("10.77.1.2"), bytes)
        });
        tried.join().unwrap()
    }

    #[test]
    fn names_host_dropping_large_packets() {
        let Some(hosts) = Hosts::new([9_000, 1_500]) else { return };
        let error = test_path_from(&hosts.0[0], 9_000).unwrap_err().to_string();
        insta::assert_snapshot!(error);
        test_path_from(&hosts.0[0], 1_500).unwrap();
        // With equal MTUs, they get through.
        ip(&["-n", &hosts.0[1], "link", "set", "eth0", "mtu", "9000"]).unwrap();
        test_path_from(&hosts.0[0], 9_000).unwrap();
    }
}
