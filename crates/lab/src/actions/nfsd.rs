//! Starts the kernel's NFS server or changes the running one.
//!
//! The helpers it needs (rpcbind, rpc.mountd) are started if they aren't running, and stopped along
//! with it. **Source:** nfsd(7), rpc.nfsd(8), rpc.mountd(8).

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Nfsd;
use model::lab::RDMA_PORT;

use super::rpcbind::Rpcbind;
use super::{LabAction, Layer, mount_needs, program_undo};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{RunAs, Runner, find, packages};
use crate::error::LabError;
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
}

impl LabAction for Nfsd {
    type Facts = NfsdFacts;

    fn accept(&self) -> Result<(), LabError> {
        // There are only numbers and versions.
        Ok(())
    }

    fn look(&self) -> Result<NfsdFacts, LabError> {
        let transport_words = TransportWords::find(&Runner::default());
        Ok(NfsdFacts { host: Host::now(), transport_words, rpcbind: Rpcbind::look() })
    }

    fn assume(&self) -> NfsdFacts {
        NfsdFacts::default()
    }

    fn steps(&self, facts: &NfsdFacts) -> Vec<Step> {
        let mut wanted = settings(self);
        let state = &facts.host.state;
        if wanted.rdma_port == 0 {
            wanted.rdma_port = state.rdma_port;
        }
        let mut steps = Vec::new();
        if wanted.is_live_change(state) {
            if wanted.threads != 0 {
                steps.push(Step::write(file("threads"), wanted.threads.to_string()));
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
            (requested, _) => requested,
        };
        steps.push(Step::run(wanted.words(threads, facts.transport_words)));
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
        let mut found = check_state(&settings(self), &State::now());
        found.facts.extend(facts::kernel_server());
        Ok(found)
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

fn settings(action: &Nfsd) -> ServerSettings {
    let Nfsd { threads, versions, udp, rdma, transfer_max_bytes } = action;
    ServerSettings {
        threads: *threads,
        versions: versions.clone(),
        udp: *udp,
        rdma_port: if *rdma { RDMA_PORT } else { 0 },
        transfer_max_bytes: *transfer_max_bytes,
    }
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
    let threads = state.threads.to_string();
    let requested = if wanted.threads == 0 { threads.clone() } else { wanted.threads.to_string() };
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
        NfsdFacts { host, transport_words: TransportWords::default(), rpcbind: Rpcbind::Runs }
    }

    fn shown(threads: u32, versions: &[NfsVersion], udp: bool, max: u32) -> Vec<String> {
        let versions = versions.to_vec();
        let nfsd = Nfsd { threads, versions, udp, rdma: false, transfer_max_bytes: max };
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
    fn adds_rdma_listener_by_restart() {
        let nfsd = |rdma| Nfsd {
            threads: 4,
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
        let versions = vec![V3];
        let nfsd = Nfsd { threads: 0, versions, udp: false, rdma: false, transfer_max_bytes: 0 };
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
