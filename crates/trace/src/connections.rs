//! The connections of a trace, with the hosts at their ends.
//!
//! [`Connection`] is what the trace file holds of one. Hosts are numbered by their addresses, which
//! are kept as keyed hashes, or as they are where the user wants it.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::packet::Endpoint;
use crate::secret::{Domain, Secret};

/// The most hosts of each kind that are kept apart; further ones share the last number.
const HOSTS_MAX: usize = 1 << 20;

/// A transport of RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A stream with record marks.
    Tcp,
    /// One message in each datagram.
    Udp,
}

/// A connection, or a pair of UDP ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Number of the connection, from 0 on.
    pub number: u32,
    /// Number of the client's host, from 1 on.
    pub client: u32,
    /// Number of the server's host, from 1 on.
    pub server: u32,
    /// Keyed hash of the client's address in hexadecimal, or the address.
    pub client_address: String,
    /// Keyed hash of the server's address in hexadecimal, or the address.
    pub server_address: String,
    /// Port of the server.
    pub server_port: u16,
    /// Transport of the calls.
    pub transport: Transport,
    /// Version of IP: 4 or 6.
    pub ip: u8,
}

/// Numbers of hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    clients: HashMap<IpAddr, u32>,
    servers: HashMap<IpAddr, u32>,
    connections: u32,
}

/// Whether names and addresses are kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Only keyed hashes are kept.
    #[default]
    Hashed,
    /// They are kept.
    Kept,
}

impl Hosts {
    /// Makes the entry of a connection from a client to a server.
    pub fn connect(
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

    /// Returns how many connections there are.
    pub const fn connections(&self) -> u32 {
        self.connections
    }

    /// Returns how many hosts sent calls.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Returns an address as it stands in the trace.
pub fn address_text(names: Names, secret: &Secret, address: IpAddr) -> String {
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
