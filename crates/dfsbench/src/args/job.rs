//! Arguments of every command that works on the hosts of a job.
//!
//! [`JobArgs`] is the main type; `dfsbench run`, `ramp`, `curve` and `soak` flatten it into their
//! own. Doc comments are help texts, so they have no full stop.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fleet::job::{JobRequest, Launcher};

/// How agents connect from hosts that a scheduler chose.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgs {
    /// Run on the hosts of a job, with one agent per process
    #[arg(long, value_parser = any_launcher(), value_name = "HOW", help_heading = "Hosts of a job")]
    pub launcher: Option<Launcher>,
    /// Number of agents [default: the tasks of a Slurm allocation; one per host for PBS, LSF and
    /// Flux]
    #[arg(long, value_name = "N", requires = "launcher", help_heading = "Hosts of a job")]
    pub agents: Option<u32>,
    /// Required number of agents per host [default: as the launcher or the Slurm allocation places
    /// them]
    #[arg(long, value_name = "N", requires = "launcher", help_heading = "Hosts of a job")]
    pub agents_per_node: Option<u32>,
    /// Address or name of this host that agents connect to, with an optional port [default: all
    /// addresses with slurm, mpi and flux; loopback with wait]
    #[arg(
        long,
        value_name = "ADDRESS[:PORT]",
        requires = "launcher",
        help_heading = "Hosts of a job"
    )]
    pub listen: Option<String>,
    /// Time limit for all agents to connect
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2m",
        requires = "launcher",
        help_heading = "Hosts of a job"
    )]
    pub meet_within: String,
    /// Command that starts the agents, with options, such as 'mpirun --hostfile hosts' or 'srun -p
    /// short' [default: srun, mpirun or 'flux run']
    #[arg(long, value_name = "COMMAND", requires = "launcher", help_heading = "Hosts of a job")]
    pub launch_with: Option<String>,
}

impl JobArgs {
    /// Returns the requested job, or `None` if none is requested.
    pub(crate) fn request(&self) -> Option<JobRequest> {
        Some(JobRequest {
            launcher: self.launcher?,
            agents: self.agents,
            agents_per_node: self.agents_per_node,
            listen: self.listen.clone(),
            meet_within: self.meet_within.clone(),
            launch_with: self.launch_with.clone(),
        })
    }
}

/// Parses the name of a launcher.
fn any_launcher() -> impl TypedValueParser<Value = Launcher> {
    let named = Launcher::ALL.map(|one| PossibleValue::new(one.name()).help(one.help()));
    let parse = PossibleValuesParser::new(named);
    parse.try_map(|name| Launcher::from_name(&name).ok_or("unknown launcher"))
}
