//! LOCALIO: the kernel's NFS client reads and writes the files of a server on its own host
//! directly, without RPC.
//!
//! The parameter applies to the whole host and only exists in kernels that are built with LOCALIO.
//! The state of each mount can be read since Linux 6.16 or so; before that, only the missing READ
//! and WRITE calls show it. The folders of sysfs are parameters, so that tests can use fake ones.
//!
//! **Source:** fs/nfs/localio.c (`localio_enabled`, `nfs_server_is_local`) and fs/nfs/sysfs.c
//! (`localio_show`) of Linux; its Documentation/filesystems/nfs/localio.rst.

use std::path::Path;

use model::Fact;

use crate::facts::hardware::line;
use crate::mounts::Mount;

/// The parameter with which LOCALIO is turned on and off.
pub(crate) const PARAMETER: &str = "/sys/module/nfs/parameters/localio_enabled";
/// Folder with a folder for each mount, named after its device number.
const MOUNTS: &str = "/sys/fs/nfs";

/// Returns whether the client may use LOCALIO. Returns `None` if its kernel has none, or the module
/// `nfs` isn't loaded.
pub(crate) fn is_enabled() -> Option<bool> {
    read_switch(Path::new(PARAMETER))
}

/// Returns true if the kernel reports that a mount bypasses RPC, so its server is on this host.
pub fn is_used_by(mount: &Mount) -> bool {
    of_mount(Path::new(MOUNTS), &mount.device) == Some(true)
}

/// Returns whether an NFS mount may bypass RPC and whether it does, as far as the kernel says so.
pub(crate) fn facts(scope: &str, mount: &Mount) -> Vec<Fact> {
    facts_in(scope, Path::new(PARAMETER), Path::new(MOUNTS), &mount.device)
}

fn facts_in(scope: &str, parameter: &Path, mounts: &Path, device: &str) -> Vec<Fact> {
    let yes_or_no = |is_on| if is_on { "yes" } else { "no" };
    let mut facts = Vec::new();
    if let Some(is_on) = read_switch(parameter) {
        let source = parameter.display().to_string();
        facts.push(Fact::new(scope, "LOCALIO enabled", yes_or_no(is_on), source));
    }
    if let Some(is_on) = of_mount(mounts, device) {
        // Without the device number, which changes with each mount.
        let source = format!("{}/MAJOR:MINOR/localio", mounts.display());
        facts.push(Fact::new(scope, "LOCALIO in use", yes_or_no(is_on), source));
    }
    facts
}

fn of_mount(mounts: &Path, device: &str) -> Option<bool> {
    read_switch(&mounts.join(device).join("localio"))
}

/// Reads a file with `Y`, `N`, `1` or `0`.
fn read_switch(path: &Path) -> Option<bool> {
    match line(path)?.as_str() {
        "Y" | "1" => Some(true),
        "N" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shown(folder: &Path) -> Vec<(String, String)> {
        let facts = facts_in("target", &folder.join("localio_enabled"), folder, "0:45");
        assert!(facts.iter().all(|fact| !fact.source.contains("0:45")), "{facts:?}");
        facts.into_iter().map(|fact| (fact.name, fact.value)).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn records_parameter_and_state_of_mount() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        // A kernel without LOCALIO has neither file.
        assert_eq!(shown(folder.path()), []);
        // Linux 6.12 only has the parameter.
        write("localio_enabled", "Y\n");
        assert_eq!(shown(folder.path()), [pair("LOCALIO enabled", "yes")]);
        fs::create_dir(folder.path().join("0:45")).unwrap();
        write("0:45/localio", "1\n");
        let both = [pair("LOCALIO enabled", "yes"), pair("LOCALIO in use", "yes")];
        assert_eq!(shown(folder.path()), both);
        // A mount of another host's server.
        write("0:45/localio", "0\n");
        write("localio_enabled", "N\n");
        let neither = [pair("LOCALIO enabled", "no"), pair("LOCALIO in use", "no")];
        assert_eq!(shown(folder.path()), neither);
        write("localio_enabled", "maybe\n");
        assert_eq!(shown(folder.path()), neither[1..]);
    }
}
