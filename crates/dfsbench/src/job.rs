//! Hosts of a job: agents that Slurm, MPI or another launcher starts, and that connect by TCP.
//!
//! [`Job::start`] listens, has the agents started, and waits until all have connected; then it is
//! as if they had been reached by ssh. Address and token travel in the environment of the job only.

mod address;
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
pub use command::this_program;

/// The variable with the address of an agent's controller.
pub const MEET: &str = "DFSBENCH_MEET";

/// The secret that it shares with it.
pub const TOKEN: &str = "DFSBENCH_TOKEN";

/// The agents of a job, and what started them.
pub struct Job {
    /// By name; those that were not used yet.
    agents: BTreeMap<String, Remote>,
    /// All names, by rank.
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
                command::launch_command(launcher, args.launch_with.as_deref(), count)?;
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
        Ok(job)
    }

    /// The hosts, one for each agent, by rank.
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
                "host {}: its agent has ended, and the job starts no other",
                host.name
            )))),
        }
    }
}

/// Hosts of a job whose names are not known yet; `None` where no job is requested.
///
/// # Errors
/// When their number is not given.
pub fn stand_ins(args: &JobArgs) -> Result<Option<Vec<Host>>, Failure> {
    match args.launcher {
        Some(launcher) => Ok(Some(unnamed_hosts(count_agents(args, launcher)?))),
        None => Ok(None),
    }
}

/// Makes so many hosts that stand for those of a job.
pub fn unnamed_hosts(count: u32) -> Vec<Host> {
    let mut hosts = Vec::new();
    for rank in 0..count {
        hosts.push(Host::here(format!("rank-{rank}")));
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
    const SLURM: [&str; 2] = ["SLURM_NTASKS", "SLURM_NNODES"];
    let mut count = args.agents;
    if launcher == Launcher::Slurm {
        for name in SLURM {
            if count.is_none()
                && let Ok(text) = std::env::var(name)
            {
                count = text.parse().ok();
            }
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
