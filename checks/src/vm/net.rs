//! The network of a laboratory: a namespace with one bridge, on which this machine is 10.77.0.254.
//!
//! Principal type: [`Space`]. Every device is made inside the namespace, so the machine's own
//! interfaces are never touched and two laboratories never meet. The namespace's name comes from
//! the laboratory's folder, so the folder is all that is needed to find it again.

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
    /// Names the one of a laboratory's folder, made or not.
    pub fn of(folder: &Path) -> Self {
        let number = compute_fingerprint([folder.as_os_str().as_encoded_bytes()]);
        Self { name: format!("dfsbench-{:08x}", number >> 32) }
    }

    /// Returns its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file that stands for it.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Makes it again with its bridge and one tap for each machine, for packets of up to `mtu`
    /// bytes.
    ///
    /// # Errors
    /// Where the kernel has no namespaces, bridges or taps, or we aren't root.
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

    /// Sets the largest packet of the bridge and of what is on it, in bytes.
    ///
    /// # Errors
    /// Where there is no such network.
    pub fn set_mtu(&self, machines: &[Machine], mtu: u16) -> Result<()> {
        let mtu = mtu.to_string();
        for machine in machines {
            self.run_ip(&["link", "set", &machine.tap(), "mtu", &mtu])?;
        }
        self.run_ip(&["link", "set", BRIDGE, "mtu", &mtu])
    }

    /// Takes a machine off the bridge: what it sends is lost, and so is what is sent to it.
    ///
    /// # Errors
    /// Where there is no such network.
    pub fn unplug(&self, machine: &Machine) -> Result<()> {
        self.run_ip(&["link", "set", &machine.tap(), "nomaster"])
    }

    /// Puts a machine back on the bridge.
    ///
    /// # Errors
    /// Where there is no such network.
    pub fn plug_in(&self, machine: &Machine) -> Result<()> {
        self.run_ip(&["link", "set", &machine.tap(), "master", BRIDGE])
    }

    /// Removes it, where it is there, with all that is in it.
    ///
    /// # Errors
    /// Where it can't be removed.
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
        let space = Space::of(Path::new("/a/vm/run"));
        assert_eq!(space, Space::of(Path::new("/a/vm/run")));
        assert_ne!(space, Space::of(Path::new("/b/vm/run")));
        assert!(space.path().starts_with("/run/netns/dfsbench-"));
    }
}
