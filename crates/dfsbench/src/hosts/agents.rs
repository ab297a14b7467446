//! Starts agents: this program in a separate process, here or on another host over ssh.
//!
//! A host that is set up by the plan always gets an agent in a separate process, even if it is this
//! host: that agent undoes its changes even if the controller is killed.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;

use controller::LaunchedAgent;
use fleet::job::{Job, JobRequest, Scheduler};
use fleet::ssh::{self, Launcher, LauncherOptions};
use fleet::{PeerGone, Remote};
use model::{Host, panicked};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Failure;
use crate::files::{input_file, own_program, user_dirs};
use crate::terminal::copies::Copies;
use crate::terminal::output::{self, lock_always};
use crate::terminal::progress::Visibility;

/// Names of the hosts that have agents, for the message of a process that can't exit cleanly.
static REACHED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the names of the hosts whose agents are still running.
pub(crate) fn reached_hosts() -> Vec<String> {
    lock_always(&REACHED).clone()
}

fn note_reached(host: &str) {
    let mut reached = lock_always(&REACHED);
    // There may be several agents on the same host.
    if !reached.contains(&host.to_owned()) {
        reached.push(host.to_owned());
    }
}

/// Records that no host has an agent any more.
pub(crate) fn record_no_agents() {
    lock_always(&REACHED).clear();
}

/// Access to the variables and files that job schedulers leave for this process.
pub(crate) const SCHEDULER: Scheduler<'static> =
    Scheduler { variable: &|name| std::env::var(name).ok(), read_file: &input_file::read_text };

/// Gathers the hosts of a job and the agents that connect by themselves.
///
/// # Errors
/// If the request is invalid or not all agents connect.
pub(crate) fn gather_job(request: &JobRequest, stop: &Arc<AtomicBool>) -> Result<Job, Failure> {
    let program = match std::env::var_os("DFSBENCH_AGENT_BINARY") {
        Some(named) => named.into(),
        None => own_program::installed()?,
    };
    Ok(Job::gather(request, &SCHEDULER, &program, output::message, stop)?)
}

/// Starts agents, here or on other hosts.
pub(crate) struct Agents {
    stop: Arc<AtomicBool>,
    /// Created when the first host is reached over ssh.
    launcher: Option<Arc<Launcher>>,
    copies: Copies,
    /// Agents that connected by themselves.
    job: Option<Job>,
}

impl Agents {
    /// Creates an empty set of agents. `stop` is the stop flag, which is passed on to them.
    pub(crate) fn new(stop: Arc<AtomicBool>, visibility: Visibility) -> Self {
        Self { stop, launcher: None, copies: Copies::new(visibility), job: None }
    }

    pub(crate) fn with_job(self, job: Option<Job>) -> Self {
        Self { job, ..self }
    }

    /// Starts the agents of several hosts in parallel, except for those on the same machine.
    ///
    /// Returns an agent for each host, or a sentence that explains why the host can't be reached or
    /// can't run this program.
    pub(crate) fn launch(&mut self, hosts: &[&Host]) -> Vec<LaunchedAgent> {
        // Keyed by the index of the host, because agents don't start in the order of `hosts`.
        let mut launched: BTreeMap<usize, Result<Remote, PeerGone>> = BTreeMap::new();
        let mut missing = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let of_job = self.job.as_mut().and_then(|job| job.take_agent(host));
            match of_job {
                Some(agent) => _ = launched.insert(index, agent),
                None => missing.push((index, *host)),
            }
            if host.ssh.is_some() && self.launcher.is_none() {
                match self.make_launcher(host) {
                    Ok(launcher) => self.launcher = Some(Arc::new(launcher)),
                    Err(gone) => return vec![gone; hosts.len()].into_iter().map(Err).collect(),
                }
            }
        }
        let machines = group_by_machine(&missing);
        launched.extend(start_all(&machines, self.launcher.as_deref(), &self.stop));
        self.copies.finish();
        let mut transports: Vec<LaunchedAgent> = Vec::with_capacity(hosts.len());
        for (index, agent) in launched {
            transports.push(match agent {
                Ok(agent) => {
                    note_reached(&hosts[index].name);
                    Ok(Box::new(agent))
                }
                Err(gone) => Err(gone),
            });
        }
        transports
    }

    /// Starts the agent of one host.
    ///
    /// # Errors
    /// If the host can't be reached or can't run this program; the message is a full sentence.
    pub(crate) fn launch_one(&mut self, host: &Host) -> LaunchedAgent {
        self.launch(&[host]).swap_remove(0)
    }

    /// Starts this program on other hosts in parallel, with arguments that make it speak a
    /// different protocol from that of agents.
    pub(crate) fn launch_as<In, Out>(
        &mut self,
        hosts: &[Host],
        words: &str,
    ) -> Vec<Result<Remote<In, Out>, PeerGone>>
    where
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
    {
        let Some(first) = hosts.first() else { return Vec::new() };
        if self.launcher.is_none() {
            match self.make_launcher(first) {
                Ok(launcher) => self.launcher = Some(Arc::new(launcher)),
                Err(gone) => return hosts.iter().map(|_| Err(gone.clone())).collect(),
            }
        }
        let Some(launcher) = self.launcher.as_deref() else { unreachable!("it was made") };
        let stop = &self.stop;
        let mut started = Vec::with_capacity(hosts.len());
        for some in hosts.chunks(ssh::AT_ONCE_MAX) {
            thread::scope(|scope| {
                let threads: Vec<_> = some
                    .iter()
                    .map(|host| scope.spawn(move || launcher.launch_as(host, words, stop)))
                    .collect();
                for thread in threads {
                    started.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
                }
            });
        }
        self.copies.finish();
        started
    }

    /// Makes this program available on a host and returns what starts it there.
    ///
    /// # Errors
    /// If the host can't be reached or can't run this program; the message is a full sentence.
    pub(crate) fn program_on(&mut self, host: &Host) -> Result<HostProgram, PeerGone> {
        if host.ssh.is_none() {
            return Ok(HostProgram::Here);
        }
        if self.launcher.is_none() {
            self.launcher = Some(Arc::new(self.make_launcher(host)?));
        }
        let Some(launcher) = &self.launcher else { unreachable!("it was made") };
        let path = launcher.program_on(host)?;
        self.copies.finish();
        let launcher = Arc::clone(launcher);
        Ok(HostProgram::There { launcher, host: host.clone(), path })
    }

    /// Creates the launcher that starts agents over ssh, with the binaries it may copy to hosts.
    fn make_launcher(&self, host: &Host) -> Result<Launcher, PeerGone> {
        Launcher::new(LauncherOptions {
            binaries: candidate_programs(host)?,
            cache: user_dirs::cache_dir(),
            on_copy: self.copies.observer(),
        })
    }
}

pub(crate) enum HostProgram {
    /// Runs on this host. Its file may be replaced by an upgrade in the meantime.
    Here,
    /// Runs on another host.
    There {
        /// The launcher that copied it there.
        launcher: Arc<Launcher>,
        host: Host,
        /// Path of the binary on that host.
        path: String,
    },
}

impl HostProgram {
    /// Builds a command that runs the program with one argument.
    pub(crate) fn command(&self, word: &str) -> std::io::Result<Command> {
        match self {
            Self::Here => {
                let mut command = Command::new(own_program::find()?);
                command.arg(word);
                Ok(command)
            }
            Self::There { launcher, host, path } => {
                Ok(launcher.command_on(host, &format!("{path} {word}")))
            }
        }
    }

    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self, Self::There { .. })
    }
}

/// The agents of one machine, each with the index of its host in the request.
type Machine<'h> = Vec<(usize, &'h Host)>;

/// Starts agents: in parallel on different machines, one after the other on the same machine.
fn start_all(
    machines: &[Machine<'_>],
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Vec<(usize, Result<Remote, PeerGone>)> {
    let mut started = Vec::new();
    for some in machines.chunks(ssh::AT_ONCE_MAX) {
        thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter()
                .map(|machine| scope.spawn(|| start_on_machine(machine, launcher, stop)))
                .collect();
            for thread in threads {
                started.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
    }
    started
}

/// Starts the agents of one machine. The first one copies the program, the others reuse it.
fn start_on_machine(
    machine: &Machine<'_>,
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Vec<(usize, Result<Remote, PeerGone>)> {
    machine.iter().map(|(index, host)| (*index, start_caught(host, launcher, stop))).collect()
}

/// Starts an agent. A panic while starting it is reported as the error of its host.
fn start_caught(
    host: &Host,
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Result<Remote, PeerGone> {
    match panicked::catch(|| start_remote(host, launcher, stop)) {
        Ok(started) => started,
        Err(panicked) => Err(PeerGone(format!("host {}: {panicked}", host.name))),
    }
}

fn start_remote(
    host: &Host,
    launcher: Option<&Launcher>,
    stop: &Arc<AtomicBool>,
) -> Result<Remote, PeerGone> {
    if let Some(launcher) = launcher
        && host.ssh.is_some()
    {
        return launcher.launch(host, stop);
    }
    let mut command = Command::new(this_program(host)?);
    // Ctrl-C is for the controller, which then shuts everything down in order.
    command.args(["agent", "--stdio"]).process_group(0);
    Remote::start(&mut command, &host.name, Arc::clone(stop))
}

/// Groups hosts by machine, so that a machine with several clients gets the program only once.
fn group_by_machine<'h>(hosts: &[(usize, &'h Host)]) -> Vec<Machine<'h>> {
    let mut machines: BTreeMap<_, Machine<'h>> = BTreeMap::new();
    for (index, host) in hosts {
        let machine = match &host.ssh {
            Some(ssh) => (Some((ssh.as_str(), &host.ssh_config)), 0),
            // Nothing is copied on this host, so its agents can all start at once.
            None => (None, *index),
        };
        machines.entry(machine).or_default().push((*index, *host));
    }
    machines.into_values().collect()
}

/// Binaries that a host may be able to run, best first.
fn candidate_programs(host: &Host) -> Result<Vec<PathBuf>, PeerGone> {
    if let Some(named) = std::env::var_os("DFSBENCH_AGENT_BINARY") {
        return Ok(vec![named.into()]);
    }
    let mut programs = vec![this_program(host)?];
    // The static binary runs on hosts with a different C library. It comes second because it is
    // larger.
    if let Ok(beside) = own_program::find_beside("dfsbench-static")
        && beside.is_file()
    {
        programs.push(beside);
    }
    Ok(programs)
}

fn this_program(host: &Host) -> Result<PathBuf, PeerGone> {
    match own_program::find() {
        Ok(program) => Ok(program),
        Err(error) => {
            Err(PeerGone(format!("host {}: can't find this program's file: {error}", host.name)))
        }
    }
}
