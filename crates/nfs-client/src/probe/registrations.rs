//! Registrations of the portmapper, and the addresses they lead to.
//!
//! Portmap v2 and rpcbind v4 (or v3) are both queried for all their registrations. [`Addresses`]
//! then tells where to try each version of NFS and MOUNT; user-supplied ports take precedence.

use std::net::SocketAddr;

use nfs_proto::portmap::{self, PROTOCOL_TCP, PROTOCOL_UDP};
use nfs_proto::program::Call;
use nfs_proto::rpcbind::{self, NetId, UniversalAddress};
use nfs_proto::{mount3, nfs3};

use super::ask::Asker;
use super::data::{Answer, NoAnswer, Registration};
use super::options::ProbeOptions;
use crate::options::Proto;

/// Maximum number of registrations kept of one list; a portmapper has a few dozen.
const REGISTRATIONS_MAX: usize = 4096;

/// Usual names of programs. **Source:** rpc(5) and IANA's "Remote Procedure Call (RPC) Program
/// Numbers".
const NAMES: [(u32, &str); 10] = [
    (100_000, "portmapper"),
    (100_001, "rstatd"),
    (100_003, "nfs"),
    (100_005, "mountd"),
    (100_007, "ypbind"),
    (100_011, "rquotad"),
    (100_021, "nlockmgr"),
    (100_024, "status"),
    (100_133, "nsm_addrand"),
    (100_227, "nfs_acl"),
];

fn usual_name(program: u32) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == program).map(|(_, name)| *name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks over TCP, and over UDP if that fails; TCP's reason is the one reported.
fn ask_over_any<T>(
    server: SocketAddr,
    options: &ProbeOptions,
    ask: fn(&mut Asker) -> Answer<T>,
) -> Answer<T> {
    match Asker::connect(Proto::Tcp, server, options).and_then(|mut asker| ask(&mut asker)) {
        Ok(answer) => Ok(answer),
        Err(first) => {
            let Ok(mut asker) = Asker::connect(Proto::Udp, server, options) else {
                return Err(first);
            };
            ask(&mut asker).or(Err(first))
        }
    }
}

/// Asks portmap v2 for its list.
pub(super) fn portmap_dump(
    server: SocketAddr,
    options: &ProbeOptions,
) -> Answer<Vec<Registration>> {
    ask_over_any(server, options, |asker| {
        asker.call(&Call::Portmap(portmap::Call::Dump), |results| {
            let mut found = Vec::new();
            portmap::Reply::decode_dump(results, |mapping| {
                if found.len() < REGISTRATIONS_MAX {
                    found.push(from_mapping(&mapping));
                }
            })?;
            Ok(found)
        })
    })
}

fn from_mapping(mapping: &portmap::Mapping) -> Registration {
    let netid = match mapping.protocol {
        PROTOCOL_TCP => "tcp".to_owned(),
        PROTOCOL_UDP => "udp".to_owned(),
        other => format!("protocol {other}"),
    };
    Registration {
        program: mapping.program,
        name: usual_name(mapping.program),
        version: mapping.version,
        netid,
        address: String::new(),
        port: u16::try_from(mapping.port).ok(),
        owner: String::new(),
    }
}

/// Asks rpcbind v4 for its list, or v3 if there is no v4.
pub(super) fn rpcbind_dump(
    server: SocketAddr,
    options: &ProbeOptions,
) -> Answer<Vec<Registration>> {
    ask_over_any(server, options, |asker| {
        let version_4 = rpcbind_list(asker, &Call::Rpcbind4(rpcbind::Call::Dump));
        match version_4 {
            Err(NoAnswer::VersionMismatch { .. }) => {
                rpcbind_list(asker, &Call::Rpcbind3(rpcbind::Call::Dump))
            }
            answer => answer,
        }
    })
}

fn rpcbind_list(asker: &mut Asker, call: &Call<'_>) -> Answer<Vec<Registration>> {
    asker.call(call, |results| {
        let mut found = Vec::new();
        rpcbind::Reply::decode_dump(results, |listed| {
            if found.len() < REGISTRATIONS_MAX {
                found.push(from_listed(&listed));
            }
        })?;
        Ok(found)
    })
}

fn from_listed(listed: &rpcbind::Registration<'_>) -> Registration {
    Registration {
        program: listed.program,
        name: usual_name(listed.program),
        version: listed.version,
        netid: text(listed.netid),
        address: text(listed.address),
        port: UniversalAddress::parse(listed.address).map(|address| address.port()),
        owner: text(listed.owner),
    }
}

/// The addresses at which services are tried.
#[derive(Debug)]
pub(super) struct Addresses<'a> {
    options: &'a ProbeOptions,
    /// The server, with the portmapper's port.
    server: SocketAddr,
    lists: [&'a [Registration]; 2],
}

impl<'a> Addresses<'a> {
    pub(super) fn new(
        options: &'a ProbeOptions,
        server: SocketAddr,
        rpcbind: &'a Answer<Vec<Registration>>,
        portmap: &'a Answer<Vec<Registration>>,
    ) -> Self {
        // Rpcbind goes first: it also has IPv6 addresses.
        let rpcbind = rpcbind.as_deref().unwrap_or_default();
        let portmap = portmap.as_deref().unwrap_or_default();
        Self { options, server, lists: [rpcbind, portmap] }
    }

    /// Returns the address at which a version of NFS is tried.
    pub(super) fn of_nfs(&self, version: u32, transport: Proto) -> SocketAddr {
        if let Some(given) = self.options.port {
            return self.with_port(given);
        }
        let registered = self.find_port(nfs3::PROGRAM, version, transport);
        let port = registered.or(self.find_any_port(nfs3::PROGRAM));
        self.with_port(port.unwrap_or(nfs3::PORT))
    }

    /// Returns the addresses at which a version of MOUNT is tried, in order.
    pub(super) fn of_mount(&self, version: u32, transport: Proto) -> Vec<SocketAddr> {
        if let Some(given) = self.options.mount_port {
            return vec![self.with_port(given)];
        }
        let registered = self.find_port(mount3::PROGRAM, version, transport);
        let registered = registered.or(self.find_any_port(mount3::PROGRAM));
        let nfs_port = self.of_nfs(3, transport).port();
        match (self.options.port, registered) {
            // A server with its own port may run next to another server's portmapper.
            (Some(given), Some(port)) => vec![self.with_port(given), self.with_port(port)],
            (Some(given), None) => vec![self.with_port(given)],
            (None, port) => vec![self.with_port(port.unwrap_or(nfs_port))],
        }
    }

    fn with_port(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.server.ip(), port)
    }

    fn find_port(&self, program: u32, version: u32, transport: Proto) -> Option<u16> {
        let netid = NetId::from_address(transport == Proto::Udp, self.server.ip()).name();
        for listed in self.lists.into_iter().flatten() {
            // Portmap v2 has only IPv4 addresses.
            let fits = listed.netid == netid
                || listed.address.is_empty() && listed.netid == transport.name();
            if (listed.program, listed.version) == (program, version) && fits {
                // Port 0 is the portmapper's way of reporting "not registered".
                return listed.port.filter(|port| *port != 0);
            }
        }
        None
    }

    /// Returns the port of any version of a program, over any transport.
    fn find_any_port(&self, program: u32) -> Option<u16> {
        for listed in self.lists.into_iter().flatten() {
            if listed.program == program {
                return listed.port;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(program: u32, version: u32, netid: &str, address: &str, port: u16) -> Registration {
        Registration {
            program,
            name: None,
            version,
            netid: netid.into(),
            address: address.into(),
            port: Some(port),
            owner: String::new(),
        }
    }

    #[test]
    fn lists_ports_by_transport_and_family() {
        let rpcbind = Ok(vec![
            listed(100_003, 3, "tcp6", "::.8.1", 1),
            listed(100_003, 3, "tcp", "0.0.0.0.8.1", 2),
            listed(100_005, 3, "udp", "0.0.0.0.8.1", 3),
        ]);
        let portmap = Ok(vec![listed(100_003, 2, "udp", "", 4)]);
        let options = ProbeOptions::new("h");
        let v4 = Addresses::new(&options, "127.0.0.1:111".parse().unwrap(), &rpcbind, &portmap);
        let v6 = Addresses::new(&options, "[::1]:111".parse().unwrap(), &rpcbind, &portmap);
        assert_eq!(v4.of_nfs(3, Proto::Tcp).port(), 2);
        assert_eq!(v6.of_nfs(3, Proto::Tcp).port(), 1);
        assert_eq!(v4.of_nfs(2, Proto::Udp).port(), 4);
        // Not registered: use the port of any other version.
        assert_eq!(v4.of_nfs(4, Proto::Tcp).port(), 1);
        assert_eq!(v4.of_mount(3, Proto::Udp)[0].port(), 3);
        assert_eq!(v4.of_mount(1, Proto::Tcp)[0].port(), 3);
    }

    #[test]
    fn tries_given_port_then_2049() {
        let nothing = Err(NoAnswer::Refused);
        let portmap = Ok(vec![listed(100_005, 3, "tcp", "", 635)]);
        let server = "127.0.0.1:111".parse().unwrap();
        let options = ProbeOptions { port: Some(4000), ..ProbeOptions::new("h") };
        let places = Addresses::new(&options, server, &nothing, &portmap);
        assert_eq!(places.of_nfs(3, Proto::Tcp).port(), 4000);
        let ports: Vec<_> = places.of_mount(3, Proto::Tcp).iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [4000, 635]);
        let options = ProbeOptions::new("h");
        let places = Addresses::new(&options, server, &nothing, &nothing);
        assert_eq!(places.of_nfs(3, Proto::Tcp).port(), 2049);
        assert_eq!(places.of_mount(3, Proto::Tcp)[0].port(), 2049);
    }
}
