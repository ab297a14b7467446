//! An agent's rank within its job, taken from the launcher's environment variables.
//!
//! If launchers are nested, the inner one wins. For example, `mpirun` inside a Slurm allocation
//! starts its own processes, and the Slurm variables they inherit describe the process that
//! `mpirun` runs in.
//!
//! **Source:** srun(1), SLURM_PROCID and SLURM_STEP_NUM_TASKS; mpirun(1) of Open MPI,
//! OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE; the PMI-1 wire protocol, PMI_RANK and PMI_SIZE,
//! as set by MPICH's Hydra, Slurm's pmi2 and Flux; flux-environment(7), FLUX_TASK_RANK and
//! FLUX_JOB_SIZE; Kubernetes, "Indexed Job for Parallel Processing", JOB_COMPLETION_INDEX.

use std::fmt;

/// Rank and size variables of each launcher. The first one that is set wins.
const NAMES: [(&str, &str); 6] = [
    ("DFSBENCH_RANK", "DFSBENCH_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("JOB_COMPLETION_INDEX", "DFSBENCH_SIZE"),
];

/// Maximum number of agents in one rendezvous.
pub const AGENTS_MAX: u32 = 65_536;

/// An agent's position among all agents of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentRank {
    /// Rank of the agent, from 0.
    pub rank: u32,
    /// Number of agents.
    pub size: u32,
}

impl fmt::Display for AgentRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl AgentRank {
    /// Determines the rank from an environment; `get` returns the value of a variable.
    ///
    /// # Errors
    /// If no launcher set a rank or its value is invalid. The error is a sentence.
    pub fn from_environment(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        for (rank_name, size_name) in NAMES {
            let Some(rank) = get(rank_name) else { continue };
            let rank = parse_number(rank_name, &rank)?;
            let Some(size) = get(size_name) else {
                return Err(format!("{rank_name} is {rank}, but {size_name} is not set"));
            };
            let size = parse_number(size_name, &size)?;
            if rank >= size || size > AGENTS_MAX {
                return Err(format!(
                    "{rank_name} is {rank} and {size_name} is {size}: the rank must be less than \
                     the size, and the size at most {AGENTS_MAX}"
                ));
            }
            return Ok(Self { rank, size });
        }
        Err("this agent's rank is not set (hint: set DFSBENCH_RANK and DFSBENCH_SIZE, or start it \
             with srun, mpirun, flux run or as an Indexed Job)"
            .to_owned())
    }
}

fn parse_number(name: &str, text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{name} is `{text}`, which is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_rank(variables: &[(&str, &str)]) -> Result<AgentRank, String> {
        AgentRank::from_environment(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn recognizes_each_launcher() {
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "7")];
        assert_eq!(read_rank(&slurm), Ok(AgentRank { rank: 5, size: 7 }));
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(read_rank(&[slurm, open_mpi].concat()), Ok(AgentRank { rank: 1, size: 2 }));
        let mpich = [("PMI_RANK", "2"), ("PMI_SIZE", "3")];
        assert_eq!(read_rank(&[slurm, mpich].concat()), Ok(AgentRank { rank: 2, size: 3 }));
        let flux = [("FLUX_TASK_RANK", "3"), ("FLUX_JOB_SIZE", "4")];
        assert_eq!(read_rank(&flux), Ok(AgentRank { rank: 3, size: 4 }));
        assert_eq!(read_rank(&[flux, mpich].concat()), Ok(AgentRank { rank: 2, size: 3 }));
        let job = [("JOB_COMPLETION_INDEX", "0"), ("DFSBENCH_SIZE", "9")];
        assert_eq!(read_rank(&job), Ok(AgentRank { rank: 0, size: 9 }));
        let by_hand = [("DFSBENCH_RANK", "8"), ("DFSBENCH_SIZE", "9")];
        assert_eq!(
            read_rank(&[slurm, open_mpi, by_hand].concat()),
            Ok(AgentRank { rank: 8, size: 9 })
        );
    }

    #[test]
    fn rejects_impossible_ranks() {
        let errors = [
            &[][..],
            &[("PMI_RANK", "x")],
            &[("PMI_RANK", "1")],
            &[("PMI_RANK", "1"), ("PMI_SIZE", "1")],
            &[("PMI_RANK", "1"), ("PMI_SIZE", "0")],
            &[("PMI_RANK", "1"), ("PMI_SIZE", "4294967295")],
        ]
        .map(|variables| read_rank(variables).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"));
    }
}
