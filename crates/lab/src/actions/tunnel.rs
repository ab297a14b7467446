//! A tunnel: the user's own `ssh` carries a port of this host's loopback to another's.
//!
//! Runs as who we are, not as root: the keys are the user's. What was negotiated is read from
//! ssh's own log. **Source:** ssh(1), `-L`, `-C`, `-c`, `-E`; ssh_config(5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::action::Tunnel;
use model::lab::bracketed;
use model::options::OptionError;
use model::options::{check_address, check_path, check_ssh_destination, check_tunnel_cipher};
use model::{EffectiveSettings, RemotePort};

use super::accept::accept;
use super::{LabAction, Layer, program_undo};
use crate::RUN;
use crate::commands::{RunAs, exchange};
use crate::error::LabError;
use crate::findings::Findings;
use crate::portmap;
use crate::processes;
use crate::servers;
use crate::step::Step;
use crate::undo::Undo;

/// The longest time until a connection stands.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time for a portmapper's answer, ssh's login included.
const PORTMAP_PATIENCE: Duration = Duration::from_secs(20);
/// Options of every ssh here: it asks for no password, and uses no other ssh's connection.
const ALONE: [&str; 3] = ["BatchMode=yes", "ControlMaster=no", "ControlPath=none"];

/// Options that end ssh where it can't forward, or where the other host is silent for a minute.
const STEADY: [&str; 3] =
    ["ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=4"];

/// Destination of an ssh connection.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// A name or an address, with a user or without.
    pub host: &'a str,
    /// The configuration file that names it.
    pub config: Option<&'a Path>,
}

impl Destination<'_> {
    /// Parses both texts.
    ///
    /// # Errors
    /// Where one of them isn't what it may be.
    pub(super) fn accept(&self) -> Result<(), LabError> {
        accept("ssh", check_ssh_destination(self.host))?;
        match self.config {
            Some(config) => accept("ssh_config", check_config_name(config)),
            None => Ok(()),
        }
    }

    /// The last arguments of ssh: the configuration is one argument, whatever its name holds, and
    /// the host is never taken for an option.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut argv = Vec::new();
        if let Some(config) = self.config {
            argv.extend(["-F".to_owned(), config.display().to_string()]);
        }
        argv.extend(["--".to_owned(), self.host.to_owned()]);
        argv
    }
}

impl LabAction for Tunnel {
    /// The port of the other host's MOUNT service; `None` where the action names a port.
    type Facts = Option<u16>;

    fn accept(&self) -> Result<(), LabError> {
        accept("address", check_address(&self.address))?;
        destination(self).accept()?;
        accept_cipher(self.cipher.as_deref())
    }

    fn look(&self) -> Result<Option<u16>, LabError> {
        mount_port(&destination(self), &self.address, self.remote_port)
    }

    fn assume(&self) -> Option<u16> {
        None
    }

    /// Starts ssh in the background.
    fn steps(&self, mount_port: &Option<u16>) -> Vec<Step> {
        let folder = folder(self.local_port);
        let mut argv = ssh_command(&folder, self.compression, self.cipher.as_deref());
        argv.push("-N".to_owned());
        let port = match (self.remote_port, mount_port) {
            (RemotePort::Number(port), _) => port.to_string(),
            (RemotePort::Mount { .. }, Some(port)) => port.to_string(),
            // Only a dry run doesn't know it.
            (RemotePort::Mount { .. }, None) => "MOUNT_PORT".to_owned(),
        };
        let (local_port, address) = (self.local_port, bracketed(&self.address));
        argv.extend(["-L".to_owned(), format!("127.0.0.1:{local_port}:{address}:{port}")]);
        argv.extend(destination(self).arguments());
        let link = folder.join("ssh");
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Caller }]
    }

    /// Ends the tunnel; refuses where its port is taken.
    fn undo(&self, _port: &Option<u16>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let folder = folder(self.local_port);
        let port = self.local_port;
        if processes::running_by(&folder.join("ssh")).is_empty() && servers::answers(port) {
            return Err(LabError::Refused(format!("port {port} of the loopback is taken")));
        }
        Ok(program_undo(&folder, "ssh"))
    }

    /// Waits until the tunnel stands and reads back what was negotiated; the error has what ssh
    /// says.
    fn check(&self, _port: &Option<u16>) -> Result<EffectiveSettings, LabError> {
        let folder = folder(self.local_port);
        let log = folder.join("log");
        servers::await_up("the ssh tunnel", &folder.join("ssh"), &log, PATIENCE, || {
            servers::answers(self.local_port)
        })?;
        let what = format!("port {}", self.local_port);
        Ok(find_negotiated(&log, what, self.compression, self.cipher.as_deref()))
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

/// Parses the name of a cipher, where one is wanted.
///
/// # Errors
/// Where it isn't what it may be.
pub(super) fn accept_cipher(cipher: Option<&str>) -> Result<(), LabError> {
    match cipher {
        Some(cipher) => accept("tunnel_cipher", check_tunnel_cipher(cipher)),
        None => Ok(()),
    }
}

/// Returns the command of an ssh that goes on running and logs into a folder; what it forwards, and
/// to where, is still to be added.
pub(super) fn ssh_command(folder: &Path, compression: bool, cipher: Option<&str>) -> Vec<String> {
    let mut argv: Vec<String> = ["ssh", "-T", "-v", "-E"].map(str::to_owned).to_vec();
    argv.push(folder.join("log").display().to_string());
    let compression = if compression { "Compression=yes" } else { "Compression=no" };
    for option in [ALONE.as_slice(), &STEADY, &[compression]].concat() {
        argv.extend(["-o".to_owned(), option.to_owned()]);
    }
    if let Some(cipher) = cipher {
        argv.extend(["-c".to_owned(), cipher.to_owned()]);
    }
    argv
}

/// Reads from ssh's log what was negotiated, and compares it with what was requested.
pub(super) fn find_negotiated(
    log: &Path,
    what: String,
    compression: bool,
    cipher: Option<&str>,
) -> EffectiveSettings {
    let text = fs::read_to_string(log).unwrap_or_default();
    let source = format!("ssh -v, {}", log.display());
    let mut findings = Findings::new("network");
    findings.fact("tunnel", what, &source);
    let found = negotiated(&text, "cipher:");
    match cipher {
        Some(wanted) => findings.compare("cipher of the tunnel", wanted, found, &source),
        None => findings.fact("cipher of the tunnel", found, &source),
    }
    let requested = if compression { "yes" } else { "no" };
    let found = if negotiated(&text, "compression:") == "none" { "no" } else { "yes" };
    findings.compare("compression of the tunnel", requested, found, &source);
    findings.done()
}

fn destination(tunnel: &Tunnel) -> Destination<'_> {
    Destination { host: &tunnel.ssh, config: tunnel.ssh_config.as_deref() }
}

/// Checks the name of a configuration file, which is one argument, after `-F`.
fn check_config_name(path: &Path) -> Result<(), OptionError> {
    let text = path.to_string_lossy();
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return check_path(Path::new(""));
    }
    Ok(())
}

/// Asks the portmapper of the other host for the port of its MOUNT service, where that is wanted.
///
/// The question goes through ssh, as all that follows: the portmapper may serve its own host alone.
///
/// # Errors
/// Where it can't be reached, or knows no such service.
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
    let call = portmap::mount_port_call(version);
    // `-W` joins ssh's input and output to a connection from the other host to its portmapper.
    let reply = match exchange(&argv, &call, portmap::REPLY_BYTES, PORTMAP_PATIENCE) {
        Ok(reply) => reply,
        Err(why) => {
            return Err(LabError::Unable(format!(
                "the portmapper of the server ({address}, port {}) can't be reached through ssh \
                 for the port of MOUNT v{version}: {why} (hint: is rpcbind running there?)",
                portmap::PORT
            )));
        }
    };
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

/// Returns what was negotiated towards the server, by ssh's log: the word after a name such as
/// `cipher:`. The last such line counts, since keys are exchanged again after a while.
fn negotiated<'l>(log: &'l str, name: &str) -> &'l str {
    let Some(line) = log.lines().rfind(|line| line.contains("kex: client->server")) else {
        return "unknown";
    };
    let Some((_, rest)) = line.split_once(name) else { return "unknown" };
    rest.split_whitespace().next().unwrap_or("unknown")
}

fn folder(local_port: u16) -> PathBuf {
    Path::new(RUN).join(format!("tunnel-{local_port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(remote_port: RemotePort, address: &str, config: &str) -> Tunnel {
        Tunnel {
            ssh: "root@h".into(),
            ssh_config: Some(config.into()),
            local_port: 20_491,
            address: address.to_owned(),
            remote_port,
            compression: false,
            cipher: None,
        }
    }

    fn forwarded(remote_port: RemotePort, mount_port: Option<u16>, address: &str) -> String {
        let steps = tunnel(remote_port, address, "x").steps(&mount_port);
        let shown = steps.last().unwrap().to_string();
        let (_, after) = shown.split_once(" -L ").unwrap();
        assert!(after.ends_with(" -F x -- root@h &"), "{shown}");
        after.split(' ').next().unwrap().to_owned()
    }

    #[test]
    fn the_configuration_of_ssh_is_one_argument() {
        let tunnel = tunnel(RemotePort::Number(2), "10.0.0.1", "c -o ProxyCommand=x");
        tunnel.accept().unwrap();
        let shown = tunnel.steps(&None).pop().unwrap().to_string();
        assert!(shown.ends_with("-F 'c -o ProxyCommand=x' -- root@h &"), "{shown}");
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
    fn a_portmapper_that_cannot_be_reached_is_named_with_the_reason_of_ssh() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        fs::write(&config, "Host closed\n Port 1\n HostName 127.0.0.1\n").unwrap();
        let ssh = &Destination { host: "closed", config: Some(&config) };
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
        assert_eq!(negotiated(log, "cipher:"), "aes256-gcm@openssh.com");
        assert_eq!(negotiated(log, "compression:"), "zlib@openssh.com");
        assert_eq!(negotiated("", "cipher:"), "unknown");
    }
}
