//! Connections of a trace, with the hosts at their ends.
//!
//! [`Connection`] is the entry in the trace file. Hosts are numbered by address. Addresses are
//! stored as keyed hashes, or in plain text if the user wants that.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::packet::Endpoint;
use crate::secret::{Domain, Secret};

/// Maximum number of hosts of each kind to tell apart; all others share the last number.
const HOSTS_MAX: usize = 1 << 20;

/// A transport of RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A stream with record marks.
    Tcp,
    /// One message per datagram.
    Udp,
}

/// A connection, or a pair of UDP ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Number of the connection, starting at 0.
    pub number: u32,
    /// Number of the client host, starting at 1.
    pub client: u32,
    /// Number of the server host, starting at 1.
    pub server: u32,
    /// Address of the client, or its keyed hash in hexadecimal.
    pub client_address: String,
    /// Address of the server, or its keyed hash in hexadecimal.
    pub server_address: String,
    pub server_port: u16,
    /// Transport of the calls.
    pub transport: Transport,
    /// IP version: 4 or 6.
    pub ip: u8,
}

/// Numbers of hosts.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    clients: HashMap<IpAddr, u32>,
    servers: HashMap<IpAddr, u32>,
    connections: u32,
}

/// Whether names and addresses are kept in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Only keep keyed hashes.
    #[default]
    Hashed,
    /// Keep them in plain text.
    Kept,
}

impl Hosts {
    /// Creates the entry for a connection from a client to a server.
    pub(crate) fn connect(
        &mut self,
        client: Endpoint,
        server: Endpoint,
        transport: Transport,
        address_text: impl Fn(IpAddr) -> String,
    ) -> Connection {
        let number = self.connections;
        self.connections += 1;
        Connection {
            number,
            client: number_of(&mut self.clients, client.address),
            server: number_of(&mut self.servers, server.address),
            client_address: address_text(client.address),
            server_address: address_text(server.address),
            server_port: server.port,
            transport,
            ip: if server.address.is_ipv4() { 4 } else { 6 },
        }
    }

    /// Returns the number of connections.
    pub(crate) const fn connections(&self) -> u32 {
        self.connections
    }

    /// Returns the number of hosts that sent calls.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Returns an address in the form used in the trace.
pub(crate) fn address_text(names: Names, secret: &Secret, address: IpAddr) -> String {
    if names == Names::Kept {
        return address.to_string();
    }
    let hash = match address {
        IpAddr::V4(address) => secret.hash(Domain::Address, &address.octets()),
        IpAddr::V6(address) => secret.hash(Domain::Address, &address.octets()),
    };
    format!("{hash:014x}")
}

fn number_of(hosts: &mut HashMap<IpAddr, u32>, address: IpAddr) -> u32 {
    let next = hosts.len() as u32 + 1;
    if hosts.len() >= HOSTS_MAX {
        return hosts.get(&address).copied().unwrap_or(HOSTS_MAX as u32);
    }
    *hosts.entry(address).or_insert(next)
}
