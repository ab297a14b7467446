//! Hosts of a job: agents that Slurm, MPI or another launcher starts, and that connect by TCP.
//!
//! [`Job::start`] listens, has the agents started, and waits until all have connected; then it is
//! as if they had been reached by ssh. Address and token travel in the environment of the job only.
//! Where the scheduler only lists the hosts, as PBS and LSF do, [`read_hosts`] is all there is, and
//! ssh starts the agents.

mod address;
mod allocation;
mod command;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fleet::rendezvous::{AGENTS_MAX, ExpectedAgents, Gathered, Rendezvous, Starter, Token};
use fleet::{Gone, Remote};
use model::{Host, Target, units};
use plan::{RawPlan, TargetArg, UsedFrom};

use crate::args::{JobArgs, Launcher};
use crate::exit::Failure;
use crate::{embedded, output};
use address::ListenAddress;

pub use address::host_name;
pub use allocation::read_hosts;
pub use command::this_program;

/// The variable with the address of an agent's controller.
pub const MEET: &str = "DFSBENCH_MEET";

/// The secret that it shares with it.
pub const TOKEN: &str = "DFSBENCH_TOKEN";

/// The agents of a job, and what started them.
pub struct Job {
    /// By name; those that were not used yet.
    agents: BTreeMap<String, Remote>,
    /// All names, in the order in which agents are used.
    names: Vec<String>,
    /// To be dropped after the agents, with which it ends.
    _starter: Option<Starter>,
}

impl Job {
    /// Starts the agents that the arguments request, and waits for them.
    ///
    /// # Errors
    /// When the arguments make no sense, or not all agents connect.
    pub fn start(args: &JobArgs, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let Some(launcher) = args.launcher else { unreachable!("a job has a launcher") };
        let count = count_agents(args, launcher)?;
        let per_node = count_per_node(args, count)?;
        let within = parse_deadline(&args.meet_within)?;
        let starts = launcher != Launcher::Wait;
        if !starts && args.launch_with.is_some() {
            return Err(Failure::Usage(
                "--launch-with has no effect with `--launcher wait`, which starts nothing (hint: \
                 leave one of them out)"
                    .to_owned(),
            ));
        }
        let token = if starts { draw_token()? } else { given_token()? };
        // Agents that are started elsewhere may need any address of this host.
        let default_ip = if starts { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let listen = ListenAddress::parse(args.listen.as_deref(), default_ip)?;
        embedded::raise_descriptor_limit();
        let rendezvous = Rendezvous::open(listen.socket, token.clone()).map_err(Failure::lab)?;
        let port = rendezvous.address().map_err(Failure::lab)?.port();
        let address = listen.agent_address(port);
        let mut starter = if starts {
            let mut command =
                command::launch_command(launcher, args.launch_with.as_deref(), count, per_node)?;
            Some(start_launcher(command.env(MEET, &address).env(TOKEN, token.to_secret_text()))?)
        } else {
            output::message(&format!("waiting for {count} agents with {MEET}={address}"));
            None
        };
        // A launcher that ends early starts no more agents: waiting on would be in vain.
        let expected = ExpectedAgents { count, within, stop: Arc::clone(stop) };
        let gathered = rendezvous.gather(&expected, &mut || match &mut starter {
            Some(starter) => starter.check_running(),
            None => Ok(()),
        });
        let Gathered { agents, refused } = gathered.map_err(Failure::lab)?;
        for connection in refused {
            output::message(&format!("warning: a connection was refused: {connection}"));
        }
        let mut job = Self { agents: BTreeMap::new(), names: Vec::new(), _starter: starter };
        for joined in agents {
            job.names.push(joined.name.clone());
            job.agents.insert(joined.name, joined.agent);
        }
        match per_node {
            Some(per_node) => check_layout(&job.hosts(), per_node).map(|()| job),
            None => Ok(job),
        }
    }

    /// The agents, each as a host: the first one of each host, then the second ones, and so on.
    pub fn hosts(&self) -> Vec<Host> {
        self.names.iter().map(Host::here).collect()
    }

    /// Hands out the agent of a host of the job; `None` where it isn't one of them.
    ///
    /// # Errors
    /// When it was handed out before: nothing but the job can start it again.
    pub fn take_agent(&mut self, host: &Host) -> Option<Result<Remote, Gone>> {
        if !self.names.contains(&host.name) {
            return None;
        }
        match self.agents.remove(&host.name) {
            Some(agent) => Some(Ok(agent)),
            None => Some(Err(Gone(format!(
                "host {}: its agent has exited, and the job starts no other",
                host.name
            )))),
        }
    }
}

/// Refuses agents of which not each host has as many as requested.
fn check_layout(agents: &[Host], per_node: u32) -> Result<(), Failure> {
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
    Err(Failure::Lab(format!(
        "the launcher has not laid out {per_node} agents on each host: {}{more} (hint: options of \
         the launcher in --launch-with, such as -N and --ntasks-per-node of srun, or \
         --agents-per-node)",
        others.join(", ")
    )))
}

/// Hosts of a job whose names may not be known yet; `None` where no job is requested.
///
/// # Errors
/// When their number is not given, or a list of them can't be used.
pub fn stand_ins(args: &JobArgs) -> Result<Option<Vec<Host>>, Failure> {
    let Some(launcher) = args.launcher else { return Ok(None) };
    if let Some(hosts) = read_hosts(args)? {
        return Ok(Some(hosts));
    }
    let count = count_agents(args, launcher)?;
    let per_node = count_per_node(args, count)?;
    Ok(Some(unnamed_hosts(count, per_node.unwrap_or(1))))
}

/// Makes so many agents, so many of them on each host, that stand for those of a job.
pub fn unnamed_hosts(agents: u32, per_node: u32) -> Vec<Host> {
    let nodes = agents.div_ceil(per_node.max(1));
    let mut hosts = Vec::new();
    for agent in 0..agents {
        let host = Host::here(format!("node-{}", agent % nodes));
        let slot = agent / nodes + 1;
        hosts.push(if slot == 1 { host } else { host.further(slot) });
    }
    hosts
}

/// Has targets that name no hosts used from the hosts of the job.
///
/// # Errors
/// When no target is left that can be.
pub fn use_targets(raw: &mut RawPlan) -> Result<(), Failure> {
    for target in &mut raw.targets {
        if target.used_from != UsedFrom::One {
            continue;
        }
        match &mut target.what {
            TargetArg::Ready(Target::Directory { path }) => make_absolute(path)?,
            TargetArg::Ready(Target::Directories { paths }) => {
                for path in paths {
                    make_absolute(path)?;
                }
            }
            TargetArg::Ready(Target::Null) | TargetArg::Nfs(_) => {}
            TargetArg::Ready(_)
            | TargetArg::Temporary
            | TargetArg::Embedded(_)
            | TargetArg::Lab(_) => continue,
        }
        target.used_from = UsedFrom::Job;
    }
    let mut names_hosts = false;
    for target in &raw.targets {
        match target.used_from {
            UsedFrom::Job => return Ok(()),
            UsedFrom::Hosts(_) => names_hosts = true,
            UsedFrom::One => {}
        }
    }
    let hint = if names_hosts {
        "remove `hosts` and `clients` of the targets: the hosts are those of the job"
    } else {
        "name a directory that all of them have, or nfs://server/export"
    };
    let what = "no target of the plan can be used from the hosts of a job";
    Err(Failure::Usage(format!("{what} (hint: {hint})")))
}

/// Makes a path absolute: on other hosts an agent runs in another folder.
fn make_absolute(path: &mut PathBuf) -> Result<(), Failure> {
    match std::path::absolute(&*path) {
        Ok(absolute) => *path = absolute,
        Err(error) => {
            let shown = path.display();
            return Err(Failure::Usage(format!("can't make `{shown}` absolute: {error}")));
        }
    }
    Ok(())
}

fn start_launcher(command: &mut Command) -> Result<Starter, Failure> {
    match Starter::start(command, |line| output::message(&format!("job: {line}"))) {
        Ok(starter) => Ok(starter),
        Err(gone) => {
            let hint = "(hint: --launch-with names the command that starts agents)";
            Err(Failure::Lab(format!("{gone} {hint}")))
        }
    }
}

/// Counts the agents that are expected.
fn count_agents(args: &JobArgs, launcher: Launcher) -> Result<u32, Failure> {
    let mut count = args.agents;
    if launcher == Launcher::Flux && count.is_none() {
        let nodes = command::count_flux_nodes()?;
        count = Some(nodes.saturating_mul(args.agents_per_node.unwrap_or(1)));
    }
    if launcher == Launcher::Slurm {
        for name in ["SLURM_NTASKS", "SLURM_NNODES"] {
            count = count.or_else(|| read_number(name));
        }
    }
    match count {
        Some(count) if (1..=AGENTS_MAX).contains(&count) => Ok(count),
        Some(count) => Err(Failure::Usage(format!("--agents {count}: must be 1 to {AGENTS_MAX}"))),
        None => {
            Err(Failure::Usage("the number of agents is not known (hint: --agents 4)".to_owned()))
        }
    }
}

/// Reads a number that a scheduler has set in the environment.
fn read_number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Counts the agents that each host is to have; `None` where that is left to the launcher.
fn count_per_node(args: &JobArgs, agents: u32) -> Result<Option<u32>, Failure> {
    let mut per_node = args.agents_per_node;
    if per_node.is_none()
        && args.launcher == Some(Launcher::Slurm)
        && args.launch_with.is_none()
        && read_number("SLURM_NTASKS") == Some(agents)
    {
        // Fewer agents than the allocation has tasks are laid out as Slurm has it.
        per_node = read_number("SLURM_NTASKS_PER_NODE");
    }
    if per_node.is_none() && args.launcher == Some(Launcher::Flux) && args.agents.is_none() {
        // Their number is that of the nodes, and Flux would fill the cores of the first ones.
        per_node = Some(1);
    }
    match per_node {
        Some(per_node) if per_node == 0 || !agents.is_multiple_of(per_node) => {
            Err(Failure::Usage(format!(
                "--agents-per-node {per_node}: {agents} agents can't be laid out so (hint: \
                 --agents is the number on all hosts together, and a multiple of it)"
            )))
        }
        per_node => Ok(per_node),
    }
}

fn parse_deadline(text: &str) -> Result<Duration, Failure> {
    match units::parse_time_ns(text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(error) => Err(Failure::Usage(format!("--meet-within {text}: {error}"))),
    }
}

fn draw_token() -> Result<Token, Failure> {
    match Token::draw() {
        Ok(token) => Ok(token),
        Err(error) => Err(Failure::Lab(format!("can't read random bytes: {error}"))),
    }
}

/// Reads the token that the launcher gives to the agents, too.
fn given_token() -> Result<Token, Failure> {
    let Ok(text) = std::env::var(TOKEN) else {
        return Err(Failure::Usage(format!(
            "`--launcher wait` needs the token that the agents get, in {TOKEN} (hint: export \
             {TOKEN}=$(openssl rand -hex 32))"
        )));
    };
    match text.parse() {
        Ok(token) => Ok(token),
        Err(error) => Err(Failure::Usage(format!("{TOKEN}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_layout_than_requested_is_refused_with_the_hosts() {
        let agents = ["a", "b", "a:2", "a:3"].map(Host::here);
        let refused = check_layout(&agents, 2).unwrap_err().to_string();
        let words = "the launcher has not laid out 2 agents on each host: a has 3, b has 1 (hint: ";
        assert!(refused.starts_with(words), "{refused}");
        assert!(check_layout(&unnamed_hosts(6, 2), 2).is_ok());
        assert!(check_layout(&unnamed_hosts(6, 2), 3).is_err());
    }
}
