//! This program's own server, without faults and in memory, in a process of its own.
//!
//! Started by a link of ours as the servers of others are, so that the undo log alone suffices to
//! end it: after the agent that started it was killed, too. Needs no rights, and lets in nobody
//! but the clients. It speaks NFS, MOUNT and TCP without RPC on one port.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::lab::OWN_PORT;

use super::{Known, program_undo};
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::undo::Undo;
use crate::{RUN, servers};

const PROGRAM: &str = "dfsbench";
const PATIENCE: Duration = Duration::from_secs(20);

/// Facts about the host that the server's start needs.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// This very program.
    program: PathBuf,
    /// Addresses of its clients.
    clients: Vec<String>,
    /// Address that it listens on; empty for the loopback.
    listen: &'static str,
}

impl Host {
    /// Looks where this program is, and where the clients are.
    ///
    /// # Errors
    /// Where a client has no address that this host knows.
    pub fn now(clients: &str) -> Result<Self, LabError> {
        let program = std::env::current_exe();
        let program = program.map_err(|error| LabError::file("find", Path::new(PROGRAM), error))?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for name in clients.split_whitespace() {
            let found = (name.trim_matches(['[', ']']), 0).to_socket_addrs().map_err(|error| {
                let hint = "give its `address` in the plan";
                LabError::Unable(format!("no address of client {name}: {error} ({hint})"))
            })?;
            addresses.extend(found.map(|address| address.ip().to_canonical()));
        }
        addresses.sort_unstable();
        addresses.dedup();
        let far: Vec<&IpAddr> = addresses.iter().filter(|one| !one.is_loopback()).collect();
        let listen = match far.iter().all(|address| address.is_ipv4()) {
            _ if far.is_empty() => "",
            true => "0.0.0.0",
            false => "::",
        };
        Ok(Self { program, clients: far.iter().map(ToString::to_string).collect(), listen })
    }

    /// Returns the facts that a dry run assumes.
    pub fn unknown(clients: &str) -> Self {
        let clients: Vec<String> = clients.split_whitespace().map(str::to_owned).collect();
        let is_near = clients.iter().all(|client| client == "127.0.0.1");
        let listen = if is_near { "" } else { "0.0.0.0" };
        Self { program: PROGRAM.into(), clients, listen }
    }
}

/// Returns the steps that start the server.
pub fn steps(memory_bytes: u64, udp: bool, known: &Known) -> Vec<Step> {
    let (folder, host) = (folder(), &known.own);
    let mut argv = vec![host.program.display().to_string(), "serve".to_owned()];
    let mut add = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
    add("--port", &OWN_PORT.to_string());
    // One for each processor: the host is the server's.
    add("--threads", "0");
    if memory_bytes > 0 {
        add("--memory", &memory_bytes.to_string());
    }
    if !host.listen.is_empty() {
        add("--listen", host.listen);
        host.clients.iter().for_each(|client| add("--allow", client));
    }
    if !udp {
        argv.push("--no-udp".to_owned());
    }
    let link = folder.join(PROGRAM);
    vec![Step::Folder(folder), Step::Start { link, argv, as_root: false }]
}

/// Ends the server.
///
/// # Errors
/// Where its port is taken.
pub fn undo() -> Result<Vec<Undo>, LabError> {
    if servers::answers(OWN_PORT) {
        let what = format!("no server of ours is started: something answers on port {OWN_PORT}");
        return Err(LabError::Refused(what));
    }
    Ok(program_undo(&folder(), PROGRAM))
}

/// Waits until it serves.
///
/// # Errors
/// Where it doesn't come up, with what it says.
pub fn check() -> Result<EffectiveSettings, LabError> {
    let folder = folder();
    let is_up = || servers::serves(OWN_PORT, 3);
    let said = Step::said_by(&folder.join(PROGRAM));
    servers::await_up("our server", &folder.join(PROGRAM), &said, PATIENCE, is_up)?;
    let mut findings = Findings::new("server");
    let version = concat!("dfsbench ", env!("CARGO_PKG_VERSION"), ", in memory, without faults");
    findings.fact("server", version, format!("NULL call to port {OWN_PORT}"));
    Ok(findings.done())
}

fn folder() -> PathBuf {
    Path::new(RUN).join("own-server")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host: Host, memory_bytes: u64, udp: bool) -> String {
        let known = Known { own: host, ..Known::default() };
        steps(memory_bytes, udp, &known).last().unwrap().to_string()
    }

    #[test]
    fn only_the_clients_are_let_in() {
        let shown = line(Host::unknown("10.0.0.2 web"), 1 << 20, false);
        let expected = "dfsbench serve --port 20492 --threads 0 --memory 1048576 --listen 0.0.0.0 \
                        --allow 10.0.0.2 --allow web --no-udp &";
        assert_eq!(shown, expected);
        let near = line(Host::unknown("127.0.0.1"), 0, true);
        assert_eq!(near, "dfsbench serve --port 20492 --threads 0 &");
        let found = Host::now("10.0.0.2 [fd00::1] 10.0.0.2 localhost").unwrap();
        assert_eq!((found.clients.join(" "), found.listen), ("10.0.0.2 fd00::1".into(), "::"));
        assert_eq!(Host::now("10.0.0.2").unwrap().listen, "0.0.0.0");
        assert_eq!(Host::now("127.0.0.1").unwrap().listen, "");
        let error = Host::now("no-such-host.invalid").unwrap_err().to_string();
        assert!(error.contains("no-such-host.invalid") && error.contains("address"), "{error}");
    }
}
