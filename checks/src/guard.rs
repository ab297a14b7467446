//! Cleans up after this process, however it ends: normally, by a panic, or killed.
//!
//! A test program ends without dropping its statics, and a killed one drops nothing. So a small
//! shell in its own session waits for the end of a pipe that only this process keeps open. Then it
//! runs the remaining registered cleanups, newest first, and ends.
//!
//! Main type: [`Ticket`], one cleanup; dropping it withdraws the cleanup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs the cleanups in the directory `$0`. Each has a time limit, so that none blocks the others.
const SCRIPT: &str = "cat > /dev/null; for file in $(ls -r \"$0\"); do \
    timeout --kill-after=5 60 sh \"$0/$file\"; done; rm -rf \"$0\"";

/// The waiting shell, and the directory of its cleanups.
struct Guard {
    folder: PathBuf,
    /// Holds the pipe open; it is never waited for.
    _shell: Child,
}

static GUARD: LazyLock<Option<Guard>> = LazyLock::new(|| {
    let folder = tempfile::Builder::new().prefix("dfsbench-guard-").tempdir().ok()?.keep();
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", SCRIPT]).arg(&folder);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let shell = command.spawn().ok()?;
    Some(Guard { folder, _shell: shell })
});

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A cleanup that runs when this process ends, unless the value is dropped before.
#[derive(Debug)]
#[must_use = "dropping it withdraws the cleanup"]
pub struct Ticket {
    file: Option<PathBuf>,
}

/// Registers a shell script.
///
/// Without a guard (no `setsid`, a full disk) nothing is registered: the owners' own `Drop` still
/// cleans up.
pub fn register_script(script: &str) -> Ticket {
    let Some(guard) = GUARD.as_ref() else { return Ticket { file: None } };
    // Leading zeros make names sort like numbers.
    let file = guard.folder.join(format!("{:010}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let is_written = fs::write(&file, script).is_ok();
    Ticket { file: is_written.then_some(file) }
}

/// Registers killing a process.
pub fn kill_process(id: u32) -> Ticket {
    register_script(&format!("kill -9 {id} 2>/dev/null"))
}

/// Registers removing a directory.
pub fn remove_folder(path: &Path) -> Ticket {
    register_script(&format!("rm -rf --one-file-system '{}'", path.display()))
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // It is already gone only if the guard has run it.
            let _ = fs::remove_file(file);
        }
    }
}
