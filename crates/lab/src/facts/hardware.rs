//! Facts about this host's hardware: CPU frequency, memory modules, network cards, and the machine
//! or hypervisor.
//!
//! No programs are run, and facts that only root can read are left out for other users. The sysfs
//! folders are parameters, so that tests can use fake ones.

use std::fs;
use std::path::Path;

use model::Fact;
use model::units::Size;

const CPUFREQ: &str = "/sys/devices/system/cpu/cpu0/cpufreq";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";
const NET: &str = "/sys/class/net";
const DMI_TABLE: &str = "/sys/firmware/dmi/tables/DMI";
const DMI_ID: &str = "/sys/class/dmi/id";

/// Collects the facts about this host's hardware.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts = frequencies(Path::new(CPUFREQ));
    facts.extend(mitigations(Path::new(VULNERABILITIES)));
    if let Ok(table) = fs::read(DMI_TABLE) {
        facts.extend(memory_modules(&table));
    }
    facts.extend(machine(Path::new(DMI_ID)));
    facts.extend(network(Path::new(NET)));
    facts
}

/// Reads a single-line file. Returns `None` if it is missing, unreadable or empty.
pub(crate) fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    if text.is_empty() { None } else { Some(text.to_owned()) }
}

/// Returns the last component of a symlink's target, such as the name of a driver.
pub(crate) fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// Joins the distinct values in order. Returns `None` if there are none.
pub(crate) fn join_different(values: impl IntoIterator<Item = String>) -> Option<String> {
    let mut different: Vec<String> = Vec::new();
    for value in values {
        if !different.contains(&value) {
            different.push(value);
        }
    }
    if different.is_empty() { None } else { Some(different.join(", ")) }
}

/// Returns the current, minimum and maximum frequency of the first CPU. **Source:**
/// Documentation/admin-guide/pm/cpufreq.rst of Linux: numbers in kHz.
fn frequencies(folder: &Path) -> Vec<Fact> {
    let megahertz = |file: &str| {
        let khz: u64 = line(&folder.join(file))?.parse().ok()?;
        Some(khz / 1_000)
    };
    let source = folder.display().to_string();
    let mut facts = Vec::new();
    if let Some(now) = megahertz("scaling_cur_freq") {
        facts.push(Fact::new("host", "processor frequency", format!("{now} MHz"), &source));
    }
    if let (Some(least), Some(most)) =
        (megahertz("scaling_min_freq"), megahertz("scaling_max_freq"))
    {
        let limits = format!("{least} to {most} MHz");
        facts.push(Fact::new("host", "frequency limits", limits, &source));
    }
    facts
}

/// Lists the kernel's mitigations for CPU vulnerabilities, which slow down system calls.
fn mitigations(folder: &Path) -> Option<Fact> {
    let mut mitigated = Vec::new();
    let mut vulnerable = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match line(&entry.path()) {
            Some(text) if text.starts_with("Mitigation") => mitigated.push(name),
            Some(text) if text.starts_with("Vulnerable") => vulnerable.push(name),
            _ => {}
        }
    }
    mitigated.sort();
    vulnerable.sort();
    let parts: Vec<_> = [(mitigated, "mitigated"), (vulnerable, "vulnerable")]
        .into_iter()
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, what)| format!("{what}: {}", names.join(" ")))
        .collect();
    let value = if parts.is_empty() { "not affected".to_owned() } else { parts.join("; ") };
    Some(Fact::new("host", "mitigations", value, folder.display().to_string()))
}

/// Returns the machine's vendor and product; on a virtual machine, these are the hypervisor's.
fn machine(folder: &Path) -> Option<Fact> {
    let mut words = Vec::new();
    words.extend(line(&folder.join("sys_vendor")));
    words.extend(line(&folder.join("product_name")));
    if words.is_empty() {
        return None;
    }
    Some(Fact::new("host", "machine", words.join(" "), folder.display().to_string()))
}

/// Returns type, speed and number of the memory modules.
///
/// **Source:** DMTF DSP0134 (SMBIOS 3.7), 7.17 (type 16) and 7.18 (type 17).
fn memory_modules(table: &[u8]) -> Vec<Fact> {
    const ARRAY: u8 = 16;
    const MODULE: u8 = 17;
    let mut kinds = Vec::new();
    let mut speeds = Vec::new();
    let mut sizes = Vec::new();
    let mut corrects_errors = false;
    for structure in structures(table) {
        match structure[0] {
            // Error correction: 5 is single-bit ECC, 6 is multi-bit ECC.
            ARRAY => corrects_errors |= matches!(structure.get(6), Some(5 | 6)),
            MODULE => {
                let Some(bytes) = module_bytes(structure) else { continue };
                sizes.push(bytes);
                kinds.push(module_kind(structure.get(0x12).copied().unwrap_or(0)).to_owned());
                // The configured speed if known, or else the maximum speed.
                let speed = word(structure, 0x20).or_else(|| word(structure, 0x15));
                speeds.extend(speed.map(|speed| format!("{speed} MT/s")));
            }
            _ => {}
        }
    }
    let mut facts = Vec::new();
    if let Some(mut kind) = join_different(kinds) {
        kind.push_str(if corrects_errors { ", ECC" } else { "" });
        facts.push(Fact::new("host", "DRAM type", kind, DMI_TABLE));
    }
    if let Some(speed) = join_different(speeds) {
        facts.push(Fact::new("host", "DRAM speed", speed, DMI_TABLE));
    }
    let each = join_different(sizes.iter().map(|bytes| Size(*bytes).to_string()));
    if let Some(each) = each {
        let modules = format!("{} x {each}", sizes.len());
        facts.push(Fact::new("host", "DRAM modules", modules, DMI_TABLE));
    }
    facts
}

/// Splits an SMBIOS table. The second byte of each structure is its length; it is followed by a set
/// of strings that ends with two zero bytes.
fn structures(table: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = table;
    while let Some(&length) = rest.get(1) {
        let length = usize::from(length);
        if length < 4 || length > rest.len() {
            break;
        }
        found.push(&rest[..length]);
        let strings = &rest[length..];
        let Some(end) = strings.windows(2).position(|two| two == [0, 0]) else { break };
        rest = &strings[end + 2..];
    }
    found
}

/// Reads a word, unless it is missing or unknown (0 or all ones).
fn word(structure: &[u8], at: usize) -> Option<u16> {
    let bytes = structure.get(at..at + 2)?;
    match u16::from_le_bytes([bytes[0], bytes[1]]) {
        0 | u16::MAX => None,
        known => Some(known),
    }
}

/// Returns the size of a module in bytes, or `None` if its slot is empty.
fn module_bytes(structure: &[u8]) -> Option<u64> {
    /// Marker for a size that doesn't fit into 15 bits and is stored in another field.
    const EXTENDED: u16 = 0x7fff;
    let size = word(structure, 0x0c)?;
    if size == EXTENDED {
        let bytes = structure.get(0x1c..0x20)?;
        let mib = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        return Some(u64::from(mib) << 20);
    }
    // If the highest bit is set, the size is in KiB rather than MiB.
    let shift = if size & 0x8000 == 0 { 20 } else { 10 };
    Some(u64::from(size & 0x7fff) << shift)
}

const fn module_kind(number: u8) -> &'static str {
    match number {
        0x07 => "RAM",
        0x0f => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x14 => "DDR2 FB-DIMM",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        _ => "unknown type",
    }
}

#[derive(Default)]
struct NetworkCard {
    name: String,
    card: Option<String>,
    driver: Option<String>,
    speed: Option<String>,
    duplex: Option<String>,
}

/// Returns the network cards whose link is up.
///
/// **Source:** Documentation/ABI/testing/sysfs-class-net of Linux: speed in Mbit/s, -1 if unknown.
fn network(folder: &Path) -> Vec<Fact> {
    let cards = cards(folder);
    let mut facts = Vec::new();
    let mut add = |name: &str, values: Vec<String>| {
        if let Some(value) = join_different(values) {
            facts.push(Fact::new("host", name, value, folder.display().to_string()));
        }
    };
    add("network interface", cards.iter().map(|card| card.name.clone()).collect());
    add("network card", cards.iter().filter_map(|card| card.card.clone()).collect());
    add("network driver", cards.iter().filter_map(|card| card.driver.clone()).collect());
    add("network speed", cards.iter().filter_map(|card| card.speed.clone()).collect());
    add("network duplex", cards.iter().filter_map(|card| card.duplex.clone()).collect());
    facts
}

fn cards(folder: &Path) -> Vec<NetworkCard> {
    let mut cards = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return cards };
    for entry in entries.flatten() {
        let path = entry.path();
        let device = path.join("device");
        // Bridges, bonds and loopback have no device. The interfaces they consist of are listed.
        if !device.exists() || line(&path.join("operstate")).as_deref() == Some("down") {
            continue;
        }
        let ids = (line(&device.join("vendor")), line(&device.join("device")));
        let speed = line(&path.join("speed")).and_then(|text| text.parse::<i64>().ok());
        cards.push(NetworkCard {
            name: entry.file_name().to_string_lossy().into_owned(),
            card: if let (Some(vendor), Some(device)) = ids {
                Some(format!("{vendor}:{device}"))
            } else {
                None
            },
            driver: link_name(&device.join("driver")),
            speed: speed.filter(|speed| *speed > 0).map(|speed| format!("{speed} Mbit/s")),
            duplex: line(&path.join("duplex")).filter(|duplex| duplex != "unknown"),
        });
    }
    cards.sort_by(|a, b| a.name.cmp(&b.name));
    cards
}

/// Fake sysfs files for tests.
#[cfg(test)]
pub(crate) mod testing {
    use std::fs;
    use std::path::Path;

    /// Writes files and creates their folders.
    pub(crate) fn plant(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::testing::plant;
    use super::*;

    fn shown(facts: &[Fact]) -> Vec<String> {
        facts.iter().map(|fact| format!("{} = {}", fact.name, fact.value)).collect()
    }

    #[test]
    fn reads_processor_frequency_and_limits() {
        let folder = tempfile::tempdir().unwrap();
        assert!(frequencies(folder.path()).is_empty());
        plant(
            folder.path(),
            &[
                ("scaling_cur_freq", "2400000\n"),
                ("scaling_min_freq", "800000\n"),
                ("scaling_max_freq", "3500000\n"),
            ],
        );
        assert_eq!(
            shown(&frequencies(folder.path())),
            ["processor frequency = 2400 MHz", "frequency limits = 800 to 3500 MHz"]
        );
    }

    #[test]
    fn groups_mitigations_by_measure() {
        let folder = tempfile::tempdir().unwrap();
        plant(folder.path(), &[("l1tf", "Not affected\n")]);
        assert_eq!(mitigations(folder.path()).unwrap().value, "not affected");
        plant(
            folder.path(),
            &[
                ("spectre_v1", "Mitigation: x\n"),
                ("mds", "Vulnerable\n"),
                ("meltdown", "Mitigation: PTI\n"),
            ],
        );
        let value = mitigations(folder.path()).unwrap().value;
        assert_eq!(value, "mitigated: meltdown spectre_v1; vulnerable: mds");
        assert!(mitigations(&folder.path().join("none")).is_none());
    }

    #[test]
    fn reads_driver_and_link_speed() {
        let folder = tempfile::tempdir().unwrap();
        let net = folder.path();
        plant(
            net,
            &[
                ("lo/operstate", "unknown\n"),
                ("eth0/operstate", "up\n"),
                ("eth0/speed", "1000\n"),
                ("eth0/duplex", "full\n"),
                ("eth0/device/vendor", "0x1af4\n"),
                ("eth0/device/device", "0x0001\n"),
                ("eth1/operstate", "down\n"),
                ("eth1/device/vendor", "0x8086\n"),
                ("eth2/operstate", "up\n"),
                ("eth2/speed", "-1\n"),
                ("eth2/duplex", "unknown\n"),
                ("eth2/device/none", ""),
            ],
        );
        symlink("../../drivers/virtio_net", net.join("eth0/device/driver")).unwrap();
        assert_eq!(
            shown(&network(net)),
            [
                "network interface = eth0, eth2",
                "network card = 0x1af4:0x0001",
                "network driver = virtio_net",
                "network speed = 1000 Mbit/s",
                "network duplex = full"
            ]
        );
        assert!(network(&net.join("none")).is_empty());
    }

    /// Returns an SMBIOS structure with the given bytes set, followed by one string.
    fn structure(kind: u8, length: u8, bytes: &[(usize, u8)]) -> Vec<u8> {
        let mut structure = vec![0; usize::from(length)];
        structure[0] = kind;
        structure[1] = length;
        for (at, byte) in bytes {
            structure[*at] = *byte;
        }
        structure.extend(b"DIMM 0\0\0");
        structure
    }

    #[test]
    fn reads_memory_module_types() {
        let array = structure(16, 23, &[(6, 6)]);
        // 16 GiB (0x4000 MiB) of DDR4, capable of 3200 MT/s (0x0c80) and configured for 2400
        // (0x0960).
        let module = structure(
            17,
            40,
            &[(0x0d, 0x40), (0x12, 0x1a), (0x15, 0x80), (0x16, 0x0c), (0x20, 0x60), (0x21, 0x09)],
        );
        let empty = structure(17, 40, &[(0x12, 0x1a)]);
        let table = [array, module.clone(), empty.clone(), module.clone()].concat();
        assert_eq!(
            shown(&memory_modules(&table)),
            ["DRAM type = DDR4, ECC", "DRAM speed = 2400 MT/s", "DRAM modules = 2 x 16 GiB"]
        );
        assert!(memory_modules(&empty).is_empty());
        // An extended size of 64 GiB. There is no configured speed, so the maximum is used.
        let large = structure(
            17,
            40,
            &[(0x0c, 0xff), (0x0d, 0x7f), (0x1d, 0x00), (0x1e, 0x01), (0x12, 0x22), (0x16, 0x12)],
        );
        assert_eq!(
            shown(&memory_modules(&large)),
            ["DRAM type = DDR5", "DRAM speed = 4608 MT/s", "DRAM modules = 1 x 64 GiB"]
        );
    }

    #[test]
    fn no_table_makes_it_fail() {
        let table = structure(17, 40, &[(0x0d, 0x40), (0x12, 0x1a)]);
        for end in 0..table.len() {
            let _ = memory_modules(&table[..end]);
        }
        assert!(memory_modules(&[17, 3, 0, 0]).is_empty());
    }
}
