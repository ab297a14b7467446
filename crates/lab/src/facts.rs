//! Facts about this host: captured once per campaign, each with its source.
//!
//! Only what bends measurements and can be read without privilege. A fact that can't be read is
//! left out, not guessed.

use std::fs;
use std::sync::LazyLock;

use model::Fact;
use model::units::Size;

/// Captures the settings of this host that bend measurements.
pub fn host() -> Vec<Fact> {
    let read = |name: &str, path: &str| {
        let text = fs::read_to_string(path).ok()?;
        Some(Fact::new("host", name, text.trim(), path))
    };
    let mut facts = vec![
        read("host name", "/proc/sys/kernel/hostname"),
        kernel(),
        processor(),
        Some(cores()),
        memory(),
        read("congestion control", "/proc/sys/net/ipv4/tcp_congestion_control"),
        read("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        read("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        read("load at start", "/proc/loadavg"),
    ];
    facts.push(hypervisor());
    facts.into_iter().flatten().collect()
}

fn kernel() -> Option<Fact> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(Fact::new("host", "kernel", format!("Linux {}", text.trim()), "uname(2)"))
}

fn processor() -> Option<Fact> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, model) = line.split_once(':')?;
    Some(Fact::new("host", "processor", model.trim(), "/proc/cpuinfo"))
}

fn cores() -> Fact {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Fact::new("host", "cores for us", cores.to_string(), "sched_getaffinity(2), cgroups(7)")
}

/// Memory of this host, in bytes; `None` where `/proc` does not say.
pub fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn memory() -> Option<Fact> {
    Some(Fact::new("host", "memory", Size(memory_bytes()?).to_string(), "/proc/meminfo"))
}

const CPUINFO: &str = "/proc/cpuinfo";
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Says by what this host's processors are emulated in software, where they are: `QEMU Virtual CPU
/// version 2.5+`.
pub fn emulated() -> Option<String> {
    // It stays what it is, and is requested after each pass.
    static FOUND: LazyLock<Option<String>> = LazyLock::new(|| {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        emulator(&read(CPUINFO), &read(CLOCKS)).map(str::to_owned)
    });
    FOUND.clone()
}

/// QEMU's own model of a processor, without the clock that KVM gives to its guests.
///
/// **Source:** QEMU's `target/i386/cpu.c`; the kernel's `arch/x86/kernel/kvmclock.c`.
fn emulator<'a>(cpuinfo: &'a str, clocks: &str) -> Option<&'a str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let model = line.split_once(':')?.1.trim();
    let is_kvm = clocks.split_ascii_whitespace().any(|clock| clock == "kvm-clock");
    (model.contains("QEMU") && !is_kvm).then_some(model)
}

/// A virtual machine shares its processors with strangers: a reader should know.
fn hypervisor() -> Option<Fact> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let found = flags.split_ascii_whitespace().any(|flag| flag == "hypervisor");
    let value = if found { "yes" } else { "no" };
    Some(Fact::new("host", "virtual machine", value, "/proc/cpuinfo flags"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_processor_is_told_from_a_virtual_one() {
        let qemu = "processor\t: 0\nmodel name\t: QEMU Virtual CPU version 2.5+\n";
        let real = "processor\t: 0\nmodel name\t: AMD EPYC 9754\n";
        assert_eq!(emulator(qemu, "hpet acpi_pm\n"), Some("QEMU Virtual CPU version 2.5+"));
        assert_eq!(emulator(qemu, "kvm-clock tsc hpet\n"), None);
        assert_eq!((emulator(real, "tsc hpet\n"), emulator("", "")), (None, None));
    }

    #[test]
    fn a_host_has_facts_with_sources() {
        let facts = host();
        for name in ["kernel", "cores for us", "memory"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}");
        }
        assert!(facts.iter().all(|fact| !fact.source.is_empty() && !fact.value.is_empty()));
    }
}
