//! How the kernel's NFS server reads and writes files: through the page cache or past it.
//!
//! The modes are files of debugfs, which apply to the whole host and exist once the module `nfsd`
//! is loaded. A read past the page cache also turns splice reads off, and they stay off until they
//! are turned on again. The folder is a parameter, so that tests can use a fake one.
//!
//! **Source:** fs/nfsd/debugfs.c of Linux (`nfsd_io_cache_read_set`, `nfsd_dsr_set`); its
//! Documentation/filesystems/nfs/nfsd-io-modes.rst.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::{Fact, NfsdIo};

use crate::commands::{Runner, SOON};
use crate::{DEBUGFS, mounts};

/// Folder of the server's settings.
pub(crate) const FOLDER: &str = "/sys/kernel/debug/nfsd";
/// File that contains how the server reads, as a number.
pub(crate) const READ: &str = "io_cache_read";
/// File that contains how the server writes, as a number.
pub(crate) const WRITE: &str = "io_cache_write";
/// File that contains 1 if the server copies what it reads instead of sending pages of the cache.
pub(crate) const NO_SPLICE: &str = "disable-splice-read";

/// Returns true if debugfs is mounted.
pub(crate) fn has_debugfs() -> bool {
    mounts::find_named(Path::new(DEBUGFS)).is_some_and(|mount| mount.file_system == "debugfs")
}

/// Returns the number that stands for a mode.
pub(crate) const fn number(mode: NfsdIo) -> &'static str {
    match mode {
        NfsdIo::Buffered => "0",
        NfsdIo::DontCache => "1",
        NfsdIo::Direct => "2",
    }
}

/// Returns the name of the mode with this number, or `mode 3` if it isn't known.
pub(crate) fn name(of_kernel: &str) -> String {
    match NfsdIo::ALL.iter().find(|mode| number(**mode) == of_kernel) {
        Some(mode) => mode.to_string(),
        None => format!("mode {of_kernel}"),
    }
}

/// Reads one of the files, as root. Returns `None` if the kernel doesn't have it.
pub(crate) fn read_as_root(path: &Path) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = path.display().to_string();
            let text = Runner::default().run(&["cat", "--", &path], SOON).ok()?;
            Some(text.trim().to_owned())
        }
        Err(_) => None,
    }
}

/// Returns the modes of a server that a plan has started.
pub(crate) fn facts() -> Vec<Fact> {
    facts_in("server", "", Path::new(FOLDER), read_as_root)
}

/// Returns the modes of a server that is running on this host already, if they are readable.
pub(super) fn facts_at_start() -> Vec<Fact> {
    let threads = fs::read_to_string("/proc/fs/nfsd/threads").unwrap_or_default();
    if threads.trim().parse().unwrap_or(0) == 0 {
        return Vec::new();
    }
    facts_in("host", " at start", Path::new(FOLDER), |path| {
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    })
}

fn facts_in(
    scope: &str,
    when: &str,
    folder: &Path,
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (fact, file) in [
        ("read mode of nfsd", READ),
        ("write mode of nfsd", WRITE),
        ("splice reads of nfsd", NO_SPLICE),
    ] {
        let path = folder.join(file);
        let Some(text) = read(&path) else { continue };
        let value = match (file, text.as_str()) {
            (NO_SPLICE, "0") => "on".to_owned(),
            (NO_SPLICE, _) => "off".to_owned(),
            _ => name(&text),
        };
        facts.push(Fact::new(scope, format!("{fact}{when}"), value, path.display().to_string()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_modes_of_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let shown = || {
            let facts = facts_in("server", "", folder.path(), read_as_root);
            facts.iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect::<Vec<_>>()
        };
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        // Linux 6.17 and older.
        assert_eq!(shown(), Vec::<String>::new());
        write(READ, "0\n");
        write(WRITE, "2\n");
        write(NO_SPLICE, "1\n");
        let expected = ["read mode of nfsd: buffered", "write mode of nfsd: direct"];
        assert_eq!(shown(), [&expected[..], &["splice reads of nfsd: off"]].concat());
        write(READ, "1\n");
        write(WRITE, "7\n");
        write(NO_SPLICE, "0\n");
        let expected = ["read mode of nfsd: dontcache", "write mode of nfsd: mode 7"];
        assert_eq!(shown(), [&expected[..], &["splice reads of nfsd: on"]].concat());
    }
}
