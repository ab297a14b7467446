//! What this host is: captured once per campaign, each fact with its source.
//!
//! Only what bends measurements and can be read without privilege. A fact that can't be read is
//! left out, not guessed.

use std::fs;

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
    fn a_host_has_facts_with_sources() {
        let facts = host();
        for name in ["kernel", "cores for us", "memory"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}");
        }
        assert!(facts.iter().all(|fact| !fact.source.is_empty() && !fact.value.is_empty()));
    }
}
