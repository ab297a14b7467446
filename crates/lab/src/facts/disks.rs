//! Facts about the disks below a file system, and about the arrays and mappings in between.
//!
//! [`facts`] walks down from a mount's device: arrays and mappings list their members, partitions
//! belong to a disk. For a network mount, the client only knows the volume. **Source:**
//! Documentation/ABI/stable/sysfs-block of Linux, md(4), cryptsetup(8).

use std::fs;
use std::path::{Path, PathBuf};

use model::Fact;
use model::units::Size;

use crate::commands::{self, Runner, SOON};
use crate::facts::hardware::{join_different, line, link_name};
use crate::facts::{kernel_switch, localio, tls};
use crate::host::devices;
use crate::mounts::Mount;

const VOLUMES: &str = "/proc/fs/nfsfs/volumes";
pub(crate) const BLOCK: &str = "/sys/class/block";

/// Collects the facts about the devices below a mount; for NFS, also whether it bypasses RPC.
pub fn facts(scope: &str, mount: &Mount) -> Vec<Fact> {
    if mount.is_nfs() {
        let text = fs::read_to_string(VOLUMES).unwrap_or_default();
        let volume = volume(&text, &mount.device);
        let mut facts = localio::facts(scope, mount);
        facts.extend(kernel_switch::facts_of_mount(scope, mount));
        facts.extend(tls::facts(scope, mount));
        facts.extend(volume.map(|volume| Fact::new(scope, "volume", volume, VOLUMES)));
        return facts;
    }
    let Some(name) = device_name(mount) else { return Vec::new() };
    let mut found = DiskWalk::new(Path::new(BLOCK));
    found.walk(&name);
    found.facts(scope)
}

/// Returns the kernel's name of a mount's block device, or `None` if it has none.
///
/// File systems such as btrfs use device numbers of their own. In that case the node is used, which
/// may be a symlink or have a different name than the device.
pub(crate) fn device_name(mount: &Mount) -> Option<String> {
    let by_number = Path::new("/sys/dev/block").join(&mount.device).canonicalize();
    let by_node = || devices::sysfs(Path::new(&mount.source)).canonicalize();
    let folder = by_number.or_else(|_| by_node()).ok()?;
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

/// Returns the devices below a device: the members of an array or mapping, or a partition's disk.
pub(crate) fn devices_below(folder: &Path) -> Vec<String> {
    let mut below: Vec<String> = Vec::new();
    if let Ok(slaves) = fs::read_dir(folder.join("slaves")) {
        below
            .extend(slaves.flatten().map(|slave| slave.file_name().to_string_lossy().into_owned()));
    }
    below.sort();
    if below.is_empty() && folder.join("partition").exists() {
        below.extend(disk_of(folder));
    }
    below
}

/// Returns the volume of an NFS mount, given its device number: fsid and version.
///
/// The columns are `NV SERVER PORT DEV FSID FSC`. **Source:** fs/nfs/client.c of Linux
/// (`nfs_volume_list_show`).
fn volume(text: &str, device: &str) -> Option<String> {
    for row in text.lines().skip(1) {
        let words: Vec<&str> = row.split_whitespace().collect();
        if let [version, _, _, number, fsid, ..] = words.as_slice()
            && *number == device
        {
            return Some(format!("fsid {fsid}, {version}"));
        }
    }
    None
}

/// Facts collected on the way down.
struct DiskWalk<'a> {
    /// The sysfs folder of all block devices.
    block: &'a Path,
    rows: Vec<Finding>,
    /// Devices visited so far, so that a disk with two partitions counts only once.
    seen: Vec<String>,
}

/// A fact about one device.
pub(crate) struct Finding {
    pub name: &'static str,
    pub value: String,
    pub source: String,
}

impl<'a> DiskWalk<'a> {
    const fn new(block: &'a Path) -> Self {
        Self { block, rows: Vec::new(), seen: Vec::new() }
    }

    /// Adds a device and everything below it.
    fn walk(&mut self, name: &str) {
        if self.seen.iter().any(|seen| seen == name) {
            return;
        }
        self.seen.push(name.to_owned());
        let folder = self.block.join(name);
        if folder.join("md").exists() {
            self.add_array(&folder.join("md"));
        }
        if let Some(mapping) = line(&folder.join("dm/name")) {
            let uuid = line(&folder.join("dm/uuid")).unwrap_or_default();
            if uuid.starts_with("CRYPT-") {
                self.rows.extend(cipher(&mapping));
            }
        }
        let below = devices_below(&folder);
        if below.is_empty() {
            self.add_disk(name, &folder);
        }
        for name in below {
            self.walk(&name);
        }
    }

    fn add(&mut self, name: &'static str, value: Option<String>, source: &Path) {
        if let Some(value) = value {
            self.rows.push(Finding { name, value, source: source.display().to_string() });
        }
    }

    fn add_array(&mut self, folder: &Path) {
        let chunk = line(&folder.join("chunk_size")).and_then(|text| text.parse().ok());
        // Mirrors have no chunks and report 0.
        let chunk = chunk.filter(|bytes| *bytes > 0).map(|bytes: u64| Size(bytes).to_string());
        self.add("array level", line(&folder.join("level")), folder);
        self.add("array chunk", chunk, folder);
        self.add("array layout", line(&folder.join("layout")), folder);
    }

    fn add_disk(&mut self, name: &str, folder: &Path) {
        let sectors = line(&folder.join("size")).and_then(|text| text.parse::<u64>().ok());
        // In sectors of 512 bytes, regardless of the disk's sector size.
        let size = sectors.map(|sectors| Size(sectors.saturating_mul(512)).to_string());
        let scheduler = line(&folder.join("queue/scheduler")).map(|text| chosen(&text));
        let rotational = line(&folder.join("queue/rotational"));
        let rotational = rotational.map(|text| if text == "1" { "yes" } else { "no" }.to_owned());
        // The disk's own queue depth, or else that of the kernel's queue.
        let depth = line(&folder.join("device/queue_depth"));
        let depth = depth.or_else(|| line(&folder.join("queue/nr_requests")));
        self.add("disk", Some(name.to_owned()), folder);
        self.add("disk model", disk_model(folder), folder);
        self.add("disk size", size, folder);
        self.add("disk rotational", rotational, folder);
        self.add("disk scheduler", scheduler, folder);
        self.add("disk queue depth", depth, folder);
    }

    /// Merges the facts by name. Identical disks share one value.
    fn facts(self, scope: &str) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        for (index, Finding { name, source, .. }) in self.rows.iter().enumerate() {
            if self.rows[..index].iter().any(|known| known.name == *name) {
                continue;
            }
            let values: Vec<_> = self
                .rows
                .iter()
                .filter(|other| other.name == *name)
                .map(|other| other.value.clone())
                .collect();
            if let Some(value) = join_different(values) {
                facts.push(Fact::new(scope, *name, value, source));
            }
        }
        facts
    }
}

/// Returns the disk of a partition, which is its parent folder.
fn disk_of(partition: &Path) -> Option<String> {
    let folder: PathBuf = partition.canonicalize().ok()?;
    Some(folder.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// Returns the scheduler in brackets, as in `none [mq-deadline]`.
fn chosen(schedulers: &str) -> String {
    let inside = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match inside {
        Some((name, _)) => name.to_owned(),
        None => schedulers.to_owned(),
    }
}

/// Returns vendor and model if the disk has any, or else the kind of device.
fn disk_model(folder: &Path) -> Option<String> {
    if folder.join("loop/backing_file").exists() {
        let way = match line(&folder.join("loop/dio")).as_deref() {
            Some("1") => "direct I/O",
            _ => "through the page cache",
        };
        return Some(format!("file (loop device, {way})"));
    }
    let mut words = Vec::new();
    words.extend(line(&folder.join("device/vendor")).filter(|text| !text.starts_with("0x")));
    words.extend(line(&folder.join("device/model")));
    if !words.is_empty() {
        return Some(words.join(" "));
    }
    link_name(&folder.join("device/driver"))
}

/// Returns the cipher and key size of a mapping; empty if we aren't root.
pub(crate) fn cipher(mapping: &str) -> Vec<Finding> {
    if !commands::is_root() {
        return Vec::new();
    }
    let argv = ["cryptsetup", "status", mapping];
    let Ok(output) = Runner::default().output(&argv, SOON) else { return Vec::new() };
    cipher_in(&output.stdout)
}

fn cipher_in(status: &str) -> Vec<Finding> {
    let mut rows = Vec::new();
    for row in status.lines() {
        let Some((key, value)) = row.split_once(':') else { continue };
        let name = match key.trim() {
            "cipher" => "cipher",
            "keysize" => "cipher key",
            _ => continue,
        };
        let value = value.trim().to_owned();
        rows.push(Finding { name, value, source: "cryptsetup status".to_owned() });
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::facts::hardware::testing::plant;

    fn shown(block: &Path, name: &str) -> Vec<String> {
        let mut found = DiskWalk::new(block);
        found.walk(name);
        let facts = found.facts("server");
        assert!(facts.iter().all(|fact| fact.scope == "server" && !fact.source.is_empty()));
        facts.iter().map(|fact| format!("{} = {}", fact.name, fact.value)).collect()
    }

    fn plant_disk(block: &Path, name: &str, model: &str) {
        let files = [
            ("size", "2097152\n"),
            ("queue/rotational", "1\n"),
            ("queue/scheduler", "none [mq-deadline] bfq\n"),
            ("queue/nr_requests", "64\n"),
            ("device/vendor", "ATA     \n"),
            ("device/model", model),
            ("device/queue_depth", "32\n"),
        ];
        for (file, text) in files {
            plant(block, &[(&format!("{name}/{file}"), text)]);
        }
    }

    #[test]
    fn reads_chunk_and_disks_of_array() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path();
        plant_disk(block, "sda", "ST31000333AS\n");
        plant_disk(block, "sdb", "ST31000333AS\n");
        plant(
            block,
            &[
                ("md0/md/level", "raid5\n"),
                ("md0/md/chunk_size", "65536\n"),
                ("md0/md/layout", "2\n"),
                ("md0/slaves/sda/x", ""),
                ("md0/slaves/sdb/x", ""),
            ],
        );
        assert_eq!(
            shown(block, "md0"),
            [
                "array level = raid5",
                "array chunk = 64 KiB",
                "array layout = 2",
                "disk = sda, sdb",
                "disk model = ATA ST31000333AS",
                "disk size = 1 GiB",
                "disk rotational = yes",
                "disk scheduler = mq-deadline",
                "disk queue depth = 32"
            ]
        );
        // A single disk has no array.
        assert_eq!(shown(block, "sda")[0], "disk = sda");
    }

    #[test]
    fn finds_disk_of_partition() {
        let folder = tempfile::tempdir().unwrap();
        let devices = folder.path().join("devices");
        let block = folder.path().join("class");
        plant(
            &devices,
            &[
                ("vda/size", "2048\n"),
                ("vda/queue/rotational", "0\n"),
                ("vda/queue/nr_requests", "256\n"),
                ("vda/vda1/partition", "1\n"),
            ],
        );
        fs::create_dir(&block).unwrap();
        fs::create_dir(devices.join("vda/device")).unwrap();
        symlink("../../drivers/virtio_blk", devices.join("vda/device/driver")).unwrap();
        symlink(devices.join("vda"), block.join("vda")).unwrap();
        symlink(devices.join("vda/vda1"), block.join("vda1")).unwrap();
        assert_eq!(
            shown(&block, "vda1"),
            [
                "disk = vda",
                "disk model = virtio_blk",
                "disk size = 1 MiB",
                "disk rotational = no",
                "disk queue depth = 256"
            ]
        );
    }

    #[test]
    fn finds_volume_of_network_mount() {
        let text = "NV SERVER   PORT DEV          FSID                              FSC\n\
                    v3 0a4d0001  801 0:45         1d2f0:0                           no \n\
                    v4 0a4d0001  801 0:46         9a8b:77                           no \n";
        assert_eq!(volume(text, "0:46").as_deref(), Some("fsid 9a8b:77, v4"));
        assert_eq!((volume(text, "0:47"), volume("", "0:45")), (None, None));
    }

    #[test]
    fn reads_cipher_and_key_size() {
        let status = "/dev/mapper/dfsbench is active and is in use.\n  type:    PLAIN\n  \
                      cipher:  aes-xts-plain64\n  keysize: 512 bits\n  device:  /dev/loop0\n";
        let rows = cipher_in(status);
        assert_eq!((rows[0].name, rows[0].value.as_str()), ("cipher", "aes-xts-plain64"));
        assert_eq!((rows[1].name, rows[1].value.as_str()), ("cipher key", "512 bits"));
        assert!(cipher_in("/dev/mapper/x is inactive.\n").is_empty());
    }
}
