//! The network of a laboratory: a namespace with one bridge, on which this machine is 10.77.0.254.
//!
//! Main type: [`Space`]. Every device is created inside the namespace, so the machine's own
//! interfaces are never touched and two laboratories never interfere. The namespace's name is
//! derived from the laboratory's directory, so the directory is all that is needed to find it
//! again.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::machine::{Machine, compute_fingerprint};
use crate::proc;

const BRIDGE: &str = "lab0";
/// Address of this machine on the bridge.
pub const HOST: &str = "10.77.0.254";

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    name: String,
}

impl Space {
    /// Returns the one for a laboratory's directory, whether or not it exists.
    pub fn new(folder: &Path) -> Self {
        let number = compute_fingerprint([folder.as_os_str().as_encoded_bytes()]);
        Self { name: format!("dfsbench-{:08x}", number >> 32) }
    }

    /// Returns its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file that represents it.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Recreates it with its bridge and one tap per machine, for packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// If the kernel has no namespaces, bridges or taps, or we aren't root.
    pub fn make(&self, machines: &[Machine], mtu: u16) -> Result<()> {
        self.remove()?;
        proc::capture_stdout(Command::new("ip").args(["netns", "add", &self.name]))?;
        self.run_ip(&["link", "set", "lo", "up"])?;
        self.run_ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        for machine in machines {
            self.run_ip(&["tuntap", "add", "dev", &machine.tap(), "mode", "tap"])?;
            self.run_ip(&["link", "set", &machine.tap(), "master", BRIDGE, "up"])?;
        }
        self.run_ip(&["address", "add", &format!("{HOST}/24"), "dev", BRIDGE])?;
        self.run_ip(&["link", "set", BRIDGE, "up"])?;
        self.set_mtu(machines, mtu)
    }

    /// Sets the largest packet of the bridge and everything on it, in bytes.
    pub fn set_mtu(&self, machines: &[Machine], mtu: u16) -> Result<()> {
        let mtu = mtu.to_string();
        for machine in machines {
            self.run_ip(&["link", "set", &machine.tap(), "mtu", &mtu])?;
        }
        self.run_ip(&["link", "set", BRIDGE, "mtu", &mtu])
    }

    /// Takes a machine off the bridge: everything it sends is lost, and everything sent to it.
    pub fn unplug(&self, machine: &Machine) -> Result<()> {
        self.run_ip(&["link", "set", &machine.tap(), "nomaster"])
    }

    /// Puts a machine back on the bridge.
    pub fn plug_in(&self, machine: &Machine) -> Result<()> {
        self.run_ip(&["link", "set", &machine.tap(), "master", BRIDGE])
    }

    /// Removes it with everything in it, if it exists.
    pub fn remove(&self) -> Result<()> {
        if Path::new(&self.path()).exists() {
            proc::capture_stdout(Command::new("ip").args(["netns", "delete", &self.name]))?;
        }
        Ok(())
    }

    /// Returns a command that runs inside.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    fn run_ip(&self, words: &[&str]) -> Result<()> {
        proc::capture_stdout(Command::new("ip").args(["-n", &self.name]).args(words)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_have_two_namespaces() {
        let space = Space::new(Path::new("/a/vm/run"));
        assert_eq!(space, Space::new(Path::new("/a/vm/run")));
        assert_ne!(space, Space::new(Path::new("/b/vm/run")));
        assert!(space.path().starts_with("/run/netns/dfsbench-"));
    }
}
