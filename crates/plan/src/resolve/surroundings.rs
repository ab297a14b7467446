//! Values that a plan leaves to the place where it is carried out.
//!
//! Nothing here asks the machine: the caller hands [`Surroundings`] in, so that the same plan in
//! the same surroundings always means the same.

use model::Host;

/// Values that a plan may leave open and only the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The directory for targets with `temporary = true`.
    pub temp_dir: std::path::PathBuf,
    /// User id of the caller, sent to NFS servers where the plan names none.
    pub uid: u32,
    /// Group id of the caller.
    pub gid: u32,
    /// The seed where the plan names none.
    pub seed: u64,
    /// The hosts of the job that this is part of, with an agent on each, for targets with
    /// `hosts = "job"`; `None` where this is no job.
    pub job: Option<Vec<Host>>,
}
