//! `cargo xtask setup`: installs the packages that the tests and the peers need with apt, and
//! verifies the result.
//!
//! One table has the package, its proof and its purpose. apt runs only if a proof is missing;
//! packages don't start their daemons, because the tests start their own, on loopback. A part that
//! is still missing afterwards is an error with the name of its package.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::{proc, repo};

/// Time limit for one apt command, including downloads.
const APT_MAX: Duration = Duration::from_secs(20 * 60);

/// The proof that a package is installed.
enum Proof {
    /// A program on PATH.
    Program(&'static str),
    /// A file with this absolute path.
    File(&'static str),
    /// A file below the library directory, whatever the machine's architecture calls it.
    Library(&'static str),
}

/// One thing that the tests need.
struct Requirement {
    package: &'static str,
    proof: Proof,
    what_for: &'static str,
}

const fn part(package: &'static str, proof: Proof, what_for: &'static str) -> Requirement {
    Requirement { package, proof, what_for }
}

const PARTS: [Requirement; 41] = [
    part("gcc", Proof::Program("cc"), "compiles xtask/peers/*.c and SQLite"),
    part("g++", Proof::Program("c++"), "compiles libFuzzer"),
    part("libc6-dev", Proof::File("/usr/include/stdio.h"), "headers for it"),
    part("iproute2", Proof::Program("ip"), "network facts"),
    part("procps", Proof::Program("ps"), "process facts"),
    part("fio", Proof::Program("fio"), "peer: local backends"),
    part("bonnie++", Proof::Program("bonnie++"), "workload of that name, and a peer"),
    part("iozone3", Proof::Program("iozone"), "workload of that name, and a peer; non-free"),
    part("postmark", Proof::Program("postmark"), "peer: transactions"),
    part("make", Proof::Program("make"), "a small build as a workload"),
    part("rsync", Proof::Program("rsync"), "preset developer-tools"),
    part("strace", Proof::Program("strace"), "records system calls"),
    part("iperf3", Proof::Program("iperf3"), "peer: one TCP stream"),
    part("qperf", Proof::Program("qperf"), "peer: one TCP round trip"),
    part("nfs-ganesha", Proof::Program("ganesha.nfsd"), "real NFS server"),
    part("nfs-ganesha-vfs", Proof::Library("ganesha/libfsalvfs.so"), "its exports of directories"),
    part(
        "nfs-ganesha-proxy-v4",
        Proof::Library("ganesha/libfsalproxy_v4.so"),
        "a foreign client of v4.0, which re-exports what it mounts",
    ),
    part("nfs-ganesha-mem", Proof::Library("ganesha/libfsalmem.so"), "its exports of memory"),
    part("libnfs-utils", Proof::Program("nfs-cp"), "real NFS client"),
    part("libnfs-dev", Proof::File("/usr/include/nfsc/libnfs.h"), "peer: NFS reads"),
    part("openssh-server", Proof::File("/usr/sbin/sshd"), "hosts for agents over ssh"),
    part("tshark", Proof::Program("tshark"), "dissects captures"),
    part("chromium", Proof::Program("chromium"), "opens the HTML report"),
    part("qemu-system-x86", Proof::Program("qemu-system-x86_64"), "runs virtual machines"),
    part("qemu-utils", Proof::Program("qemu-img"), "creates their disks"),
    part("mmdebstrap", Proof::Program("mmdebstrap"), "creates their images"),
    part("debian-archive-keyring", Proof::File(KEYRING), "keys that sign their packages"),
    part("xfsprogs", Proof::Program("mkfs.xfs"), "a file system that the lab creates"),
    part("btrfs-progs", Proof::Program("mkfs.btrfs"), "another"),
    part("rpcbind", Proof::Program("rpcbind"), "registry for NFS v3 servers"),
    part("e2fsprogs", Proof::Program("mke2fs"), "creates the file system of an image"),
    part("fuse2fs", Proof::Program("fuse2fs"), "a FUSE file system whose program can be stopped"),
    part("openssh-client", Proof::Program("ssh"), "access to them"),
    part("munge", Proof::File("/usr/sbin/munged"), "authentication between the parts of Slurm"),
    part("slurmctld", Proof::File("/usr/sbin/slurmctld"), "a scheduler that starts agents"),
    part("slurmd", Proof::File("/usr/sbin/slurmd"), "its nodes"),
    part("slurm-client", Proof::Program("srun"), "its commands"),
    part("openmpi-bin", Proof::Program("mpirun.openmpi"), "Open MPI, which also starts agents"),
    part("mpich", Proof::Program("mpirun.mpich"), "MPICH, likewise"),
    part("netcat-openbsd", Proof::Program("nc"), "ssh's access to their network"),
    part("python3-venv", Proof::Program("python3"), "installs cargo-nextest and other tools"),
];

/// Parts that only releases need (`cargo xtask dist`), but not the tests.
const RELEASE_PARTS: [Requirement; 4] = [
    part("binutils", Proof::Program("objcopy"), "separates program and symbols"),
    part("dpkg", Proof::Program("dpkg-deb"), "builds Debian packages"),
    part("rpm", Proof::Program("rpmbuild"), "builds Fedora packages"),
    part("runc", Proof::Program("runc"), "starts the image"),
];

/// Parts of the file systems that only `cargo xtask real systems` sets up.
const SYSTEM_PARTS: [Requirement; 13] = [
    part("ceph-common", Proof::Program("ceph"), "commands of CephFS"),
    part("ceph-fuse", Proof::Program("ceph-fuse"), "its client"),
    part("ceph-mds", Proof::Program("ceph-mds"), "its metadata server"),
    part("ceph-mgr", Proof::Program("ceph-mgr"), "its manager"),
    part("ceph-mon", Proof::Program("ceph-mon"), "its monitor"),
    part("ceph-osd", Proof::Program("ceph-osd"), "its object servers"),
    part("glusterfs-server", Proof::Program("glusterd"), "GlusterFS and its client"),
    part("nfs-ganesha-gluster", Proof::Library("ganesha/libfsalgluster.so"), "NFS for it"),
    part("golang-go", Proof::Program("go"), "building go-nfs"),
    part("moosefs-chunkserver", Proof::Program("mfschunkserver"), "servers of MooseFS"),
    part("moosefs-client", Proof::Program("mfsmount"), "its client"),
    part("moosefs-master", Proof::Program("mfsmaster"), "its master"),
    part("redis-server", Proof::Program("redis-server"), "metadata of JuiceFS"),
];

/// The packages required for virtual machines.
pub const FOR_MACHINES: [&str; 8] = [
    "debian-archive-keyring",
    "e2fsprogs",
    "iproute2",
    "mmdebstrap",
    "netcat-openbsd",
    "openssh-client",
    "qemu-system-x86",
    "qemu-utils",
];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Packages that are only in Debian's non-free section.
const NON_FREE: [&str; 1] = ["iozone3"];

impl Requirement {
    fn is_there(&self) -> bool {
        match self.proof {
            Proof::Program(name) => proc::on_path(name),
            Proof::File(path) => Path::new(path).is_file(),
            Proof::Library(name) => find_library(name).is_some(),
        }
    }

    fn describe_proof(&self) -> String {
        match self.proof {
            Proof::Program(name) => format!("program {name}"),
            Proof::File(path) => format!("file {path}"),
            Proof::Library(name) => format!("file /usr/lib/*/{name}"),
        }
    }
}

/// Returns the path of a file in `/usr/lib/<architecture>/`, if it is there.
pub fn find_library(name: &str) -> Option<std::path::PathBuf> {
    for folder in fs::read_dir("/usr/lib").ok()? {
        let path = folder.ok()?.path().join(name);
        if path.exists() {
            return Some(path);
        }
    }
    None
}

/// Installs missing parts.
pub fn install_missing() -> Result<()> {
    let missing = report_missing();
    if !missing.is_empty() {
        install_all(&missing)?;
    }
    println!("setup: all {} parts are installed", PARTS.len());
    Ok(())
}

/// Reports missing parts without changing anything.
pub fn check_installed() -> Result<()> {
    let missing = report_missing();
    let hint = "`cargo xtask setup` as root installs them";
    ensure!(missing.is_empty(), "{} parts are missing; {hint}", missing.len());
    println!("setup: all {} parts are installed", PARTS.len());
    Ok(())
}

/// Prints and returns the missing parts.
fn report_missing() -> Vec<&'static Requirement> {
    let missing = find_missing(&PARTS.each_ref().map(|part| part.package));
    for part in &missing {
        println!("missing: {} ({}): {}", part.package, part.describe_proof(), part.what_for);
    }
    missing
}

/// Installs missing parts of the file systems that recipes set up.
pub fn install_systems() -> Result<()> {
    install_packages(&SYSTEM_PARTS.each_ref().map(|part| part.package))?;
    let folder = repo::systems_environment().join("bin");
    if folder.join("osnfs").exists() {
        return Ok(());
    }
    let mut build = Command::new("go");
    build.args(["install", "github.com/willscott/go-nfs/example/osnfs@v0.0.4"]);
    build.env("GOBIN", folder);
    proc::run_within(APT_MAX, &mut build).context("cannot build go-nfs")
}

/// Installs missing packages from this list; prints nothing if none are missing.
pub fn install_packages(names: &[&str]) -> Result<()> {
    let missing = find_missing(names);
    if missing.is_empty() { Ok(()) } else { install_all(&missing) }
}

/// Returns the missing parts of these packages.
fn find_missing(packages: &[&str]) -> Vec<&'static Requirement> {
    PARTS
        .iter()
        .chain(&RELEASE_PARTS)
        .chain(&SYSTEM_PARTS)
        .filter(|part| packages.contains(&part.package) && !part.is_there())
        .collect()
}

fn install_all(missing: &[&Requirement]) -> Result<()> {
    install_by_apt(missing)?;
    for part in missing {
        let package = part.package;
        let proof = part.describe_proof();
        ensure!(part.is_there(), "package {package} was installed, but {proof} is missing");
    }
    Ok(())
}

fn install_by_apt(missing: &[&Requirement]) -> Result<()> {
    let mut free = Vec::new();
    let mut restricted = Vec::new();
    for part in missing {
        let is_restricted = NON_FREE.contains(&part.package);
        if is_restricted { &mut restricted } else { &mut free }.push(part.package);
    }
    let list = [free.join(" "), restricted.join(" ")].join(" ");
    ensure!(proc::on_path("apt-get"), "apt-get is missing: install these by hand: {list}");
    let user = fs::metadata("/proc/self").context("who are we?")?.uid();
    ensure!(user == 0, "installing needs root. As root: `apt-get install {list}`");
    let _no_daemons = NoDaemons::forbid()?;
    update_lists()?;
    let mut install = apt_command();
    install.args(["install", "--yes", "--no-install-recommends"]).args(&free);
    proc::run_within(APT_MAX, &mut install).with_context(|| format!("cannot install {list}"))?;
    if restricted.is_empty() { Ok(()) } else { install_non_free(&restricted) }
}

/// Installs packages from Debian's non-free section, with separate package lists: the machine's
/// sources remain unchanged.
///
/// **Source:** apt.conf(5), `Dir::Etc` and `Dir::State`; sources.list(5), deb822 style.
fn install_non_free(packages: &[&str]) -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-setup-")?;
    let sources = folder.path().join("sources");
    let lists = folder.path().join("lists");
    fs::create_dir(&sources)?;
    fs::create_dir_all(lists.join("partial"))?;
    // apt drops its privileges for downloads.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let release = fs::read_to_string("/etc/os-release").context("which release is this?")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release has no VERSION_CODENAME")?;
    let text = format!(
        "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: {name}\nComponents: non-free\n\
         Signed-By: {KEYRING}\n"
    );
    fs::write(sources.join("non-free.sources"), text)?;
    let options = [
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}", sources.display()),
        format!("Dir::State::Lists={}", lists.display()),
    ];
    let mut update = apt_command();
    let mut install = apt_command();
    for option in &options {
        update.args(["-o", option]);
        install.args(["-o", option]);
    }
    proc::run_within(APT_MAX, update.arg("update"))?;
    install.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    proc::run_within(APT_MAX, &mut install)
        .with_context(|| format!("cannot install {}", packages.join(" ")))
}

/// Updates the package lists; retries once in case a mirror fails.
fn update_lists() -> Result<()> {
    if let Err(error) = proc::run_within(APT_MAX, apt_command().arg("update")) {
        println!("setup: {error:#}; retrying");
        proc::run_within(APT_MAX, apt_command().arg("update"))?;
    }
    Ok(())
}

fn apt_command() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
    command
}

/// Keeps packages from starting their daemons while it exists.
///
/// **Source:** invoke-rc.d(8): exit code 101 of `policy-rc.d` forbids the action.
struct NoDaemons {
    is_ours: bool,
}

impl NoDaemons {
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn forbid() -> Result<Self> {
        match fs::File::create_new(Self::POLICY) {
            Ok(_) => {
                fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n")?;
                fs::set_permissions(Self::POLICY, fs::Permissions::from_mode(0o755))?;
                Ok(Self { is_ours: true })
            }
            // The machine has its own policy, which is kept.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self { is_ours: false }),
            Err(error) => bail!("cannot write {}: {error}", Self::POLICY),
        }
    }
}

impl Drop for NoDaemons {
    fn drop(&mut self) {
        if self.is_ours {
            // If this fails, the next run will take care of it.
            let _ = fs::remove_file(Self::POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FOR_MACHINES, PARTS, RELEASE_PARTS, SYSTEM_PARTS};

    #[test]
    fn every_part_is_named_once() {
        let parts = PARTS.iter().chain(&RELEASE_PARTS).chain(&SYSTEM_PARTS);
        let mut names: Vec<&str> = parts.map(|part| part.package).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(FOR_MACHINES.iter().all(|name| names.contains(name)));
    }
}
