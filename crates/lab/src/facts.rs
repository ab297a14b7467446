//! Facts about this host, collected once per campaign, each with its source.
//!
//! Includes only what affects measurements and can be read without privileges. A fact that cannot
//! be read is left out rather than guessed.

pub mod disks;
mod hardware;
pub(crate) mod kernel_switch;
pub mod localio;
pub mod loops;
pub mod memory;
pub mod namespaces;
pub(crate) mod nfsd_modes;
pub(crate) mod tls;

use std::fs;
use std::sync::LazyLock;

use model::Fact;
use model::units::Size;

use crate::commands::packages::{OS_RELEASE, os_release_value};
use crate::commands::{Runner, SOON};

const CPUINFO: &str = "/proc/cpuinfo";
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Facts that are the whole contents of a file.
const FILES: [(&str, &str); 4] = [
    ("congestion control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("load at start", "/proc/loadavg"),
];

/// Collects the settings of this host that affect measurements.
pub fn host() -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(read_fact("host name", "/proc/sys/kernel/hostname"));
    facts.extend(kernel());
    facts.extend(processor());
    facts.push(cores());
    facts.extend(memory());
    facts.extend(memory_limit());
    facts.extend(FILES.iter().filter_map(|(name, path)| read_fact(name, path)));
    facts.extend(hypervisor());
    facts.extend(hardware::facts());
    facts.extend(distribution());
    facts.extend(nfs_utils());
    facts.extend(nfsd_modes::facts_at_start());
    facts
}

/// Returns the name of the distribution. **Source:** os-release(5).
fn distribution() -> Option<Fact> {
    let text = fs::read_to_string(OS_RELEASE).ok()?;
    Some(Fact::new("host", "distribution", os_release_value(&text, "PRETTY_NAME")?, OS_RELEASE))
}

/// Returns the version of nfs-utils, which is used for mounting and exporting.
fn nfs_utils() -> Option<Fact> {
    let output = Runner::as_caller(&["mount.nfs", "-V"], SOON).ok()?;
    let version =
        nfs_utils_version(&output.stdout).or_else(|| nfs_utils_version(&output.stderr))?;
    Some(Fact::new("host", "nfs-utils", version, "mount.nfs -V"))
}

/// Parses `mount.nfs: (linux nfs-utils 2.8.3)`.
fn nfs_utils_version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("nfs-utils ")?;
    rest.split([')', '\n']).next()
}

fn read_fact(name: &str, path: &str) -> Option<Fact> {
    let text = fs::read_to_string(path).ok()?;
    Some(Fact::new("host", name, text.trim(), path))
}

fn kernel() -> Option<Fact> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(Fact::new("host", "kernel", format!("Linux {}", text.trim()), "uname(2)"))
}

/// Returns the release of the running kernel, such as `6.12.48-amd64`; empty if unknown.
pub(crate) fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Describes the kernel's own server, whose version is that of the kernel.
pub(crate) fn kernel_server() -> Option<Fact> {
    let kernel = kernel()?;
    Some(Fact::new("server", "server", format!("nfsd of {}", kernel.value), kernel.source))
}

fn processor() -> Option<Fact> {
    let text = fs::read_to_string(CPUINFO).ok()?;
    Some(Fact::new("host", "processor", model_name(&text)?, CPUINFO))
}

/// Returns the model of the first CPU, from the line `model name : ...`.
fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

fn cores() -> Fact {
    // The smaller of cpusets and cgroup quotas, so a container may report fewer than the host.
    let cores = match std::thread::available_parallelism() {
        Ok(cores) => cores.get(),
        Err(_) => 1,
    };
    Fact::new("host", "cores available", cores.to_string(), "sched_getaffinity(2), cgroups(7)")
}

/// Parses a line such as `MemTotal:  16384 kB` of `/proc/meminfo` or `/proc/self/status`. Returns
/// bytes.
///
/// There, the unit `kB` means 1,024 bytes. **Source:** proc_meminfo(5), proc_pid_status(5).
pub fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    for line in text.lines() {
        if let Some(value) = line.strip_prefix(name) {
            let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
            return kib.checked_mul(1024);
        }
    }
    None
}

fn memory() -> Option<Fact> {
    Some(Fact::new("host", "memory", Size(memory::host_bytes()?).to_string(), "/proc/meminfo"))
}

/// Returns the memory limit of this process's control groups, if it is below the host's memory.
fn memory_limit() -> Option<Fact> {
    let limit = memory::limit()?;
    if memory::host_bytes().is_some_and(|all| limit.bytes >= all) {
        return None;
    }
    Some(Fact::new("host", "memory limit", Size(limit.bytes).to_string(), limit.source))
}

/// Returns the CPU model, such as `QEMU Virtual CPU version 2.5+`, if this host's CPUs are emulated
/// in software.
pub fn emulated() -> Option<String> {
    // Cached, because it is needed after each pass and doesn't change while the host is running.
    static FOUND: LazyLock<Option<String>> = LazyLock::new(|| {
        let cpuinfo = fs::read_to_string(CPUINFO).ok()?;
        let clocks = fs::read_to_string(CLOCKS).unwrap_or_default();
        Some(emulator(&cpuinfo, &clocks)?.to_owned())
    });
    FOUND.clone()
}

/// Recognizes QEMU's own CPU model on a machine without the clock that KVM provides.
///
/// **Source:** QEMU's `target/i386/cpu.c`; the kernel's `arch/x86/kernel/kvmclock.c`.
fn emulator<'a>(cpuinfo: &'a str, clocks: &str) -> Option<&'a str> {
    let model = model_name(cpuinfo)?;
    let is_kvm = has_word(clocks, "kvm-clock");
    if model.contains("QEMU") && !is_kvm { Some(model) } else { None }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_ascii_whitespace().any(|found| found == word)
}

/// Reports whether this is a virtual machine, which shares its CPUs with unknown others.
fn hypervisor() -> Option<Fact> {
    let text = fs::read_to_string(CPUINFO).ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    // Hypervisors set this bit of CPUID leaf 1 for their guests. It is never set on bare metal.
    let value = if has_word(flags, "hypervisor") { "yes" } else { "no" };
    Some(Fact::new("host", "virtual machine", value, "/proc/cpuinfo flags"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_emulated_processor() {
        let qemu = "processor\t: 0\nmodel name\t: QEMU Virtual CPU version 2.5+\n";
        let real = "processor\t: 0\nmodel name\t: AMD EPYC 9754\n";
        assert_eq!(emulator(qemu, "hpet acpi_pm\n"), Some("QEMU Virtual CPU version 2.5+"));
        assert_eq!(emulator(qemu, "kvm-clock tsc hpet\n"), None);
        assert_eq!((emulator(real, "tsc hpet\n"), emulator("", "")), (None, None));
    }

    #[test]
    fn parses_program_versions() {
        let text = "mount.nfs: (linux nfs-utils 2.8.3)\n";
        assert_eq!((nfs_utils_version(text), nfs_utils_version("usage")), (Some("2.8.3"), None));
        let text = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        let pretty_name = |text| os_release_value(text, "PRETTY_NAME");
        assert_eq!(pretty_name(text), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(pretty_name("NAME=x"), None);
    }

    #[test]
    fn a_host_has_facts_with_sources() {
        let facts = host();
        for name in ["kernel", "cores available", "memory"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}");
        }
        assert!(facts.iter().all(|fact| !fact.source.is_empty() && !fact.value.is_empty()));
    }
}
