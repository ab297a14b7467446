//! The time after its start in which the kernel's server lets clients reclaim what they had open.
//!
//! Meanwhile no client of v4 may open another file, for 90 s unless that time was changed: a pass
//! would measure the wait. Where no client can have anything to reclaim the time is ended at once;
//! else it is waited for. **Source:** RFC 8881, 8.4.2; nfsd(7); the files
//! `v4_end_grace` and `nlm_end_grace` of fs/nfsd/nfsctl.c and fs/lockd/procfs.c of the kernel.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::commands::Runner;
use crate::error::LabError;
use crate::processes;

/// Ends it for files; reads `Y` once it is over.
const END: &str = "/proc/fs/nfsd/v4_end_grace";
/// Ends it for locks of v3, which hold up locks and delegations of v4, too.
const END_OF_LOCKS: &str = "/proc/fs/lockd/nlm_end_grace";
/// How long it is, in seconds; for root alone.
const LENGTH: &str = "/proc/fs/nfsd/nfsv4gracetime";
/// The kernel's default of it, in seconds.
const LENGTH_S: u64 = 90;
/// A folder for each client of v4 that has something open, or might: for root alone.
const CLIENTS: &str = "/proc/fs/nfsd/clients";
const POLL: Duration = Duration::from_millis(50);

/// Clients of the running server may have files open: none is known for sure not to.
pub fn has_clients() -> bool {
    match fs::read_dir(CLIENTS) {
        Ok(mut clients) => clients.next().is_some(),
        // An old kernel has no such folder, and only root may read it: there may be some.
        Err(_) => true,
    }
}

/// Files that end the time early when `Y` is written to them; both refuse where it is over already.
pub const ENDS: [&str; 2] = [END, END_OF_LOCKS];

/// Ends the time early: only where no client has anything to reclaim, whose files would otherwise
/// be given to others.
pub fn end_early(runner: &Runner) {
    for path in ENDS {
        // Refused where it is over already, which [`await_end`] finds out at once.
        let _ = runner.write(Path::new(path), "Y");
    }
}

/// Waits until it is over.
///
/// # Errors
/// Where it takes far longer than it may, as with a client that reclaims for ever.
pub fn await_end() -> Result<(), LabError> {
    let length = fs::read_to_string(LENGTH).unwrap_or_default();
    // The kernel doubles it where clients reclaim until its end.
    let limit = Duration::from_secs(2 * length.trim().parse().unwrap_or(LENGTH_S) + 30);
    let mut waited = Duration::ZERO;
    // A kernel without that file has no such time that could be known.
    while !is_over(&fs::read_to_string(END).unwrap_or_default()) {
        if waited > limit {
            let seconds = limit.as_secs();
            return Err(LabError::Unable(format!(
                "after {seconds} s the NFS server still lets clients reclaim files, and no \
                 client may open others; `echo Y > {END}` ends that"
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

/// The command that a dry run shows for the wait.
pub fn shown() -> String {
    format!("wait until {END} says Y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_says_so_is_waited_for() {
        assert!(!is_over("N\n"));
        assert!(is_over("Y\n"));
        assert!(is_over(""), "a kernel without the file");
    }
}
