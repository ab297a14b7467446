//! A port tunnel: the user's own `ssh` forwards a loopback port of this host to another host.
//!
//! ssh runs as the current user rather than root, because the keys are the user's. The negotiated
//! settings are read from ssh's log. **Source:** ssh(1), `-L`, `-C`, `-c`, `-E`; ssh_config(5);
//! RFC 1833 section 3 for the port of MOUNT.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::action::Tunnel;
use model::lab::bracket_ipv6;
use model::options::OptionError;
use model::options::{check_address, check_path, check_ssh_destination, check_tunnel_cipher};
use model::{EffectiveSettings, RemotePort};
use nfs_proto::limits::MARK_BYTES;
use nfs_proto::mount3;
use nfs_proto::portmap::{self, Mapping};
use nfs_proto::program::Call;
use nfs_proto::record;
use nfs_proto::rpc::{CallHeader, Credential, ProcedureId, RPC_VERSION, ReplyHeader};
use nfs_proto::xdr::{Reader, Writer};

use super::accept::accept;
use super::{LabAction, Layer, program_undo};
use crate::RUN;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{RunAs, exchange};
use crate::error::LabError;
use crate::host::{processes, servers};
use crate::undo::Undo;

/// Time limit for a connection to come up.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit for the portmapper's answer, including ssh's login.
const PORTMAP_PATIENCE: Duration = Duration::from_secs(20);
/// Transaction ID of the call to the portmapper.
const XID: u32 = 0x6466_706d;
/// Size of its reply in bytes: the mark, six words of the header, and the port.
const REPLY_BYTES: usize = MARK_BYTES + 7 * 4;
/// Options for every ssh: never ask for a password, and don't share a connection.
const ALONE: [&str; 3] = ["BatchMode=yes", "ControlMaster=no", "ControlPath=none"];

/// Options that make ssh exit if it cannot forward, or if the other host is silent for a minute.
const STEADY: [&str; 3] =
    ["ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=4"];

/// Destination of an ssh connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a> {
    /// Name or address, optionally with a user.
    pub host: &'a str,
    /// Configuration file that defines the host.
    pub config: Option<&'a Path>,
}

impl Destination<'_> {
    /// Validates both texts.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub(super) fn accept(&self) -> Result<(), LabError> {
        accept("ssh", check_ssh_destination(self.host))?;
        match self.config {
            Some(config) => accept("ssh_config", check_config_name(config)),
            None => Ok(()),
        }
    }

    /// Returns the last arguments for ssh. The file name is a single argument no matter what it
    /// contains, and the host cannot be mistaken for an option.
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
    /// Port of the other host's MOUNT service, or `None` if the action already contains a port.
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
            // Only happens in a dry run.
            (RemotePort::Mount { .. }, None) => "MOUNT_PORT".to_owned(),
        };
        let local_port = self.local_port;
        let address = bracket_ipv6(&self.address);
        argv.extend(["-L".to_owned(), format!("127.0.0.1:{local_port}:{address}:{port}")]);
        argv.extend(destination(self).arguments());
        let link = folder.join("ssh");
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Caller }]
    }

    /// Stops the tunnel. Fails if its port is in use.
    fn undo(&self, _port: &Option<u16>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let folder = folder(self.local_port);
        let port = self.local_port;
        if processes::pids_running(&folder.join("ssh")).is_empty() && servers::answers(port) {
            return Err(LabError::Refused(format!(
                "port {port} on the loopback address is already in use"
            )));
        }
        Ok(program_undo(&folder, "ssh"))
    }

    /// Waits until the tunnel is up and reads back what was negotiated. On failure, the error
    /// contains ssh's output.
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

/// Validates the name of a cipher, if given.
///
/// # Errors
/// If it is invalid.
pub(super) fn accept_cipher(cipher: Option<&str>) -> Result<(), LabError> {
    match cipher {
        Some(cipher) => accept("tunnel_cipher", check_tunnel_cipher(cipher)),
        None => Ok(()),
    }
}

/// Returns the command for an ssh that keeps running and logs into a folder. The caller adds what
/// to forward and the destination.
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

/// Reads the negotiated settings from ssh's log and compares them with the requested ones.
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
    findings.finish()
}

fn destination(tunnel: &Tunnel) -> Destination<'_> {
    Destination { host: &tunnel.ssh, config: tunnel.ssh_config.as_deref() }
}

/// Checks the name of a configuration file, which follows `-F` as one argument.
fn check_config_name(path: &Path) -> Result<(), OptionError> {
    let text = path.to_string_lossy();
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return check_path(Path::new(""));
    }
    Ok(())
}

/// Asks the other host's portmapper for the port of its MOUNT service, if the action needs it.
///
/// Like everything else, the request goes through ssh, since the portmapper may only accept local
/// requests.
///
/// # Errors
/// If the portmapper cannot be reached or doesn't know the service.
pub(crate) fn mount_port(
    destination: &Destination<'_>,
    address: &str,
    wanted: RemotePort,
) -> Result<Option<u16>, LabError> {
    let RemotePort::Mount { version } = wanted else { return Ok(None) };
    let mut argv = vec!["ssh".to_owned(), "-T".to_owned()];
    argv.extend(ALONE.into_iter().flat_map(|option| ["-o".to_owned(), option.to_owned()]));
    argv.extend(["-W".to_owned(), format!("{}:{}", bracket_ipv6(address), portmap::PORT)]);
    argv.extend(destination.arguments());
    let call = mount_port_call(version);
    // `-W` connects ssh's stdin and stdout to the portmapper, as seen from the other host.
    let reply = match exchange(&argv, &call, REPLY_BYTES, PORTMAP_PATIENCE) {
        Ok(reply) => reply,
        Err(why) => {
            return Err(LabError::Unable(format!(
                "cannot ask the portmapper of the server ({address}, port {}) for the port of \
                 MOUNT v{version} through ssh: {why} (hint: is rpcbind running there?)",
                portmap::PORT
            )));
        }
    };
    match port_of(&reply) {
        Some(0) => Err(LabError::Unable(format!(
            "the portmapper of the server ({address}) has no MOUNT v{version} service over TCP \
             (hint: run `rpcinfo -p` there; is rpc.mountd running, and does the server support \
             this version of NFS?)"
        ))),
        Some(port) => Ok(Some(port)),
        None => Err(LabError::Unable(format!(
            "port {} of the server ({address}) does not answer like a portmapper: {reply:02x?}",
            portmap::PORT
        ))),
    }
}

/// Returns the call that asks for the TCP port of a version of MOUNT.
fn mount_port_call(version: u32) -> Vec<u8> {
    let protocol = portmap::PROTOCOL_TCP;
    let mapping = Mapping { program: mount3::PROGRAM, version, protocol, port: 0 };
    let call = Call::Portmap(portmap::Call::Getport(mapping));
    let ProcedureId { program, version, procedure } = call.procedure_id();
    let credential = Ok(Credential::None);
    let header =
        CallHeader { xid: XID, rpc_version: RPC_VERSION, program, version, procedure, credential };
    let mut bytes = Vec::new();
    let mark = record::begin(&mut bytes);
    let mut writer = Writer::new(&mut bytes);
    header.encode(&mut writer);
    call.encode(&mut writer);
    record::end(&mut bytes, mark, 0);
    bytes
}

/// Returns the port from a reply (0 if the service isn't registered), or `None` if it isn't a valid
/// reply. It comes from another host and may contain anything.
fn port_of(reply: &[u8]) -> Option<u16> {
    let mut reader = Reader::new(reply.get(MARK_BYTES..)?);
    let header = ReplyHeader::decode(&mut reader).ok()?;
    let is_ours = header.xid == XID && header.result.is_ok();
    if is_ours { portmap::Reply::decode_getport(reader).ok() } else { None }
}

/// Returns a setting negotiated in the direction of the server: the word after a name such as
/// `cipher:`. Uses the last such line of the log, since keys are renegotiated from time to time.
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
    fn passes_ssh_configuration_as_argument() {
        let tunnel = tunnel(RemotePort::Number(2), "10.0.0.1", "c -o ProxyCommand=x");
        tunnel.accept().unwrap();
        let shown = tunnel.steps(&None).pop().unwrap().to_string();
        assert!(shown.ends_with("-F 'c -o ProxyCommand=x' -- root@h &"), "{shown}");
    }

    #[test]
    fn forwards_to_discovered_address_and_port() {
        let mount = RemotePort::Mount { version: 3 };
        assert_eq!(forwarded(mount, Some(41_234), "10.0.0.1"), "127.0.0.1:20491:10.0.0.1:41234");
        let nfs = RemotePort::Number(2_049);
        assert_eq!(forwarded(nfs, None, "127.0.0.1"), "127.0.0.1:20491:127.0.0.1:2049");
        assert!(forwarded(nfs, None, "fe80::1").contains("20491:[fe80::1]:2049"));
    }

    #[test]
    fn names_unreachable_portmapper() {
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
        for words in ["(10.0.0.1, port 111)", "MOUNT v3", "refused"] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn accepts_only_port_of_own_call() {
        let reply = |words: [u32; 8]| words.map(u32::to_be_bytes).concat();
        let answer = [0x8000_001c, XID, 1, 0, 0, 0, 0, 41_234];
        assert_eq!(port_of(&reply(answer)), Some(41_234));
        assert_eq!(port_of(&reply(answer)[..31]), None);
        for (at, word) in [(1, 7), (2, 0), (3, 1), (6, 2), (7, 65_536)] {
            let mut other = answer;
            other[at] = word;
            assert_eq!(port_of(&reply(other)), None, "word {at}");
        }
    }

    #[test]
    fn frames_call_as_one_fragment() {
        let call = mount_port_call(3);
        assert_eq!(call.len(), 4 + 14 * 4);
        assert_eq!(call[..4], [0x80, 0, 0, 56]);
        assert_eq!(call[44..], [0, 1, 0x86, 0xa5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0]);
    }

    #[test]
    fn reads_negotiated_ciphers_from_log() {
        let log = "debug1: kex: server->client cipher: aes128-ctr MAC: <implicit> compression: \
                   none\r\ndebug1: kex: client->server cipher: aes256-gcm@openssh.com MAC: \
                   <implicit> compression: zlib@openssh.com\r\n";
        assert_eq!(negotiated(log, "cipher:"), "aes256-gcm@openssh.com");
        assert_eq!(negotiated(log, "compression:"), "zlib@openssh.com");
        assert_eq!(negotiated("", "cipher:"), "unknown");
    }
}
