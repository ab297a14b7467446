//! Caveats about loop devices below a directory, that is, disks backed by files on this host.
//!
//! `O_DIRECT` bypasses the page cache above a loop device. The cache of the backing file is only
//! bypassed if the loop device itself uses direct I/O. Comparing the counters of both devices shows
//! what this cache delivered, although other programs that read the lower device can hide it.

use lab::facts::loops::{BackingStorage, LoopDevice};
use lab::facts::memory::Memory;
use model::units::{Size, three_digits};
use model::{Caveat, CaveatCode, Evidence, Pass, PassResult, RunSpec, Telemetry};

use super::{STORAGE_SHARE_MIN, read_bytes};

/// Sector size in kernel statistics, regardless of the disk's own.
const SECTOR_BYTES: u64 = 512;

const DISKSTATS: &str = "/proc/diskstats";

/// Raises a caveat if a loop device delivered data that the device below it did not read.
pub fn about_loops(
    result: &PassResult,
    telemetry: Option<&Telemetry>,
    loops: &[LoopDevice],
) -> Option<Caveat> {
    let telemetry = telemetry?;
    // Name metadata is small, so only if none was read was it certainly served from the cache.
    let share_min = match result.pass {
        pass if (pass == Pass::Stat || pass.lists()) && result.ops() > 0 => 0.0,
        _ if read_bytes(result) > 0 => STORAGE_SHARE_MIN,
        _ => return None,
    };
    let mut worst: Option<LoopReads<'_>> = None;
    for device in loops {
        let Some(reads) = LoopReads::count(device, loops, telemetry) else { continue };
        let is_cached = reads.delivered > 0
            && (reads.below == 0 || (reads.below as f64) < reads.delivered as f64 * share_min);
        if is_cached && worst.as_ref().is_none_or(|worst| reads.share() < worst.share()) {
            worst = Some(reads);
        }
    }
    Some(worst?.caveat())
}

/// Sectors delivered by a loop device and sectors read from the device below.
struct LoopReads<'a> {
    device: &'a LoopDevice,
    delivered: u64,
    below: u64,
}

impl<'a> LoopReads<'a> {
    /// Counts the sectors. Returns `None` if the loop device bypasses the page cache or there are
    /// no counters.
    fn count(device: &'a LoopDevice, loops: &[LoopDevice], telemetry: &Telemetry) -> Option<Self> {
        let sectors = |name: &str| {
            // A `/` in a device name appears as `!` in sysfs.
            let name = name.replace('!', "/");
            telemetry.increase(&format!("disk.{name}.read_bytes")) / SECTOR_BYTES
        };
        match &device.below {
            BackingStorage::Memory(_) => {
                Some(Self { device, delivered: sectors(&device.name), below: 0 })
            }
            BackingStorage::Device(name) if device.is_buffered => {
                // Several loop devices of an array may be on one disk, which reads for all of them.
                let shares_disk = |other: &&LoopDevice| other.below == device.below;
                let beside = loops.iter().filter(shares_disk);
                let delivered = beside.map(|device| sectors(&device.name)).sum();
                Some(Self { device, delivered, below: sectors(name) })
            }
            BackingStorage::Device(_) | BackingStorage::Unknown(_) => None,
        }
    }

    fn share(&self) -> f64 {
        self.below as f64 / self.delivered.max(1) as f64
    }

    fn caveat(&self) -> Caveat {
        let Self { device: LoopDevice { name, backing_file, below, .. }, delivered, .. } = self;
        let evidence = match below {
            BackingStorage::Memory(file_system) => format!(
                "{name} delivered {delivered} sectors ({DISKSTATS}) of {backing_file}, which is on \
                 {file_system} and therefore in this host's memory"
            ),
            BackingStorage::Device(disk) | BackingStorage::Unknown(disk) => format!(
                "{name} delivered {delivered} sectors, but {disk} below it read only {} ({} %, \
                 minimum {:.0} %; {DISKSTATS}): the rest came from this host's page cache, which \
                 contains {backing_file}; `losetup --direct-io=on` bypasses it",
                self.below,
                three_digits(self.share() * 100.0),
                STORAGE_SHARE_MIN * 100.0,
            ),
        };
        let data = Evidence::shares(self.share(), STORAGE_SHARE_MIN, DISKSTATS);
        CaveatCode::Cached.because(evidence).with_data(data)
    }
}

/// Notes that files fit in memory if no counter covers the page cache below a loop device.
pub fn about_uncounted_loops(
    spec: &RunSpec,
    result: &PassResult,
    loops: &[LoopDevice],
    memory: Option<&Memory>,
) -> Option<Caveat> {
    let memory = memory?;
    let set_bytes = spec.set_bytes();
    if set_bytes >= memory.bytes || read_bytes(result) == 0 {
        return None;
    }
    let (device, file_system) = loops.iter().find_map(|device| match &device.below {
        BackingStorage::Unknown(file_system) if device.is_buffered => Some((device, file_system)),
        _ => None,
    })?;
    let LoopDevice { name, backing_file, .. } = device;
    let evidence = format!(
        "the files are {}, but this host has {} of memory ({}): {name} reads {backing_file} on \
         {file_system} through its page cache, and the disk below is not known",
        Size(set_bytes),
        Size(memory.bytes),
        memory.source,
    );
    let data = Evidence::bytes(set_bytes, memory.bytes, &memory.source);
    Some(CaveatCode::FitsMemory.because(evidence).with_data(data))
}
