//! Hosts of a job: agents that Slurm, MPI or another launcher starts, and that connect over TCP.
//!
//! [`Job::gather`] listens, starts the agents, and waits until all have connected; from then on
//! they are used as if they had been reached over ssh. Address and token are only in the
//! environment of the job. If the scheduler only lists the hosts, as PBS and LSF do, ssh starts the
//! agents.

mod address;
mod allocation;
mod command;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::{Host, units};

use crate::rendezvous::{AGENTS_MAX, ExpectedAgents, GatheredAgents, Rendezvous, Starter, Token};
use crate::{PeerGone, Remote};
use address::ListenAddress;
use allocation::read_hosts;

pub use address::host_name;

/// The variable with the address of an agent's controller.
pub const MEET: &str = "DFSBENCH_MEET";

/// The secret that agent and controller share.
pub const TOKEN: &str = "DFSBENCH_TOKEN";

/// The agents of a job, as requested by the user.
#[derive(Clone, Debug)]
pub struct JobRequest {
    pub launcher: Launcher,
    /// Number of agents; `None` if the scheduler determines it.
    pub agents: Option<u32>,
    /// Number of agents on each host; `None` leaves it to the launcher.
    pub agents_per_node: Option<u32>,
    /// Address of this host that agents connect to.
    pub listen: Option<String>,
    /// Time limit for all agents to connect.
    pub meet_within: String,
    /// Command that starts the agents, with options.
    pub launch_with: Option<String>,
}

/// The launcher that starts agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    Slurm,
    Mpi,
    Flux,
    Pbs,
    Lsf,
    /// Starts nothing, and waits for agents that are started elsewhere.
    Wait,
}

impl Launcher {
    /// All launchers, in the order of the help.
    pub const ALL: [Self; 6] =
        [Self::Slurm, Self::Mpi, Self::Flux, Self::Pbs, Self::Lsf, Self::Wait];

    /// Name of the launcher on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Mpi => "mpi",
            Self::Flux => "flux",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::Wait => "wait",
        }
    }

    /// One-line description for the help of `--launcher`.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Slurm => "srun, in an allocation or with options that create one",
            Self::Mpi => "mpirun of Open MPI or MPICH",
            Self::Flux => "flux run, in an allocation or batch job of Flux",
            Self::Pbs => "ssh to the hosts of a PBS or Torque job, listed in PBS_NODEFILE",
            Self::Lsf => {
                "ssh to the hosts of an LSF job, listed in LSB_DJOB_HOSTFILE or LSB_MCPU_HOSTS"
            }
            Self::Wait => {
                "Wait for agents that have DFSBENCH_MEET and DFSBENCH_TOKEN, such as in Kubernetes"
            }
        }
    }

    /// Finds the launcher with the given name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|launcher| launcher.name() == name)
    }

    /// Returns true if its agents connect by themselves, once; others are started over ssh.
    pub const fn has_joining_agents(self) -> bool {
        !matches!(self, Self::Pbs | Self::Lsf)
    }
}

/// Access to the information that a scheduler gives to the processes of a job.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a list of hosts. An error is a sentence without the path.
    pub read_file: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl Scheduler<'_> {
    fn number(&self, variable: &str) -> Option<u32> {
        (self.variable)(variable)?.parse().ok()
    }
}

/// Why the hosts of a job are unknown, or its agents can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The request is contradictory.
    #[error("{0}")]
    Request(String),
    /// Not all agents were started, connected and distributed as requested.
    #[error("{0}")]
    Agents(String),
}

impl JobError {
    fn agents(error: impl Display) -> Self {
        Self::Agents(error.to_string())
    }
}

/// The hosts of a job, and the agents that have connected from them.
pub struct Job {
    /// A host for each agent, in the order in which they are used.
    hosts: Vec<Host>,
    /// The agents that have connected, by host; `None` once they are used.
    connected: BTreeMap<String, Option<Remote>>,
    /// Must be dropped after the agents, since it ends with them.
    _starter: Option<Starter>,
}

impl Job {
    /// Gathers the requested hosts, and waits for their agents if they connect by themselves. A
    /// launcher runs `program` on each host; `report` receives messages for the user.
    ///
    /// # Errors
    /// If the request makes no sense, or not all agents connect.
    pub fn gather(
        request: &JobRequest,
        scheduler: &Scheduler<'_>,
        program: &Path,
        report: fn(&str),
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, JobError> {
        if let Some(hosts) = read_hosts(request, scheduler)? {
            return Ok(Self { hosts, connected: BTreeMap::new(), _starter: None });
        }
        let count = count_agents(request, scheduler)?;
        let per_node = count_per_node(request, count, scheduler)?;
        let within = parse_deadline(&request.meet_within)?;
        let starts = request.launcher != Launcher::Wait;
        if !starts && request.launch_with.is_some() {
            return Err(JobError::Request(
                "--launch-with cannot be combined with `--launcher wait`, which starts no agents \
                 (hint: leave one of them out)"
                    .to_owned(),
            ));
        }
        let token = if starts { draw_token()? } else { read_given_token(scheduler)? };
        // Agents that are started elsewhere may use any address of this host.
        let default_ip = if starts { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let listen = ListenAddress::parse(request.listen.as_deref(), default_ip)?;
        let rendezvous =
            Rendezvous::open(listen.socket, token.clone()).map_err(JobError::agents)?;
        let port = rendezvous.address().map_err(JobError::agents)?.port();
        let address = listen.agent_address(port);
        let mut starter = if starts {
            let mut command = command::launch_command(request, program, count, per_node)?;
            command.env(MEET, &address).env(TOKEN, token.to_secret_text());
            Some(start_launcher(&mut command, report)?)
        } else {
            report(&format!("waiting for {count} agents with {MEET}={address}"));
            None
        };
        // A launcher that has ended starts no more agents, so don't wait any longer.
        let expected = ExpectedAgents { count, within, stop: Arc::clone(stop) };
        let gathered = rendezvous.gather(&expected, &mut || match &mut starter {
            Some(starter) => starter.check_running(),
            None => Ok(()),
        });
        let GatheredAgents { agents, refused } = gathered.map_err(JobError::agents)?;
        for connection in refused {
            report(&format!("warning: rejected a connection: {connection}"));
        }
        let mut job = Self { hosts: Vec::new(), connected: BTreeMap::new(), _starter: starter };
        for joined in agents {
            job.hosts.push(Host::local(&joined.name));
            job.connected.insert(joined.name, Some(joined.agent));
        }
        match per_node {
            Some(per_node) => check_layout(&job.hosts, per_node).map(|()| job),
            None => Ok(job),
        }
    }

    /// The agents, each as a host: first the first agent of each host, then the second ones, and so
    /// on.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the agent that has connected from a host; `None` if there is none.
    ///
    /// # Errors
    /// If it was already returned: only the job can start it again.
    pub fn take_agent(&mut self, host: &Host) -> Option<Result<Remote, PeerGone>> {
        let agent = self.connected.get_mut(&host.name)?.take();
        Some(agent.ok_or_else(|| {
            PeerGone(format!(
                "host {}: its agent exited, and a job cannot start another one",
                host.name
            ))
        }))
    }
}

/// Rejects agents unless each host has the requested number of them.
fn check_layout(agents: &[Host], per_node: u32) -> Result<(), JobError> {
    const NAMED_MAX: usize = 8;
    let mut on_host: BTreeMap<&str, u32> = BTreeMap::new();
    for agent in agents {
        *on_host.entry(agent.name_and_slot().0).or_default() += 1;
    }
    let mut others: Vec<_> = on_host
        .iter()
        .filter(|(_, count)| **count != per_node)
        .map(|(host, count)| format!("{host} has {count}"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let more = match others.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    others.truncate(NAMED_MAX);
    Err(JobError::Agents(format!(
        "the launcher did not start {per_node} agents on each host: {}{more} (hint: change \
         --agents-per-node, or pass options such as -N and --ntasks-per-node to srun with \
         --launch-with)",
        others.join(", ")
    )))
}

impl JobRequest {
    /// Returns the hosts of the job, whose names may not be known yet.
    ///
    /// # Errors
    /// If their number is not given, or a list of them can't be used.
    pub fn stand_ins(&self, scheduler: &Scheduler<'_>) -> Result<Vec<Host>, JobError> {
        if let Some(hosts) = read_hosts(self, scheduler)? {
            return Ok(hosts);
        }
        let count = count_agents(self, scheduler)?;
        let per_node = count_per_node(self, count, scheduler)?;
        Ok(unnamed_hosts(count, per_node.unwrap_or(1)))
    }
}

/// Returns placeholders for the agents of a job, with up to `per_node` of them on each host.
pub fn unnamed_hosts(agents: u32, per_node: u32) -> Vec<Host> {
    let nodes = agents.div_ceil(per_node.max(1));
    let mut hosts = Vec::new();
    for agent in 0..agents {
        let host = Host::local(format!("node-{}", agent % nodes));
        let slot = agent / nodes + 1;
        hosts.push(if slot == 1 { host } else { host.for_agent(slot) });
    }
    hosts
}

fn start_launcher(command: &mut Command, report: fn(&str)) -> Result<Starter, JobError> {
    match Starter::start(command, move |line| report(&format!("job: {line}"))) {
        Ok(starter) => Ok(starter),
        Err(gone) => {
            let hint = "(hint: set the command that starts the agents with --launch-with)";
            Err(JobError::Agents(format!("{gone} {hint}")))
        }
    }
}

/// Returns the number of expected agents.
fn count_agents(request: &JobRequest, scheduler: &Scheduler<'_>) -> Result<u32, JobError> {
    let launcher = request.launcher;
    let mut count = request.agents;
    if launcher == Launcher::Flux && count.is_none() {
        let nodes = command::count_flux_nodes()?;
        count = Some(nodes.saturating_mul(request.agents_per_node.unwrap_or(1)));
    }
    if launcher == Launcher::Slurm {
        for name in ["SLURM_NTASKS", "SLURM_NNODES"] {
            count = count.or_else(|| scheduler.number(name));
        }
    }
    match count {
        Some(count) if (1..=AGENTS_MAX).contains(&count) => Ok(count),
        Some(count) => {
            Err(JobError::Request(format!("--agents {count}: must be 1 to {AGENTS_MAX}")))
        }
        None => Err(JobError::Request(
            "the number of agents is not known (hint: set it, as in --agents 4)".to_owned(),
        )),
    }
}

/// Returns the required number of agents per host; `None` if the launcher decides.
fn count_per_node(
    request: &JobRequest,
    agents: u32,
    scheduler: &Scheduler<'_>,
) -> Result<Option<u32>, JobError> {
    let mut per_node = request.agents_per_node;
    if per_node.is_none()
        && request.launcher == Launcher::Slurm
        && request.launch_with.is_none()
        && scheduler.number("SLURM_NTASKS") == Some(agents)
    {
        // If fewer agents than tasks of the allocation are requested, Slurm decides how to
        // distribute them.
        per_node = scheduler.number("SLURM_NTASKS_PER_NODE");
    }
    if per_node.is_none() && request.launcher == Launcher::Flux && request.agents.is_none() {
        // There is one agent per node, while Flux would fill the cores of the first nodes.
        per_node = Some(1);
    }
    match per_node {
        Some(per_node) if per_node == 0 || !agents.is_multiple_of(per_node) => {
            Err(JobError::Request(format!(
                "--agents-per-node {per_node}: {agents} agents cannot be divided that way (hint: \
                 --agents is the total on all hosts and must be a multiple of --agents-per-node)"
            )))
        }
        per_node => Ok(per_node),
    }
}

fn parse_deadline(text: &str) -> Result<Duration, JobError> {
    match units::parse_time_ns(text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(error) => Err(JobError::Request(format!("--meet-within {text}: {error}"))),
    }
}

fn draw_token() -> Result<Token, JobError> {
    Token::draw().map_err(|error| JobError::Agents(format!("cannot read random bytes: {error}")))
}

/// Reads the token that the launcher also gives to the agents.
fn read_given_token(scheduler: &Scheduler<'_>) -> Result<Token, JobError> {
    let Some(text) = (scheduler.variable)(TOKEN) else {
        return Err(JobError::Request(format!(
            "`--launcher wait` needs {TOKEN} to be set to the same token as for the agents (hint: \
             export {TOKEN}=$(openssl rand -hex 32))"
        )));
    };
    text.parse().map_err(|error| JobError::Request(format!("{TOKEN}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl JobRequest {
        /// Returns the request of a user who only names a launcher.
        pub(super) fn with_launcher(launcher: Launcher) -> Self {
            Self {
                launcher,
                agents: None,
                agents_per_node: None,
                listen: None,
                meet_within: "2m".to_owned(),
                launch_with: None,
            }
        }
    }

    #[test]
    fn rejects_other_layout_with_hosts() {
        let agents = ["a", "b", "a:2", "a:3"].map(Host::local);
        let refused = check_layout(&agents, 2).unwrap_err().to_string();
        insta::assert_snapshot!(refused);
        assert!(check_layout(&unnamed_hosts(6, 2), 2).is_ok());
        assert!(check_layout(&unnamed_hosts(6, 2), 3).is_err());
    }
}
