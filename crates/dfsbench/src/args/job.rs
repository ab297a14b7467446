//! Arguments of every command that works on the hosts of a job.
//!
//! [`JobArgs`] is the principal type; `dfsbench run`, `ramp`, `curve` and `soak` flatten it into
//! their own. Doc comments are the help texts, and so have no full stop.

use clap::{Args, ValueEnum};
use fleet::job::{self, JobRequest};

/// How agents connect from hosts that a scheduler chose.
#[derive(Clone, Debug, Args)]
pub struct JobArgs {
    /// Run on the hosts of a job, with one agent per process
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Hosts of a job")]
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

/// The launcher that starts agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// srun, in an allocation or with options that create one
    Slurm,
    /// mpirun of Open MPI or MPICH
    Mpi,
    /// flux run, in an allocation or batch job of Flux
    Flux,
    /// ssh to the hosts of a PBS or Torque job, listed in PBS_NODEFILE
    Pbs,
    /// ssh to the hosts of an LSF job, listed in LSB_DJOB_HOSTFILE or LSB_MCPU_HOSTS
    Lsf,
    /// Wait for agents that have DFSBENCH_MEET and DFSBENCH_TOKEN, such as in Kubernetes
    Wait,
}

impl JobArgs {
    /// Returns the request for a job, or `None` if there is none.
    pub fn request(&self) -> Option<JobRequest> {
        Some(JobRequest {
            launcher: self.launcher?.into(),
            agents: self.agents,
            agents_per_node: self.agents_per_node,
            listen: self.listen.clone(),
            meet_within: self.meet_within.clone(),
            launch_with: self.launch_with.clone(),
        })
    }
}

impl Launcher {
    /// Returns true if its agents connect by themselves, once; others are started over ssh.
    pub fn has_joining_agents(self) -> bool {
        !matches!(self, Self::Pbs | Self::Lsf)
    }
}

impl From<Launcher> for job::Launcher {
    fn from(launcher: Launcher) -> Self {
        match launcher {
            Launcher::Slurm => Self::Slurm,
            Launcher::Mpi => Self::Mpi,
            Launcher::Flux => Self::Flux,
            Launcher::Pbs => Self::Pbs,
            Launcher::Lsf => Self::Lsf,
            Launcher::Wait => Self::Wait,
        }
    }
}
