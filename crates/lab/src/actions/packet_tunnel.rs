//! A packet tunnel: the user's own `ssh` connects a tun device on this host with one on another
//! host.
//!
//! ssh creates both devices. When it exits, they disappear along with their addresses and routes,
//! so only ssh itself has to be stopped. Both ends need root, and the other end's sshd must allow
//! tunnels. **Source:** ssh(1), `-w` and "SSH-BASED VIRTUAL PRIVATE NETWORKS"; ssh_config(5),
//! `LocalCommand`; sshd_config(5), `PermitTunnel`.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::PacketTunnel;

use super::tunnel::{self, Destination};
use super::{LabAction, Layer, program_undo};
use crate::RUN;
use crate::actions::step::Step;
use crate::commands::RunAs;
use crate::error::LabError;
use crate::host::servers;
use crate::undo::Undo;

/// Time limit for a single attempt to reach the other end.
const ANSWER: Duration = Duration::from_secs(2);

/// Name of the tunnel, including its requirements, for the error if it doesn't come up.
const WHAT: &str = "the ssh tunnel for packets (it needs root on both hosts, and PermitTunnel yes \
                    in the server's sshd_config)";

impl LabAction for PacketTunnel {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        destination(self).accept()?;
        tunnel::accept_cipher(self.cipher.as_deref())
    }

    /// Starts ssh in the background.
    ///
    /// The command on the other host exits right away, but ssh keeps running as long as the tunnel
    /// is open.
    fn steps(&self, (): &()) -> Vec<Step> {
        let folder = folder();
        let mut argv = tunnel::ssh_command(&folder, self.compression, self.cipher.as_deref());
        let Self { device, near, far, .. } = self;
        // ssh replaces `%T` with the name of the device it created.
        let set_up = format!("LocalCommand={}", set_up_command("%T", near, far));
        for option in ["Tunnel=point-to-point", "PermitLocalCommand=yes", &set_up] {
            argv.extend(["-o".to_owned(), option.to_owned()]);
        }
        argv.extend(["-w".to_owned(), format!("any:{device}")]);
        argv.extend(destination(self).arguments());
        argv.push(set_up_command(&format!("tun{device}"), far, near));
        let link = folder.join("ssh");
        vec![Step::Folder(folder), Step::Start { link, argv, user: RunAs::Caller }]
    }

    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        Ok(program_undo(&folder(), "ssh"))
    }

    /// Waits until the other end can be reached through the tunnel and reads back what was
    /// negotiated. On failure, the error contains ssh's output.
    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let folder = folder();
        let log = folder.join("log");
        let other_end = SocketAddr::from((self.far, self.port));
        servers::await_up(WHAT, &folder.join("ssh"), &log, tunnel::PATIENCE, || {
            TcpStream::connect_timeout(&other_end, ANSWER).is_ok()
        })?;
        let what = format!("packets from {} to {}", self.near, self.far);
        Ok(tunnel::find_negotiated(&log, what, self.compression, self.cipher.as_deref()))
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

fn destination(tunnel: &PacketTunnel) -> Destination<'_> {
    Destination { host: &tunnel.ssh, config: tunnel.ssh_config.as_deref() }
}

/// Returns the command that assigns a tun device its own address and the peer's.
fn set_up_command(
    device: &str,
    own: impl std::fmt::Display,
    other: impl std::fmt::Display,
) -> String {
    format!("ip address add {own} peer {other} dev {device} && ip link set {device} up")
}

fn folder() -> PathBuf {
    Path::new(RUN).join("packet-tunnel")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn assigns_addresses_to_both_ends() {
        let tunnel = PacketTunnel {
            ssh: "root@server".into(),
            ssh_config: None,
            device: 77,
            near: Ipv4Addr::new(169, 254, 77, 2),
            far: Ipv4Addr::new(169, 254, 77, 1),
            port: 2_049,
            compression: true,
            cipher: None,
        };
        tunnel.accept().unwrap();
        let shown = tunnel.steps(&()).pop().unwrap().to_string();
        let near = "'LocalCommand=ip address add 169.254.77.2 peer 169.254.77.1 dev %T && ip link \
                    set %T up'";
        let far = "-- root@server 'ip address add 169.254.77.1 peer 169.254.77.2 dev tun77 && ip \
                   link set tun77 up' &";
        for words in [near, far, "-w any:77", "Compression=yes"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}
