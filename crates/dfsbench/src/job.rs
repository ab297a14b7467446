//! Hosts that a job brings: agents that Slurm, MPI or something else starts, and that come by TCP.
//!
//! [`Job::bring`] listens, has the agents started, and waits until all are there; then it is as if
//! they had been reached by ssh. Address and token travel in the environment of the job only.

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
use model::{Host, units};
use plan::{RawPlan, TargetArg, UsedFrom};

use crate::args::{JobArgs, Launcher};
use crate::exit::Failure;
use crate::{embedded, output};
use address::Place;

pub use address::host_name;

/// The variable that tells an agent the address of its controller.
pub const MEET: &str = "DFSBENCH_MEET";

/// The secret that it shares with it.
pub const TOKEN: &str = "DFSBENCH_TOKEN";

/// The agents of a job, and what started them.
pub struct Job {
    /// By name; those that nobody has asked for yet.
    agents: BTreeMap<String, Remote>,
    /// All names, by rank.
    names: Vec<String>,
    /// To be dropped after the agents, with which it ends.
    _starter: Option<Starter>,
}

impl Job {
    /// Brings the agents that the arguments ask for.
    ///
    /// # Errors
    /// When the arguments make no sense, or not all agents come.
    pub fn bring(args: &JobArgs, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let Some(launcher) = args.launcher else { unreachable!("it is asked for by its launcher") };
        let count = count_agents(args, launcher)?;
        let within = parse_deadline(&args.meet_within)?;
        let starts = launcher != Launcher::Wait;
        if !starts && args.launch_with.is_some() {
            return Err(Failure::Usage(
                "--launch-with starts nothing with `--launcher wait`".to_owned(),
            ));
        }
        let token = if starts { draw_token()? } else { given_token()? };
        // Agents that are started elsewhere may need any address of this host.
        let default_ip = if starts { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let place = Place::read(args.listen.as_deref(), default_ip)?;
        embedded::raise_descriptor_limit();
        let meeting = Rendezvous::open(place.socket, token.clone());
        let meeting = meeting.map_err(|error| Failure::Lab(error.to_string()))?;
        let port = meeting.address().map_err(|error| Failure::Lab(error.to_string()))?.port();
        let meet = place.for_agents(port);
        let mut starter = if starts {
            let mut command = command::of(launcher, args.launch_with.as_deref(), count)?;
            Some(start_launcher(command.env(MEET, &meet).env(TOKEN, token.to_secret_text()))?)
        } else {
            output::message(&format!("waiting for {count} agents with {MEET}={meet}"));
            None
        };
        let wanted = ExpectedAgents { count, within, stop: Arc::clone(stop) };
        let gathered = meeting
            .gather(&wanted, &mut || starter.as_mut().map_or(Ok(()), Starter::check_running));
        let Gathered { agents, refused } =
            gathered.map_err(|error| Failure::Lab(error.to_string()))?;
        for who in refused {
            output::message(&format!("warning: not let in: {who}"));
        }
        let names = agents.iter().map(|met| met.name.clone()).collect();
        let agents = agents.into_iter().map(|met| (met.name, met.agent)).collect();
        Ok(Self { agents, names, _starter: starter })
    }

    /// The hosts, one for each agent, by rank.
    pub fn hosts(&self) -> Vec<Host> {
        self.names.iter().map(Host::here).collect()
    }

    /// Hands out the agent of a host of the job; `None` where it isn't one of them.
    ///
    /// # Errors
    /// When it was handed out before: nothing but the job can start it again.
    pub fn take(&mut self, host: &Host) -> Option<Result<Remote, Gone>> {
        if !self.names.contains(&host.name) {
            return None;
        }
        let agent = self.agents.remove(&host.name);
        Some(agent.ok_or_else(|| {
            Gone(format!("host {}: its agent came with the job, which starts no other", host.name))
        }))
    }
}

/// Hosts of a job whose names are not known yet; `None` where no job is asked for.
///
/// # Errors
/// When nobody says how many there will be.
pub fn stand_ins(args: &JobArgs) -> Result<Option<Vec<Host>>, Failure> {
    args.launcher.map(|launcher| Ok(unnamed(count_agents(args, launcher)?))).transpose()
}

/// So many of them.
pub fn unnamed(count: u32) -> Vec<Host> {
    (0..count).map(|rank| Host::here(format!("rank-{rank}"))).collect()
}

/// Lets targets that name no hosts be used from those of the job.
///
/// # Errors
/// When no target is left that can be.
pub fn use_targets(raw: &mut RawPlan) -> Result<(), Failure> {
    for target in raw.targets.iter_mut().filter(|target| target.used_from == UsedFrom::One) {
        match &mut target.what {
            TargetArg::Directory(path) => make_whole(path)?,
            TargetArg::Directories(paths) => paths.iter_mut().try_for_each(make_whole)?,
            TargetArg::Null | TargetArg::Nfs(_) => {}
            TargetArg::Memory
            | TargetArg::Tcp(_)
            | TargetArg::Temporary
            | TargetArg::Embedded(_)
            | TargetArg::Lab(_) => continue,
        }
        target.used_from = UsedFrom::Job;
    }
    if raw.targets.iter().any(|target| target.used_from == UsedFrom::Job) {
        return Ok(());
    }
    let of_plan = |target: &plan::RawTarget| matches!(target.used_from, UsedFrom::Hosts(_));
    let hint = if raw.targets.iter().any(of_plan) {
        "leave `hosts` and `clients` of the targets out: the job brings its own"
    } else {
        "name a directory that all of them have, or nfs://server/export"
    };
    let what = "no target of the plan can be used from the hosts of a job";
    Err(Failure::Usage(format!("{what} (hint: {hint})")))
}

/// Other hosts know nothing of the folder that this process is in.
fn make_whole(path: &mut PathBuf) -> Result<(), Failure> {
    *path = std::path::absolute(&*path)
        .map_err(|error| Failure::Usage(format!("where is `{}`? {error}", path.display())))?;
    Ok(())
}

fn start_launcher(command: &mut Command) -> Result<Starter, Failure> {
    let hear = |line: &str| output::message(&format!("job: {line}"));
    Starter::start(command, hear).map_err(|gone| {
        let hint = "(hint: --launch-with names what starts agents)";
        Failure::Lab(format!("{gone} {hint}"))
    })
}

/// How many agents are to come.
fn count_agents(args: &JobArgs, launcher: Launcher) -> Result<u32, Failure> {
    const SLURM: [&str; 2] = ["SLURM_NTASKS", "SLURM_NNODES"];
    let in_allocation = || {
        let said = SLURM.iter().find_map(|name| std::env::var(name).ok())?;
        said.parse().ok().filter(|_| launcher == Launcher::Slurm)
    };
    match args.agents.or_else(in_allocation) {
        Some(count) if (1..=AGENTS_MAX).contains(&count) => Ok(count),
        Some(count) => {
            Err(Failure::Usage(format!("--agents {count}: there are 1 to {AGENTS_MAX} of them")))
        }
        None => Err(Failure::Usage("how many agents will come? (hint: --agents 4)".to_owned())),
    }
}

fn parse_deadline(text: &str) -> Result<Duration, Failure> {
    let ns = units::parse_time_ns(text)
        .map_err(|error| Failure::Usage(format!("--meet-within {text}: {error}")))?;
    Ok(Duration::from_nanos(ns))
}

fn draw_token() -> Result<Token, Failure> {
    Token::draw().map_err(|error| Failure::Lab(format!("the system has no random bytes: {error}")))
}

/// The token that whoever starts the agents gives them, too.
fn given_token() -> Result<Token, Failure> {
    let Ok(text) = std::env::var(TOKEN) else {
        return Err(Failure::Usage(format!(
            "`--launcher wait` needs the token that the agents get, in {TOKEN} (hint: export \
             {TOKEN}=$(openssl rand -hex 32))"
        )));
    };
    text.parse().map_err(|error| Failure::Usage(format!("{TOKEN}: {error}")))
}
