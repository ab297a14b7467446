//! Names the package that contains a missing program.
//!
//! Uses the names of Debian and Ubuntu. If a distribution names the package differently, the
//! program's name is what to search for.

use std::path::Path;

use super::FOLDERS;
use crate::error::LabError;

pub(crate) const OS_RELEASE: &str = "/etc/os-release";

const PACKAGES: [(&str, &str); 37] = [
    ("blkid", "util-linux"),
    ("blockdev", "util-linux"),
    ("cryptsetup", "cryptsetup-bin"),
    ("exportfs", "nfs-kernel-server"),
    ("fincore", "util-linux-extra"),
    ("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs"),
    ("install", "coreutils"),
    ("ip", "iproute2"),
    ("kill", "procps"),
    ("losetup", "mount"),
    ("mdadm", "mdadm"),
    ("mkdir", "coreutils"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext2", "e2fsprogs"),
    ("mkfs.ext3", "e2fsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("modprobe", "kmod"),
    ("mount", "mount"),
    ("mount.nfs", "nfs-common"),
    ("rm", "coreutils"),
    ("rmdir", "coreutils"),
    ("rpc.gssd", "nfs-common"),
    ("rpc.mountd", "nfs-kernel-server"),
    ("rpc.nfsd", "nfs-kernel-server"),
    ("rpc.svcgssd", "nfs-kernel-server"),
    ("rpcbind", "rpcbind"),
    ("rpcinfo", "rpcbind"),
    ("ss", "iproute2"),
    ("ssh", "openssh-client"),
    ("tc", "iproute2"),
    ("tee", "coreutils"),
    ("tlshd", "ktls-utils"),
    ("truncate", "coreutils"),
    ("umount", "mount"),
    ("unfsd", "unfs3"),
    ("wipefs", "util-linux"),
];

/// Returns the package that contains a program, if known.
fn package_of(program: &str) -> Option<&'static str> {
    let found = PACKAGES.into_iter().find(|(name, _)| *name == program);
    found.map(|(_, package)| package)
}

/// Returns the ID of this host's distribution, such as `debian`, or an empty string if unknown.
///
/// **Source:** os-release(5).
pub(crate) fn distribution() -> String {
    let text = std::fs::read_to_string(OS_RELEASE).unwrap_or_default();
    os_release_value(&text, "ID").unwrap_or_default().to_owned()
}

/// Returns the value of a variable in os-release(5), without quotes.
pub(crate) fn os_release_value<'a>(text: &'a str, variable: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(variable)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '\'']))
}

/// Returns the error for a missing program, with the package to install if it is known.
pub(crate) fn missing(program: &str) -> LabError {
    missing_in(program, &FOLDERS.join(":"))
}

/// Returns the error for a program that is missing in these folders.
pub(crate) fn missing_in(program: &str, folders: &str) -> LabError {
    let program = program.to_owned();
    match package_of(&program) {
        Some(package) => LabError::Missing { program, package: package.to_owned() },
        None => LabError::NotFound { program, folders: folders.to_owned() },
    }
}

/// Returns the packages of a recipe that dpkg(1) has not installed: one of them may contain the
/// missing program. Without dpkg, that is all of them.
pub(crate) fn not_installed(packages: &str) -> String {
    not_installed_in(Path::new("/var/lib/dpkg/info"), packages)
}

/// A package that was built for several architectures has one in its file's name.
fn not_installed_in(folder: &Path, packages: &str) -> String {
    let is_there = |name: &str| {
        let architectures = ["", ":amd64", ":arm64"];
        architectures.iter().any(|which| folder.join(format!("{name}{which}.list")).exists())
    };
    let missing: Vec<_> = packages.split_whitespace().filter(|name| !is_there(name)).collect();
    missing.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_packages_not_installed() {
        let folder = tempfile::tempdir().unwrap();
        let missing = || not_installed_in(folder.path(), "redis-server rclone");
        assert_eq!(missing(), "redis-server rclone");
        std::fs::write(folder.path().join("rclone.list"), "").unwrap();
        assert_eq!(missing(), "redis-server");
        std::fs::write(folder.path().join("redis-server:amd64.list"), "").unwrap();
        assert_eq!(missing(), "");
    }
}
