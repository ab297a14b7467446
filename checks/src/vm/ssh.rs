//! Access to the guests: a key for each laboratory, and an ssh_config for any ssh.
//!
//! All commands for a guest share one connection, because the handshake takes an emulated machine
//! more than a second. It is closed when the guest is saved or ended.
//!
//! Plain `ssh -F CONFIG server` works from outside the namespace: the ssh_config has a proxy
//! command that enters it. Guests get the public key on their kernel's command line, so images
//! contain none.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::Machine;
use super::net::Space;
use crate::proc;

/// Name of the ssh_config in a laboratory's directory.
pub const CONFIG: &str = "ssh_config";
/// Maximum time until a guest that has completed a line reports it, in seconds.
const ANSWER_S: u32 = 20;
/// Name of the private key.
const KEY: &str = "id";
/// Longest path of a directory for connection sockets: the path of a socket has at most 107 bytes,
/// of which the name of a guest and ssh's own part take 30.
const FOLDER_BYTES_MAX: usize = 75;

/// Creates a key, if there is none, and returns the public half without its type and comment.
///
/// # Errors
/// If `ssh-keygen` fails.
pub fn key(folder: &Path) -> Result<String> {
    let private = folder.join(KEY);
    if !private.exists() {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-C", "dfsbench-lab", "-f"]);
        proc::capture_stdout(make.arg(&private))?;
    }
    let public = fs::read_to_string(private.with_extension("pub")).context("no public key")?;
    public.split_whitespace().nth(1).map(str::to_owned).context("the public key is empty")
}

/// Copies the key of a laboratory to the directory of another, whose machines also accept it.
pub fn copy_key(from: &Path, to: &Path) -> Result<()> {
    for name in [KEY.to_owned(), format!("{KEY}.pub")] {
        fs::copy(from.join(&name), to.join(&name))
            .with_context(|| format!("cannot copy the key {name} of {}", from.display()))?;
    }
    Ok(())
}

/// Writes the ssh_config of these machines.
pub fn write_config(folder: &Path, space: &Space, machines: &[Machine]) -> Result<()> {
    let mut text = String::new();
    for machine in machines {
        writeln!(text, "Host {}\n  HostName {}", machine.name, machine.address())?;
    }
    let key = folder.join(KEY);
    let space = space.path();
    write!(
        text,
        "Host *\n  User root\n  IdentityFile {key}\n  IdentitiesOnly yes\n  BatchMode yes\n  \
         StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  \
         ConnectTimeout 20\n  ServerAliveInterval 20\n  \
         ProxyCommand nsenter --net={space} nc %h %p\n",
        key = key.display()
    )?;
    if folder.as_os_str().len() <= FOLDER_BYTES_MAX {
        let path = folder.join("%n.ssh");
        let path = path.display();
        write!(text, "  ControlMaster auto\n  ControlPath {path}\n  ControlPersist 60\n")?;
    }
    fs::write(folder.join(CONFIG), text).context("cannot write the ssh_config")
}

/// Returns the command that closes the connection to a guest; it fails if there is none.
pub fn build_close_command(folder: &Path, host: &str) -> Command {
    let mut command = Command::new("ssh");
    command.arg("-F").arg(folder.join(CONFIG)).args(["-O", "exit", host]);
    command
}

/// Returns the command that runs a shell line on a guest, for at most this many seconds.
///
/// The guest enforces the limit: if only the local ssh were ended, the line would continue there.
pub fn build_command(folder: &Path, host: &str, line: &str, max_s: u32) -> Command {
    let line = line.replace('\'', r"'\''");
    let there = format!("timeout -k 5 {max_s} bash -c '{line}'");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &(max_s + ANSWER_S).to_string(), "ssh", "-n", "-F"]);
    command.arg(folder.join(CONFIG)).args([host, &there]);
    command
}

#[cfg(test)]
mod tests {
    use super::super::machine::Suite;
    use super::*;

    #[test]
    fn configures_ssh_for_each_machine() {
        let folder = tempfile::TempDir::new().unwrap();
        let machines = [
            Machine::server(Suite::Trixie, "/i".into()),
            Machine::client(1, Suite::Trixie, "/i".into()),
        ];
        let space = Space::new(folder.path());
        write_config(folder.path(), &space, &machines).unwrap();
        let text = fs::read_to_string(folder.path().join(CONFIG)).unwrap();
        let expected =
            ["Host server\n  HostName 10.77.0.1\n", "Host client1\n  HostName 10.77.0.11\n"];
        assert!(expected.iter().all(|words| text.contains(words)), "{text}");
        assert!(text.contains(&format!("ProxyCommand nsenter --net={} nc", space.path())));
    }
}
