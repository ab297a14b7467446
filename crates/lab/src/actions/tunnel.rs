//! A tunnel: the user's own `ssh` carries a port of this host's loopback to another's.
//!
//! Runs as who we are, not as root: the keys are the user's. What was negotiated is read from
//! ssh's own log. **Source:** ssh(1), `-L`, `-C`, `-c`, `-E`; ssh_config(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::InForce;

use super::program_undo;
use crate::RUN;
use crate::error::LabError;
use crate::inforce::Findings;
use crate::processes;
use crate::servers;
use crate::step::Step;
use crate::undo::Undo;

/// What a connection may take until it stands.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where ssh goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// A name or an address, with a user or without.
    pub host: &'a str,
    /// The configuration file that names it.
    pub config: Option<&'a Path>,
}

/// Starts ssh in the background.
pub fn steps(
    destination: &Destination<'_>,
    [local_port, remote_port]: [u16; 2],
    compression: bool,
    cipher: Option<&str>,
) -> Vec<Step> {
    let folder = folder(local_port);
    let mut argv: Vec<String> = ["ssh", "-N", "-T", "-v", "-E"].map(str::to_owned).to_vec();
    argv.push(folder.join("log").display().to_string());
    let alone = ["BatchMode=yes", "ExitOnForwardFailure=yes", "ControlMaster=no"];
    let steady = ["ControlPath=none", "ServerAliveInterval=15", "ServerAliveCountMax=4"];
    let word = if compression { "Compression=yes" } else { "Compression=no" };
    for option in alone.into_iter().chain(steady).chain([word]) {
        argv.extend(["-o".to_owned(), option.to_owned()]);
    }
    if let Some(cipher) = cipher {
        argv.extend(["-c".to_owned(), cipher.to_owned()]);
    }
    let forward = format!("127.0.0.1:{local_port}:127.0.0.1:{remote_port}");
    argv.extend(["-L".to_owned(), forward]);
    if let Some(config) = destination.config {
        argv.extend(["-F".to_owned(), config.display().to_string()]);
    }
    argv.extend(["--".to_owned(), destination.host.to_owned()]);
    let link = folder.join("ssh");
    vec![Step::Folder(folder), Step::Start { link, argv, as_root: false }]
}

/// Ends it.
///
/// # Errors
/// Where the port is taken.
pub fn undo(local_port: u16) -> Result<Vec<Undo>, LabError> {
    let folder = folder(local_port);
    if processes::running_by(&folder.join("ssh")).is_empty() && servers::answers(local_port) {
        return Err(LabError::Refused(format!("port {local_port} of the loopback is taken")));
    }
    Ok(program_undo(&folder, "ssh"))
}

/// Waits until the tunnel stands and reads back what was negotiated.
///
/// # Errors
/// Where it doesn't, with what ssh says.
pub fn check(
    local_port: u16,
    compression: bool,
    cipher: Option<&str>,
) -> Result<InForce, LabError> {
    let folder = folder(local_port);
    let log = folder.join("log");
    let standing = || servers::answers(local_port);
    servers::await_up("the ssh tunnel", &folder.join("ssh"), &log, PATIENCE, standing)?;
    let text = fs::read_to_string(&log).unwrap_or_default();
    let source = format!("ssh -v, {}", log.display());
    let mut findings = Findings::new("network");
    findings.fact("tunnel", format!("port {local_port}"), &source);
    let (found_cipher, found_compression) = negotiated(&text);
    match cipher {
        Some(cipher) => findings.compare("cipher of the tunnel", cipher, &found_cipher, &source),
        None => findings.fact("cipher of the tunnel", found_cipher, &source),
    }
    let word = |on: bool| if on { "yes" } else { "no" };
    let found = word(found_compression != "none");
    findings.compare("compression of the tunnel", word(compression), found, &source);
    Ok(findings.done())
}

/// Cipher and compression towards the server, of ssh's log.
fn negotiated(log: &str) -> (String, String) {
    let line = log.lines().rfind(|line| line.contains("kex: client->server"));
    let after = |name: &str| {
        let rest = line.and_then(|line| line.split_once(name)).map_or("", |(_, rest)| rest);
        rest.split_whitespace().next().unwrap_or("unknown").to_owned()
    };
    (after("cipher:"), after("compression:"))
}

fn folder(local_port: u16) -> PathBuf {
    Path::new(RUN).join(format!("tunnel-{local_port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_negotiated_is_read_from_its_log() {
        let log = "debug1: kex: server->client cipher: aes128-ctr MAC: <implicit> compression: \
                   none\r\ndebug1: kex: client->server cipher: aes256-gcm@openssh.com MAC: \
                   <implicit> compression: zlib@openssh.com\r\n";
        let found = negotiated(log);
        assert_eq!(found, ("aes256-gcm@openssh.com".to_owned(), "zlib@openssh.com".to_owned()));
        assert_eq!(negotiated(""), ("unknown".to_owned(), "unknown".to_owned()));
    }
}
