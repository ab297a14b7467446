//! Values that a plan takes from where it is executed.
//!
//! Nothing here inspects the machine: the caller passes [`Surroundings`] in, so that the same plan
//! in the same surroundings always has the same meaning.

use model::Host;

/// Values that a plan may leave open for the caller to provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The directory for targets with `temporary = true`.
    pub temp_dir: std::path::PathBuf,
    /// User ID of the caller, sent to NFS servers if the plan does not set one.
    pub uid: u32,
    /// Group ID of the caller.
    pub gid: u32,
    /// The seed to use if the plan does not set one.
    pub seed: u64,
    /// The hosts of the job that this process belongs to, each with an agent, for targets with
    /// `hosts = "job"`; `None` outside a job.
    pub job: Option<Vec<Host>>,
}
