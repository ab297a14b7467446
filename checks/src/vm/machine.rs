//! Machines of a laboratory, as stored in its directory.
//!
//! Main types: [`Suite`], a guest's Debian release and so its kernel, and [`Machine`]. The file
//! `lab.json` in a laboratory's directory is a [`Plan`]; it has everything needed to resume or end
//! the laboratory later.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A suite of Debian, or an image of one with more packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// Debian 13, kernel 6.12.
    Trixie,
    /// The same with servers and clients of other file systems.
    TrixieSystems,
    /// Debian 13 with NFS modules that have LOCALIO.
    TrixieLocalio,
    /// Debian 14 before its release, kernel 7.2: what NFS in Linux learned since 6.12.
    Forky,
    /// Debian 12, kernel 6.1.
    Bookworm,
    /// Debian 11, kernel 5.10: the last whose server speaks NFSv2.
    Bullseye,
}

impl Suite {
    /// The suites of the checks that run for every change, newest first.
    pub const ALL: [Self; 2] = [Self::Trixie, Self::Bookworm];

    /// Returns the name of its image.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrixieSystems => "trixie-systems",
            Self::TrixieLocalio => "trixie-localio",
            other => other.archive(),
        }
    }

    /// Returns the name of the suite as used in the archive.
    pub const fn archive(self) -> &'static str {
        match self {
            Self::Trixie | Self::TrixieSystems | Self::TrixieLocalio => "trixie",
            Self::Forky => "forky",
            Self::Bookworm => "bookworm",
            Self::Bullseye => "bullseye",
        }
    }

    /// Returns the size of a guest's root disk; its file is sparse.
    pub const fn root_disk_bytes(self) -> u64 {
        match self {
            Self::TrixieSystems => 3 << 30,
            _ => 1 << 30,
        }
    }
}

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs the kernel's NFS server from boot.
    Server,
    /// Mounts the server's exports.
    Client,
}

impl Role {
    /// Returns its name, as passed to the guest's kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// Returns the memory size of such a machine, in MiB.
    pub const fn memory_mib(self, suite: Suite) -> u32 {
        match (self, suite) {
            (Self::Server, Suite::TrixieSystems) => 2_048,
            (Self::Client, Suite::TrixieSystems) => 768,
            (Self::Server, _) => 512,
            (Self::Client, _) => 256,
        }
    }
}

/// A machine of a laboratory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name: `server`, `client1` ...
    pub name: String,
    /// Role of the machine.
    pub role: Role,
    /// Last number of its address, 10.77.0.N.
    pub number: u8,
    /// Memory in MiB; unknown for machines saved by an earlier release, which are booted again.
    #[serde(default)]
    pub memory_mib: u32,
    /// Directory of the image that it was booted from.
    pub image: PathBuf,
}

impl Machine {
    /// Returns the server.
    pub fn server(suite: Suite, image: PathBuf) -> Self {
        let role = Role::Server;
        let memory_mib = role.memory_mib(suite);
        Self { name: "server".to_owned(), role, number: 1, memory_mib, image }
    }

    /// Creates a client; clients are numbered from 1.
    pub fn client(index: u8, suite: Suite, image: PathBuf) -> Self {
        let role = Role::Client;
        let memory_mib = role.memory_mib(suite);
        Self { name: format!("client{index}"), role, number: 10 + index, memory_mib, image }
    }

    /// Returns its IPv4 address.
    pub fn address(&self) -> String {
        format!("10.77.0.{}", self.number)
    }

    /// Returns the name of its tap device inside the namespace.
    pub fn tap(&self) -> String {
        format!("tap{}", self.number)
    }
}

/// All machines of a laboratory and shared settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The server, then the clients.
    pub machines: Vec<Machine>,
    /// Largest packet on the network, in bytes.
    pub mtu: u16,
    /// Whether there is a disk shared by all machines.
    pub has_shared_disk: bool,
}

impl Plan {
    const FILE: &str = "lab.json";

    /// Writes it to a laboratory's directory.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(Self::FILE);
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads it from a laboratory's directory.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(Self::FILE);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("no lab in {}; `cargo xtask vm up` starts one", folder.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Returns true if there is one in this directory.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(Self::FILE).exists()
    }
}

/// Returns a hash of a sequence of byte strings that is the same everywhere and always.
///
/// **Source:** FNV-1a, 64 bits: the IETF draft draft-eastlake-fnv, section 2. Each piece is
/// followed by its length, so that the boundaries matter.
pub fn compute_fingerprint<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for piece in pieces {
        for byte in piece.iter().chain(&piece.len().to_le_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plan_as_written() {
        let folder = tempfile::TempDir::new().unwrap();
        assert!(Plan::load(folder.path()).is_err() && !Plan::is_in(folder.path()));
        let suite = Suite::Trixie;
        let machines =
            vec![Machine::server(suite, "/a".into()), Machine::client(2, suite, "/b".into())];
        let plan = Plan { machines, mtu: 9000, has_shared_disk: true };
        plan.save(folder.path()).unwrap();
        assert_eq!(Plan::load(folder.path()).unwrap(), plan);
        assert_eq!(plan.machines[1].address(), "10.77.0.12");
    }

    #[test]
    fn fingerprints_tell_pieces_apart() {
        let of = |pieces: &[&str]| compute_fingerprint(pieces.iter().map(|piece| piece.as_bytes()));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
    }
}
