//! A tunnel: the user's own `ssh` carries a port of this host's loopback to another's.
//!
//! Runs as who we are, not as root: the keys are the user's. What was negotiated is read from
//! ssh's own log. **Source:** ssh(1), `-L`, `-C`, `-c`, `-E`; ssh_config(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{EffectiveSettings, RemotePort};

use super::program_undo;
use crate::RUN;
use crate::commands::exchange;
use crate::compose::bracketed;
use crate::error::LabError;
use crate::findings::Findings;
use crate::portmap;
use crate::processes;
use crate::servers;
use crate::step::Step;
use crate::undo::Undo;

/// The longest time until a connection stands.
const PATIENCE: Duration = Duration::from_secs(30);

/// Destination of an ssh connection.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// A name or an address, with a user or without.
    pub host: &'a str,
    /// The configuration file that names it.
    pub config: Option<&'a Path>,
}

impl Destination<'_> {
    /// The last arguments of ssh: the configuration is one argument, whatever its name holds, and
    /// the host is never taken for an option.
    fn arguments(&self) -> Vec<String> {
        let mut argv = Vec::new();
        if let Some(config) = self.config {
            argv.extend(["-F".to_owned(), config.display().to_string()]);
        }
        argv.extend(["--".to_owned(), self.host.to_owned()]);
        argv
    }
}

/// The longest time for a portmapper's answer, ssh's login included.
const PORTMAP_PATIENCE: Duration = Duration::from_secs(20);
/// Options of every ssh here: it asks nobody, and nobody else's connection is used.
const ALONE: [&str; 3] = ["BatchMode=yes", "ControlMaster=no", "ControlPath=none"];

/// Both ends of a tunnel.
pub struct Wanted<'a> {
    /// Destination by which `ssh` finds the other host.
    pub destination: Destination<'a>,
    /// Port of this host's loopback.
    pub local_port: u16,
    /// Address that the other host forwards to.
    pub address: &'a str,
    /// The port there.
    pub remote_port: RemotePort,
}

/// Starts ssh in the background; `mount_port` is what [`mount_port`] found.
pub fn steps(
    wanted: &Wanted<'_>,
    mount_port: Option<u16>,
    compression: bool,
    cipher: Option<&str>,
) -> Vec<Step> {
    let Wanted { destination, local_port, address, remote_port } = *wanted;
    let folder = folder(local_port);
    let mut argv: Vec<String> = ["ssh", "-N", "-T", "-v", "-E"].map(str::to_owned).to_vec();
    argv.push(folder.join("log").display().to_string());
    let steady = ["ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=4"];
    let word = if compression { "Compression=yes" } else { "Compression=no" };
    for option in ALONE.into_iter().chain(steady).chain([word]) {
        argv.extend(["-o".to_owned(), option.to_owned()]);
    }
    if let Some(cipher) = cipher {
        argv.extend(["-c".to_owned(), cipher.to_owned()]);
    }
    let port = match (remote_port, mount_port) {
        (RemotePort::Number(port), _) | (RemotePort::Mount { .. }, Some(port)) => port.to_string(),
        // Only a dry run doesn't know it.
        (RemotePort::Mount { .. }, None) => "MOUNT_PORT".to_owned(),
    };
    let forward = format!("127.0.0.1:{local_port}:{}:{port}", bracketed(address));
    argv.extend(["-L".to_owned(), forward]);
    argv.extend(destination.arguments());
    let link = folder.join("ssh");
    vec![Step::Folder(folder), Step::Start { link, argv, as_root: false }]
}

/// Asks the portmapper of the other host for the port of its MOUNT service, where that is wanted.
///
/// The question goes through ssh, as all that follows: the portmapper may serve its own host alone.
///
/// # Errors
/// Where it can't be requested, or knows no such service.
pub fn mount_port(
    destination: &Destination<'_>,
    address: &str,
    wanted: RemotePort,
) -> Result<Option<u16>, LabError> {
    let RemotePort::Mount { version } = wanted else { return Ok(None) };
    let mut argv = vec!["ssh".to_owned(), "-T".to_owned()];
    for option in ALONE {
        argv.extend(["-o".to_owned(), option.to_owned()]);
    }
    argv.extend(["-W".to_owned(), format!("{}:{}", bracketed(address), portmap::PORT)]);
    argv.extend(destination.arguments());
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let call = portmap::mount_port_call(version);
    let reply = exchange(&argv, &call, portmap::REPLY_BYTES, PORTMAP_PATIENCE);
    let reply = reply.map_err(|why| {
        LabError::Unable(format!(
            "the portmapper of the server ({address}, port {}) can't be asked through ssh for the \
             port of MOUNT v{version}: {why} (hint: is rpcbind running there?)",
            portmap::PORT
        ))
    })?;
    match portmap::port_of(&reply) {
        Some(0) => Err(LabError::Unable(format!(
            "the portmapper of the server ({address}) knows no MOUNT service v{version} over TCP \
             (hint: `rpcinfo -p` there; is rpc.mountd running, and does the server serve this \
             version of NFS?)"
        ))),
        Some(port) => Ok(Some(port)),
        None => Err(LabError::Unable(format!(
            "what answers at port {} of the server ({address}) is no portmapper: {reply:02x?}",
            portmap::PORT
        ))),
    }
}

/// Ends the tunnel.
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
) -> Result<EffectiveSettings, LabError> {
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

    fn forwarded(remote_port: RemotePort, mount_port: Option<u16>, address: &str) -> String {
        let destination = Destination { host: "s", config: Some(Path::new("x")) };
        let wanted = Wanted { destination, local_port: 20_491, address, remote_port };
        let steps = steps(&wanted, mount_port, false, None);
        let shown = steps.last().unwrap().to_string();
        let (_, after) = shown.split_once(" -L ").unwrap();
        assert!(after.ends_with(" -F x -- s &"), "{shown}");
        after.split(' ').next().unwrap().to_owned()
    }

    #[test]
    fn what_is_forwarded_goes_to_the_address_and_to_the_port_that_was_found() {
        let mount = RemotePort::Mount { version: 3 };
        assert_eq!(forwarded(mount, Some(41_234), "10.0.0.1"), "127.0.0.1:20491:10.0.0.1:41234");
        let nfs = RemotePort::Number(2_049);
        assert_eq!(forwarded(nfs, None, "127.0.0.1"), "127.0.0.1:20491:127.0.0.1:2049");
        assert!(forwarded(nfs, None, "fe80::1").contains("20491:[fe80::1]:2049"));
    }

    #[test]
    fn a_portmapper_that_cannot_be_asked_is_named_with_the_reason_of_ssh() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        fs::write(&config, "Host nobody\n Port 1\n HostName 127.0.0.1\n").unwrap();
        let ssh = &Destination { host: "nobody", config: Some(&config) };
        if crate::commands::find("ssh").is_none() {
            return;
        }
        assert_eq!(mount_port(ssh, "10.0.0.1", RemotePort::Number(1)).unwrap(), None);
        let error = mount_port(ssh, "10.0.0.1", RemotePort::Mount { version: 3 }).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("the portmapper of the server (10.0.0.1, port 111)"), "{error}");
        assert!(error.contains("MOUNT v3") && error.contains("refused"), "{error}");
    }

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
