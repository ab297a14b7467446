//! Real changes to a host, and their undo: mounts, loop devices, tc rules, servers.
//!
//! `cargo xtask real lab` and `cargo xtask real vm` run it: `lab_real list GROUP` lists the checks
//! of a group, `lab_real NAME` runs one, and panics if it fails. Checks of the group `here` require
//! root and their own mount and network namespace; those of the group `kernel` need a virtual
//! machine of the tests.

#![allow(clippy::disallowed_methods, reason = "checks wait, and read variables set by xtask")]
#![allow(clippy::print_stdout, reason = "prints the list of checks for xtask")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::Lab;
use model::{Action, EffectiveSettings};

/// A check and its name.
pub(crate) type Check = (&'static str, fn());

/// Lists the checks of these functions.
macro_rules! checks {
    ($($name:ident,)+) => { &[$((stringify!($name), $name as fn()),)+] };
}

mod kernel;
mod killed;
mod remote;
mod safety;
mod servers;
mod storage;
mod tuning;

const HERE: [&[Check]; 6] = [
    safety::CHECKS,
    servers::CHECKS,
    storage::CHECKS,
    remote::CHECKS,
    tuning::CHECKS,
    killed::CHECKS,
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let here = || HERE.into_iter().flatten();
    match words[..] {
        ["list", "here"] => here().for_each(|(name, _)| println!("{name}")),
        ["list", "kernel"] => kernel::CHECKS.iter().for_each(|(name, _)| println!("{name}")),
        [word @ (killed::CHILD | killed::KERNEL_CHILD)] => killed::child_that_never_ends(word),
        [wanted] => {
            let found = here().chain(kernel::CHECKS).find(|(name, _)| *name == wanted);
            found.unwrap_or_else(|| panic!("no check is named {wanted}")).1();
        }
        _ => panic!("usage: lab_real list here|kernel, or lab_real NAME"),
    }
}

/// Our own namespace with its own /run, a folder for files, and a lab.
pub(crate) struct Host {
    pub(crate) folder: tempfile::TempDir,
    allowed: Vec<PathBuf>,
}

impl Host {
    pub(crate) fn new() -> Self {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
        // The program that started us created the namespace only for us.
        let parent = std::os::unix::process::parent_id().to_string();
        assert_ne!(of("self"), of(&parent), "run this with `cargo xtask real lab`");
        run(&["mount", "--make-rprivate", "/"]);
        run(&["mount", "-t", "tmpfs", "tmpfs", "/run"]);
        run(&["mount", "-t", "sysfs", "sysfs", "/sys"]);
        run(&["ip", "link", "set", "lo", "up"]);
        Self::of_folder()
    }

    /// A virtual machine of the tests, which only we use.
    pub(crate) fn machine() -> Self {
        assert!(read("/proc/cmdline").contains("lab."), "run this with `cargo xtask real vm`");
        Self::of_folder()
    }

    fn of_folder() -> Self {
        Self { folder: tempfile::tempdir_in("/var/tmp").unwrap(), allowed: Vec::new() }
    }

    pub(crate) fn allowing(mut self, device: &Path) -> Self {
        self.allowed.push(device.to_owned());
        self
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn lab(&self) -> Lab {
        Lab::open(&self.state(), "test", self.allowed.clone()).unwrap()
    }

    /// Returns a path for a file of the test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Checks that the visible state of the host is the same as before.
    pub(crate) fn assert_as_before(&self, before: &[String]) {
        let now = self.traces();
        let more: Vec<&String> = now.iter().filter(|line| !before.contains(line)).collect();
        let less: Vec<&String> =
            before.iter().filter(|line| !now.contains(line) && !is_mount_of_others(line)).collect();
        assert!(more.is_empty() && less.is_empty(), "left: {more:#?}, lost: {less:#?}");
    }

    /// Lines that describe the state of the host, as far as we change it.
    pub(crate) fn traces(&self) -> Vec<String> {
        let mut traces: Vec<String> =
            read("/proc/self/mountinfo").lines().map(str::to_owned).collect();
        let folder = self.folder.path().to_str().unwrap();
        // Loop devices belong to the whole machine.
        let loops = run(&["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]);
        traces.extend(loops.lines().filter(|line| line.contains(folder)).map(str::to_owned));
        // Other tests have network namespaces of their own.
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let programs = run(&["ps", "-eo", "pid,args"]);
        let programs = programs.lines().filter_map(|line| line.trim().split_once(' '));
        let near = programs.filter(|(process, _)| network(process) == network("self"));
        let ours = |line: &&str| line.starts_with("/run/dfsbench") || line.contains(folder);
        let ours = near.map(|(_, line)| line).filter(ours);
        let ours = ours.filter(|line| !line.starts_with("find "));
        traces.extend(ours.map(str::to_owned));
        traces.push(run(&["tc", "qdisc", "show", "dev", "lo"]));
        traces.push(run(&["ip", "-oneline", "link", "show"]));
        traces.push(read("/proc/sys/net/ipv4/tcp_rmem"));
        // libmount's own notes are not ours.
        let files = run(&["find", "/run", folder, "-not", "-path", "*state*"]);
        let files = files.lines().filter(|line| !line.starts_with("/run/mount"));
        traces.extend(files.map(str::to_owned));
        traces
    }
}

/// Returns true if this line of mountinfo is a mount whose mount point is gone, too.
///
/// The kernel detaches a mount in all namespaces when its mount point is removed, and network
/// namespaces of other checks end at the same time. If we had undone it, the directory would
/// remain.
fn is_mount_of_others(line: &str) -> bool {
    let point = line.split(' ').nth(4).unwrap_or_default();
    line.contains(" - ") && !Path::new(point).exists()
}

impl Drop for Host {
    /// Removes leftovers of a failed test, so that they don't affect the next one.
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test has already failed and reported the reason.
            let _ = lab::clean(&self.state());
        }
    }
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

/// Runs a program that must succeed, and returns its output.
pub(crate) fn run(argv: &[&str]) -> String {
    let output = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn fact<'a>(found: &'a EffectiveSettings, name: &str) -> &'a str {
    let fact = found.facts.iter().find(|fact| fact.name == name);
    &fact.unwrap_or_else(|| panic!("no {name} in {found:?}")).value
}

/// Applies actions, all of which must take effect as requested.
pub(crate) fn apply_all(lab: &mut Lab, actions: &[Action]) {
    for action in actions {
        let found = lab.apply(action).unwrap_or_else(|error| panic!("{action:?}: {error}"));
        assert_eq!(found.differences, [], "{action:?}");
    }
}

/// Returns true if this program is installed.
pub(crate) fn has_program(name: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists())
}
