//! The kernel's NFS server: its threads, versions and transports.
//!
//! [`ServerSettings`] are the settings that a run requests. [`State`] is the server's current state
//! according to /proc/fs/nfsd. **Source:** nfsd(7), rpc.nfsd(8), rpc.mountd(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::NfsVersion;
use serde::{Deserialize, Serialize};

use super::grace;
use crate::commands::{Runner, SOON, find};
use crate::error::LabError;
use crate::host::processes;
use crate::{NFSD_FOLDER, mounts};

/// Number of threads if none is given. **Source:** rpc.nfsd(8).
pub(crate) const THREADS: u32 = 8;
/// Port of rpc.mountd, as registered with IANA for `mountd`.
pub(crate) const MOUNT_PORT: u16 = 20_048;
/// Versions that the server can be configured to offer.
const VERSIONS: [NfsVersion; 5] =
    [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];

/// Requested settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerSettings {
    /// Number of threads, or the largest one if it is dynamic; 0 keeps the current number.
    pub threads: u32,
    /// The smallest number if it is dynamic; 0 if it is fixed.
    pub threads_min: u32,
    /// Versions to offer; empty keeps the current ones.
    pub versions: Vec<NfsVersion>,
    /// Whether to offer UDP, too.
    pub udp: bool,
    /// Port to listen on for RDMA; 0 for none.
    pub rdma_port: u16,
    /// Maximum transfer size in bytes; 0 keeps the current one.
    pub transfer_max_bytes: u32,
}

/// Current state of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Number of threads, or the largest one if it is dynamic; 0 if it isn't running.
    pub threads: u32,
    /// The smallest number if it is dynamic; 0 if it is fixed, or the server isn't running.
    #[serde(default)]
    pub threads_min: u32,
    /// Its versions, such as `-2 +3 +4 +4.1`; empty if it has never been started.
    pub versions: String,
    /// Whether it offers UDP.
    pub udp: bool,
    /// Port on which it listens for RDMA; 0 if it doesn't.
    #[serde(default)]
    pub rdma_port: u16,
    /// Maximum transfer size in bytes; 0 if unknown.
    pub transfer_max_bytes: u32,
}

/// The server and its helpers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Whether the nfsd file system is mounted.
    pub is_mounted: bool,
    pub state: State,
    /// Whether it is running and clients may have open files.
    pub(crate) has_clients: bool,
    /// Whether rpc.mountd is running.
    pub mountd: bool,
}

impl ServerSettings {
    /// Returns the rpc.nfsd command that starts the server with these settings.
    pub(crate) fn words(&self, threads: u32, transports: TransportWords) -> Vec<String> {
        let mut words = vec!["rpc.nfsd".to_owned()];
        if !self.versions.is_empty() {
            // A minor version on its own doesn't affect the other minor versions of v4.
            let has_v4 = self.versions.iter().any(|version| version.major() == 4);
            for version in VERSIONS {
                let offered = self.versions.contains(&version);
                let name = version.name();
                match (offered, version) {
                    // Most versions of rpc.nfsd reject any option about v2.
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
        words.extend(transports.iter().map(|word| (*word).to_owned()));
        if self.rdma_port != 0 {
            words.push(format!("--rdma={}", self.rdma_port));
        }
        words.push(threads.to_string());
        words
    }

    /// Returns the number of threads as plans write it: `8`, or `4..64` if it is dynamic.
    pub(crate) fn show_threads(&self) -> String {
        show_threads(self.threads_min, self.threads)
    }

    /// Returns true if only the number of threads changes.
    pub(crate) fn is_live_change(&self, state: &State) -> bool {
        // The kernel rejects any other change while threads are running.
        if state.threads == 0 || self.udp != state.udp || self.rdma_port != state.rdma_port {
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
    /// Reads the current state from the kernel.
    pub(crate) fn now() -> Self {
        let threads = read_file("threads").parse().unwrap_or(0);
        // One line per socket, such as `udp 2049`.
        let portlist = read_file("portlist");
        Self {
            threads,
            threads_min: if threads > 0 { read_threads_min().unwrap_or(0) } else { 0 },
            versions: read_file("versions"),
            udp: portlist.lines().any(|line| line.starts_with("udp")),
            rdma_port: rdma_port(&portlist),
            transfer_max_bytes: read_file("max_block_size").parse().unwrap_or(0),
        }
    }

    /// Returns true if it offers a version. **Source:** nfsd(7), `versions`: `+4` includes all
    /// minor versions that aren't disabled.
    pub(crate) fn offers(&self, version: NfsVersion) -> bool {
        match version {
            NfsVersion::V4_0 => self.has_word("+4") && !self.has_word("-4.0"),
            other => self.has_word(&format!("+{}", other.name())),
        }
    }

    /// Returns the number of threads as [`ServerSettings::show_threads`] does.
    pub(crate) fn show_threads(&self) -> String {
        show_threads(self.threads_min, self.threads)
    }

    fn has_word(&self, word: &str) -> bool {
        self.versions.split_ascii_whitespace().any(|found| found == word)
    }

    /// Returns the settings that reproduce this state.
    fn to_settings(&self) -> ServerSettings {
        let &Self { threads, threads_min, udp, rdma_port, transfer_max_bytes, .. } = self;
        let versions = self.offered();
        ServerSettings { threads, threads_min, versions, udp, rdma_port, transfer_max_bytes }
    }

    fn offered(&self) -> Vec<NfsVersion> {
        let mut offered = VERSIONS.to_vec();
        offered.retain(|version| self.offers(*version));
        offered
    }
}

impl Host {
    /// Reads the current state of the host.
    pub(crate) fn now() -> Self {
        let state = State::now();
        Self {
            is_mounted: mounts::find_at(Path::new(NFSD_FOLDER)).is_some(),
            has_clients: state.threads > 0 && grace::has_clients(),
            state,
            mountd: processes::is_running("rpc.mountd"),
        }
    }
}

/// The transport options supported by this host's rpc.nfsd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransportWords {
    /// Options to enable and to disable a transport.
    #[default]
    OfferAndLeaveOut,
    /// Options to disable only: in nfs-utils 1.3, all transports are enabled by default.
    LeaveOut,
}

impl TransportWords {
    /// Probes the program with `--help`, which starts nothing: getopt rejects unknown options
    /// first.
    pub(crate) fn find(runner: &Runner) -> Self {
        match runner.output(&["rpc.nfsd", "--udp", "--tcp", "--help"], SOON) {
            Ok(output) if output.stderr.contains("unrecognized option") => Self::LeaveOut,
            _ => Self::OfferAndLeaveOut,
        }
    }
}

/// Files that rpcbind leaves behind when it exits. The last two are in a folder owned by its user.
pub(crate) const RPCBIND_FILES: [&str; 4] = [
    "/run/rpcbind.sock",
    "/run/rpcbind.lock",
    "/run/rpcbind/portmap.xdr",
    "/run/rpcbind/rpcbind.xdr",
];

/// Restores the server's previous state.
///
/// # Errors
/// If it cannot be stopped or started.
pub(crate) fn restore(runner: &mut Runner, state: &State) -> Result<(), LabError> {
    let now = State::now();
    if now == *state || (now.threads == 0 && state.threads == 0) {
        return Ok(());
    }
    let wanted = state.to_settings();
    if state.threads > 0 && wanted.is_live_change(&now) {
        return set_threads(runner, &now, state);
    }
    let has_clients = grace::has_clients();
    stop_and_start(runner, &now, state)?;
    // Clients with state to reclaim can do so from the restored server. No run waits for that.
    if state.threads > 0 && !has_clients {
        grace::end_early(runner);
        return grace::await_end();
    }
    Ok(())
}

/// Restarts a running server with the same settings. Returns once clients can open files.
///
/// # Errors
/// Same as [`restore`]. Also if clients don't stop reclaiming their state.
pub(crate) fn restart(runner: &mut Runner) -> Result<(), LabError> {
    // Check before stopping it, since the list of clients disappears along with the server.
    let state = State::now();
    let has_clients = grace::has_clients();
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
        let words = state.to_settings().words(state.threads, TransportWords::find(runner));
        runner.run(&words, SOON)?;
        // The smallest number is kept while the server is stopped, but can't be read then.
        let started = State::now();
        if started.threads_min != state.threads_min {
            set_threads(runner, &started, state)?;
        }
    }
    Ok(())
}

/// Sets the number of threads of a running server.
fn set_threads(runner: &Runner, now: &State, state: &State) -> Result<(), LabError> {
    if now.threads_min == 0 && state.threads_min == 0 {
        return runner.write(&file("threads"), &state.threads.to_string());
    }
    runner.run(&threads_words(state.threads_min, state.threads), SOON)?;
    Ok(())
}

/// Returns the command that sets the limits of a dynamic number of threads, or a fixed number if
/// `min` is 0. **Source:** nfsdctl(8).
pub(crate) fn threads_words(min: u32, max: u32) -> Vec<String> {
    let words = ["nfsdctl".to_owned(), "threads".to_owned(), format!("--min-threads={min}")];
    words.into_iter().chain([max.to_string()]).collect()
}

/// Returns the smallest number of threads of a running server, or `None` if its kernel or nfsdctl
/// only know fixed numbers.
pub(crate) fn read_threads_min() -> Option<u32> {
    find("nfsdctl")?;
    let output = Runner::default().output(&["nfsdctl", "threads"], SOON).ok()?;
    parse_threads_min(&output.stdout)
}

/// Parses the line `min-threads: 4`.
fn parse_threads_min(text: &str) -> Option<u32> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix("min-threads:"))?;
    value.trim().parse().ok()
}

fn show_threads(min: u32, max: u32) -> String {
    if min == 0 { max.to_string() } else { format!("{min}..{max}") }
}

/// Returns the port of a listener such as `rdma 20049`, or 0 if there is none.
fn rdma_port(portlist: &str) -> u16 {
    let port = portlist.lines().find_map(|line| line.strip_prefix("rdma ")?.trim().parse().ok());
    port.unwrap_or(0)
}

/// Returns the path of one of the server's control files.
pub(crate) fn file(name: &str) -> PathBuf {
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
        let versions = versions.to_owned();
        State { threads: 4, versions, transfer_max_bytes: 65_536, ..State::default() }
    }

    #[test]
    fn parses_nfsd_versions() {
        let offered = |text: &str| state(text).offered();
        assert_eq!(offered("-2 +3 +4 +4.1 +4.2"), [V3, V4_0, V4_1, V4_2]);
        assert_eq!(offered("+3 +4 -4.0 +4.1 -4.2"), [V3, V4_1]);
        assert_eq!(offered("+2 +3 -4 -4.1 -4.2"), [V2, V3]);
        assert_eq!(offered(""), []);
    }

    #[test]
    fn parses_limits_of_threads() {
        // As printed by nfsdctl 3.1.1 with Linux 7.2, and by 2.8.3 with 6.12.
        let new = "gracetime: 15\nleasetime: 15\nmin-threads: 4\nscope: server\npool-threads: 64\n";
        assert_eq!(parse_threads_min(new), Some(4));
        assert_eq!(parse_threads_min(&new.replace("min-threads: 4\n", "")), None);
        assert_eq!(parse_threads_min(""), None);
        assert_eq!(threads_words(4, 64).join(" "), "nfsdctl threads --min-threads=4 64");
        assert_eq!((show_threads(4, 64), show_threads(0, 8)), ("4..64".to_owned(), "8".to_owned()));
    }

    #[test]
    fn passes_only_removals_to_old_program() {
        let words = |udp, transports| {
            let settings = ServerSettings {
                threads: 0,
                threads_min: 0,
                versions: vec![V3],
                udp,
                rdma_port: 0,
                transfer_max_bytes: 0,
            };
            settings.words(4, transports).join(" ")
        };
        assert_eq!(words(true, TransportWords::LeaveOut), "rpc.nfsd -V 3 -N 4 4");
        assert_eq!(words(false, TransportWords::LeaveOut), "rpc.nfsd -V 3 -N 4 --no-udp 4");
        let both = words(true, TransportWords::OfferAndLeaveOut);
        assert_eq!(both, "rpc.nfsd -V 3 -N 4 --udp --tcp 4");
    }

    #[test]
    fn keeps_rdma_listener() {
        assert_eq!(rdma_port("rdma 20049\nrdma 20049\ntcp 2049\ntcp 2049\n"), 20_049);
        assert_eq!((rdma_port("tcp 2049\nudp 2049\n"), rdma_port("rdma x")), (0, 0));
        // Undo logs of older versions have no port.
        let old = r#"{"threads":4,"versions":"+3","udp":false,"transfer_max_bytes":65536}"#;
        let old: State = serde_json::from_str(old).unwrap();
        assert_eq!(old.rdma_port, 0);
        let with = State { rdma_port: 20_050, ..state("-2 +3 +4 +4.1 +4.2") };
        let words = with.to_settings().words(4, TransportWords::default()).join(" ");
        assert!(words.ends_with("--no-udp --tcp --rdma=20050 4"), "{words}");
        // The kernel removes a listener only while the server is stopped.
        assert!(!old.to_settings().is_live_change(&with));
        assert!(with.to_settings().is_live_change(&with));
    }
}
