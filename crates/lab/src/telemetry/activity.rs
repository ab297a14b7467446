//! Detects whether this host's disks and networks are busy, no matter which program uses them.
//!
//! [`Activity`] contains the bytes each device has transferred; two readings yield rates. If a
//! system is still healing, flushing or uploading data from an earlier trial, the next trial would
//! have to share the disks with it.
//!
//! **Source:** proc_diskstats(5), proc_net_dev(5).

use std::collections::BTreeMap;
use std::path::Path;

use model::BusyDevice;

/// Size of a sector in the kernel's statistics, regardless of the disk's.
const SECTOR_BYTES: u64 = 512;

/// Bytes transferred by disks and networks since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    moved_bytes: BTreeMap<String, u64>,
}

impl Activity {
    /// Reads the counters. Anything the kernel doesn't report is left out.
    pub fn read() -> Self {
        let mut moved_bytes = BTreeMap::new();
        for disk in procfs::diskstats().unwrap_or_default() {
            // Partitions are included in their disk.
            if !Path::new("/sys/block").join(&disk.name).exists() {
                continue;
            }
            let sectors = disk.sectors_read + disk.sectors_written;
            moved_bytes.insert(format!("disk {}", disk.name), sectors * SECTOR_BYTES);
        }
        for (name, interface) in procfs::net::dev_status().unwrap_or_default() {
            let bytes = interface.recv_bytes + interface.sent_bytes;
            moved_bytes.insert(format!("network {name}"), bytes);
        }
        Self { moved_bytes }
    }

    /// Returns the activity of a single disk or network.
    pub fn new(name: &str, moved_bytes: u64) -> Self {
        Self { moved_bytes: BTreeMap::from([(name.to_owned(), moved_bytes)]) }
    }

    /// Returns the devices that have been busy since an earlier reading, with their rates.
    pub fn busy_since(&self, before: &Self, elapsed_s: f64) -> Vec<BusyDevice> {
        let mut busy = Vec::new();
        for (name, bytes) in &self.moved_bytes {
            // New devices count from this reading on.
            let earlier = before.moved_bytes.get(name).copied().unwrap_or(*bytes);
            let bytes_per_s = (bytes.saturating_sub(earlier) as f64 / elapsed_s) as u64;
            if bytes_per_s > BusyDevice::QUIET_BYTES_PER_S {
                busy.push(BusyDevice { name: name.clone(), bytes_per_s });
            }
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(moved: &[(&str, u64)]) -> Activity {
        let moved_bytes: BTreeMap<_, _> =
            moved.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        Activity { moved_bytes }
    }

    #[test]
    fn names_devices_above_threshold() {
        let before = activity(&[("disk vda", 0), ("network eth0", 5_000_000)]);
        let after = activity(&[
            ("disk vda", 35_000_000),
            ("network eth0", 5_900_000),
            // A volume that was added in between.
            ("disk dm-0", 900_000_000),
        ]);
        let disk = BusyDevice { name: "disk vda".to_owned(), bytes_per_s: 35_000_000 };
        assert_eq!(after.busy_since(&before, 1.0), [disk]);
        assert_eq!(after.busy_since(&before, 0.5).len(), 2);
        assert_eq!(before.busy_since(&after, 1.0), []);
    }

    #[test]
    fn reads_networks_of_host() {
        assert!(Activity::read().moved_bytes.contains_key("network lo"));
    }
}
