//! What a plan or an address needs to know about this process: its user, its temporary directory,
//! and the hosts of its job.

use std::path::{Path, PathBuf};

use engine::FileSystemType;
use model::NfsTarget;
use plan::{NfsAddress, Surroundings};

use crate::args::JobArgs;
use crate::calendar::token;
use crate::exit::Failure;
use crate::hosts::agents;

/// Returns the user and group of this process.
fn caller_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Returns what a plan needs to know about this process and host.
pub(crate) fn for_process(seed: u64) -> Surroundings {
    let (uid, gid) = caller_ids();
    Surroundings { temp_dir: temp_dir(), uid, gid, seed, job: None }
}

/// Returns what a plan needs to know about this process, with a seed unique to this campaign.
pub(crate) fn for_campaign() -> Surroundings {
    for_process(token() % 1_000_000_000)
}

/// Like [`for_campaign`], with the hosts of a job. Their names may not be known yet.
///
/// # Errors
/// If their number is missing or a list of them is invalid.
pub(crate) fn for_job(args: &JobArgs) -> Result<Surroundings, Failure> {
    let mut around = for_campaign();
    if let Some(request) = args.request() {
        around.job = Some(request.stand_ins(&agents::SCHEDULER)?);
    }
    Ok(around)
}

/// Returns the system's temporary directory. If that is a tmpfs, returns `/var/tmp` instead:
/// results should reflect a disk, and old kernels don't support `O_DIRECT` on tmpfs.
///
/// **Source:** Filesystem Hierarchy Standard 3.0, 5.15: `/var/tmp`.
fn temp_dir() -> PathBuf {
    let usual = std::env::temp_dir();
    if std::env::var_os("TMPDIR").is_some() {
        return usual;
    }
    on_storage(usual, Path::new("/var/tmp"))
}

fn on_storage(usual: PathBuf, other: &Path) -> PathBuf {
    if is_tmpfs(&usual) && other.is_dir() && !is_tmpfs(other) { other.to_owned() } else { usual }
}

fn is_tmpfs(path: &Path) -> bool {
    FileSystemType::from_path(path) == FileSystemType::Tmpfs
}

/// Resolves an address; unless it names a user, the server is accessed as the calling user.
pub(crate) fn resolve_address(address: &NfsAddress) -> NfsTarget {
    address.resolve(&for_process(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_temporary_directory_on_storage() {
        let storage = Path::new(env!("CARGO_MANIFEST_DIR"));
        let memory = PathBuf::from("/dev/shm");
        if is_tmpfs(&memory) && !is_tmpfs(storage) {
            assert_eq!(on_storage(memory.clone(), storage), storage);
            assert_eq!(on_storage(memory.clone(), &memory), memory);
            assert_eq!(on_storage(memory.clone(), &storage.join("missing")), memory);
            assert_eq!(on_storage(storage.to_owned(), &memory), storage);
        }
    }
}
