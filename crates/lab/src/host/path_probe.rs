//! Whether packets of full size get through to the other hosts: without that an NFS mount hangs.
//!
//! A switch or a host with a smaller MTU drops frames that are too large without a word, while
//! small ones pass: everything looks well until data is sent. So one datagram of full size, not to
//! be fragmented, goes to a port where no program listens: the other kernel says so by ICMP, which
//! needs no program there and no privilege here. **Source:** ip(7), `IP_PMTUDISC_PROBE`; RFC 1122,
//! 4.1.3.1 (port unreachable); traceroute(8), 33434 and up.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use model::Peer;
use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use crate::error::LabError;

/// A port where no program listens, as traceroute takes it.
pub const PORT: u16 = 33_434;
/// How long each attempt waits. A host sends no more than one such ICMP message a second to each
/// other one, once six have gone out. **Source:** icmp(7), `icmp_ratelimit`.
const WAITS_MS: [u64; 3] = [300, 700, 1_200];
/// Bytes of the headers of IP and UDP. **Source:** RFC 791, 3.1; RFC 8200, 3; RFC 768.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];
/// Sizes of which the largest below the full one is tried where that is lost: of Ethernet, and
/// what every host takes. **Source:** RFC 894; RFC 791, 3.2.
const USUAL_BYTES: [u32; 3] = [1_500, 576, 128];

/// The outcome of datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other host has answered.
    Arrived,
    /// There was no answer.
    Unanswered,
    /// It left this host by an interface with a smaller MTU, or a router reported such an
    /// interface.
    TooLarge,
}

/// Tries the way to another host with packets of full size.
///
/// # Errors
/// Where those are lost and smaller ones pass, or its name says no address. A host that answers to
/// neither may have a firewall: that shows nothing, and the check of the action says so.
pub fn try_path(peer: &Peer, bytes: u32) -> Result<(), LabError> {
    let Peer { name, address } = peer;
    let smaller = USUAL_BYTES.into_iter().find(|usual| *usual < bytes);
    let full = send_until_answered(peer, bytes)?;
    let passes = match (full, smaller) {
        (Outcome::Arrived, _) | (Outcome::Unanswered, None) => return Ok(()),
        (_, Some(smaller)) if send_until_answered(peer, smaller)? == Outcome::Arrived => {
            format!("{smaller} bytes pass")
        }
        (Outcome::Unanswered, _) => return Ok(()),
        (Outcome::TooLarge, _) => "a router or this host refuses them".to_owned(),
    };
    Err(LabError::Refused(format!(
        "packets of {bytes} bytes to {name} ({address}) are lost ({passes}): something between \
         them has a smaller MTU (hint: set it to {bytes} on every host, bridge and switch between \
         them, or ask for a smaller `mtu`)"
    )))
}

/// Sends datagrams of a size until one is answered.
///
/// # Errors
/// Where the name of the other host has no address.
pub fn send_until_answered(peer: &Peer, bytes: u32) -> Result<Outcome, LabError> {
    match resolve_and_probe(&peer.address, bytes) {
        Ok(outcome) => Ok(outcome),
        Err(why) => {
            let Peer { name, address } = peer;
            let what = format!("the address of {name}, `{address}`, can't be used: {why}");
            Err(LabError::Refused(what))
        }
    }
}

fn resolve_and_probe(address: &str, bytes: u32) -> io::Result<Outcome> {
    let mut addresses = (address.trim_matches(['[', ']']), PORT).to_socket_addrs()?;
    let Some(address) = addresses.next() else { return Err(io::Error::other("it names no host")) };
    probe(address, bytes)
}

fn probe(address: SocketAddr, bytes: u32) -> io::Result<Outcome> {
    let here: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(here)?;
    // Never fragmented, and whatever the kernel has learned of the path: it is tried again.
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
            // The ICMP message "port unreachable" of the other host.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Ok(Outcome::Arrived);
            }
            Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                return Ok(Outcome::TooLarge);
            }
            // There was no answer in time, or the way is not there yet: a link that was just
            // changed may need a moment.
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
    fn packets_that_arrive_are_reported_as_such() {
        assert_eq!(send_until_answered(&peer("127.0.0.1"), 9_000).unwrap(), Outcome::Arrived);
        try_path(&peer("127.0.0.1"), 9_000).unwrap();
        let error = try_path(&peer("no such name"), 9_000).unwrap_err().to_string();
        assert!(error.contains("server, `no such name`"), "{error}");
    }

    /// Two hosts, as network namespaces with a cable between them.
    struct Hosts([String; 2]);

    impl Hosts {
        /// The MTU of each; `None` where this host may not make them.
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

    /// Tries the way from the first host to the second.
    fn tried_from(host: &str, bytes: u32) -> Result<(), LabError> {
        let space = File::open(format!("/run/netns/{host}")).unwrap();
        let tried = thread::spawn(move || {
            // It holds for this thread alone.
            rustix::thread::move_into_link_name_space(rustix::fd::AsFd::as_fd(&space), None)
                .unwrap();
            try_path(&peer("10.77.1.2"), bytes)
        });
        tried.join().unwrap()
    }

    #[test]
    fn a_host_that_drops_large_packets_is_named_with_what_passes() {
        let Some(hosts) = Hosts::new([9_000, 1_500]) else { return };
        let error = tried_from(&hosts.0[0], 9_000).unwrap_err().to_string();
        let expected = "packets of 9000 bytes to server (10.77.1.2) are lost (1500 bytes pass): \
                        something between them has a smaller MTU";
        assert!(error.starts_with(expected), "{error}");
        tried_from(&hosts.0[0], 1_500).unwrap();
        // With both as large, they pass.
        ip(&["-n", &hosts.0[1], "link", "set", "eth0", "mtu", "9000"]).unwrap();
        tried_from(&hosts.0[0], 9_000).unwrap();
    }
}
