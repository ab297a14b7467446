//! Switches of the kernel's NFS server and client: a file each, which applies to the whole host.
//!
//! Most exist only in newer kernels, and once their module is loaded. The folders are parameters,
//! so that tests can use fake ones.
//!
//! **Source:** fs/locks.c (`leases_enable`), fs/nfs/nfs4super.c (`directory_delegations`) and
//! fs/nfsd/debugfs.c (`delegated_timestamps`) of Linux.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::Fact;
use model::action::SwitchName;

use crate::commands::{Runner, SOON};
use crate::mounts::Mount;

/// Where debugfs is mounted; readable by root only.
pub(crate) const DEBUGFS: &str = "/sys/kernel/debug";

/// Where a switch is, and in which kernels.
pub(crate) struct SwitchPlace {
    /// The file that contains `Y`, `N`, `1` or `0`.
    pub path: &'static str,
    /// The module that has it; `None` if the kernel itself does.
    pub module: Option<&'static str>,
    /// The versions of Linux that have it.
    pub since: &'static str,
}

/// Returns where a switch is.
pub(crate) const fn place_of(switch: SwitchName) -> SwitchPlace {
    match switch {
        SwitchName::ServerDelegations => SwitchPlace {
            path: "/proc/sys/fs/leases-enable",
            module: None,
            since: "built with CONFIG_FILE_LOCKING",
        },
        SwitchName::DelegatedTimestamps => SwitchPlace {
            path: "/sys/kernel/debug/nfsd/delegated_timestamps",
            module: Some("nfsd"),
            since: "6.14 or newer",
        },
        SwitchName::DirectoryDelegations => SwitchPlace {
            path: "/sys/module/nfsv4/parameters/directory_delegations",
            module: Some("nfsv4"),
            since: "6.19 or newer",
        },
    }
}

/// Reads a switch. Returns `None` if the kernel has none, or its module isn't loaded.
pub(crate) fn is_on(switch: SwitchName) -> Option<bool> {
    read_switch(Path::new(place_of(switch).path))
}

/// Returns the switches of the kernel's server that the kernel has.
pub(crate) fn facts_of_server() -> Vec<Fact> {
    let switches = [SwitchName::ServerDelegations, SwitchName::DelegatedTimestamps];
    switches.into_iter().filter_map(|switch| fact("server", switch, is_on(switch))).collect()
}

/// Returns the switches of the kernel's client that affect a mount and that the kernel has.
pub(crate) fn facts_of_mount(scope: &str, mount: &Mount) -> Option<Fact> {
    let switch = SwitchName::DirectoryDelegations;
    if mount.file_system == "nfs4" { fact(scope, switch, is_on(switch)) } else { None }
}

fn fact(scope: &str, switch: SwitchName, is_on: Option<bool>) -> Option<Fact> {
    let name = match switch {
        SwitchName::ServerDelegations => "delegations of nfsd",
        SwitchName::DelegatedTimestamps => "delegated timestamps of nfsd",
        SwitchName::DirectoryDelegations => "directory delegations",
    };
    let value = if is_on? { "yes" } else { "no" };
    Some(Fact::new(scope, name, value, place_of(switch).path))
}

/// Reads a file with `Y`, `N`, `1` or `0`, as root if necessary.
fn read_switch(path: &Path) -> Option<bool> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Runner::default().run(&["cat", "--", &path.display().to_string()], SOON).ok()?
        }
        text => text.ok()?,
    };
    match text.trim() {
        "Y" | "1" => Some(true),
        "N" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_letters_and_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switch");
        assert_eq!(read_switch(&path), None);
        for (text, expected) in
            [("Y\n", Some(true)), ("0\n", Some(false)), ("N\n", Some(false)), ("2\n", None)]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(read_switch(&path), expected, "{text}");
        }
    }

    #[test]
    fn records_only_what_kernel_has() {
        let shown = |is_on| {
            let fact = fact("target", SwitchName::DirectoryDelegations, is_on)?;
            Some(format!("{}: {} ({})", fact.name, fact.value, fact.source))
        };
        let source = "/sys/module/nfsv4/parameters/directory_delegations";
        assert_eq!(shown(Some(true)), Some(format!("directory delegations: yes ({source})")));
        assert_eq!(shown(Some(false)), Some(format!("directory delegations: no ({source})")));
        assert_eq!(shown(None), None);
    }
}
