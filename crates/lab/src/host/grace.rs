//! The grace period after the start of the kernel's server, in which clients reclaim their state.
//!
//! During this time (90 s by default) v4 clients cannot open other files, and a pass would measure
//! the wait. If no client can have anything to reclaim, we end the grace period immediately;
//! otherwise we wait for it. **Source:** RFC 8881, 8.4.2; nfsd(7); the files `v4_end_grace` and
//! `nlm_end_grace` of fs/nfsd/nfsctl.c and fs/lockd/procfs.c of the kernel.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::commands::Runner;
use crate::error::LabError;
use crate::host::processes;

/// Ends the grace period for files; contains `Y` once it is over.
const END: &str = "/proc/fs/nfsd/v4_end_grace";
/// Ends the grace period for v3 locks, which also delays v4 locks and delegations.
const END_OF_LOCKS: &str = "/proc/fs/lockd/nlm_end_grace";
/// Length of the grace period in seconds; readable by root only.
const LENGTH: &str = "/proc/fs/nfsd/nfsv4gracetime";
/// The kernel's default length, in seconds.
const LENGTH_S: u64 = 90;
/// Contains a folder for each v4 client that has or may have open files; readable by root only.
const CLIENTS: &str = "/proc/fs/nfsd/clients";
const POLL: Duration = Duration::from_millis(50);

/// Returns true if clients of the running server may have open files, or if that isn't known.
pub(crate) fn has_clients() -> bool {
    match fs::read_dir(CLIENTS) {
        Ok(mut clients) => clients.next().is_some(),
        // Old kernels don't have this folder, and only root can read it. Assume that there are
        // clients.
        Err(_) => true,
    }
}

/// Files that end the grace period early when `Y` is written to them. Both reject this if it is
/// already over.
pub(crate) const ENDS: [&str; 2] = [END, END_OF_LOCKS];

/// Ends the grace period early. Only call this if no client has anything to reclaim; otherwise, its
/// files could be given to others.
pub(crate) fn end_early(runner: &Runner) {
    for path in ENDS {
        // Fails if it is already over, in which case [`await_end`] returns immediately.
        let _ = runner.write(Path::new(path), "Y");
    }
}

/// Waits until the grace period is over.
///
/// # Errors
/// If it takes far too long, for example because a client keeps reclaiming forever.
pub(crate) fn await_end() -> Result<(), LabError> {
    let length = fs::read_to_string(LENGTH).unwrap_or_default();
    // The kernel doubles it if clients are still reclaiming at the end.
    let limit = Duration::from_secs(2 * length.trim().parse().unwrap_or(LENGTH_S) + 30);
    let mut waited = Duration::ZERO;
    // Without this file, there is no way to know.
    while !is_over(&fs::read_to_string(END).unwrap_or_default()) {
        if waited > limit {
            let seconds = limit.as_secs();
            return Err(LabError::Unable(format!(
                "the NFS server is still in its grace period after {seconds} s, so clients cannot \
                 open files; `echo Y > {END}` ends it"
            )));
        }
        processes::pause(POLL);
        waited += POLL;
    }
    Ok(())
}

fn is_over(answer: &str) -> bool {
    !answer.trim().eq_ignore_ascii_case("N")
}

/// Returns the command that a dry run shows for the wait.
pub(crate) fn shown_command() -> String {
    format!("wait until {END} contains Y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_only_for_server_in_grace() {
        assert!(!is_over("N\n"));
        assert!(is_over("Y\n"));
        assert!(is_over(""), "a kernel without the file");
    }
}
