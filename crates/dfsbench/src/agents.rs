//! Starts agents: this program in a process of its own, here or over ssh on another host.
//!
//! Hosts that are set up have an agent in a process of its own, this one too: it undoes what it did
//! even where the controller is killed.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use controller::Launched;
use fleet::ssh::{self, Launcher};
use fleet::{Gone, Remote, Transport};
use model::{Host, panicked};

use crate::job::Job;

/// Names of the hosts that have agents: what is named where this process can't end in order.
static REACHED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Names of the hosts that have agents and were not left yet.
pub fn reached() -> Vec<String> {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note_reached(host: &str) {
    let mut reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !reached.iter().any(|known| known == host) {
        reached.push(host.to_owned());
    }
}

/// Takes note that all hosts were left.
pub fn note_left() {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Starts agents, here or on other hosts.
pub struct Agents {
    stop: Arc<AtomicBool>,
    /// Made when a host is first reached over ssh.
    launcher: Option<Launcher>,
    /// Those that came by themselves.
    job: Option<Job>,
}

impl Agents {
    /// None yet; `stop` is the request to stop, which is passed on to them.
    pub const fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, launcher: None, job: None }
    }

    /// With those that a job has brought.
    pub fn with_job(self, job: Option<Job>) -> Self {
        Self { job, ..self }
    }

    /// Starts the agents of some hosts, at one moment where they are different ones.
    ///
    /// Each has an agent, or a sentence that says why it can't be reached or can't run this
    /// program.
    pub fn launch(&mut self, hosts: &[&Host]) -> Vec<Launched> {
        let taken = hosts.iter().map(|host| self.job.as_mut().and_then(|job| job.take(host)));
        let mut launched: Vec<Option<Result<Remote, Gone>>> = taken.collect();
        if let Some(host) = hosts.iter().find(|host| host.ssh.is_some())
            && self.launcher.is_none()
        {
            match candidate_programs(host).and_then(Launcher::new) {
                Ok(launcher) => self.launcher = Some(launcher),
                Err(gone) => return hosts.iter().map(|_| Err(gone.clone())).collect(),
            }
        }
        let missing = (0..hosts.len()).filter(|index| launched[*index].is_none());
        let places = by_place(hosts, missing);
        for (index, agent) in start_all(&places, self.launcher.as_ref(), &self.stop) {
            launched[index] = Some(agent);
        }
        let boxed = |agent| Box::new(agent) as Box<dyn Transport>;
        for (host, agent) in hosts.iter().zip(&launched) {
            if matches!(agent, Some(Ok(_))) {
                note_reached(&host.name);
            }
        }
        launched.into_iter().flatten().map(|agent| agent.map(boxed)).collect()
    }

    /// Starts the agent of one host.
    ///
    /// # Errors
    /// When the host can't be reached or can't run this program; in a sentence.
    pub fn launch_one(&mut self, host: &Host) -> Launched {
        self.launch(&[host]).swap_remove(0)
    }
}

/// Agents of one host, each with the index under which it was asked for.
type Place<'h> = Vec<(usize, &'h Host)>;

/// Starts agents, one after the other where they are on one host.
fn start_all(
    places: &[Place<'_>],
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Vec<(usize, Result<Remote, Gone>)> {
    let start = |place: &Place<'_>| -> Vec<_> {
        place.iter().map(|(index, host)| (*index, start_caught(host, launcher, stop))).collect()
    };
    let mut started = Vec::new();
    for some in places.chunks(ssh::AT_ONCE_MAX) {
        thread::scope(|scope| {
            let each: Vec<_> = some.iter().map(|place| scope.spawn(|| start(place))).collect();
            for thread in each {
                started.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
    }
    started
}

/// Starts an agent; a panic on the way is why its host has none.
fn start_caught(
    host: &Host,
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Result<Remote, Gone> {
    panicked::catch(|| start_remote(host, launcher, stop))
        .unwrap_or_else(|panicked| Err(Gone(format!("host {}: {panicked}", host.name))))
}

fn start_remote(
    host: &Host,
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Result<Remote, Gone> {
    if let Some(launcher) = launcher.filter(|_| host.ssh.is_some()) {
        return launcher.launch(host, stop);
    }
    let mut command = Command::new(this_program(host)?);
    // A ctrl-C is for the controller, which then ends things in order.
    command.args(["agent", "--stdio"]).process_group(0);
    Remote::start(&mut command, &host.name, Arc::clone(stop))
}

/// Some hosts by where they are, each with its index: a host that plays several clients is one
/// place, which gets the program once.
fn by_place<'h>(hosts: &[&'h Host], some: impl Iterator<Item = usize>) -> Vec<Place<'h>> {
    let mut places: BTreeMap<_, Place<'h>> = BTreeMap::new();
    for index in some {
        let host = hosts[index];
        let place = match &host.ssh {
            Some(ssh) => (Some((ssh.as_str(), &host.ssh_config)), 0),
            // Here nothing has to be put anywhere.
            None => (None, index),
        };
        places.entry(place).or_default().push((index, host));
    }
    places.into_values().collect()
}

/// Programs that a host may be able to run, the best first.
fn candidate_programs(host: &Host) -> Result<Vec<PathBuf>, Gone> {
    if let Some(named) = std::env::var_os("DFSBENCH_AGENT_BINARY") {
        return Ok(vec![named.into()]);
    }
    let this = this_program(host)?;
    let beside = this.with_file_name("dfsbench-static");
    Ok([this].into_iter().chain(beside.is_file().then_some(beside)).collect())
}

fn this_program(host: &Host) -> Result<PathBuf, Gone> {
    std::env::current_exe()
        .map_err(|error| Gone(format!("host {}: where is this program? {error}", host.name)))
}

/// Returns the directory of this host's undo log: one for root, else the user's own folder.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub fn state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/dfsbench");
    }
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(home).unwrap_or_else(std::env::temp_dir);
    state.join("dfsbench")
}
