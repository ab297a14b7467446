//! The address on which a controller listens, and the one that its agents connect to.
//!
//! A name is resolved here for listening, and passed on unresolved, because it may resolve to
//! another address on the hosts of agents.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};

use super::JobError;

/// An address, and its name for other hosts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListenAddress {
    /// The socket to listen on; port 0 picks any.
    pub(super) socket: SocketAddr,
    /// The name by which agents reach this host.
    name: String,
}

impl ListenAddress {
    /// Parses `--listen`; without it, the address is `default_ip` with any port.
    ///
    /// # Errors
    /// If it is not an address of any host.
    pub(super) fn parse(text: Option<&str>, default_ip: Ipv4Addr) -> Result<Self, JobError> {
        let Some(text) = text else {
            return Ok(Self::from_ip(default_ip.into(), 0));
        };
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::from_ip(ip, 0));
        }
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self::from_ip(socket.ip(), socket.port()));
        }
        let (name, port) = text.rsplit_once(':').unwrap_or((text, "0"));
        let why = match port.parse::<u16>() {
            Ok(port) => match (name, port).to_socket_addrs() {
                Ok(mut found) => match found.next() {
                    Some(socket) => return Ok(Self { socket, name: name.to_owned() }),
                    None => "the name has no address".to_owned(),
                },
                Err(error) => error.to_string(),
            },
            Err(_) => format!("`{port}` is not a port"),
        };
        let hint = "use an address or name of this host, such as 10.0.0.1:7411";
        Err(JobError::Request(format!("--listen {text}: {why} (hint: {hint})")))
    }

    fn from_ip(ip: IpAddr, port: u16) -> Self {
        let name = match ip {
            ip if ip.is_unspecified() => host_name(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        Self { socket: SocketAddr::new(ip, port), name }
    }

    /// Returns the address for agents, once the port is known.
    pub(super) fn agent_address(&self, port: u16) -> String {
        format!("{}:{port}", self.name)
    }
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: Option<&str>, default_ip: Ipv4Addr) -> (String, String) {
        let place = ListenAddress::parse(text, default_ip).unwrap();
        (place.socket.to_string(), place.agent_address(9))
    }

    #[test]
    fn uses_default_address() {
        let pair = |socket: &str, name: &str| (socket.to_owned(), format!("{name}:9"));
        assert_eq!(parsed(None, Ipv4Addr::LOCALHOST), pair("127.0.0.1:0", "127.0.0.1"));
        assert_eq!(parsed(None, Ipv4Addr::UNSPECIFIED), pair("0.0.0.0:0", &host_name()));
        assert_eq!(parsed(Some("10.0.0.7"), Ipv4Addr::UNSPECIFIED), pair("10.0.0.7:0", "10.0.0.7"));
        assert_eq!(
            parsed(Some("10.0.0.7:71"), Ipv4Addr::UNSPECIFIED),
            pair("10.0.0.7:71", "10.0.0.7")
        );
        assert_eq!(parsed(Some("::1"), Ipv4Addr::UNSPECIFIED), pair("[::1]:0", "[::1]"));
        assert_eq!(parsed(Some("[::1]:71"), Ipv4Addr::UNSPECIFIED), pair("[::1]:71", "[::1]"));
        // Names are unchanged.
        let (socket, name) = parsed(Some("localhost:71"), Ipv4Addr::UNSPECIFIED);
        assert!(socket.ends_with(":71") && name == "localhost:9", "{socket} {name}");
    }

    #[test]
    fn rejects_bad_addresses() {
        let [port, host] = ["127.0.0.1:x", "no such host"].map(|text| {
            ListenAddress::parse(Some(text), Ipv4Addr::UNSPECIFIED).unwrap_err().to_string()
        });
        insta::assert_snapshot!(port);
        // The reason is a text of the C library.
        assert!(host.starts_with("--listen no such host: "), "{host}");
    }
}
