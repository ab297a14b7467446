//! Starts the kernel's NFS server or changes the running one.
//!
//! The helpers it needs (rpcbind, rpc.mountd) are started if they aren't running, and stopped along
//! with it. **Source:** nfsd(7), rpc.nfsd(8), rpc.mountd(8).

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Nfsd;
use model::lab::RDMA_PORT;
use model::units::Size;

use super::rpcbind::Rpcbind;
use super::{LabAction, Layer, mount_needs, program_undo};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{RunAs, Runner, find, packages};
use crate::error::LabError;
use crate::facts::kernel_release;
use crate::host::grace;
use crate::host::nfsd::{self, Host, MOUNT_PORT, ServerSettings, State, TransportWords, file};
use crate::undo::Undo;
use crate::{NFSD_FOLDER, RUN, facts};

/// Facts needed to start the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct NfsdFacts {
    /// State of the server and of rpc.mountd.
    host: Host,
    /// Options of the installed rpc.nfsd that select transports.
    transport_words: TransportWords,
    rpcbind: Rpcbind,
    /// Whether kernel and nfsdctl have dynamic threads, as far as a running server shows.
    has_dynamic_threads: bool,
}

impl LabAction for Nfsd {
    type Facts = NfsdFacts;

    fn accept(&self) -> Result<(), LabError> {
        // There are only numbers and versions.
        Ok(())
    }

    fn look(&self) -> Result<NfsdFacts, LabError> {
        let transport_words = TransportWords::find(&Runner::default());
        Ok(NfsdFacts {
            host: Host::now(),
            transport_words,
            rpcbind: Rpcbind::look(),
            has_dynamic_threads: self.threads_min > 0 && nfsd::read_threads_min().is_some(),
        })
    }

    /// Limits are set on a server that is running already.
    fn assume(&self) -> NfsdFacts {
        if self.threads_min == 0 && self.transfer_max_bytes == 0 {
            return NfsdFacts::default();
        }
        let threads = if self.threads == 0 { nfsd::THREADS } else { self.threads };
        let state = State { threads, udp: self.udp, ..State::default() };
        let host = Host { is_mounted: true, state, mountd: true, has_clients: false };
        NfsdFacts { host, rpcbind: Rpcbind::Runs, ..NfsdFacts::default() }
    }

    fn steps(&self, facts: &NfsdFacts) -> Vec<Step> {
        let mut wanted = settings(self);
        let state = &facts.host.state;
        if wanted.rdma_port == 0 {
            wanted.rdma_port = state.rdma_port;
        }
        let mut steps = Vec::new();
        if wanted.is_live_change(state) {
            if wanted.threads != 0 && wanted.threads_min == 0 && state.threads_min == 0 {
                steps.push(Step::write(file("threads"), wanted.threads.to_string()));
            } else if wanted.threads != 0 {
                let words = nfsd::threads_words(wanted.threads_min, wanted.threads);
                steps.push(Step::run(words));
            }
            // Another program may have started the server just now.
            steps.push(Step::AwaitGrace);
            return steps;
        }
        if !facts.host.is_mounted {
            steps.push(Step::run(["modprobe", "nfsd"]));
            steps.push(Step::run(["mount", "-t", "nfsd", "--", "nfsd", NFSD_FOLDER]));
        }
        // Start these first: the server registers with rpcbind when it starts, and clients that
        // find it there ask rpc.mountd for the export.
        steps.extend(helpers(facts));
        // Versions, transports and the maximum transfer size can only be changed while the server
        // is stopped.
        if state.threads > 0 {
            steps.push(Step::run(["rpc.nfsd", "0"]));
        }
        if wanted.transfer_max_bytes != 0 {
            let bytes = wanted.transfer_max_bytes.to_string();
            steps.push(Step::write(file("max_block_size"), bytes));
        }
        let threads = match (wanted.threads, state.threads) {
            (0, 0) => nfsd::THREADS,
            (0, now) => now,
            _ if wanted.threads_min > 0 => wanted.threads_min,
            (requested, _) => requested,
        };
        steps.push(Step::run(wanted.words(threads, facts.transport_words)));
        if wanted.threads != 0 && wanted.threads_min != state.threads_min {
            steps.push(Step::run(nfsd::threads_words(wanted.threads_min, wanted.threads)));
        }
        // If no client can have state to reclaim, end the grace period instead of measuring it.
        if !facts.host.has_clients {
            for path in grace::ENDS {
                steps.push(Step::Offer { path: path.into(), text: "Y".to_owned() });
            }
        }
        steps.push(Step::AwaitGrace);
        steps
    }

    /// Restores the server's previous state and stops the helpers we started. Fails if a program is
    /// missing.
    fn undo(&self, facts: &NfsdFacts, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        for program in ["rpc.nfsd", "rpc.mountd", "exportfs"] {
            if find(program).is_none() {
                return Err(packages::missing(program));
            }
        }
        if self.threads_min > 0 && !facts.has_dynamic_threads {
            let threads = settings(self).show_threads();
            return Err(LabError::Unable(lacks_dynamic_threads(&threads, &kernel_release())));
        }
        if self.rdma {
            mount_needs::check_rdma("on the server")?;
        }
        // Executed from last to first: the server, then its helpers, then the nfsd file system.
        let mut undo = Vec::new();
        if !facts.host.is_mounted {
            undo.push(Undo::Unmount {
                point: PathBuf::from(NFSD_FOLDER),
                file_system: "nfsd".to_owned(),
            });
        }
        undo.extend(facts.rpcbind.undo());
        if !facts.host.mountd {
            undo.extend(program_undo(&Path::new(RUN).join("mountd"), "rpc.mountd"));
        }
        undo.push(Undo::Nfsd { state: facts.host.state.clone() });
        Ok(undo)
    }

    fn check(&self, _facts: &NfsdFacts) -> Result<EffectiveSettings, LabError> {
        let state = State::now();
        if self.transfer_max_bytes > state.transfer_max_bytes {
            let limits = [self.transfer_max_bytes, state.transfer_max_bytes];
            return Err(LabError::Unable(lacks_block_size(limits, &kernel_release())));
        }
        let mut found = check_state(&settings(self), &state);
        found.facts.extend(facts::kernel_server());
        found.facts.extend(facts::nfsd_modes::facts());
        found.facts.extend(facts::kernel_switch::facts_of_server());
        Ok(found)
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

fn settings(action: &Nfsd) -> ServerSettings {
    let Nfsd { threads, threads_min, versions, udp, rdma, transfer_max_bytes } = action;
    ServerSettings {
        threads: *threads,
        threads_min: *threads_min,
        versions: versions.clone(),
        udp: *udp,
        rdma_port: if *rdma { RDMA_PORT } else { 0 },
        transfer_max_bytes: *transfer_max_bytes,
    }
}

fn lacks_dynamic_threads(threads: &str, kernel: &str) -> String {
    format!(
        "nfsd_threads {threads}: dynamic threads are not supported by kernel {kernel} or its \
         nfsdctl, which shows no min-threads (hint: they take Linux 7.0 or newer, and an nfsdctl \
         with --min-threads)"
    )
}

fn lacks_block_size(limits: [u32; 2], kernel: &str) -> String {
    let [requested, found] = limits.map(|bytes| Size(u64::from(bytes)));
    format!(
        "max_block_size {requested} is not supported by kernel {kernel}, whose server accepts at \
         most {found}"
    )
}

/// Returns the steps that start the helpers.
fn helpers(facts: &NfsdFacts) -> Vec<Step> {
    let mut steps = facts.rpcbind.steps();
    if !facts.host.mountd {
        let folder = Path::new(RUN).join("mountd");
        let port = MOUNT_PORT.to_string();
        let argv = ["rpc.mountd", "--foreground", "--port", &port].map(str::to_owned).to_vec();
        let link = folder.join("rpc.mountd");
        steps.extend([Step::Folder(folder), Step::Start { link, argv, user: RunAs::Root }]);
    }
    steps
}

/// Compares the server's state with the requested settings.
fn check_state(wanted: &ServerSettings, state: &State) -> EffectiveSettings {
    let [threads_file, versions_file, portlist, transfer_file] =
        ["threads", "versions", "portlist", "max_block_size"]
            .map(|name| file(name).display().to_string());
    let mut findings = Findings::new("server");
    let threads = state.show_threads();
    let requested = if wanted.threads == 0 { threads.clone() } else { wanted.show_threads() };
    findings.compare("threads of nfsd", &requested, &threads, &threads_file);
    if state.threads == 0 {
        findings.add_difference("threads of nfsd", "some", "0", &threads_file);
    }
    findings.fact("versions of nfsd", &state.versions, versions_file.as_str());
    for version in &wanted.versions {
        if !state.offers(*version) {
            let name = format!("version {version} of nfsd");
            findings.add_difference(&name, "offered", &state.versions, &versions_file);
        }
    }
    if wanted.udp != state.udp {
        let (requested, found) =
            if wanted.udp { ("offered", "not offered") } else { ("not offered", "offered") };
        findings.add_difference("UDP of nfsd", requested, found, &portlist);
    }
    if wanted.rdma_port != 0 {
        let [requested, found] = [wanted.rdma_port, state.rdma_port].map(|port| match port {
            0 => "none".to_owned(),
            port => format!("port {port}"),
        });
        findings.compare("RDMA listener of nfsd", &requested, &found, &portlist);
    }
    let transfer = state.transfer_max_bytes.to_string();
    let requested = match wanted.transfer_max_bytes {
        0 => transfer.clone(),
        requested => requested.to_string(),
    };
    findings.compare("largest transfer of nfsd", &requested, &transfer, &transfer_file);
    findings.finish()
}

#[cfg(test)]
mod tests {
    use model::NfsVersion::{self, V3, V4_0, V4_1, V4_2};

    use super::*;

    const WAIT: &str = "wait until /proc/fs/nfsd/v4_end_grace contains Y";

    /// Returns the facts of a running server whose clients may have open files.
    fn running(has_clients: bool) -> NfsdFacts {
        let versions = "-2 +3 +4 +4.1 +4.2".to_owned();
        let state = State { threads: 4, versions, transfer_max_bytes: 65_536, ..State::default() };
        let host = Host { is_mounted: true, state, mountd: true, has_clients };
        NfsdFacts { host, rpcbind: Rpcbind::Runs, ..NfsdFacts::default() }
    }

    fn plain() -> Nfsd {
        Nfsd {
            threads: 0,
            threads_min: 0,
            versions: Vec::new(),
            udp: false,
            rdma: false,
            transfer_max_bytes: 0,
        }
    }

    fn shown(threads: u32, versions: &[NfsVersion], udp: bool, max: u32) -> Vec<String> {
        let versions = versions.to_vec();
        let transfer_max_bytes = max;
        let nfsd = Nfsd { threads, threads_min: 0, versions, udp, rdma: false, transfer_max_bytes };
        nfsd.steps(&running(true)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_threads_change_while_it_runs() {
        assert_eq!(shown(16, &[], false, 0), ["echo 16 > /proc/fs/nfsd/threads", WAIT]);
        assert_eq!(
            shown(0, &[V3], true, 1 << 20),
            [
                "rpc.nfsd 0",
                "echo 1048576 > /proc/fs/nfsd/max_block_size",
                "rpc.nfsd -V 3 -N 4 --udp --tcp 4",
                WAIT
            ]
        );
        let same = [V3, V4_0, V4_1, V4_2];
        assert_eq!(shown(4, &same, false, 65_536).len(), 2);
    }

    #[test]
    fn limits_dynamic_threads() {
        let steps = |threads, threads_min, before: u32| {
            let nfsd = Nfsd { threads, threads_min, ..plain() };
            let mut facts = running(true);
            facts.host.state.threads_min = before;
            nfsd.steps(&facts).first().unwrap().to_string()
        };
        assert_eq!(steps(64, 4, 0), "nfsdctl threads --min-threads=4 64");
        // A fixed number ends what the host had.
        assert_eq!(steps(8, 0, 2), "nfsdctl threads --min-threads=0 8");
        assert_eq!(steps(0, 0, 2), WAIT);
        let dry = |threads, threads_min, transfer_max_bytes| {
            let nfsd = Nfsd { threads, threads_min, transfer_max_bytes, ..plain() };
            let steps = nfsd.steps(&nfsd.assume());
            steps.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(dry(64, 4, 0), ["nfsdctl threads --min-threads=4 64", WAIT]);
        let restarted = dry(64, 4, 4 << 20);
        let expected = [
            "rpc.nfsd 0",
            "echo 4194304 > /proc/fs/nfsd/max_block_size",
            "rpc.nfsd --no-udp --tcp 4",
            "nfsdctl threads --min-threads=4 64",
        ];
        assert_eq!(restarted[..4], expected);
    }

    #[test]
    fn explains_missing_limits() {
        let nfsd = Nfsd { threads: 64, threads_min: 4, ..plain() };
        if find("exportfs").is_some() {
            let error = nfsd.undo(&running(false), &[]).unwrap_err().to_string();
            assert_eq!(error, lacks_dynamic_threads("4..64", &kernel_release()));
        }
        let texts = [
            lacks_dynamic_threads("4..64", "6.12.48"),
            lacks_block_size([4 << 20, 1 << 20], "6.12.48"),
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn compares_limits_of_threads() {
        let differences = |threads, threads_min, found: u32| {
            let wanted = settings(&Nfsd { threads, threads_min, ..plain() });
            let state = State { threads_min: found, ..running(false).host.state };
            let found = check_state(&wanted, &state).differences;
            found.into_iter().map(|one| (one.requested, one.found)).collect::<Vec<_>>()
        };
        let pair = |one: &str, other: &str| vec![(one.to_owned(), other.to_owned())];
        assert_eq!(differences(4, 2, 2), []);
        assert_eq!(differences(4, 0, 0), []);
        assert_eq!(differences(0, 0, 2), []);
        // Set while the server was stopped, when it can't be read.
        assert_eq!(differences(4, 0, 2), pair("4", "2..4"));
        assert_eq!(differences(4, 2, 0), pair("2..4", "4"));
    }

    #[test]
    fn adds_rdma_listener_by_restart() {
        let nfsd = |rdma| Nfsd {
            threads: 4,
            threads_min: 0,
            versions: Vec::new(),
            udp: false,
            rdma,
            transfer_max_bytes: 0,
        };
        let shown = |rdma, facts: &NfsdFacts| -> Vec<String> {
            nfsd(rdma).steps(facts).iter().map(ToString::to_string).collect()
        };
        let mut facts = running(true);
        let restart = ["rpc.nfsd 0", "rpc.nfsd --no-udp --tcp --rdma=20049 4", WAIT];
        assert_eq!(shown(true, &facts), restart);
        // A listener that is already there stays, even if the run doesn't use it.
        facts.host.state.rdma_port = RDMA_PORT;
        let live = ["echo 4 > /proc/fs/nfsd/threads", WAIT];
        assert_eq!(
            (shown(true, &facts), shown(false, &facts)),
            (live.map(str::to_owned).to_vec(), live.map(str::to_owned).to_vec())
        );
        let found = |port, state: &State| {
            let wanted = ServerSettings { rdma_port: port, ..settings(&nfsd(false)) };
            check_state(&wanted, state).differences.len()
        };
        assert_eq!(found(RDMA_PORT, &facts.host.state), 0);
        facts.host.state.rdma_port = 0;
        assert_eq!((found(RDMA_PORT, &facts.host.state), found(0, &facts.host.state)), (1, 0));
    }

    #[test]
    fn leaves_reclaimable_state_alone() {
        let nfsd = Nfsd {
            threads: 0,
            threads_min: 0,
            versions: vec![V3],
            udp: false,
            rdma: false,
            transfer_max_bytes: 0,
        };
        let last = |facts: &NfsdFacts, count: usize| -> Vec<String> {
            let steps = nfsd.steps(facts);
            steps[steps.len() - count..].iter().map(ToString::to_string).collect()
        };
        let start = "rpc.nfsd -V 3 -N 4 --no-udp --tcp 4";
        assert_eq!(last(&running(true), 2), [start, WAIT]);
        let ended = [
            start,
            "echo Y > /proc/fs/nfsd/v4_end_grace",
            "echo Y > /proc/fs/lockd/nlm_end_grace",
            WAIT,
        ];
        assert_eq!(last(&running(false), 4), ended);
    }
}
