//! Hosts of a job: agents that Slurm, MPI or another launcher starts, and that connect by TCP.
//!
//! [`Job::gather`] listens, has the agents started, and waits until all have connected; then it is
//! as if they had been reached by ssh. Address and token travel in the environment of the job only.
//! Where the scheduler only lists the hosts, as PBS and LSF do, ssh starts the agents.

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

/// The secret that it shares with it.
pub const TOKEN: &str = "DFSBENCH_TOKEN";

/// The agents of a job, as requested by the user.
#[derive(Clone, Debug)]
pub struct JobRequest {
    pub launcher: Launcher,
    /// Number of agents; `None` if the scheduler knows it.
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
    /// Starts nothing, and waits for agents that were started elsewhere.
    Wait,
}

/// Access to what a scheduler provides to the processes of a job.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a list of hosts. An error is a sentence without the path.
    pub read_file: &'a dyn Fn(&Path) -> Result<String, String>,
}

impl Scheduler<'_> {
    /// Returns the number in a variable.
    fn number(&self, variable: &str) -> Option<u32> {
        (self.variable)(variable)?.parse().ok()
    }
}

/// Why the hosts of a job are not known, or its agents don't work.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The request can't be carried out as it was written.
    #[error("{0}")]
    Request(String),
    /// Not all agents were started, connected and laid out as requested.
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
    /// To be dropped after the agents, with which it ends.
    _starter: Option<Starter>,
}

impl Job {
    /// Gathers the hosts that are requested, and waits for their agents, if they connect by
    /// themselves. `program` is what a launcher runs on each host; `report` gets what the user
    /// should know meanwhile.
    ///
    /// # Errors
    /// When the request makes no sense, or not all agents connect.
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
                "--launch-with has no effect with `--launcher wait`, which starts nothing (hint: \
                 leave one of them out)"
                    .to_owned(),
            ));
        }
        let token = if starts { draw_token()? } else { read_given_token(scheduler)? };
        // Agents that are started elsewhere may need any address of this host.
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
        // A launcher that ends early starts no more agents: waiting on would be in vain.
        let expected = ExpectedAgents { count, within, stop: Arc::clone(stop) };
        let gathered = rendezvous.gather(&expected, &mut || match &mut starter {
            Some(starter) => starter.check_running(),
            None => Ok(()),
        });
        let GatheredAgents { agents, refused } = gathered.map_err(JobError::agents)?;
        for connection in refused {
            report(&format!("warning: a connection was refused: {connection}"));
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

    /// The agents, each as a host: the first one of each host, then the second ones, and so on.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Hands out the agent that has connected from a host; `None` where none has.
    ///
    /// # Errors
    /// When it was handed out before: nothing but the job can start it again.
    pub fn take_agent(&mut self, host: &Host) -> Option<Result<Remote, PeerGone>> {
        let agent = self.connected.get_mut(&host.name)?.take();
        Some(agent.ok_or_else(|| {
            PeerGone(format!(
                "host {}: its agent has ended, and the job starts no other",
                host.name
            ))
        }))
    }
}

/// Refuses agents of which not each host has as many as requested.
fn check_layout(agents: &[Host], per_node: u32) -> Result<(), JobError> {
    const NAMED_MAX: usize = 8;
    let mut on_host: BTreeMap<&str, u32> = BTreeMap::new();
    for agent in agents {
        *on_host.entry(agent.name_and_slot().0).or_default() += 1;
    }
    let mut others = Vec::new();
    for (host, count) in &on_host {
        if *count != per_node {
            others.push(format!("{host} has {count}"));
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let more = match others.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    others.truncate(NAMED_MAX);
    Err(JobError::Agents(format!(
        "the launcher has not laid out {per_node} agents on each host: {}{more} (hint: options of \
         the launcher in --launch-with, such as -N and --ntasks-per-node of srun, or \
         --agents-per-node)",
        others.join(", ")
    )))
}

impl JobRequest {
    /// Returns the hosts of the job, whose names may not be known yet.
    ///
    /// # Errors
    /// When their number is not given, or a list of them can't be used.
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
            let hint = "(hint: --launch-with names the command that starts agents)";
            Err(JobError::Agents(format!("{gone} {hint}")))
        }
    }
}

/// Counts the agents that are expected.
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
            "the number of agents is not known (hint: --agents 4)".to_owned(),
        )),
    }
}

/// Counts the agents that each host is to have; `None` where that is left to the launcher.
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
        // Fewer agents than the allocation has tasks are laid out as Slurm has it.
        per_node = scheduler.number("SLURM_NTASKS_PER_NODE");
    }
    if per_node.is_none() && request.launcher == Launcher::Flux && request.agents.is_none() {
        // Their number is that of the nodes, and Flux would fill the cores of the first ones.
        per_node = Some(1);
    }
    match per_node {
        Some(per_node) if per_node == 0 || !agents.is_multiple_of(per_node) => {
            Err(JobError::Request(format!(
                "--agents-per-node {per_node}: {agents} agents can't be laid out so (hint: \
                 --agents is the number on all hosts together, and a multiple of it)"
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
    match Token::draw() {
        Ok(token) => Ok(token),
        Err(error) => Err(JobError::Agents(format!("can't read random bytes: {error}"))),
    }
}

/// Reads the token that the launcher gives to the agents, too.
fn read_given_token(scheduler: &Scheduler<'_>) -> Result<Token, JobError> {
    let Some(text) = (scheduler.variable)(TOKEN) else {
        return Err(JobError::Request(format!(
            "`--launcher wait` needs the token that the agents get, in {TOKEN} (hint: export \
             {TOKEN}=$(openssl rand -hex 32))"
        )));
    };
    match text.parse() {
        Ok(token) => Ok(token),
        Err(error) => Err(JobError::Request(format!("{TOKEN}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl JobRequest {
        /// Returns the request of a user who names nothing but the launcher.
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
        let words = "the launcher has not laid out 2 agents on each host: a has 3, b has 1 (hint: ";
        assert!(refused.starts_with(words), "{refused}");
        assert!(check_layout(&unnamed_hosts(6, 2), 2).is_ok());
        assert!(check_layout(&unnamed_hosts(6, 2), 3).is_err());
    }
}
