//! This program's own in-memory server, running without faults in a separate process.
//!
//! Like external servers, it is started through a symlink of ours, so the undo log is all that is
//! needed to stop it, even if the agent that started it was killed. It needs no privileges and only
//! accepts the configured clients. It serves NFS, MOUNT, and TCP without RPC on a single port.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::OwnServer;
use model::lab::OWN_PORT;
use model::options::check_clients;

use super::accept::accept;
use super::{LabAction, program_undo};
use crate::RUN;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::RunAs;
use crate::commands::search::find_ours;
use crate::error::LabError;
use crate::host::servers;
use crate::undo::Undo;

const PROGRAM: &str = "dfsbench";
const PATIENCE: Duration = Duration::from_secs(20);

/// Facts needed to start the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnServerFacts {
    program: PathBuf,
    /// Addresses of clients on other hosts.
    clients: Vec<String>,
    /// Address to listen on; empty for loopback.
    listen: &'static str,
}

impl LabAction for OwnServer {
    type Facts = OwnServerFacts;

    fn accept(&self) -> Result<(), LabError> {
        accept("clients", check_clients(&self.clients))
    }

    /// Locates this program and resolves the clients' names.
    fn look(&self) -> Result<OwnServerFacts, LabError> {
        let program = find_ours()?;
        let far = far_addresses(&self.clients)?;
        // If there is an IPv6 address, use one socket for both families.
        let listen = if far.is_empty() {
            ""
        } else if far.iter().all(IpAddr::is_ipv4) {
            "0.0.0.0"
        } else {
            "::"
        };
        let clients: Vec<_> = far.into_iter().map(|address| address.to_string()).collect();
        Ok(OwnServerFacts { program, clients, listen })
    }

    fn assume(&self) -> OwnServerFacts {
        let clients: Vec<String> = self.clients.split_whitespace().map(str::to_owned).collect();
        let is_near = clients.iter().all(|client| client == "127.0.0.1");
        let listen = if is_near { "" } else { "0.0.0.0" };
        OwnServerFacts { program: PROGRAM.into(), clients, listen }
    }

    fn steps(&self, facts: &OwnServerFacts) -> Vec<Step> {
        let folder = folder();
        let mut argv = vec![facts.program.display().to_string()];
        // 0: one thread per CPU, since the server has the host to itself.
        argv.extend(
            ["serve", "--port", &OWN_PORT.to_string(), "--threads", "0"].map(str::to_owned),
        );
        if self.memory_bytes > 0 {
            argv.extend(["--memory".to_owned(), self.memory_bytes.to_string()]);
        }
        if !facts.listen.is_empty() {
            argv.extend(["--listen", facts.listen].map(str::to_owned));
            argv.extend(
                facts.clients.iter().flat_map(|client| ["--allow".to_owned(), client.clone()]),
            );
        }
        if !self.udp {
            argv.push("--no-udp".to_owned());
        }
        let link = folder.join(PROGRAM);
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Caller }]
    }

    /// Stops the server. Fails if its port is in use.
    fn undo(&self, _facts: &OwnServerFacts, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        if servers::answers(OWN_PORT) {
            return Err(LabError::Refused(format!(
                "cannot start the in-memory server: port {OWN_PORT} is already in use"
            )));
        }
        Ok(program_undo(&folder(), PROGRAM))
    }

    /// Waits until the server is up. On failure, the error contains its output.
    fn check(&self, _facts: &OwnServerFacts) -> Result<EffectiveSettings, LabError> {
        let link = folder().join(PROGRAM);
        let log = Step::stderr_of(&link);
        servers::await_up("the in-memory server", &link, &log, PATIENCE, || {
            servers::serves(OWN_PORT, 3)
        })?;
        let mut findings = Findings::new("server");
        let version =
            concat!("dfsbench ", env!("CARGO_PKG_VERSION"), ", in memory, without faults");
        findings.fact("server", version, format!("NULL call to port {OWN_PORT}"));
        Ok(findings.finish())
    }
}

/// Resolves the clients' names to distinct addresses, leaving out loopback.
fn far_addresses(clients: &str) -> Result<Vec<IpAddr>, LabError> {
    let mut addresses = Vec::new();
    for name in clients.split_whitespace() {
        let found = match (name.trim_matches(['[', ']']), 0).to_socket_addrs() {
            Ok(found) => found,
            Err(error) => {
                let hint = "set its `address` in the plan";
                return Err(LabError::Unable(format!(
                    "no address for client {name}: {error} (hint: {hint})"
                )));
            }
        };
        for address in found {
            // The server sees an IPv4-mapped IPv6 address as IPv4.
            let address = address.ip().to_canonical();
            if !address.is_loopback() {
                addresses.push(address);
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

fn folder() -> PathBuf {
    Path::new(RUN).join("own-server")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(clients: &str) -> OwnServer {
        OwnServer { clients: clients.to_owned(), memory_bytes: 0, udp: true }
    }

    fn start_line(server: &OwnServer) -> String {
        server.steps(&server.assume()).last().unwrap().to_string()
    }

    #[test]
    fn only_the_clients_are_let_in() {
        let far = OwnServer { memory_bytes: 1 << 20, udp: false, ..server("10.0.0.2 web") };
        let expected = "dfsbench serve --port 20492 --threads 0 --memory 1048576 --listen 0.0.0.0 \
                        --allow 10.0.0.2 --allow web --no-udp &";
        assert_eq!(start_line(&far), expected);
        let near = start_line(&server("127.0.0.1"));
        assert_eq!(near, "dfsbench serve --port 20492 --threads 0 &");
        let found = server("10.0.0.2 [fd00::1] 10.0.0.2 localhost").look().unwrap();
        assert_eq!((found.clients.join(" "), found.listen), ("10.0.0.2 fd00::1".into(), "::"));
        assert_eq!(server("10.0.0.2").look().unwrap().listen, "0.0.0.0");
        assert_eq!(server("127.0.0.1").look().unwrap().listen, "");
        let error = server("no-such-host.invalid").look().unwrap_err().to_string();
        assert!(error.contains("no-such-host.invalid") && error.contains("address"), "{error}");
    }
}
