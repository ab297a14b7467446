//! The kernel's NFS server: its threads, versions and transports.
//!
//! Principal types: [`ServerSettings`], what a run asks for; [`State`], how the server is, as
//! /proc/fs/nfsd says. **Source:** nfsd(7), rpc.nfsd(8), rpc.mountd(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::NfsVersion;
use serde::{Deserialize, Serialize};

use super::grace;
use crate::NFSD_FOLDER;
use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::mounts;
use crate::processes;

/// Threads of a server that is started without a number of them. **Source:** rpc.nfsd(8).
pub const THREADS: u32 = 8;
/// Port of rpc.mountd, as IANA has it for `mountd`.
pub const MOUNT_PORT: u16 = 20_048;
/// Versions that the server may be set to offer.
const VERSIONS: [NfsVersion; 5] =
    [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];

/// Settings that the server shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its threads; 0 leaves them.
    pub threads: u32,
    /// Versions that it offers; empty leaves them.
    pub versions: Vec<NfsVersion>,
    /// It offers UDP, too.
    pub udp: bool,
    /// Largest transfer, in bytes; 0 leaves it.
    pub transfer_max_bytes: u32,
}

/// How the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its threads; 0 where it doesn't run.
    pub threads: u32,
    /// Its versions, such as `-2 +3 +4 +4.1`; empty where it never ran.
    pub versions: String,
    /// It offers UDP.
    pub udp: bool,
    /// Largest transfer, in bytes; 0 where that isn't known.
    pub transfer_max_bytes: u32,
}

/// The server and its helpers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its file system is mounted.
    pub is_mounted: bool,
    /// How it is.
    pub state: State,
    /// It runs, and clients may have files open.
    pub has_clients: bool,
    /// Whether rpc.mountd runs.
    pub mountd: bool,
}

impl ServerSettings {
    /// The words of rpc.nfsd that start it so.
    pub fn words(&self, threads: u32, transports: TransportWords) -> Vec<String> {
        let mut words = vec!["rpc.nfsd".to_owned()];
        if !self.versions.is_empty() {
            // A minor version alone leaves the others of v4 as they were.
            let has_v4 = self.versions.iter().any(|version| version.major() == 4);
            for version in VERSIONS {
                let offered = self.versions.contains(&version);
                let name = version.name();
                match (offered, version) {
                    // Old and new programs differ in v2: most refuse any word about it.
                    (false, NfsVersion::V2) => {}
                    (true, _) => words.extend(["-V".to_owned(), name.to_owned()]),
                    (false, _) if version.minor().is_some() && !has_v4 => {}
                    (false, _) => words.extend(["-N".to_owned(), name.to_owned()]),
                }
            }
            if !has_v4 {
                words.extend(["-N".to_owned(), "4".to_owned()]);
            }
        }
        let transports: &[&str] = match (self.udp, transports) {
            (false, TransportWords::LeaveOut) => &["--no-udp"],
            (false, TransportWords::OfferAndLeaveOut) => &["--no-udp", "--tcp"],
            (true, TransportWords::LeaveOut) => &[],
            (true, TransportWords::OfferAndLeaveOut) => &["--udp", "--tcp"],
        };
        for word in transports {
            words.push((*word).to_owned());
        }
        words.push(threads.to_string());
        words
    }

    /// Only the number of threads is new to a server that is so.
    pub fn is_live_change(&self, state: &State) -> bool {
        // The kernel refuses to change anything else while threads run.
        if state.threads == 0 || self.udp != state.udp {
            return false;
        }
        if self.transfer_max_bytes != 0 && self.transfer_max_bytes != state.transfer_max_bytes {
            return false;
        }
        self.versions.is_empty()
            || VERSIONS.iter().all(|it| state.offers(*it) == self.versions.contains(it))
    }
}

impl State {
    /// Reads it from the kernel.
    pub fn now() -> Self {
        Self {
            threads: read_file("threads").parse().unwrap_or(0),
            versions: read_file("versions"),
            // A line for each socket, such as `udp 2049`.
            udp: read_file("portlist").lines().any(|line| line.starts_with("udp")),
            transfer_max_bytes: read_file("max_block_size").parse().unwrap_or(0),
        }
    }

    /// It offers a version. **Source:** nfsd(7), `versions`: `+4` alone has all minor versions that
    /// aren't taken away.
    pub fn offers(&self, version: NfsVersion) -> bool {
        match version {
            NfsVersion::V4_0 => self.has_word("+4") && !self.has_word("-4.0"),
            other => self.has_word(&format!("+{}", other.name())),
        }
    }

    fn has_word(&self, word: &str) -> bool {
        self.versions.split_ascii_whitespace().any(|found| found == word)
    }

    /// Returns the settings that make a server as this one is.
    fn wanted(&self) -> ServerSettings {
        let &Self { threads, udp, transfer_max_bytes, .. } = self;
        ServerSettings { threads, versions: self.offered(), udp, transfer_max_bytes }
    }

    fn offered(&self) -> Vec<NfsVersion> {
        let mut offered = VERSIONS.to_vec();
        offered.retain(|version| self.offers(*version));
        offered
    }
}

impl Host {
    /// Looks at the host.
    pub fn now() -> Self {
        let state = State::now();
        Self {
            is_mounted: mounts::at(Path::new(NFSD_FOLDER)).is_some(),
            has_clients: state.threads > 0 && grace::has_clients(),
            state,
            mountd: processes::is_running("rpc.mountd"),
        }
    }
}

/// Options for transports that the rpc.nfsd of this host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportWords {
    /// Both to offer a transport and to leave one out.
    #[default]
    OfferAndLeaveOut,
    /// Only to leave one out: the program of nfs-utils 1.3 offers each that is not left out.
    LeaveOut,
}

impl TransportWords {
    /// Finds out by `--help`, which starts nothing: getopt refuses unknown words before it.
    pub fn find(runner: &Runner) -> Self {
        match runner.output(&["rpc.nfsd", "--udp", "--tcp", "--help"], SOON) {
            Ok(output) if output.stderr.contains("unrecognized option") => Self::LeaveOut,
            _ => Self::OfferAndLeaveOut,
        }
    }
}

/// Files that rpcbind leaves when it ends; the last two lie in a folder of its own user.
pub const RPCBIND_FILES: [&str; 4] = [
    "/run/rpcbind.sock",
    "/run/rpcbind.lock",
    "/run/rpcbind/portmap.xdr",
    "/run/rpcbind/rpcbind.xdr",
];

/// Sets the server as it was.
///
/// # Errors
/// Where it can't be stopped or started.
pub fn restore(runner: &mut Runner, state: &State) -> Result<(), LabError> {
    let now = State::now();
    if now == *state || (now.threads == 0 && state.threads == 0) {
        return Ok(());
    }
    let wanted = state.wanted();
    if state.threads > 0 && wanted.is_live_change(&now) {
        return runner.write(&file("threads"), &state.threads.to_string());
    }
    let has_clients = grace::has_clients();
    stop_and_start(runner, &now, state)?;
    // Clients that have something to reclaim do so from the server as it was; no run waits for
    // that.
    if state.threads > 0 && !has_clients {
        grace::end_early(runner);
        return grace::await_end();
    }
    Ok(())
}

/// Stops a running server and starts it as it was; returns once clients may open files.
///
/// # Errors
/// As [`restore`], and where clients go on reclaiming what they had open.
pub fn restart(runner: &mut Runner) -> Result<(), LabError> {
    // Before it stops: the list of clients is gone with the server.
    let (state, has_clients) = (State::now(), grace::has_clients());
    if state.threads == 0 {
        return Ok(());
    }
    stop_and_start(runner, &state, &state)?;
    if !has_clients {
        grace::end_early(runner);
    }
    grace::await_end()
}

fn stop_and_start(runner: &Runner, now: &State, state: &State) -> Result<(), LabError> {
    runner.run(&["rpc.nfsd", "0"], SOON)?;
    if state.transfer_max_bytes != 0 && now.transfer_max_bytes != state.transfer_max_bytes {
        runner.write(&file("max_block_size"), &state.transfer_max_bytes.to_string())?;
    }
    if state.threads > 0 {
        let words = state.wanted().words(state.threads, TransportWords::find(runner));
        runner.run(&words, SOON)?;
    }
    Ok(())
}

/// Returns the path of one of the server's control files.
pub fn file(name: &str) -> PathBuf {
    Path::new(NFSD_FOLDER).join(name)
}

fn read_file(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use NfsVersion::{V2, V3, V4_0, V4_1, V4_2};

    use super::*;

    fn state(versions: &str) -> State {
        State { threads: 4, versions: versions.to_owned(), udp: false, transfer_max_bytes: 65_536 }
    }

    #[test]
    fn versions_are_read_as_nfsd_prints_them() {
        let offered = |text: &str| state(text).offered();
        assert_eq!(offered("-2 +3 +4 +4.1 +4.2"), [V3, V4_0, V4_1, V4_2]);
        assert_eq!(offered("+3 +4 -4.0 +4.1 -4.2"), [V3, V4_1]);
        assert_eq!(offered("+2 +3 -4 -4.1 -4.2"), [V2, V3]);
        assert_eq!(offered(""), []);
    }

    #[test]
    fn an_old_program_gets_only_words_to_leave_out() {
        let words = |udp, transports| {
            let settings =
                ServerSettings { threads: 0, versions: vec![V3], udp, transfer_max_bytes: 0 };
            settings.words(4, transports).join(" ")
        };
        assert_eq!(words(true, TransportWords::LeaveOut), "rpc.nfsd -V 3 -N 4 4");
        assert_eq!(words(false, TransportWords::LeaveOut), "rpc.nfsd -V 3 -N 4 --no-udp 4");
        let both = words(true, TransportWords::OfferAndLeaveOut);
        assert_eq!(both, "rpc.nfsd -V 3 -N 4 --udp --tcp 4");
    }
}
