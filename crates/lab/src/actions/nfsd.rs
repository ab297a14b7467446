//! The kernel's NFS server: its threads, versions and transports.
//!
//! Principal types: [`Wanted`], what a run asks for; [`State`], how the server is, as
//! /proc/fs/nfsd says. Helpers that must run beside it (rpcbind, rpc.mountd) are started where they
//! don't, and ended with it. **Source:** nfsd(7), rpc.nfsd(8), rpc.mountd(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::{EffectiveSettings, NfsVersion};
use serde::{Deserialize, Serialize};

use super::{Known, folder_undo, grace, program_undo};
use crate::RUN;
use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::findings::Findings;
use crate::mounts;
use crate::processes;
use crate::servers;
use crate::step::Step;
use crate::undo::Undo;

/// Folder of the server's control files.
pub const FOLDER: &str = "/proc/fs/nfsd";
/// Threads of a server that is started without a number of them. **Source:** rpc.nfsd(8).
const THREADS: u32 = 8;
/// Port of rpc.mountd, as IANA has it for `mountd`.
pub const MOUNT_PORT: u16 = 20_048;
/// Versions that the server may be told about.
const VERSIONS: [NfsVersion; 5] =
    [NfsVersion::V2, NfsVersion::V3, NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];

/// Settings that the server shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    threads: u32,
    versions: Vec<NfsVersion>,
    udp: bool,
    transfer_max_bytes: u32,
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

impl Wanted {
    /// Zero and empty leave things as they are.
    pub fn new(threads: u32, versions: &[NfsVersion], udp: bool, transfer_max_bytes: u32) -> Self {
        Self { threads, versions: versions.to_vec(), udp, transfer_max_bytes }
    }

    /// The words of rpc.nfsd that start it so.
    ///
    /// The program of nfs-utils 1.3 offers each transport that it isn't told to leave out, and has
    /// no words for the others.
    fn words(&self, threads: u32, only_leaves_out: bool) -> Vec<String> {
        let mut words = vec!["rpc.nfsd".to_owned()];
        if !self.versions.is_empty() {
            // A minor version alone leaves the others of v4 as they were.
            let has_v4 = self.versions.iter().any(|version| version.major() == 4);
            for version in VERSIONS {
                let offered = self.versions.contains(&version);
                let name = version.name();
                match (offered, version) {
                    // Old and new programs part over v2: most can't even be told about it.
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
        let transports: &[&str] = match (self.udp, only_leaves_out) {
            (false, true) => &["--no-udp"],
            (false, false) => &["--no-udp", "--tcp"],
            (true, true) => &[],
            (true, false) => &["--udp", "--tcp"],
        };
        words.extend(transports.iter().map(|&word| word.to_owned()));
        words.push(threads.to_string());
        words
    }

    /// Only the number of threads is new to a server that is so.
    fn is_live_change(&self, state: &State) -> bool {
        let versions = self.versions.is_empty()
            || VERSIONS
                .iter()
                .all(|version| state.offers(*version) == self.versions.contains(version));
        let transfer =
            self.transfer_max_bytes == 0 || self.transfer_max_bytes == state.transfer_max_bytes;
        state.threads > 0 && versions && transfer && self.udp == state.udp
    }
}

impl State {
    /// Reads it from the kernel.
    pub fn now() -> Self {
        let read = |name: &str| {
            let text = fs::read_to_string(Path::new(FOLDER).join(name)).unwrap_or_default();
            text.trim().to_owned()
        };
        Self {
            threads: read("threads").parse().unwrap_or(0),
            versions: read("versions"),
            udp: read("portlist").lines().any(|line| line.starts_with("udp")),
            transfer_max_bytes: read("max_block_size").parse().unwrap_or(0),
        }
    }

    /// It offers a version. **Source:** nfsd(7), `versions`: `+4` alone has all minor versions that
    /// aren't taken away.
    pub fn offers(&self, version: NfsVersion) -> bool {
        let has = |word: &str| self.versions.split_ascii_whitespace().any(|found| found == word);
        match version {
            NfsVersion::V4_0 => has("+4") && !has("-4.0"),
            other => has(&format!("+{}", other.name())),
        }
    }

    /// Returns the settings that make a server as this one is.
    fn wanted(&self) -> Wanted {
        Wanted::new(self.threads, &self.offered(), self.udp, self.transfer_max_bytes)
    }

    fn offered(&self) -> Vec<NfsVersion> {
        VERSIONS.into_iter().filter(|version| self.offers(*version)).collect()
    }
}

impl Host {
    /// Looks at the host.
    pub fn now() -> Self {
        let state = State::now();
        Self {
            is_mounted: mounts::at(Path::new(FOLDER)).is_some(),
            has_clients: state.threads > 0 && grace::has_clients(),
            state,
            mountd: runs("rpc.mountd"),
        }
    }
}

/// The program here can be told to leave a transport out, but not to offer one.
pub fn only_leaves_out(runner: &Runner) -> bool {
    let said = runner.output(&["rpc.nfsd", "--udp", "--tcp", "--help"], SOON);
    said.is_ok_and(|said| said.stderr.contains("unrecognized option"))
}

/// Something answers to rpcbind's port on the loopback.
pub fn rpcbind_runs() -> bool {
    servers::answers(111)
}

/// Starts the server and what it needs, or changes the running one.
pub fn steps(wanted: &Wanted, known: &Known) -> Vec<Step> {
    let state = &known.nfsd.state;
    if wanted.is_live_change(state) {
        let threads = (wanted.threads != 0).then_some(wanted.threads);
        let threads = threads.map(|threads| Step::write(file("threads"), threads.to_string()));
        // Somebody may have started it just now.
        return threads.into_iter().chain(grace::steps(false)).collect();
    }
    let mut steps = Vec::new();
    if !known.nfsd.is_mounted {
        steps.push(Step::run(["modprobe", "nfsd"]));
        steps.push(Step::run(["mount", "-t", "nfsd", "--", "nfsd", FOLDER]));
    }
    steps.extend(helpers(known));
    if state.threads > 0 {
        steps.push(Step::run(["rpc.nfsd", "0"]));
    }
    if wanted.transfer_max_bytes != 0 {
        steps.push(Step::write(file("max_block_size"), wanted.transfer_max_bytes.to_string()));
    }
    let threads = match (wanted.threads, state.threads) {
        (0, 0) => THREADS,
        (0, now) => now,
        (requested, _) => requested,
    };
    steps.push(Step::run(wanted.words(threads, known.only_leaves_out)));
    steps.extend(grace::steps(!known.nfsd.has_clients));
    steps
}

fn helpers(known: &Known) -> Vec<Step> {
    let mut steps = rpcbind_steps(known);
    if !known.nfsd.mountd {
        let folder = Path::new(RUN).join("mountd");
        let port = MOUNT_PORT.to_string();
        let argv = ["rpc.mountd", "--foreground", "--port", &port].map(str::to_owned).to_vec();
        let link = folder.join("rpc.mountd");
        steps.extend([Step::Folder(folder), Step::Start { link, argv, as_root: true }]);
    }
    steps
}

/// Files that rpcbind leaves when it ends; the last two lie in a folder of its own user.
pub const RPCBIND_FILES: [&str; 4] = [
    "/run/rpcbind.sock",
    "/run/rpcbind.lock",
    "/run/rpcbind/portmap.xdr",
    "/run/rpcbind/rpcbind.xdr",
];

/// Starts rpcbind where nobody answers for it.
pub fn rpcbind_steps(known: &Known) -> Vec<Step> {
    if known.rpcbind {
        return Vec::new();
    }
    let folder = Path::new(RUN).join("rpcbind");
    let argv = ["rpcbind", "-f"].map(str::to_owned).to_vec();
    let link = folder.join("rpcbind");
    vec![Step::Folder(folder), Step::Start { link, argv, as_root: true }, Step::Await(111)]
}

/// Ends the rpcbind that [`rpcbind_steps`] started, and removes what it leaves.
pub fn rpcbind_undo(known: &Known) -> Vec<Undo> {
    if known.rpcbind {
        return Vec::new();
    }
    let mut undo = folder_undo(Path::new("/run/rpcbind"));
    let new = RPCBIND_FILES.into_iter().map(PathBuf::from).filter(|path| !path.exists());
    undo.extend(new.map(|path| Undo::File { path }));
    undo.extend(program_undo(&Path::new(RUN).join("rpcbind"), "rpcbind"));
    undo
}

/// Sets the server as it was, and ends the helpers that we started.
///
/// # Errors
/// Where a program is missing.
pub fn undo(known: &Known) -> Result<Vec<Undo>, LabError> {
    for program in ["rpc.nfsd", "rpc.mountd", "exportfs"] {
        if crate::commands::find(program).is_none() {
            return Err(crate::packages::missing(program));
        }
    }
    let host = &known.nfsd;
    let mut undo = Vec::new();
    if !host.is_mounted {
        let (point, file_system) = (PathBuf::from(FOLDER), "nfsd".to_owned());
        undo.push(Undo::Unmount { point, file_system });
    }
    undo.extend(rpcbind_undo(known));
    if !host.mountd {
        undo.extend(program_undo(&Path::new(RUN).join("mountd"), "rpc.mountd"));
    }
    undo.push(Undo::Nfsd { state: host.state.clone() });
    Ok(undo)
}

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
    // Whoever has something to reclaim does so from the server as it was; nobody waits for that.
    if state.threads > 0 && !has_clients {
        grace::pass(runner, true)?;
    }
    Ok(())
}

/// Stops a running server and starts it as it was; returns once clients may open files.
///
/// # Errors
/// As [`restore`], and where clients go on reclaiming what they had open.
pub fn restart(runner: &mut Runner) -> Result<(), LabError> {
    let (state, has_clients) = (State::now(), grace::has_clients());
    if state.threads == 0 {
        return Ok(());
    }
    stop_and_start(runner, &state, &state)?;
    grace::pass(runner, !has_clients)
}

fn stop_and_start(runner: &Runner, now: &State, state: &State) -> Result<(), LabError> {
    runner.run(&["rpc.nfsd", "0"], SOON)?;
    if state.transfer_max_bytes != 0 && now.transfer_max_bytes != state.transfer_max_bytes {
        runner.write(&file("max_block_size"), &state.transfer_max_bytes.to_string())?;
    }
    if state.threads > 0 {
        let words = state.wanted().words(state.threads, only_leaves_out(runner));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        runner.run(&words, SOON)?;
    }
    Ok(())
}

/// Reads the server back.
pub fn check(wanted: &Wanted) -> EffectiveSettings {
    let state = State::now();
    let source = |name: &str| file(name).display().to_string();
    let mut findings = Findings::new("server");
    let threads = state.threads.to_string();
    let requested = if wanted.threads == 0 { threads.clone() } else { wanted.threads.to_string() };
    findings.compare("threads of nfsd", &requested, &threads, &source("threads"));
    if state.threads == 0 {
        findings.differ("threads of nfsd", "some", "0", &source("threads"));
    }
    findings.fact("versions of nfsd", &state.versions, source("versions"));
    for version in wanted.versions.iter().filter(|version| !state.offers(**version)) {
        let name = format!("version {version} of nfsd");
        findings.differ(&name, "offered", &state.versions, &source("versions"));
    }
    if wanted.udp != state.udp {
        let word = |udp: bool| if udp { "offered" } else { "not offered" };
        findings.differ("UDP of nfsd", word(wanted.udp), word(state.udp), &source("portlist"));
    }
    let transfer = state.transfer_max_bytes.to_string();
    let requested = match wanted.transfer_max_bytes {
        0 => transfer.clone(),
        requested => requested.to_string(),
    };
    findings.compare("largest transfer of nfsd", &requested, &transfer, &source("max_block_size"));
    findings.done()
}

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

fn runs(program: &str) -> bool {
    processes::names().any(|name| name == program)
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
    fn only_threads_change_while_it_runs() {
        let known = |state: State| Known {
            nfsd: Host { is_mounted: true, state, mountd: true, has_clients: true },
            rpcbind: true,
            ..Known::default()
        };
        let shown = |wanted: &Wanted, state: State| -> Vec<String> {
            steps(wanted, &known(state)).iter().map(ToString::to_string).collect()
        };
        let all = "-2 +3 +4 +4.1 +4.2";
        let live = shown(&Wanted::new(16, &[], false, 0), state(all));
        let wait = "wait until /proc/fs/nfsd/v4_end_grace says Y";
        assert_eq!(live, ["echo 16 > /proc/fs/nfsd/threads", wait]);
        let v3 = shown(&Wanted::new(0, &[V3], true, 1 << 20), state(all));
        assert_eq!(
            v3,
            [
                "rpc.nfsd 0",
                "echo 1048576 > /proc/fs/nfsd/max_block_size",
                "rpc.nfsd -V 3 -N 4 --udp --tcp 4",
                wait
            ]
        );
        let same = [V3, V4_0, V4_1, V4_2];
        assert_eq!(shown(&Wanted::new(4, &same, false, 65_536), state(all)).len(), 2);
    }

    #[test]
    fn an_old_program_is_told_only_what_to_leave_out() {
        let words = |udp, is_old| Wanted::new(0, &[V3], udp, 0).words(4, is_old).join(" ");
        assert_eq!(words(true, true), "rpc.nfsd -V 3 -N 4 4");
        assert_eq!(words(false, true), "rpc.nfsd -V 3 -N 4 --no-udp 4");
        assert_eq!(words(true, false), "rpc.nfsd -V 3 -N 4 --udp --tcp 4");
    }
}
