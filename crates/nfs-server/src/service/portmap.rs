//! The portmapper: portmap v2 and rpcbind v3 and v4 over one list of registrations.
//!
//! It lists this server's own programs, each with its address, and accepts no registrations from
//! others. Calls to be forwarded (CALLIT, BCAST, INDIRECT) are refused: they would make this server
//! a reflector. It keeps no statistics.
//!
//! **Source:** RFC 1833 sections 2 and 3.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nfs_proto::RpcError;
use nfs_proto::portmap::{self, Mapping, PROTOCOL_TCP, PROTOCOL_UDP};
use nfs_proto::program::{OfferedPrograms, Reply};
use nfs_proto::rpcbind::{self, AddressEntry, NetId, Netbuf, UniversalAddress};
use nfs_proto::server::{encode_refusal, encode_reply};

use super::Service;
use super::sockaddr;
use crate::origin::Transport;
use crate::outbox::Outbox;

/// Owner of all registrations, as shown by DUMP.
const OWNER: &[u8] = b"dfsbench";

/// One version of a program and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    program: u32,
    version: u32,
    netid: NetId,
    port: u16,
    address: UniversalAddress,
}

/// Returns the registrations of one socket.
pub(crate) fn registrations(
    socket: SocketAddr,
    transport: Transport,
    offered: OfferedPrograms,
) -> Vec<Registered> {
    let mut addresses = vec![socket];
    // A socket on all IPv6 addresses takes IPv4 as well. **Source:** ipv6(7), IPV6_V6ONLY.
    if socket.is_ipv6() && socket.ip().is_unspecified() {
        addresses.push(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), socket.port()));
    }
    let mut registered = Vec::new();
    for (program, version, is_offered) in offered.table() {
        if !is_offered {
            continue;
        }
        for address in &addresses {
            registered.push(Registered {
                program,
                version,
                netid: NetId::from_address(transport == Transport::Udp, address.ip()),
                port: address.port(),
                address: UniversalAddress::new(*address),
            });
        }
    }
    registered
}

impl Registered {
    fn mapping(&self) -> Mapping {
        let protocol = if self.netid.is_udp() { PROTOCOL_UDP } else { PROTOCOL_TCP };
        let port = u32::from(self.port);
        Mapping { program: self.program, version: self.version, protocol, port }
    }

    fn registration(&self) -> rpcbind::Registration<'_> {
        rpcbind::Registration {
            program: self.program,
            version: self.version,
            netid: self.netid.name().as_bytes(),
            address: self.address.as_bytes(),
            owner: OWNER,
        }
    }

    fn entry(&self) -> AddressEntry<'_> {
        let datagrams = self.netid.is_udp();
        AddressEntry {
            address: self.address.as_bytes(),
            netid: self.netid.name().as_bytes(),
            semantics: if datagrams { AddressEntry::DATAGRAMS } else { AddressEntry::STREAM },
            family: if self.netid.is_ipv6() { b"inet6" } else { b"inet" },
            protocol: if datagrams { b"udp" } else { b"tcp" },
        }
    }
}

impl Service {
    /// Executes a call of portmap v2.
    pub(super) fn answer_portmap(&self, call: portmap::Call<'_>, xid: u32, out: &mut Outbox) {
        self.counters.portmap_calls.add(1);
        let reply = match call {
            portmap::Call::Null => portmap::Reply::Null,
            portmap::Call::Set(_) => portmap::Reply::Set(false),
            portmap::Call::Unset(_) => portmap::Reply::Unset(false),
            portmap::Call::Getport(wanted) => {
                // 0 means that the program is not registered. The port in the request is ignored
                // (RFC 1833 section 3.2).
                let mut mappings = self.shared.registrations.iter().map(Registered::mapping);
                let found = mappings.find(|own| *own == Mapping { port: own.port, ..wanted });
                portmap::Reply::Getport(found.map_or(0, |mapping| mapping.port))
            }
            portmap::Call::Dump => {
                let mut mappings: Vec<_> =
                    self.shared.registrations.iter().map(Registered::mapping).collect();
                mappings.dedup();
                let reply = Reply::Portmap(portmap::Reply::Dump(&mappings));
                return encode_reply(out.head(), xid, &reply);
            }
            portmap::Call::Callit(_) => {
                return encode_refusal(out.head(), xid, RpcError::ProcedureUnavailable);
            }
        };
        encode_reply(out.head(), xid, &Reply::Portmap(reply));
    }

    /// Executes a call of rpcbind v3 or v4.
    pub(super) fn answer_rpcbind(&self, call: rpcbind::Call<'_>, xid: u32, out: &mut Outbox) {
        self.counters.portmap_calls.add(1);
        let all = &self.shared.registrations;
        let mut reply = |reply| encode_reply(out.head(), xid, &Reply::Rpcbind(reply));
        match call {
            rpcbind::Call::Null => reply(rpcbind::Reply::Null),
            rpcbind::Call::Set(_) | rpcbind::Call::Unset(_) => reply(rpcbind::Reply::Done(false)),
            rpcbind::Call::Getaddr(wanted) => {
                // If the server has the program only in other versions, it returns one of them: the
                // call itself then fails with the range of versions (RFC 1833 section 2.2.1).
                let exact = all.iter().find(|listed| is_exactly(listed, &wanted));
                let found = exact.or_else(|| all.iter().find(|listed| serves(listed, &wanted)));
                reply(rpcbind::Reply::Address(address_text(found)));
            }
            rpcbind::Call::Getversaddr(wanted) => {
                let found = all.iter().find(|listed| is_exactly(listed, &wanted));
                reply(rpcbind::Reply::Address(address_text(found)));
            }
            rpcbind::Call::Dump => {
                let list: Vec<_> = all.iter().map(Registered::registration).collect();
                reply(rpcbind::Reply::Dump(&list));
            }
            rpcbind::Call::Getaddrlist(wanted) => {
                let list: Vec<_> = all
                    .iter()
                    .filter(|listed| {
                        (listed.program, listed.version) == (wanted.program, wanted.version)
                    })
                    .map(|listed| listed.entry())
                    .collect();
                reply(rpcbind::Reply::Addresses(&list));
            }
            rpcbind::Call::Gettime => reply(rpcbind::Reply::Time(self.now.seconds())),
            rpcbind::Call::ToBinary(text) => {
                let bytes = UniversalAddress::parse(text).map_or_else(Vec::new, sockaddr::encode);
                let bytes_max = bytes.len() as u32;
                reply(rpcbind::Reply::Binary(Netbuf { bytes_max, bytes: &bytes }));
            }
            rpcbind::Call::ToText(netbuf) => {
                let address = sockaddr::decode(netbuf.bytes).map(UniversalAddress::new);
                let text = address.as_ref().map_or(&b""[..], UniversalAddress::as_bytes);
                reply(rpcbind::Reply::Address(text));
            }
            rpcbind::Call::Broadcast(_) | rpcbind::Call::Indirect(_) | rpcbind::Call::Getstat => {
                encode_refusal(out.head(), xid, RpcError::ProcedureUnavailable);
            }
        }
    }
}

/// The address of a registration; empty if there is none.
fn address_text(found: Option<&Registered>) -> &[u8] {
    found.map_or(b"", |found| found.address.as_bytes())
}

/// Returns true if this is the requested program, in any version, over the requested transport.
fn serves(listed: &Registered, wanted: &rpcbind::Registration<'_>) -> bool {
    listed.program == wanted.program && listed.netid.name().as_bytes() == wanted.netid
}

fn is_exactly(listed: &Registered, wanted: &rpcbind::Registration<'_>) -> bool {
    serves(listed, wanted) && listed.version == wanted.version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn netids(listener: &str, transport: Transport) -> Vec<(NetId, String)> {
        let only_3 = OfferedPrograms { nfs3: true, ..OfferedPrograms::NONE };
        let list = registrations(listener.parse().unwrap(), transport, only_3);
        assert!(list.iter().all(|listed| (listed.program, listed.version) == (100_003, 3)));
        let text = |listed: &Registered| String::from_utf8_lossy(listed.address.as_bytes()).into();
        list.iter().map(|listed| (listed.netid, text(listed))).collect()
    }

    #[test]
    fn registers_listening_address() {
        let v4 = netids("127.0.0.1:2049", Transport::Tcp);
        assert_eq!(v4, [(NetId::Tcp, "127.0.0.1.8.1".to_owned())]);
        let v6 = netids("[::1]:2049", Transport::Udp);
        assert_eq!(v6, [(NetId::Udp6, "::1.8.1".to_owned())]);
        let any = netids("[::]:2049", Transport::Tcp);
        let both = [(NetId::Tcp6, "::.8.1".to_owned()), (NetId::Tcp, "0.0.0.0.8.1".to_owned())];
        assert_eq!(any, both);
    }

    #[test]
    fn registers_everything_offered() {
        let address = "127.0.0.1:1".parse().unwrap();
        let all = registrations(address, Transport::Tcp, OfferedPrograms::ALL);
        assert_eq!(all.len(), OfferedPrograms::ALL.table().len());
        assert!(registrations(address, Transport::Tcp, OfferedPrograms::NONE).is_empty());
    }
}
